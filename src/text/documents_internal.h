/* Inside documents: bytes of a file as they are unpacked, lines of those, and
 * documents of these. Errors name the file. */
#ifndef TW_TEXT_DOCUMENTS_INTERNAL_H
#define TW_TEXT_DOCUMENTS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "text/documents.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TWP_DOCUMENT_LIMIT ((size_t)1 << 30) /* bytes of one text */
#define TWP_LINE_LIMIT ((size_t)2 << 30)     /* of .jsonl: escapes are longer */

/* --- A file's bytes, unpacked and hashed (documents_input.c) --- */

struct twp_input;
/* "-" is standard input. gzip is known by its first bytes, and a name that
 * ends in .gz must be gzip. */
TW_MUST_USE enum tw_status twp_input_open(const char *path,
                                          struct twp_input **input,
                                          struct tw_error *err);
/* Unpacked bytes that were not taken yet, *size 0 at the end; borrowed until
 * the next call. */
TW_MUST_USE enum tw_status twp_input_peek(struct twp_input *input,
                                          const char **bytes, size_t *size,
                                          struct tw_error *err);
void twp_input_take(struct twp_input *input, size_t size);
/* Hashes what is left of the stored bytes, where the file is a regular one;
 * false and no hash where it is not and was not read to its end, or can't be
 * read. */
bool twp_input_hash(struct twp_input *input, char sha256[65]);
void twp_input_close(struct twp_input *input);

/* --- Lines and documents (documents_text.c, documents_jsonl.c) --- */

/* The file being read. */
struct twp_reader {
    const char *path;
    struct twp_input *input;
    struct tw_strbuf text;   /* the document or line */
    int64_t offset;          /* unpacked bytes taken so far */
    int64_t line;            /* lines taken so far */
    struct json_t *json;     /* that the document's text belongs to */
};

/* Appends the next line with its newline to reader->text (the last one may
 * have none); *length its bytes, 0 at the end. */
TW_MUST_USE enum tw_status twp_read_line(struct twp_reader *reader,
                                         size_t limit, size_t *length,
                                         struct tw_error *err);
/* Next document of the file; *has_document false at its end. */
TW_MUST_USE enum tw_status twp_text_next(struct twp_reader *reader,
                                         const char *separator,
                                         struct tw_document *document,
                                         bool *has_document,
                                         struct tw_error *err);
TW_MUST_USE enum tw_status twp_jsonl_next(struct twp_reader *reader,
                                          const char *field,
                                          struct tw_document *document,
                                          bool *has_document,
                                          struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
