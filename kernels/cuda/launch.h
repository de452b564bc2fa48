/* Launchers of the cuda kernels: what the .cu files export to C. Everything is
 * a device pointer unless it says otherwise, every launcher runs on the given
 * stream, allocates nothing and returns TW_OK or the launch's error. Private
 * to kernels/cuda and its tests.
 *
 * One sparse layer, M rows:
 *
 *     tw_launch_pack     x, W -> counts and entries          (pack.cu)
 *     tw_launch_route    counts -> row sums, tiles, routes    (route.cu)
 *     tw_launch_hide     entries -> lists of h, rows that stay (unpack.cu)
 *     tw_launch_add      lists -> y                           (unpack.cu)
 *     tw_launch_gather   routed rows of x, their list         (route.cu)
 *     tw_launch_hidden   gathered x -> h, dense               (hidden.cu)
 *     tw_launch_down     h -> y, scattered                    (down.cu)
 *     tw_launch_down_thin  the same for a few rows            (down_thin.cu)
 *
 * A dense layer is hidden and down. Where a row's d isn't a multiple of 8,
 * repitch (route.cu) copies x and the residual before and y behind. */
#ifndef TW_KERNELS_CUDA_LAUNCH_H
#define TW_KERNELS_CUDA_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/active.h"
#include "base/dtype.h"
#include "base/error.h"
#include "kernels/activation.h"
#include "kernels/ops.h"

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

/* A matrix [rows][cols] of 16-bit numbers, rows `stride` apart, and its tensor
 * map's 128 bytes (CUtensorMap), which only the Hopper kernels read. Made by
 * twp_map_encode. */
struct twp_map {
    uint64_t opaque[16] __attribute__((aligned(64)));
    const void *data;
    int64_t rows, cols, stride;
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

/* The entries of rows that stay sparse: lists of (neuron, h as fp32 bits). */
struct twp_list {
    int32_t room;   /* tiles * slots */
    uint32_t *n;    /* [rows] their number; UINT32_MAX: the row is routed */
    uint32_t *pair; /* [rows][room][2] */
};

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

/* What hidden leaves of rows for down to add up, by parts of TWP_PART columns:
 * [cols / TWP_PART, up][stride]. */
struct twp_parts {
    int64_t stride;  /* >= rows */
    float *l1;       /* sums of |h|, by place; if counts.is_on */
    uint16_t *count; /* of a dense layer, the pattern's number in 64 columns
                      * and in the next 64, 8 bits each, by list; or NULL */
};

/* What a device is, read once. */
struct twp_device {
    int number, multiprocessors;
    int shared_bytes; /* of shared memory that one block may have */
    int capability;   /* 10 major + minor */
    enum tw_cuda_path path; /* hopper or portable */
};

/* With the fastest path that the device can run; TW_ERR_UNSUPPORTED names the
 * device and what it lacks, or says which numbers there are. */
TW_MUST_USE enum tw_status
twp_device_open(int number, struct twp_device *device, struct tw_error *err);
/* Takes that path; TW_CUDA_AUTO leaves it. TW_ERR_UNSUPPORTED where the device
 * can't. */
TW_MUST_USE enum tw_status twp_device_take_path(struct twp_device *device,
                                                enum tw_cuda_path path,
                                                struct tw_error *err);

/* Was this built for such a device? Else TW_ERR_UNSUPPORTED. It is the current
 * one. */
TW_MUST_USE enum tw_status tw_launch_check(const struct twp_device *device,
                                           struct tw_error *err);

/* How a matrix [rows][cols] of numbers of that type (TW_BF16 or TW_F16), rows
 * `stride` apart (a multiple of 8), is read: boxes of 128 rows by 64 columns,
 * zeros outside. */
TW_MUST_USE enum tw_status twp_map_encode(struct twp_map *map,
                                          enum tw_dtype type,
                                          const void *matrix, int64_t rows,
                                          int64_t cols, int64_t stride,
                                          struct tw_error *err);

/* The same in boxes of box_rows rows, at most 256. */
TW_MUST_USE enum tw_status
twp_map_encode_box(struct twp_map *map, enum tw_dtype type, const void *matrix,
                   int64_t rows, int64_t cols, int64_t stride, int box_rows,
                   struct tw_error *err);

/* In every struct of arguments, `type` is that of the 16-bit numbers: TW_BF16
 * or TW_F16. */
struct twp_pack_args {
    enum tw_dtype type;
    const struct twp_map *x, *w; /* host; [rows][k], [cols][k] */
    const float *bias;           /* [tiles * 256], zeros at its end, or NULL */
    int32_t rows, k;
    struct tw_activation activation; /* relu, relu2 or fatrelu; else apply */
    struct twp_packed out;
    const struct twp_def *apply; /* a gate-abs: what isn't active is 0, and the
                                  * pattern is what is; or NULL */
};

TW_MUST_USE enum tw_status tw_launch_pack(const struct twp_device *device,
                                          const struct twp_pack_args *args,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

struct twp_route_args {
    struct twp_packed in;
    int32_t rows;
    int32_t row_limit;     /* rows with more non-zeros are routed */
    uint8_t *is_routed;    /* [rows], written */
    int32_t *block_routed; /* [rows / TWP_ROUTE_ROWS, up], written */
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

struct twp_unpack_args {
    enum tw_dtype type;
    struct twp_packed in;
    struct twp_list list;     /* hide writes it, add reads it */
    const uint8_t *is_routed; /* [rows] left alone; NULL: none */
    int32_t rows, d;
    const void *x;                    /* [rows][d]; gated only */
    const void *up;                   /* [cols][d]; NULL: plain */
    const void *down;                 /* [cols][d], W_down transposed */
    const float *up_bias, *down_bias; /* or NULL */
    const void *residual;             /* [rows][d] or NULL; may be y */
    void *y;                          /* [rows][d] */
    struct twp_counts counts; /* hide counts a gated layer's, add a plain one's */
    int variant; /* 0: the fastest known; tests try others */
};

TW_MUST_USE enum tw_status tw_launch_hide(const struct twp_unpack_args *args,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);
TW_MUST_USE enum tw_status tw_launch_add(const struct twp_unpack_args *args,
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
    float *wide_h, *wide_gate;   /* [rows][stride] h and act(gate) as they are
                                  * counted; or NULL */
    struct twp_parts parts;
    struct twp_counts counts;
};

/* Does hidden leave the rows' nnz to down, which adds them up from the parts'
 * counts? It does where they tell them: on Hopper, in bf16, a dense layer's
 * `gate` and `hidden`. Then counts.nnz is what `hidden` differs from the
 * pattern by. */
bool tw_hidden_leaves_nnz(const struct twp_device *device,
                          const struct twp_hidden_args *args);

TW_MUST_USE enum tw_status tw_launch_hidden(const struct twp_device *device,
                                            const struct twp_hidden_args *args,
                                            struct CUstream_st *stream,
                                            struct tw_error *err);

struct twp_down_args {
    enum tw_dtype type;
    const struct twp_map *h, *down; /* host; [rows][cols], [d][cols] */
    struct twp_rows rows;
    int32_t cols, d;
    const float *bias;     /* zeros at its end, or NULL */
    const void *residual;  /* [..][d] by list, or NULL; may be y */
    void *y;               /* [..][d] by list */
    /* If counts.is_on: l1 goes into counts.l1; count's tiles, if any, into the
     * histograms; their sums, if adds_nnz, into counts.nnz. */
    struct twp_parts parts;
    bool adds_nnz;
    struct twp_counts counts;
    /* h and down themselves, for down_thin: rows so far apart, a multiple of 8,
     * zeros behind the columns. */
    const void *h_data, *down_data;
    int64_t stride;
    int32_t down_rows; /* up to d */
};

TW_MUST_USE enum tw_status tw_launch_down(const struct twp_device *device,
                                          const struct twp_down_args *args,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

/* For rows.actual of up to TWP_THIN_ROWS, which tw_launch_down then leaves to
 * it; it does nothing where there are more. Both are launched. */
#define TWP_THIN_ROWS 512
TW_MUST_USE enum tw_status tw_launch_down_thin(const struct twp_down_args *args,
                                               struct CUstream_st *stream,
                                               struct tw_error *err);

/* out[rows][stride_out] = in[rows][stride_in], 16-bit numbers: `cols` of a row,
 * zeros behind them. */
TW_MUST_USE enum tw_status tw_launch_repitch(void *out, int64_t stride_out,
                                             const void *in, int64_t stride_in,
                                             int32_t rows, int32_t cols,
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
