/* Formats that stream: csv, json, jsonl, sql; and the choice of one. Each row
 * is built in one buffer, then written. */
#include <config.h>

#include "cmd/output.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "cmd/output_internal.h"

static const char *const names[TW_FORMATS] = {
    [TW_FORMAT_TABLE] = "table", [TW_FORMAT_CSV] = "csv",
    [TW_FORMAT_JSON] = "json",   [TW_FORMAT_JSONL] = "jsonl",
    [TW_FORMAT_MD] = "md",       [TW_FORMAT_LATEX] = "latex",
    [TW_FORMAT_SQL] = "sql",
};
/* Endings of files; table is written to .txt, latex to .tex. */
static const char *const endings[TW_FORMATS] = {
    [TW_FORMAT_TABLE] = "txt", [TW_FORMAT_CSV] = "csv",
    [TW_FORMAT_JSON] = "json", [TW_FORMAT_JSONL] = "jsonl",
    [TW_FORMAT_MD] = "md",     [TW_FORMAT_LATEX] = "tex",
    [TW_FORMAT_SQL] = "sql",
};

bool tw_format_find(const char *name, enum tw_format *format)
{
    for (int i = 0; i < TW_FORMATS; i++)
        if (strcmp(names[i], name) == 0) {
            *format = (enum tw_format)i;
            return true;
        }
    return false;
}

const char *tw_format_name(enum tw_format format)
{
    return names[format];
}

enum tw_status tw_output_parse(const char *text, struct tw_output *output,
                               struct tw_error *err)
{
    struct tw_output found = {0};
    const char *dot = strrchr(tw_path_base(text), '.');
    bool is_known = tw_format_find(text, &found.format);
    for (int i = 0; i < TW_FORMATS && !is_known && dot; i++)
        if (strcmp(dot + 1, endings[i]) == 0) {
            found = (struct tw_output){.format = (enum tw_format)i,
                                       .path = text};
            is_known = true;
        }
    if (!is_known)
        return tw_error_set(err, TW_ERR_USAGE,
                            "-o %s: neither a format (table, csv, json, jsonl, "
                            "md, latex, sql) nor a file that ends in .txt, "
                            ".csv, .json, .jsonl, .md, .tex or .sql", text);
    *output = found;
    return TW_OK;
}

enum tw_status tw_output_open(struct tw_output *output, struct tw_error *err)
{
    output->file = output->path ? fopen(output->path, "w") : stdout;
    return output->file ? TW_OK : tw_error_errno(err, errno, "%s",
                                                 output->path);
}

enum tw_status tw_output_close(struct tw_output *output, struct tw_error *err)
{
    FILE *file = output->file;
    output->file = NULL;
    if (!file || !output->path)
        return TW_OK;
    int bad = ferror(file);
    if (fclose(file) != 0)
        return tw_error_errno(err, errno, "%s", output->path);
    return bad ? tw_error_set(err, TW_ERR_IO, "%s: cannot write", output->path)
               : TW_OK;
}

static void csv_text(struct tw_strbuf *line, const char *text, size_t size)
{
    bool is_quoted = size == 0;
    for (size_t i = 0; i < size; i++)
        if (strchr(",\"\r\n", text[i]) != NULL)
            is_quoted = true; /* NUL too: strchr finds the end */
    if (!is_quoted) {
        tw_strbuf_append(line, text, size);
        return;
    }
    tw_strbuf_puts(line, "\"");
    for (size_t i = 0; i < size; i++)
        tw_strbuf_append(line, text[i] == '"' ? "\"\"" : &text[i],
                         text[i] == '"' ? 2 : 1);
    tw_strbuf_puts(line, "\"");
}

/* JSON and SQL know no infinity: null, and a literal too large for a double. */
static void put_infinity(struct tw_strbuf *line, double value,
                         enum tw_format format)
{
    if (format == TW_FORMAT_SQL)
        tw_strbuf_puts(line, value < 0 ? "-9e999" : "9e999");
    else if (format == TW_FORMAT_CSV)
        tw_strbuf_puts(line, value < 0 ? "-inf" : "inf");
    else
        tw_strbuf_puts(line, "null");
}

static void put_blob(struct tw_strbuf *line, const char *bytes, size_t size,
                     enum tw_format format)
{
    static const char *const quotes[TW_FORMATS][2] = {
        [TW_FORMAT_JSON] = {"\"", "\""}, [TW_FORMAT_JSONL] = {"\"", "\""},
        [TW_FORMAT_SQL] = {"X'", "'"},   [TW_FORMAT_CSV] = {"", ""},
    };
    tw_strbuf_puts(line, quotes[format][0]);
    tw_put_hex(line, bytes, size);
    tw_strbuf_puts(line, quotes[format][1]);
}

static void put_cell(struct tw_strbuf *line, struct tw_query *query, int column,
                     enum tw_format format)
{
    enum tw_cell type = tw_query_type(query, column);
    double real = type == TW_CELL_REAL ? tw_query_real(query, column) : 0;
    size_t size = 0;
    const char *text = type == TW_CELL_TEXT || type == TW_CELL_BLOB
                           ? tw_query_text(query, column, &size)
                           : NULL;
    if (type == TW_CELL_INT)
        tw_strbuf_printf(line, "%lld", (long long)tw_query_int(query, column));
    else if (type == TW_CELL_REAL && isinf(real))
        put_infinity(line, real, format);
    else if (type == TW_CELL_REAL)
        tw_put_real(line, real);
    else if (!text) /* NULL, or a text that found no memory */
        tw_strbuf_puts(line, format == TW_FORMAT_CSV   ? ""
                             : format == TW_FORMAT_SQL ? "NULL"
                                                       : "null");
    else if (type == TW_CELL_BLOB)
        put_blob(line, text, size, format);
    else if (format == TW_FORMAT_CSV)
        csv_text(line, text, size);
    else if (format == TW_FORMAT_SQL)
        tw_put_sql_quoted(line, text, size, '\'');
    else
        tw_put_json_string(line, text, size);
}

static void put_head(struct tw_strbuf *line, struct tw_query *query,
                     enum tw_format format, const char *name)
{
    int columns = tw_query_columns(query);
    if (format == TW_FORMAT_SQL) {
        tw_strbuf_puts(line, "BEGIN;\nCREATE TABLE IF NOT EXISTS ");
        tw_put_sql_quoted(line, name, strlen(name), '"');
    }
    for (int c = 0; c < columns; c++) {
        const char *column = tw_query_name(query, c);
        if (format == TW_FORMAT_SQL) {
            tw_strbuf_puts(line, c ? ", " : "(");
            tw_put_sql_quoted(line, column, strlen(column), '"');
        } else if (format == TW_FORMAT_CSV) {
            tw_strbuf_puts(line, c ? "," : "");
            csv_text(line, column, strlen(column));
        }
    }
    if (format == TW_FORMAT_SQL)
        tw_strbuf_puts(line, ");\n");
    else
        tw_strbuf_puts(line, format == TW_FORMAT_CSV    ? "\n"
                             : format == TW_FORMAT_JSON ? "["
                                                        : "");
}

static void put_row(struct tw_strbuf *line, struct tw_query *query,
                    enum tw_format format, const char *name, bool is_first)
{
    int columns = tw_query_columns(query);
    if (format == TW_FORMAT_SQL) {
        tw_strbuf_puts(line, "INSERT INTO ");
        tw_put_sql_quoted(line, name, strlen(name), '"');
        tw_strbuf_puts(line, " VALUES(");
    } else if (format != TW_FORMAT_CSV)
        tw_strbuf_puts(line, format == TW_FORMAT_JSONL ? "{"
                             : is_first                ? "\n{"
                                                       : ",\n{");
    for (int c = 0; c < columns; c++) {
        const char *column = tw_query_name(query, c);
        if (c)
            tw_strbuf_puts(line, ",");
        if (format == TW_FORMAT_JSON || format == TW_FORMAT_JSONL) {
            tw_put_json_string(line, column, strlen(column));
            tw_strbuf_puts(line, ":");
        }
        put_cell(line, query, c, format);
    }
    tw_strbuf_puts(line, format == TW_FORMAT_SQL    ? ");\n"
                         : format == TW_FORMAT_CSV  ? "\n"
                         : format == TW_FORMAT_JSON ? "}"
                                                    : "}\n");
}

enum tw_status twp_output_flush(struct tw_strbuf *line, FILE *out,
                                struct tw_error *err)
{
    if (line->is_failed)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (line->length && fwrite(line->data, 1, line->length, out) !=
                            line->length)
        return tw_error_errno(err, errno, "cannot write");
    tw_strbuf_clear(line);
    return TW_OK;
}

static enum tw_status stream(struct tw_query *query, enum tw_format format,
                             const char *name, FILE *out, struct tw_error *err)
{
    struct tw_strbuf line = {0};
    bool has_row = true, is_first = true;
    put_head(&line, query, format, name);
    enum tw_status status = twp_output_flush(&line, out, err);
    while (status == TW_OK) {
        status = tw_query_next(query, &has_row, err);
        if (status != TW_OK || !has_row)
            break;
        put_row(&line, query, format, name, is_first);
        is_first = false;
        status = twp_output_flush(&line, out, err);
    }
    if (format == TW_FORMAT_JSON)
        tw_strbuf_puts(&line, is_first ? "]\n" : "\n]\n");
    if (format == TW_FORMAT_SQL)
        tw_strbuf_puts(&line, "COMMIT;\n");
    if (status == TW_OK)
        status = twp_output_flush(&line, out, err);
    tw_strbuf_fini(&line);
    return status;
}

enum tw_status tw_output_query(struct tw_query *query, enum tw_format format,
                               const char *name, FILE *out,
                               struct tw_error *err)
{
    if (tw_query_columns(query) == 0) { /* a statement without rows */
        bool has_row;
        return tw_query_next(query, &has_row, err);
    }
    if (format == TW_FORMAT_TABLE || format == TW_FORMAT_MD ||
        format == TW_FORMAT_LATEX)
        return twp_output_aligned(query, format, out, err);
    return stream(query, format, name, out, err);
}
