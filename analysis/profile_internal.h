/* The state of a profile, shared inside the room and with its tests.
 *
 * Two kinds of sums. What doesn't depend on layer or definition (rows per
 * token, position, class, block, document; the loss) stands in tw_profile
 * once and is added by the caller's thread. What a layer saw stands in its
 * own twp_layer and twp_probe, so layers are added in parallel without locks.
 *
 * All starts as zero bytes: pages that nothing touches stay unreserved. */
#ifndef TW_ANALYSIS_PROFILE_INTERNAL_H
#define TW_ANALYSIS_PROFILE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "analysis/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TWP_BLOCKS 64               /* jackknife: (document + window) mod 64 */
#define TWP_KINDS (TW_ROW_CLASSES * 2) /* class * 2 + is_skipped */
#define TWP_IS_SKIPPED(kind) ((kind) & 1)

extern const int twp_tile_width[TW_TILE_WIDTHS];

/* nnz of some rows. The minimum is kept inverted, so that zero bytes are the
 * empty cell and both extremes are maxima. */
struct twp_cell {
    uint64_t sum;
    uint32_t unmin, max; /* ~minimum, maximum */
};

static inline void twp_cell_add(struct twp_cell *cell, uint32_t nnz)
{
    uint32_t unnz = ~nnz;
    cell->sum += nnz;
    cell->unmin = cell->unmin > unnz ? cell->unmin : unnz;
    cell->max = cell->max > nnz ? cell->max : nnz;
}

/* A row's place in the corpus, compared by document, then row. */
struct twp_place {
    int64_t document, row; /* row: among its document's rows */
};

static inline int twp_is_before(struct twp_place a, struct twp_place b)
{
    return a.document != b.document ? a.document < b.document : a.row < b.row;
}

/* One layer under one definition. */
struct twp_probe {
    int64_t *hist;             /* [width+1] counted rows by nnz */
    struct twp_cell *token;    /* [vocab] */
    struct twp_cell *position; /* [positions], a view into position_cells */
    int64_t *fired;            /* [width] counted rows in which active */
    struct twp_place *first;   /* [width] its first such row, */
    struct twp_place *last;    /* [width] and last; unset if fired is 0 */
    int64_t block_sum[TWP_BLOCKS]; /* nnz of counted rows */
    int64_t kind_sum[TWP_KINDS];   /* nnz of all rows */
    uint32_t kind_max[TWP_KINDS];
};

/* One layer, whatever the definition. */
struct twp_layer {
    int64_t sum_l1;                /* counted rows, 2^-16 */
    int64_t *seen;                 /* [experts] */
    int64_t *tile[TW_TILE_WIDTHS]; /* [tile width + 1] */
    int64_t *abs_sum;              /* [width] 2^-20; NULL without magnitudes */
    float *abs_max;                /* [width] likewise */
    int64_t magnitude[TW_MAGNITUDE_BINS];
    int64_t overflow_tiles, overflow_rows, dense_rows;
    const char *failed; /* the sum that overflowed in the last batch */
};

struct twp_token {
    int64_t count, in_sequences, count_even;
    int64_t stamp; /* the sequence that saw it last; not stored */
};

/* A counted row of the batch, by token. */
struct twp_token_row {
    int32_t token, row;
};

struct twp_document {
    int64_t document, rows, sequences;
};

/* Rows of one sequence with one kind, as long as possible: what the inner
 * loops run over. */
struct twp_segment {
    int64_t begin, end; /* rows of the batch */
    int64_t position;   /* of row `begin` */
    int kind, block;
    int is_even;        /* document + window */
    int64_t stamp;      /* of the sequence */
};

struct tw_profile {
    struct tw_profile_config config;
    struct twp_layer *layer; /* [layers] */
    struct twp_probe *probe; /* [probes][layers] */
    struct twp_token *token; /* [vocab] counted rows */
    int64_t *sum_even;       /* [probes][vocab] over layers, even sequences */
    int64_t *nnz_total;      /* [probes] every row and layer: every other sum
                              * of nnz is a part of it, so it alone is checked
                              * for overflow */
    int64_t positions;       /* room in the position tables */
    int64_t *position_count; /* [positions] counted rows */
    struct twp_cell *position_cells; /* [probes][layers][positions] */
    int64_t kind_count[TWP_KINDS];
    int64_t block_count[TWP_BLOCKS]; /* counted rows */
    int64_t block_predicted[TWP_BLOCKS], block_nll[TWP_BLOCKS]; /* 2^-20 */
    int64_t predicted, sum_nll;
    int64_t stamp;           /* sequences added by this process */
    struct twp_place latest; /* no firing counted so far lies behind it */
    struct twp_document *document; /* [documents] ascending */
    size_t documents, documents_room;
    /* Of the batch being added. */
    struct twp_segment *segment;
    size_t segments, segments_room;
    struct twp_place *place; /* [rows] ascending */
    int is_later;            /* it lies behind `latest` as it was */
    struct twp_token_row *by_token; /* counted rows in order of tokens */
    int64_t counted;
    uint64_t *row_sum;       /* [probes][rows] nnz over layers */
    size_t places_room, by_token_room, row_sums_room;
};

static inline struct twp_probe *twp_probe(const struct tw_profile *p, int def,
                                          int layer)
{
    return &p->probe[(int64_t)def * p->config.layers + layer];
}

/* *sum += value. Returns 1 if the result doesn't fit, else 0. */
static inline int twp_add(int64_t *sum, int64_t value)
{
    return __builtin_add_overflow(*sum, value, sum);
}

/* Adds with an unsigned value, which may exceed INT64_MAX itself. */
static inline int twp_add_unsigned(int64_t *sum, uint64_t value)
{
    return __builtin_add_overflow(*sum, value, sum);
}

/* acc_batch.c: segments, places and room for the batch; then the sums that
 * depend on neither layer nor definition. */
TW_MUST_USE enum tw_status twp_batch_begin(struct tw_profile *p,
                                           const struct tw_batch *batch,
                                           struct tw_error *err);
TW_MUST_USE enum tw_status twp_batch_count(struct tw_profile *p,
                                           const struct tw_batch *batch,
                                           const float *nll,
                                           struct tw_error *err);

/* acc_position.c: makes room for positions 0 .. needed-1; NOMEM changes
 * nothing. */
TW_MUST_USE enum tw_status twp_positions_reserve(struct tw_profile *p,
                                                 int64_t needed,
                                                 struct tw_error *err);

/* acc_document.c: adds rows and sequences to a document. Ascending numbers
 * append; an older new number costs a move of those above it. */
TW_MUST_USE enum tw_status twp_document_add(struct tw_profile *p,
                                            int64_t document, int64_t rows,
                                            int64_t sequences,
                                            struct tw_error *err);
int twp_document_is_known(const struct tw_profile *p, int64_t document);
/* Fills clock[documents]: rows of all documents with a smaller number. Returns
 * the rows of all. */
int64_t twp_clock_make(const struct tw_profile *p, int64_t *clock);
/* The corpus clock of a place: its document's clock + row. The document must
 * have been added. */
int64_t twp_clock_at(const struct tw_profile *p, const int64_t *clock,
                     struct twp_place place);

/* acc_layer.c, acc_neuron.c: one layer of the batch into its own sums. Return
 * NULL, or the name of a sum that exceeds 64 bits. */
const char *twp_layer_add(struct tw_profile *p, const struct tw_layer_obs *obs,
                          int layer);
const char *twp_neurons_add(struct tw_profile *p,
                            const struct tw_layer_obs *obs, int layer);

/* acc_token.c: counted rows sorted into by_token; rows per token; then the
 * sums over layers of the even sequences' rows and the checked totals. */
void twp_tokens_sort(struct tw_profile *p, const struct tw_batch *batch);
void twp_tokens_count(struct tw_profile *p, const struct tw_batch *batch);
TW_MUST_USE enum tw_status twp_tokens_sum_even(struct tw_profile *p,
                                               const struct tw_batch *batch,
                                               const struct tw_layer_obs *obs,
                                               struct tw_error *err);

/* Values of a row for tw_store_put_rows. */
#define TWP_FILL(row, ...) \
    memcpy(row, (int64_t[]){__VA_ARGS__}, sizeof(int64_t[]){__VA_ARGS__})

/* save_layer.c, save_total.c: parts of a save. clock NULL: not the end yet. */
struct tw_store;
struct twp_save {
    const struct tw_profile *p;
    struct tw_store *store;
    int64_t run;
    const int64_t *clock;
    struct tw_error *err;
};
TW_MUST_USE enum tw_status twp_save_probe(const struct twp_save *save, int def,
                                          int layer);
TW_MUST_USE enum tw_status twp_save_layer(const struct twp_save *save,
                                          int layer);
TW_MUST_USE enum tw_status twp_save_all(const struct twp_save *save);

#ifdef __cplusplus
}
#endif
#endif
