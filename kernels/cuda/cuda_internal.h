/* What the C files of the cuda backend share. Private to kernels/cuda and its
 * tests.
 *
 * A *layer* (struct tw_ffn) owns its weights on the device, in bf16 or fp16,
 * and their tensor maps; the caller owns the workspace and the counts' block,
 * both sized beforehand, so that running a layer allocates nothing and can be
 * captured into a graph. */
#ifndef TW_KERNELS_CUDA_INTERNAL_H
#define TW_KERNELS_CUDA_INTERNAL_H

#include <stddef.h>

#include "kernels/cuda/launch.h"
#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Slots of a tile: a packed row of up to 25 % stays sparse. */
#define TWP_CUDA_SLOTS 64

struct twp_layer; /* layers.h */

struct tw_ffn {
    struct tw_ffn_desc desc; /* its pointers aren't used after load */
    enum tw_dtype type;      /* of weights, x, residual, h and y */
    bool is_gated, is_applied;
    bool can_pack, is_dense; /* is_dense: by plan, or as it cannot pack */
    struct twp_def apply;    /* where is_applied */
    int32_t d_model;
    int32_t d; /* d_model rounded up to 8: what the kernels see */
    int32_t f, tiles;
    int64_t f_stride;         /* f rounded up to 8: rows of h and of down */
    int32_t slots, row_limit; /* tests take others */
    int variant;              /* of the unpack kernel */
    void *gate, *up;          /* [f][d]; gate NULL: plain */
    void *down, *down_t;      /* [d][f_stride], [f][d]; down_t where can_pack */
    struct twp_layer *layer;  /* whose block has these four, at: or NULL */
    size_t at[4];
    float *gate_bias, *up_bias, *down_bias; /* padded to 256, or NULL */
    struct twp_map gate_map, up_map, down_map;
};

/* The parts of a workspace for up to `rows` rows. */
struct twp_work {
    struct twp_packed packed;
    struct twp_list list_of_h;
    uint8_t *is_routed;
    int32_t *block_routed, *list, *actual;
    void *x, *h;
    void *x_wide, *y_wide; /* [rows][d]; NULL where d is d_model */
    struct twp_parts parts;
};

struct twp_second_call;

/* Where a sparse layer stops: bench times its parts. */
enum twp_until { TWP_UNTIL_DONE, TWP_UNTIL_PACKED, TWP_UNTIL_ROUTED };

struct twp_ffn_call {
    void *y;
    const void *x, *residual; /* residual may be NULL, or y */
    int32_t rows;
    enum twp_until until;
    struct twp_work work;
    struct twp_counts counts;
    const struct twp_second_call *second; /* second.h; NULL: no second pass */
};

/* "cuda: WHAT: ..." where error isn't cudaSuccess. error is a cudaError_t. */
TW_MUST_USE enum tw_status twp_cuda_check(int error, const char *what,
                                          struct tw_error *err);
/* Device memory; free takes NULL. */
TW_MUST_USE enum tw_status twp_device_alloc(void **memory, size_t bytes,
                                            struct tw_error *err);
void twp_device_free(void *memory);

/* "12.3 GiB", "4.0 MiB", for people; text is returned. */
#define TWP_SIZE_TEXT 32
const char *twp_size_text(char text[TWP_SIZE_TEXT], size_t bytes);

/* Round to nearest even; NaN stays NaN, and what is beyond fp16's 65504 becomes
 * Inf. */
uint16_t twp_bf16_of(float value);
uint16_t twp_f16_of(float value);
/* Floats as `type`, TW_BF16 or TW_F16. */
void twp_narrow(uint16_t *out, const float *in, enum tw_dtype type,
                size_t count);

/* weights.c. The matrix on the device as `type`, rows `stride` apart, zeros
 * between; an absent one leaves *out. */
TW_MUST_USE enum tw_status twp_matrix_load(const struct tw_matrix *matrix,
                                           enum tw_dtype type, int64_t stride,
                                           void **out, struct tw_error *err);

/* ffn.c. Checks the description; all but weights. */
TW_MUST_USE enum tw_status twp_ffn_shape(const struct tw_ffn_desc *desc,
                                         enum tw_dtype type, struct tw_ffn *ffn,
                                         struct tw_error *err);
/* Copies the weights (synchronously) as `type`, which is that of every
 * buffer too: TW_BF16 or TW_F16. Returns TW_OK, TW_ERR_MISMATCH
 * for shapes that don't fit together, TW_ERR_UNSUPPORTED for what the kernels
 * can't (naming it) or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status twp_ffn_create(const struct tw_ffn_desc *desc,
                                          enum tw_dtype type,
                                          struct tw_ffn **ffn,
                                          struct tw_error *err);
/* The same in a layer on the host, if it isn't NULL. */
TW_MUST_USE enum tw_status twp_ffn_create_in(const struct tw_ffn_desc *desc,
                                             enum tw_dtype type,
                                             struct twp_layer *layer,
                                             struct tw_ffn **ffn,
                                             struct tw_error *err);
void twp_ffn_destroy(struct tw_ffn *ffn);
/* Bytes of a workspace, and its parts in memory of that many bytes. */
size_t twp_ffn_work_bytes(const struct tw_ffn *ffn, int32_t rows);
void twp_ffn_work_carve(const struct tw_ffn *ffn, int32_t rows, void *memory,
                        struct twp_work *work);
/* Launches the layer's kernels on the stream. */
TW_MUST_USE enum tw_status twp_ffn_run(const struct tw_ffn *ffn,
                                       const struct twp_device *device,
                                       const struct twp_ffn_call *call,
                                       struct CUstream_st *stream,
                                       struct tw_error *err);

/* call.c, for bench.c. What a context has, and the call that its `ffn` makes of
 * a layer over the started batch: workspace, and counts where obs isn't NULL;
 * the caller sets y, x and residual. */
struct twp_cuda_bench; /* bench.c: what it keeps in a context */
struct twp_context {
    const struct twp_device *device;
    struct CUstream_st *stream;
    enum tw_dtype type; /* of buffers and products */
    struct twp_cuda_bench **bench;
};
void twp_context_of(void *ctx, struct twp_context *context);
TW_MUST_USE enum tw_status twp_context_call(void *ctx, const struct tw_ffn *ffn,
                                            const struct tw_probes *probes,
                                            struct tw_layer_obs *obs,
                                            struct twp_ffn_call *call,
                                            struct tw_error *err);
/* bench.c. */
extern const struct tw_bench_ops twp_bench_cuda;
void twp_cuda_bench_destroy(struct twp_cuda_bench *bench);

/* plan.c: the ops row's slots. */
enum tw_status twp_cuda_plan(void *ctx, const struct tw_ffn *ffn,
                             const struct tw_ffn_seen *seen,
                             struct tw_ffn_plan *plan, struct tw_error *err);
enum tw_status twp_cuda_plan_use(void *ctx, struct tw_ffn *ffn,
                                 const struct tw_ffn_plan *plan,
                                 struct tw_error *err);

/* counts.c. The part of a block at *at, which moves on; NULL where memory is,
 * which only measures. */
void *twp_place(char *memory, size_t *at, size_t bytes);
/* The definition as the kernels compare it. */
struct twp_def twp_def_of(const struct tw_active *active);
/* Sets counts' defs and def to those of the probes' different definitions that
 * the layer's own kernels count: up to TWP_DEFS and no share of a row. The
 * others are the second pass's. */
void twp_counts_defs(const struct tw_probes *probes, struct twp_counts *counts);
/* The definition's place, or counts->defs. */
int32_t twp_counts_find(const struct twp_counts *counts, struct twp_def def);
/* Bytes of a counts' block, and its parts for counts->defs definitions. */
size_t twp_cuda_counts_bytes(int32_t rows, int32_t cols, int32_t defs);
void twp_counts_carve(int32_t rows, int32_t cols, void *memory,
                      struct twp_counts *counts);
/* Nothing counted yet; on the stream. */
TW_MUST_USE enum tw_status twp_counts_clear(const struct twp_counts *counts,
                                            int32_t rows, int32_t cols,
                                            struct CUstream_st *stream,
                                            struct tw_error *err);
/* One definition's counts on the host, as in struct twp_counts. */
struct twp_columns {
    const uint32_t *nnz, *fired, *first, *last;
};
void twp_columns_merge(const struct twp_columns *host, int probe,
                       struct tw_layer_obs *obs);
/* Adds a block that was copied to the host (carved there) to the obs; probes
 * that it doesn't count stay. */
void twp_cuda_counts_merge(const struct twp_counts *host,
                           const struct tw_probes *probes,
                           struct tw_layer_obs *obs);

#ifdef __cplusplus
}
#endif
#endif
