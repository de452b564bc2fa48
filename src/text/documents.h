/* Documents from text files, .jsonl, either also .gz, and standard input: a
 * stream, one document in memory at a time. Token-id files join through the
 * same interface (src/run adapts .npy).
 *
 * A document is a .jsonl line (its `field`), or a part of a text file between
 * lines that equal the separator: the newline before such a line belongs to
 * it, a blank line before it to the document; parts that are empty are no
 * documents, nor are empty strings of .jsonl: no number, no rows. A separator
 * line may end in "\r\n". Invalid UTF-8 is an error naming the file and the
 * byte's offset in it (unpacked); so are a .gz that ends early or has garbage
 * behind its last member, a text of more than 1 GiB, and a file without any
 * text. */
#ifndef TW_TEXT_DOCUMENTS_H
#define TW_TEXT_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One document: text, or ids where `ids` is not NULL. Borrowed until the next
 * call of next. */
struct tw_document {
    const char *text;
    size_t size;       /* bytes of text */
    const int32_t *ids;
    int64_t count;
    int file;          /* which file it came from, from 0 */
};

/* A source of documents in corpus order. */
struct tw_documents {
    void *state;
    /* *has_document false at the end. */
    enum tw_status (*next)(void *state, struct tw_document *document,
                           bool *has_document, struct tw_error *err);
    void (*close)(void *state);
};

struct tw_document_options {
    const char *separator; /* a line; NULL: whole file is one document */
    const char *field;     /* of .jsonl; NULL: "text" */
};

/* What was read of one file, complete (is_done) once the source has moved past
 * it. A source that is closed before its end reads the regular files that are
 * left for their sha256 alone, so that a corpus is known exactly whatever ended
 * it; not so after an error, and not standard input. */
struct tw_document_file {
    char name[256];      /* path as given, "-" for stdin, "prompt"; cut */
    char sha256[65];     /* of the file's bytes as stored (gz not unpacked),
                          * "" if they were not all read */
    int64_t documents, bytes; /* bytes: of document text, unpacked */
    bool is_done;
};

/* Text, .jsonl (by its name), .gz files (by name or first bytes) in order ("-":
 * standard input, as text). Opens each when its turn comes, but checks at once
 * that all can be opened. `files` (count entries, the caller's, zeroed) is
 * filled as reading goes on, until close. Close with documents->close(state).
 * Returns TW_OK, TW_ERR_NOT_FOUND, TW_ERR_IO or TW_ERR_NOMEM; next may add
 * TW_ERR_FORMAT. */
TW_MUST_USE enum tw_status tw_documents_open(
    const char *const *paths, int count,
    const struct tw_document_options *options, struct tw_document_file *files,
    struct tw_documents *documents, struct tw_error *err);

/* One document from memory (-p TEXT), borrowed. */
TW_MUST_USE enum tw_status tw_documents_from_text(
    const char *text, size_t size, struct tw_document_file *file,
    struct tw_documents *documents, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
