/* Launchers of the model's other kernels: all around the feed-forward layer.
 * As in launch.h: device pointers unless it says otherwise, the given stream,
 * no allocation, TW_OK or the launch's error; `type` is that of the 16-bit
 * numbers of buffers and tables, TW_BF16 or TW_F16, sums are fp32. A row's
 * result depends on its sequence's rows up to it and its place there alone.
 * Private to kernels/cuda and its tests. */
#ifndef TW_KERNELS_CUDA_LAUNCH_MODEL_H
#define TW_KERNELS_CUDA_LAUNCH_MODEL_H

#include "kernels/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a sequence that one block of attention takes. */
#define TWP_ATTENTION_ROWS 128

/* The started batch on the device. A tile is TWP_ATTENTION_ROWS rows of one
 * sequence, fewer at its end; in the order of the sequences, and of one's tiles
 * the last, with the most keys, comes first. */
struct twp_device_batch {
    int32_t rows, seqs, tiles;
    const int32_t *token;      /* [rows] */
    const int32_t *position;   /* [rows] place in the sequence */
    const int32_t *offset;     /* [seqs + 1] first row of each sequence */
    const int32_t *tile_seq;   /* [tiles] its sequence, */
    const int32_t *tile_place; /* and its first row's place there */
    const uint8_t *skip;       /* [rows] not zero: TW_ROW_SKIPPED */
    int32_t *work; /* [2] counters of a launch, 0 before and after it */
};

/* y[rows][width] = scale * table[token]. The caller has checked the tokens. */
struct twp_embed_args {
    enum tw_dtype type;
    void *y;
    const void *table; /* [vocab][width] */
    int32_t width;
    float scale;
    const struct twp_device_batch *batch; /* host */
};
TW_MUST_USE enum tw_status tw_launch_embed(const struct twp_embed_args *args,
                                           struct CUstream_st *stream,
                                           struct tw_error *err);

/* y[rows][width] += table[first + position]. */
struct twp_positions_args {
    enum tw_dtype type;
    void *y;
    const void *table; /* [..][width] */
    int32_t width;
    int64_t first;
    const struct twp_device_batch *batch; /* host */
};
TW_MUST_USE enum tw_status
tw_launch_positions(const struct twp_positions_args *args,
                    struct CUstream_st *stream, struct tw_error *err);

/* As struct tw_norm: y = (offset + weight) normed(x) + bias over each of
 * `groups` equal parts of a row; y may be x. */
struct twp_norm_args {
    enum tw_dtype type;
    enum tw_norm_kind kind; /* not NONE */
    float eps, offset;
    int32_t rows, width, groups; /* groups divides width */
    bool is_per_group;           /* weight and bias are [width], not
                                  * [width / groups] */
    const float *weight, *bias;  /* or NULL */
    void *y;
    const void *x;
};
TW_MUST_USE enum tw_status tw_launch_norm(const struct twp_norm_args *args,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

/* As struct tw_rope, in place on x[rows][heads * head_dim]. */
struct twp_rope_args {
    enum tw_dtype type;
    void *x;
    int32_t heads, head_dim, dims;
    const float *inv_freq; /* [dims / 2] */
    float scale;
    bool is_interleaved;
    const struct twp_device_batch *batch; /* host */
};
TW_MUST_USE enum tw_status tw_launch_rope(const struct twp_rope_args *args,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

/* As struct tw_attention: y and q [rows][heads * head_dim], k and v
 * [rows][kv_heads * head_dim]; causal within each sequence. head_dim up to 256,
 * a multiple of 8. Returns TW_ERR_UNSUPPORTED naming what it can't. */
struct twp_attention_args {
    enum tw_dtype type;
    void *y;
    const void *q, *k, *v;
    int32_t heads, kv_heads, head_dim;
    float scale;
    int64_t window;     /* 0: all */
    float soft_cap;     /* 0: none */
    const float *alibi; /* [heads], or NULL */
    float alibi_bf16;
    const struct twp_device_batch *batch; /* host */
};
TW_MUST_USE enum tw_status
tw_launch_attention(const struct twp_device *device,
                    const struct twp_attention_args *args,
                    struct CUstream_st *stream, struct tw_error *err);

/* The same by Hopper's instructions, where the device's path is TW_CUDA_HOPPER
 * and it takes them: heads of 64, 96 and 128, neither soft cap nor alibi.
 * tw_launch_attention turns to it. */
bool twp_attention_wgmma_takes(const struct twp_device *device,
                               const struct twp_attention_args *args);
TW_MUST_USE enum tw_status
twp_launch_attention_wgmma(const struct twp_device *device,
                           const struct twp_attention_args *args,
                           struct CUstream_st *stream, struct tw_error *err);

/* y[rows][width] = x + scale * part; y may be x or part. */
struct twp_residual_args {
    enum tw_dtype type;
    void *y;
    const void *x, *part;
    int64_t elements;
    float scale;
};
TW_MUST_USE enum tw_status
tw_launch_residual(const struct twp_residual_args *args,
                   struct CUstream_st *stream, struct tw_error *err);

/* y = act(gate) * up, or act(gate) where up is NULL; y may be either. */
struct twp_act_mul_args {
    enum tw_dtype type;
    void *y;
    const void *gate, *up;
    int64_t elements;
    struct tw_activation activation;
};
TW_MUST_USE enum tw_status
tw_launch_act_mul(const struct twp_act_mul_args *args,
                  struct CUstream_st *stream, struct tw_error *err);

/* The loss by chunks of the vocabulary, in ascending order:
 *     z = cap(scale * logit + bias)
 * of columns first .. first + cols - 1, whose running maximum and sum of
 * exponentials stay in `state`. The chunk with first = 0 starts it, the
 * one that reaches vocab writes nll. As one row's sums run in one order, they
 * are the same for every batch, but not for another chunk width. */
struct twp_loss_args {
    const float *logits; /* [rows][stride], products of this chunk, aligned */
    int64_t stride;      /* to 16 bytes: a multiple of 4 */
    int32_t rows;        /* of the batch, from first_row on */
    int32_t first_row;
    int32_t first, cols, vocab;
    const float *bias; /* [vocab] or NULL */
    float scale, soft_cap;
    float *state;          /* [rows][3], the caller's between chunks */
    float *nll;            /* [batch rows]; NaN on a sequence's last row */
    const int32_t *wanted; /* [n_wanted] batch rows whose z are kept, ascending;
                            * or NULL */
    int32_t n_wanted;
    float *kept;                          /* [n_wanted][vocab] */
    const struct twp_device_batch *batch; /* host */
};
TW_MUST_USE enum tw_status tw_launch_loss(const struct twp_loss_args *args,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

/* Product and loss in one, on a device whose path is TW_CUDA_HOPPER: no logits
 * in memory. z as above; a row's sums run over tiles of 256 columns, in one
 * order. k is a multiple of 8. */
struct twp_head_args {
    enum tw_dtype type;
    const struct twp_map *x, *w; /* host; [batch rows][k], [vocab][k] */
    int32_t k, vocab;
    int32_t rows;      /* of the batch, from first_row on; where more follow, */
    int32_t first_row; /* a multiple of TWP_HEAD_ROWS */
    const float *bias; /* [vocab] or NULL */
    float scale, soft_cap;
    void *part; /* tw_head_part_bytes(rows, vocab), aligned to 8 */
    float *nll; /* [batch rows], or NULL; NaN on a sequence's last row */
    const int32_t *wanted; /* as twp_loss_args' */
    int32_t n_wanted;
    float *kept;
    const struct twp_device_batch *batch; /* host */
};
/* Rows of a tile of the product. */
#define TWP_HEAD_ROWS 256
size_t tw_head_part_bytes(int64_t rows, int64_t vocab);
TW_MUST_USE enum tw_status tw_launch_head(const struct twp_device *device,
                                          const struct twp_head_args *args,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
