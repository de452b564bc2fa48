/* The rows of a query in one of the formats that `-o` names.
 *
 *     struct tw_output output;
 *     tw_output_parse("layers.csv", &output, &err);   // or "csv": stdout
 *     tw_output_open(&output, &err);
 *     tw_output_query(query, output.format, "layers", output.file, &err);
 *     tw_output_close(&output, &err);
 *
 * Integers are exact in every format; reals are exact in csv, json, jsonl and
 * sql (fewest digits that give the same double) and short in those made for
 * eyes: table, md, latex. */
#ifndef TW_CMD_OUTPUT_H
#define TW_CMD_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "db/query.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tw_format {
    TW_FORMAT_TABLE, /* aligned; NULL is empty, control characters \n, \x1b */
    TW_FORMAT_CSV,   /* RFC 4180 quoting, lines end in LF; NULL is empty, an
                      * empty text is "" */
    TW_FORMAT_JSON,  /* one array of objects; BLOBs are hex strings */
    TW_FORMAT_JSONL, /* one object a line */
    TW_FORMAT_MD,
    TW_FORMAT_LATEX, /* a tabular with booktabs' rules */
    TW_FORMAT_SQL,   /* CREATE TABLE IF NOT EXISTS and INSERTs */
    TW_FORMATS
};

/* "table", "csv", ... Returns false if there is none of that name. */
bool tw_format_find(const char *name, enum tw_format *format);
const char *tw_format_name(enum tw_format format);

/* Steps the query to its end. name: the table of TW_FORMAT_SQL. Returns TW_OK,
 * the query's error, TW_ERR_NOMEM, or TW_ERR_IO/FULL if writing failed. */
TW_MUST_USE enum tw_status tw_output_query(struct tw_query *query,
                                           enum tw_format format,
                                           const char *name, FILE *out,
                                           struct tw_error *err);

/* Where `-o` leads. */
struct tw_output {
    enum tw_format format;
    const char *path; /* borrowed from the argument; NULL: stdout */
    FILE *file;       /* between open and close */
};
/* Exactly a format's name is that format on stdout; anything else a file whose
 * ending picks the format. Returns TW_OK or TW_ERR_USAGE. */
TW_MUST_USE enum tw_status tw_output_parse(const char *text,
                                           struct tw_output *output,
                                           struct tw_error *err);
TW_MUST_USE enum tw_status tw_output_open(struct tw_output *output,
                                          struct tw_error *err);
/* Closes a file (never stdout, which main checks). TW_ERR_FULL, TW_ERR_IO. */
TW_MUST_USE enum tw_status tw_output_close(struct tw_output *output,
                                           struct tw_error *err);

/* Pieces for others of this room: a real's fewest exact digits, always with a
 * point or exponent; bytes as hex; a string literal of JSON. */
void tw_put_real(struct tw_strbuf *text, double value);
void tw_put_hex(struct tw_strbuf *text, const char *bytes, size_t size);
void tw_put_json_string(struct tw_strbuf *text, const char *bytes, size_t size);
/* An SQL literal ('\'') or identifier ('"'). */
void tw_put_sql_quoted(struct tw_strbuf *text, const char *bytes, size_t size,
                       char quote);
/* What LaTeX gives a meaning to, escaped; after tw_put_printable. */
void tw_put_latex(struct tw_strbuf *text, const char *plain);
/* Bytes for one line of a terminal: controls and bytes that are no UTF-8 as
 * \n, \t, \xNN, \u{NNNN}. */
void tw_put_printable(struct tw_strbuf *text, const char *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
