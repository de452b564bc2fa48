/* Launchers of the second pass over h: what needs a row's h as a whole, or a
 * value of each neuron. For the rows that are in lists, and for each part of
 * the dense ones:
 *
 *     tw_launch_select      h -> who is active, nnz            (second.cu)
 *     tw_launch_magnitudes  h -> abs_sum, abs_max, bins  (second_count.cu)
 *     tw_launch_set_starts  nnz -> where a row's set is   (second_sets.cu)
 *     tw_launch_sets        h -> sets, their values       (second_sets.cu)
 *
 * and for the layer, behind them, tw_launch_columns (second_count.cu): fired,
 * first, last. tw_launch_parts divides dense rows before, tw_launch_gates
 * (both second_input.cu) unpacks lists' act(gate). Results are
 * integers, minima and maxima alone and equal those of the cpu backend for
 * equal h, bit by bit. As in launch.h: device pointers unless it says
 * otherwise, the given stream, no allocation, TW_OK or the launch's error.
 * Private to kernels/cuda and its tests. */
#ifndef TW_KERNELS_CUDA_LAUNCH_SECOND_H
#define TW_KERNELS_CUDA_LAUNCH_SECOND_H

#include "kernels/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Columns that a row may have. */
#define TWP_SECOND_COLS (1 << 20)
#define TWP_SECOND_DEFS 16

/* Any definition. */
struct twp_second_def {
    struct twp_def def; /* its threshold: of abs and gate-abs */
    double share;       /* of topp */
    uint32_t most;      /* of topk */
};

/* What is counted. The caller zeroes fired and last and fills first with ones;
 * the rest is written. Skipped rows count in nnz, bits and sets alone. */
struct twp_second {
    int32_t rows, cols; /* of the batch */
    int32_t defs;       /* the first is the primary */
    struct twp_second_def def[TWP_SECOND_DEFS];
    const uint8_t *skip; /* [rows] not zero: left out, or NULL */
    uint32_t
        *bits[TWP_SECOND_DEFS]; /* [rows][words]: bit n % 32 of word n / 32 */
    int32_t words;              /* cols / 32, up */
    uint32_t
        *nnz[TWP_SECOND_DEFS]; /* [rows]; as the next in struct twp_counts */
    uint32_t *fired[TWP_SECOND_DEFS];
    uint32_t *first[TWP_SECOND_DEFS]; /* [cols] least row; UINT32_MAX: none */
    uint32_t *last[TWP_SECOND_DEFS];  /* [cols] greatest row + 1; 0: none */
    int32_t blocks;                   /* that select has, at most */
    uint32_t *scratch;                /* [blocks][room] for topp, or NULL */
    int64_t room;                     /* twp_second_room(cols) */
};

/* Where the rows' h are: dense, h[rows.rows][stride] with the row of a place as
 * rows has it; or where list.n isn't NULL in lists, rows.rows of them, without
 * those that are routed. */
struct twp_second_h {
    struct twp_rows rows;
    const float *h;
    int64_t stride;
    struct twp_list list;
    const float *a; /* act(gate), 0 outside the pattern: [rows][stride] or, of
                     * lists, [rows][list.room]. For gate-abs, and gate of dense
                     * rows; else NULL */
};

TW_MUST_USE enum tw_status tw_launch_select(const struct twp_second *second,
                                            const struct twp_second_h *h,
                                            struct CUstream_st *stream,
                                            struct tw_error *err);

TW_MUST_USE enum tw_status tw_launch_columns(const struct twp_second *second,
                                             struct CUstream_st *stream,
                                             struct tw_error *err);

/* Of the primary, as in obs.h; all sums over what the caller zeroed. */
struct twp_magnitudes {
    int64_t *abs_sum;              /* [cols] */
    float *abs_max;                /* [cols] */
    unsigned long long *magnitude; /* [TW_MAGNITUDE_BINS] */
    uint32_t *is_overflown;        /* not zero: a sum is beyond 64 bits */
};
TW_MUST_USE enum tw_status tw_launch_magnitudes(const struct twp_second *second,
                                                const struct twp_second_h *h,
                                                const struct twp_magnitudes *to,
                                                struct CUstream_st *stream,
                                                struct tw_error *err);

/* The primary's active neurons, each row's ascending, the rows launch after
 * launch in the order of their places. */
struct twp_second_sets {
    int64_t *start; /* [rows + 1] where a row's begin, by its number; the last:
                     * where the next launch's do, which the caller zeroes */
    uint32_t *set;  /* of this launch alone: those from `first` on */
    float *value;   /* their h */
    int64_t first;
};
TW_MUST_USE enum tw_status tw_launch_set_starts(const struct twp_second *second,
                                                const struct twp_second_h *h,
                                                int64_t *start,
                                                struct CUstream_st *stream,
                                                struct tw_error *err);
TW_MUST_USE enum tw_status tw_launch_sets(const struct twp_second *second,
                                          const struct twp_second_h *h,
                                          const struct twp_second_sets *sets,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

/* Parts of `part` rows each: part i are list[i * part] on, actual[i] of them.
 * list [rows.rows] is written where rows has none, else rows.list serves. */
TW_MUST_USE enum tw_status tw_launch_parts(const struct twp_rows *rows,
                                           int32_t part, int32_t *list,
                                           int32_t *actual,
                                           struct CUstream_st *stream,
                                           struct tw_error *err);
/* gate[rows][list->room]: act(gate) of the lists' entries. */
TW_MUST_USE enum tw_status tw_launch_gates(const struct twp_packed *in,
                                           const struct twp_list *list,
                                           int32_t rows, float *gate,
                                           struct CUstream_st *stream,
                                           struct tw_error *err);

/* second.c. */
struct twp_second_def twp_second_def_of(const struct tw_active *active);
/* cols, up to a power of two. */
int64_t twp_second_room(int32_t cols);

#ifdef __cplusplus
}
#endif
#endif
