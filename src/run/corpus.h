/* The corpus of a run: text, .jsonl, .gz and .npy files in the order given,
 * behind the one documents interface of src/text. Knows each file's identity
 * (SHA-256 of its bytes) before anything is counted. */
#ifndef TW_RUN_CORPUS_H
#define TW_RUN_CORPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "text/documents.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_corpus_file {
    const char *path;     /* borrowed from the caller; "prompt" for -p */
    char sha256[65];      /* of the stored bytes; "" for standard input */
    int64_t stored_bytes; /* 0: unknown (standard input) */
    bool is_ids;          /* .npy: no text, bytes and tokenizer play no part */
};

struct tw_corpus {
    struct tw_corpus_file *file;   /* [files] */
    struct tw_document_file *read; /* [files] filled as reading goes on */
    int files;
    bool has_text, has_stdin;
    struct tw_documents documents; /* the whole, in order */
};

/* Exactly one of paths (count > 0), prompt, or ids is given: ids is a matrix
 * [ids_rows][ids_cols] of an oracle, one document a row, borrowed. Refuses
 * files that cannot be opened, TW_ERR_NOT_FOUND naming the file. */
struct tw_corpus_options {
    const char *const *paths;
    int count;
    const char *prompt;
    const char *ids_name;
    const int32_t *ids;
    int64_t ids_rows, ids_cols;
    struct tw_document_options text;
};
TW_MUST_USE enum tw_status
tw_corpus_open(const struct tw_corpus_options *options,
               struct tw_corpus *corpus, struct tw_error *err);
void tw_corpus_close(struct tw_corpus *corpus);

/* How much has been read, 0..1, by stored bytes; negative: unknown. */
double tw_corpus_fraction(const struct tw_corpus *corpus);

#ifdef __cplusplus
}
#endif
#endif
