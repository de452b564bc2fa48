/* A context of the cuda row and what its files do for each other: one compute
 * stream, a second one for copies back, two batches in flight. Private to
 * kernels/cuda and its tests. */
#ifndef TW_KERNELS_CUDA_CONTEXT_H
#define TW_KERNELS_CUDA_CONTEXT_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/launch_model.h"
#include "kernels/cuda/second.h"

#define TWP_FLIGHTS 2

/* Memory that only grows: on the device, or the host's, pinned. */
struct twp_memory {
    void *at;
    size_t bytes;
    bool is_host;
};

/* One call's counts: on the device, and where they come back to. */
struct twp_pending {
    struct twp_memory device, host;
    size_t bytes; /* of this batch */
    int32_t cols;
    struct twp_counts counts; /* its definitions; no pointers */
    struct tw_probes probes;
    struct tw_layer_obs *obs;
    cudaEvent_t event; /* its copy to the host; NULL until there was one */
    bool is_sent;      /* the copy is under way */
    bool is_whole;     /* the call's kernels are launched */
    size_t second_at;  /* the second pass's results, in device and host */
    struct twp_second_wish wish;      /* defs 0: there is none */
    struct twp_memory set, set_value; /* pinned: sets, part after part */
    int64_t set_count;
};

/* The second pass's, whichever batch runs. */
struct twp_second_memory {
    struct twp_memory work, sets;
    cudaEvent_t written, copied; /* sets */
    int64_t part_bytes;          /* of fp32 h at once */
};

/* What one batch leaves behind, until it is collected. */
struct twp_flight {
    const struct tw_batch *batch; /* NULL: free */
    struct twp_memory rows_host, rows_device;
    struct twp_device_batch on_device;
    struct twp_pending *pending;
    size_t pendings, pending_room;
    struct twp_memory nll_device, nll_host;
    float *nll; /* the caller's, or NULL */
    struct twp_memory kept_device, wanted_host, wanted_device;
    float *logits; /* the caller's, or NULL */
    size_t logits_bytes;
    cudaEvent_t done;
};

/* A weight: [rows][cols] of the context's type. */
struct tw_weight {
    void *data; /* NULL: in a layer on the host, at: */
    struct twp_layer *layer;
    size_t offset;
    int64_t rows, cols;
};

/* A small vector of the model's on the device, by its address. */
struct twp_vector {
    const void *host;
    enum tw_dtype from, type; /* type: TW_F32 or the context's */
    int64_t count;
    void *device;
};

struct twp_products;  /* matmul.c */
struct twp_streaming; /* layers.h */

struct twp_cuda {
    struct twp_device device;
    enum tw_dtype type; /* TW_BF16 or TW_F16 */
    char name[300];
    cudaStream_t stream, back;
    struct twp_flight flight[TWP_FLIGHTS];
    int next, oldest, in_flight; /* flights: the next to start, to collect */
    struct twp_flight *now;      /* the started one, else NULL */
    struct twp_memory work, head;
    struct twp_second_memory second;
    struct twp_products *products;
    struct twp_vector *vector;
    size_t vectors, vector_room;
    cudaEvent_t *mark; /* [marks], NULL where none was put */
    size_t marks;
    struct twp_streaming *streaming; /* NULL: all layers are on the device */
    struct twp_layer *loading;       /* where weights go; NULL: to the device */
    struct twp_cuda_bench *bench;    /* NULL until it is asked for */
};

/* buffers.c. At least that many bytes; what the memory held is lost, and the
 * device has passed all work that uses it. TW_ERR_NOMEM leaves it empty. */
TW_MUST_USE enum tw_status twp_memory_grow(struct twp_cuda *cuda,
                                           struct twp_memory *memory,
                                           size_t bytes, struct tw_error *err);
void twp_memory_fini(struct twp_memory *memory);
enum tw_status twp_cuda_alloc(void *ctx, int64_t elements, void **buffer,
                              struct tw_error *err);
void twp_cuda_free(void *ctx, void *buffer);
enum tw_status twp_cuda_upload(void *ctx, void *buffer, const float *host,
                               int64_t elements, struct tw_error *err);
enum tw_status twp_cuda_download(void *ctx, float *host, const void *buffer,
                                 int64_t elements, struct tw_error *err);

/* batch.c. The batch to flight's arrays on the device. */
TW_MUST_USE enum tw_status twp_batch_send(struct twp_cuda *cuda,
                                          struct twp_flight *flight,
                                          struct tw_error *err);

/* flight.c: start, finish and what lies between. */
enum tw_status twp_cuda_start(void *ctx, const struct tw_batch *batch,
                              struct tw_error *err);
enum tw_status twp_cuda_submit(void *ctx, struct tw_error *err);
enum tw_status twp_cuda_collect(void *ctx, struct tw_error *err);
enum tw_status twp_cuda_finish(void *ctx, struct tw_error *err);
enum tw_status twp_cuda_mark(void *ctx, int index, struct tw_error *err);
enum tw_status twp_cuda_mark_ns(void *ctx, int from, int to, double *ns,
                                struct tw_error *err);
/* A layer's counts to the host, behind what is launched by now. */
TW_MUST_USE enum tw_status twp_pending_send(struct twp_cuda *cuda,
                                            struct twp_pending *pending,
                                            struct tw_error *err);
void twp_cuda_trim(void *ctx);
void twp_flights_fini(struct twp_cuda *cuda);

/* call.c: the feed-forward layer. */
enum tw_status twp_cuda_ffn_load(void *ctx, const struct tw_ffn_desc *desc,
                                 struct tw_ffn **ffn, struct tw_error *err);
void twp_cuda_ffn_free(void *ctx, struct tw_ffn *ffn);
/* ring.c. The layer's weights are there for what is launched next. */
TW_MUST_USE enum tw_status
twp_ffn_bring(struct twp_cuda *cuda, struct tw_ffn *ffn, struct tw_error *err);
enum tw_status twp_cuda_ffn(void *ctx, void *y, const void *x,
                            const void *residual, struct tw_ffn *ffn,
                            const struct tw_probes *probes,
                            struct tw_layer_obs *obs, struct tw_error *err);

/* weights.c. */
enum tw_status twp_cuda_weight_load(void *ctx, const struct tw_matrix *matrix,
                                    struct tw_weight **weight,
                                    struct tw_error *err);
void twp_cuda_weight_free(void *ctx, struct tw_weight *weight);
/* Where it is on the device, for what is launched next. */
TW_MUST_USE enum tw_status twp_weight_data(struct twp_cuda *cuda,
                                           const struct tw_weight *weight,
                                           const void **data,
                                           struct tw_error *err);
/* The vector on the device, as `type` (TW_F32 or the context's), the context's;
 * NULL where it is absent. */
TW_MUST_USE enum tw_status twp_vector_of(struct twp_cuda *cuda,
                                         const struct tw_matrix *vector,
                                         enum tw_dtype type, const void **out,
                                         struct tw_error *err);
/* The same of floats. */
TW_MUST_USE enum tw_status twp_floats_of(struct twp_cuda *cuda,
                                         const float *host, int64_t count,
                                         const float **out,
                                         struct tw_error *err);
void twp_vectors_fini(struct twp_cuda *cuda);

/* matmul.c. y[m][ld] = x[m][k] w[n][k]^T (+ bias) (+ residual), by the one
 * algorithm of its form; y is fp32 where is_wide, else the context's type. */
struct twp_product {
    void *y;
    const void *x, *w;
    int64_t m, n, k, ld;
    const void *bias;     /* [n] of the context's type, or NULL */
    const void *residual; /* as y, or y, or NULL */
    bool is_wide;
};
TW_MUST_USE enum tw_status twp_products_create(struct twp_products **products,
                                               struct tw_error *err);
void twp_products_destroy(struct twp_products *products);
TW_MUST_USE enum tw_status twp_multiply(struct twp_cuda *cuda,
                                        const struct twp_product *product,
                                        struct tw_error *err);

/* model.c: the slots around them. */
enum tw_status twp_cuda_matmul(void *ctx, void *y, const void *x,
                               const struct tw_weight *w,
                               const struct tw_matrix *bias,
                               const void *residual, struct tw_error *err);
enum tw_status twp_cuda_embed(void *ctx, void *y, const struct tw_weight *w,
                              float scale, struct tw_error *err);
enum tw_status twp_cuda_positions(void *ctx, void *y, const struct tw_weight *w,
                                  int64_t first, struct tw_error *err);
enum tw_status twp_cuda_norm(void *ctx, void *y, const void *x, int64_t width,
                             const struct tw_norm *norm, struct tw_error *err);
enum tw_status twp_cuda_rope(void *ctx, void *x, int64_t heads,
                             int64_t head_dim, const struct tw_rope *rope,
                             struct tw_error *err);
enum tw_status twp_cuda_attention(void *ctx, void *y, const void *q,
                                  const void *k, const void *v,
                                  const struct tw_attention *attention,
                                  struct tw_error *err);
enum tw_status twp_cuda_add(void *ctx, void *y, const void *x, const void *part,
                            int64_t width, float scale, struct tw_error *err);
enum tw_status twp_cuda_act_mul(void *ctx, void *y, const void *gate,
                                const void *up, int64_t width,
                                const struct tw_activation *activation,
                                struct tw_error *err);

/* head.c. Bytes of its chunk. */
size_t twp_head_bytes(void);
enum tw_status twp_cuda_head_nll(void *ctx, const void *x,
                                 const struct tw_weight *w,
                                 const struct tw_head *head,
                                 struct tw_head_obs *obs, struct tw_error *err);

#endif
