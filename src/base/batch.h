/* One batch of tokens: rows of whole sequences, no padding anywhere, so a pad
 * can't be counted. Half of the seam between compute and statistics (the
 * other half is obs.h): src/text fills it, kernels and analysis read it. */
#ifndef TW_BASE_BATCH_H
#define TW_BASE_BATCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a row is. A row left out of the primary statistics by --skip carries
 * TW_ROW_SKIPPED as well. */
enum tw_row_class {
    TW_ROW_TEXT,
    TW_ROW_BOS,
    TW_ROW_SPECIAL,
    TW_ROW_PROMPT,
    TW_ROW_GENERATED,
    TW_ROW_CLASSES
};
#define TW_ROW_SKIPPED    0x80u
#define TW_ROW_CLASS_MASK 0x7fu

/* Sequences stand in corpus order: (document, start) ascends. All arrays are
 * the owner's; readers never free. */
struct tw_batch {
    int64_t rows, seqs;
    const int64_t *offset;    /* [seqs+1] first row of each sequence */
    const int64_t *document;  /* [seqs] corpus-wide document number */
    const int64_t *start;     /* [seqs] first row's place among its document's
                               * rows (an added BOS is a row): window = start /
                               * ctx */
    const int32_t *token;     /* [rows] */
    const uint8_t *row_class; /* [rows] tw_row_class | TW_ROW_SKIPPED */
};

#ifdef __cplusplus
}
#endif
#endif
