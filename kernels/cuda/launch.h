/* Launchers of the cuda kernels: what the .cu files export to C. Everything is
 * a device pointer unless it says otherwise, every launcher runs on the given
 * stream, allocates nothing and returns TW_OK or the launch's error. Private
 * to kernels/cuda and its tests.
 *
 * One sparse layer, M rows:
 *
 *     tw_launch_pack     x, W -> counts and entries          (pack.cu)
 *     tw_launch_route    counts, entries -> row sums, tiles, routes, the lists
 *                        of rows that stay                    (route.cu)
 *     tw_launch_dots     gated: x, W_up, lists -> parts of dots (dots.cu)
 *     tw_launch_hide     gated: parts, lists -> h             (unpack.cu)
 *     tw_launch_add      lists -> y, firing counts            (unpack.cu)
 *     tw_launch_gather   routed rows of x, their list         (route.cu)
 *     tw_launch_hidden   gathered x -> h, dense               (hidden.cu)
 *     tw_launch_down     h -> y, scattered                    (down.cu)
 *
 * A dense layer is hidden, route (which then only sums), down. */
#ifndef TW_KERNELS_CUDA_LAUNCH_H
#define TW_KERNELS_CUDA_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/active.h"
#include "base/dtype.h"
#include "base/error.h"
#include "kernels/activation.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t points to it */

#define TWP_TILE       256 /* columns of a TwELL tile */
#define TWP_ROUTE_ROWS 64  /* rows that one block of route looks at */
#define TWP_PART       128 /* columns that one partial l1 sums */
#define TWP_HISTOGRAM  (65 + 129 + 257)
#define TWP_DEFS       4 /* definitions that one call counts, at most */

/* A definition of "active": hidden, gate, abs or gate-abs, the last two where
 * a magnitude is > threshold. That is the wanted number rounded down to a
 * float, so that a float is beyond both or neither. */
struct twp_def {
    enum tw_active_kind kind;
    float threshold;
};

/* A tensor map's 128 bytes (CUtensorMap), made by twp_map_encode. */
struct twp_map {
    uint64_t opaque[16] __attribute__((aligned(64)));
};

/* Packed activations. A count word holds the exact counts of the tile's four
 * quarters of 64 columns, 8 bits each, lowest first. An entry is the upper 24
 * bits of an fp32 value and the 8-bit column within the tile; entries ascend
 * by column. A tile with more than `slots` holds none. */
struct twp_packed {
    int32_t cols, tiles, slots;
    uint32_t *count; /* [rows][tiles] */
    uint32_t *entry; /* [rows][tiles][slots] */
};

/* The entries of rows that stay sparse: each row's list, ascending by neuron, and
 * for dots a stream for every TWP_STREAM_ROWS rows: by group of neurons, then row,
 * then neuron. A stream has room for its rows' lists. */
struct twp_list {
    int32_t room;          /* the most entries a row that stays may have */
    int32_t units, groups; /* quarters of tiles a group, by twp_dots_groups */
    uint32_t *n;           /* [rows] their number; UINT32_MAX: the row is routed */
    uint32_t *neuron;      /* [rows][room] */
    float *value;          /* [rows][room] act(gate) */
    float *hidden;         /* [rows][room] h; plain: the same as value */
    /* gated only: */
    uint32_t *place;       /* [rows][room] in the stream */
    uint16_t *stream;      /* [streams][8 * room] neuron within its group |
                            * row within its 8 << 10 */
    uint32_t *group_start; /* [streams][groups + 1] */
};
#define TWP_STREAM_ROWS 8
#define TWP_DOTS_SLAB         128 /* columns of x that one part of a dot covers */

/* What is counted; all sums over what the caller zeroed. NULL block: nothing.
 * Rows with skip set count in nnz and l1 alone. h and act(gate) are compared in
 * fp32, before h is rounded for storage. */
struct twp_counts {
    bool is_on;
    int32_t defs; /* how many of the following are wanted, all different */
    struct twp_def def[TWP_DEFS];
    const uint8_t *skip;     /* [rows] not zero: left out, or NULL */
    uint32_t *nnz[TWP_DEFS]; /* [rows]; those of def, as fired, first, last */
    uint32_t *fired[TWP_DEFS];
    uint32_t *first[TWP_DEFS]; /* [cols] least row; UINT32_MAX: none */
    uint32_t *last[TWP_DEFS];  /* [cols] greatest row + 1; 0: none */
    float *l1;                 /* [rows], written */
    uint32_t *histogram;       /* [TWP_HISTOGRAM] tiles of 64, 128, 256 */
    uint32_t *overflow_tiles, *overflow_rows, *dense_rows; /* one each */
    unsigned long long *bad; /* least row << 32 | neuron of an h that isn't
                              * finite, also as stored (fp16 ends at 65504);
                              * all ones: none */
};

struct twp_rows {          /* which rows a product runs over */
    int32_t rows;          /* at most */
    const int32_t *actual; /* how many indeed, or NULL: rows */
    const int32_t *list;   /* [rows] their numbers, ascending; NULL: all */
};

/* Multiprocessors and such, read once. */
struct twp_device {
    int number, multiprocessors;
};

TW_MUST_USE enum tw_status
twp_device_open(int number, struct twp_device *device, struct tw_error *err);

/* How a matrix [rows][cols] of numbers of that type (TW_BF16 or TW_F16), rows
 * `stride` apart (a multiple of 8), is read: boxes of 128 rows by 64 columns,
 * zeros outside. */
TW_MUST_USE enum tw_status twp_map_encode(struct twp_map *map,
                                          enum tw_dtype type,
                                          const void *matrix, int64_t rows,
                                          int64_t cols, int64_t stride,
                                          struct tw_error *err);
/* The same in boxes of that many rows. */
TW_MUST_USE enum tw_status
twp_map_encode_boxes(struct twp_map *map, enum tw_dtype type,
                     const void *matrix, int64_t rows, int64_t cols,
                     int64_t stride, int box_rows, struct tw_error *err);

/* In every struct of arguments, `type` is that of the 16-bit numbers: TW_BF16
 * or TW_F16. */
struct twp_pack_args {
    enum tw_dtype type;
    const struct twp_map *x, *w; /* host; [rows][k], [cols][k] */
    const float *bias;           /* [tiles * 256], zeros at its end, or NULL */
    int32_t rows, k;
    struct tw_activation activation; /* relu, relu2 or fatrelu */
    struct twp_packed out;
};

TW_MUST_USE enum tw_status tw_launch_pack(const struct twp_device *device,
                                          const struct twp_pack_args *args,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

struct twp_route_args {
    struct twp_packed in;
    int32_t rows;
    int32_t row_limit;     /* rows with more non-zeros are routed; <= list.room */
    bool is_dense;         /* every row is dense already: sums only */
    bool is_plain;         /* an entry is h: rows' sums are counted here */
    struct twp_list list;  /* written; unused where is_dense */
    uint8_t *is_routed;    /* [rows], written; may be NULL where is_dense */
    int32_t *block_routed; /* [rows / TWP_ROUTE_ROWS, up], written; likewise */
    struct twp_counts counts;
};

TW_MUST_USE enum tw_status tw_launch_route(const struct twp_device *device,
                                           const struct twp_route_args *args,
                                           struct CUstream_st *stream,
                                           struct tw_error *err);

struct twp_gather_args {
    const void *x; /* [rows][k] */
    int32_t rows, k;
    const uint8_t *is_routed;
    const int32_t *block_routed;
    void *out;       /* [rows][k] */
    int32_t *list;   /* [rows] */
    int32_t *actual; /* rows gathered */
};

TW_MUST_USE enum tw_status tw_launch_gather(const struct twp_gather_args *args,
                                            struct CUstream_st *stream,
                                            struct tw_error *err);

struct twp_dots_args {
    enum tw_dtype type;
    struct twp_list list;
    int32_t rows, d, cols;
    const struct twp_map *x_map; /* host; boxes of 8 rows; NULL: without TMA */
    const void *x, *up;          /* [rows][d], [cols][d] */
    float *part;        /* [d / TWP_DOTS_SLAB, up][streams][8 * list.room] */
};

/* How dots cuts d_ff neurons into groups: sets list->units and ->groups. */
void twp_dots_groups(const struct twp_device *device, int32_t d, int32_t cols,
                     struct twp_list *list);

TW_MUST_USE enum tw_status tw_launch_dots(const struct twp_device *device,
                                          const struct twp_dots_args *args,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

struct twp_hide_args {
    struct twp_list list;
    int32_t rows, slabs;
    const float *part;    /* of dots */
    const float *up_bias; /* or NULL */
    struct twp_counts counts;
};

TW_MUST_USE enum tw_status tw_launch_hide(const struct twp_hide_args *args,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

struct twp_add_args {
    enum tw_dtype type;
    struct twp_list list;
    int32_t rows, d;
    const void *down;       /* [cols][d], W_down transposed */
    const float *down_bias; /* or NULL */
    const void *residual;   /* [rows][d] or NULL; may be y */
    void *y;                /* [rows][d]; rows that are routed are left alone */
    struct twp_counts counts; /* fired, first and last of these rows */
    int variant;            /* 0: the fastest known; tests try others */
};

TW_MUST_USE enum tw_status tw_launch_add(const struct twp_add_args *args,
                                         struct CUstream_st *stream,
                                         struct tw_error *err);

struct twp_hidden_args {
    enum tw_dtype type;
    const struct twp_map *x, *gate, *up; /* host; gate NULL: plain */
    const float *gate_bias, *up_bias;    /* zeros at their ends, or NULL */
    struct twp_rows rows;
    int32_t k, cols;
    struct tw_activation activation;
    const struct twp_def *apply; /* h = 0 where it isn't active, and the pattern
                                  * is where it is: abs or gate-abs, or NULL */
    void *h;                     /* [rows][stride] */
    int64_t stride;              /* a multiple of 8 */
    uint32_t *count;             /* count words to write, or NULL; by list */
    float *l1_part; /* [rows][cols / TWP_PART, up] if counts.is_on */
    struct twp_counts counts;
};

TW_MUST_USE enum tw_status tw_launch_hidden(const struct twp_device *device,
                                            const struct twp_hidden_args *args,
                                            struct CUstream_st *stream,
                                            struct tw_error *err);

struct twp_down_args {
    enum tw_dtype type;
    const struct twp_map *h, *down; /* host; [rows][cols], [d][cols] */
    struct twp_rows rows;
    int32_t cols, d;
    const float *bias;    /* zeros at its end, or NULL */
    const void *residual; /* [..][d] by list, or NULL; may be y */
    void *y;              /* [..][d] by list */
    const float *l1_part; /* summed into counts.l1 where counts.is_on */
    struct twp_counts counts;
};

TW_MUST_USE enum tw_status tw_launch_down(const struct twp_device *device,
                                          const struct twp_down_args *args,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

/* out[cols][stride_out] = in[rows][stride_in]^T, 16-bit numbers. */
TW_MUST_USE enum tw_status
tw_launch_transpose(void *out, int64_t stride_out, const void *in,
                    int64_t stride_in, int32_t rows, int32_t cols,
                    struct CUstream_st *stream, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
