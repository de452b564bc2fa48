/* What the files of the feed-forward layer share. Private to kernels/cpu.
 *
 * The layer runs in chunks of rows, a worker a chunk: gate product and packing
 * (ffn_gate.c), the fused sparse pass (ffn_sparse.c), the dense path for routed
 * rows or all (ffn_dense.c), counting into worker-private sums (ffn_count.c).
 * Rows are free of their place (simd.h), so chunks are cut for balance alone
 * and routed rows are gathered rather than carried in their 64-row block. */
#ifndef TW_KERNELS_CPU_FFN_INTERNAL_H
#define TW_KERNELS_CPU_FFN_INTERNAL_H

#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/simd.h"
#include "kernels/twell.h"

/* Slots of a tile of 256. A routed row costs the gate's product and then three,
 * so routing pays only where the sparse pass costs more than three products:
 * near 25 % for float rows, later for 16-bit ones. With 48 slots float layers
 * at 16 % were 1.4 times slower. Whole layers that dense products serve better
 * are a plan's choice (TW_FFN_DENSE). */
#define TWP_SLOTS 64

/* Groups of rows in a chunk: as many as 1 MiB of packed x holds, 8 to 16. With
 * 16 instead of 8, 384 x 1024 takes 0.93 of the time (W is read half as often).
 */
#define TWP_CHUNK_BYTES (1 << 20)
#define TWP_CHUNK_LEAST 8
#define TWP_CHUNK_MOST  16
/* Steps of K whose rows of A stay in the second-level cache. */
#define TWP_K_OUTER (TWP_K_BLOCK * 10)

/* Lasting or passing copies of a layer's weights, made at first use. */
enum twp_copy_kind {
    TWP_GATE_PANELS,
    TWP_UP_PANELS,
    TWP_DOWN_PANELS,
    TWP_UP_ROWS,   /* only where d_model isn't a multiple of 32 */
    TWP_DOWN_ROWS, /* W_down^T */
    TWP_COPIES
};

struct twp_copy {
    void *data; /* NULL: not made */
    size_t bytes;
    bool is_kept;
};

/* Where a row of a sparse layer goes. */
enum twp_route { TWP_STAYS, TWP_OVER_LIMIT, TWP_OVERFLOWS };

struct tw_ffn {
    struct tw_ffn_desc desc;
    struct tw_active apply; /* desc.apply points here, or NULL */
    const struct twp_simd *simd;
    int slots;                  /* TWP_SLOTS */
    struct tw_ffn_plan plan;    /* path: no sparser than desc's */
    int64_t tiles;              /* of d_ff */
    int64_t padded;             /* d_ff rounded up to whole tiles */
    int64_t width;              /* d_model rounded up to 32 */
    float *gate_bias, *up_bias; /* [padded] or NULL */
    float *down_bias;           /* [width] or NULL */
    struct twp_copy copy[TWP_COPIES];
    bool is_open; /* in the list of layers with passing copies */
    struct tw_ffn *next;
};

/* ffn_copy.c */
TW_MUST_USE enum tw_status twp_ffn_share(struct twp_cpu *cpu,
                                         struct tw_error *err);
void twp_ffn_unshare(struct twp_cpu *cpu);
/* Makes that copy if it isn't there. Outside the region; builds in parallel. */
TW_MUST_USE enum tw_status twp_ffn_copy(struct twp_cpu *cpu, struct tw_ffn *ffn,
                                        enum twp_copy_kind kind,
                                        struct tw_error *err);
void twp_ffn_drop(struct twp_cpu *cpu, struct tw_ffn *ffn, bool with_kept);

/* Worker-private sums of one call; the first `probes` arrays hold [probes]
 * [padded]. */
struct twp_counts {
    uint32_t *fired, *first, *last;
    int64_t *abs_sum;
    float *abs_max;
    uint64_t magnitude[TW_MAGNITUDE_BINS];
    uint64_t tiles[TW_TILE_WIDTHS][TW_TWELL_TILE + 1];
    uint64_t seen, overflow_tiles, overflow_rows, dense_rows;
    int32_t bad_row, bad_neuron;
    bool is_overflown;
};

/* A worker's memory, carved from its scratch. */
struct twp_work {
    float *wide;          /* a widened panel block */
    float *a;             /* packed x, then packed h */
    float *c;             /* [chunk][256] or [chunk][width] */
    float *x, *y;         /* [chunk][width] in the sparse pass's orders */
    struct tw_twell pack; /* [chunk][tiles] */
    float *act, *hid;     /* [chunk][padded], dense rows; else hid [padded] */
    uint64_t *bits;       /* [padded / 64] of a row, twice */
    double *lane;         /* [chunk][16] */
    uint16_t *cursor;     /* [chunk] next slot of the tile at hand */
    uint8_t *route;       /* [chunk] enum twp_route */
    uint32_t *neuron;     /* [padded] list of a row */
    float *value, *hidden;
    uint64_t *key, *key2; /* [padded] for top-k and top-p */
    struct twp_counts *counts;
    struct twp_sets *sets; /* of this worker, NULL: unwanted */
};

/* One call; read-only inside the region. */
struct twp_ffn_call {
    struct twp_cpu *cpu;
    struct tw_ffn *ffn;
    const struct twp_simd *simd;
    float *y;
    const float *x, *residual;
    const struct tw_probes *probes;
    struct tw_layer_obs *obs; /* NULL: nothing is counted */
    int64_t rows;
    bool is_dense;              /* every row takes the dense path */
    bool is_by_tile;            /* a row may be passed in parts */
    int64_t *list;              /* [rows] of the dense region */
    uint8_t *route;             /* [rows] noted by the sparse region */
    struct twp_counts **counts; /* [workers], NULL until it works */
    struct twp_sets *sets;      /* [workers], NULL: no sets are wanted */
    /* of the running region */
    bool has_dense;
    int64_t listed, groups, pieces, chunk; /* chunk: rows of the largest */
    struct twp_pack rule;
    struct twp_panels gate, up, down; /* gate: what packs */
    struct twp_sparse sparse;
};

/* Bytes of a worker's memory, and its parts in memory of that many bytes. */
size_t twp_work_bytes(const struct twp_ffn_call *call);
void twp_work_carve(const struct twp_ffn_call *call, void *memory,
                    struct twp_work *work);

/* out: [groups][k][mr] from the rows from[i] (NULL index: row + i), zero rows
 * after the last. */
void twp_pack_rows(const struct twp_simd *simd, float *out, const float *from,
                   int64_t stride, const int64_t *index, int64_t rows,
                   int64_t k);

/* work->c[groups * mr][256] = packed rows in work->a times that tile of p. */
void twp_product_tile(const struct twp_ffn_call *call, struct twp_work *work,
                      const struct twp_panels *p, int64_t tile, int64_t groups);

/* Rows row .. row+rows-1 through the gate product into work->pack. */
void twp_ffn_gate(const struct twp_ffn_call *call, struct twp_work *work,
                  int64_t row, int64_t rows);
/* Those of them that aren't routed through up and down into y. */
void twp_ffn_sparse(const struct twp_ffn_call *call, struct twp_work *work,
                    int64_t row, int64_t rows);
/* The rows listed through the whole layer, densely. */
void twp_ffn_dense(const struct twp_ffn_call *call, struct twp_work *work,
                   const int64_t *list, int64_t rows);

/* ffn_counts.c, ffn_count.c */
size_t twp_counts_bytes(const struct twp_ffn_call *call);
/* Zeroed sums in memory of that many bytes. */
struct twp_counts *twp_counts_start(const struct twp_ffn_call *call,
                                    void *memory);
TW_MUST_USE enum tw_status twp_counts_merge(const struct twp_ffn_call *call,
                                            struct tw_error *err);
/* The row-tile's pattern counts by 64 columns into the histograms. */
void twp_count_tile(const struct twp_ffn_call *call, struct twp_work *work,
                    int64_t row, int64_t tile, const uint8_t part[4]);
/* Some entries of a sparse row, h computed. */
void twp_count_list(const struct twp_ffn_call *call, struct twp_work *work,
                    int64_t row, const uint32_t *neuron, const float *a,
                    const float *h, int64_t n, double lane[16]);
/* A dense row: act[padded], h[padded], pattern bits. */
void twp_count_dense(const struct twp_ffn_call *call, struct twp_work *work,
                     int64_t row, const float *act, const float *h,
                     const uint64_t *pattern);
/* Notes the lowest of these that isn't finite (neuron NULL: h[0 .. n-1]). */
void twp_count_bad(struct twp_work *work, int64_t row, const uint32_t *neuron,
                   const float *h, int64_t n);
/* The row's end: its l1. */
void twp_count_row(const struct twp_ffn_call *call, struct twp_work *work,
                   int64_t row, const double lane[16]);
/* ffn_sets.c: the primary's active neurons, where obs has set_start. */
struct twp_sets *twp_sets_create(int workers);
void twp_sets_destroy(struct twp_sets *sets, int workers);
struct twp_sets *twp_sets_of(struct twp_sets *sets, int worker);
/* A part of a row, of at most that many neurons, ascending; then each. */
void twp_sets_begin(struct twp_sets *sets, int64_t row, int64_t most);
void twp_sets_add(struct twp_sets *sets, uint32_t neuron, float h);
/* A whole row: the bits of n neurons. */
void twp_sets_bits(struct twp_sets *sets, int64_t row, const uint64_t *bits,
                   const float *h, int64_t n);
/* After the counting: all lists into obs, whose nnz is final. */
TW_MUST_USE enum tw_status twp_sets_finish(const struct twp_sets *sets,
                                           int workers,
                                           struct tw_layer_obs *obs,
                                           struct tw_error *err);

/* Has a probe that must see the whole row at once. */
bool twp_needs_whole_row(const struct tw_probes *probes);
/* Sets the bits of a top-p or top-k definition's active neurons among h[n], n a
 * multiple of 64. */
void twp_select_top(const struct tw_active *active, const float *h, int64_t n,
                    struct twp_work *work, uint64_t *bits);
/* The largest float that isn't above T: |v| > T and |v| > this are one. */
float twp_threshold(double t);

static inline bool twp_is_counted(const struct twp_ffn_call *call, int64_t row)
{
    return !(call->cpu->batch->row_class[row] & TW_ROW_SKIPPED);
}

#endif
