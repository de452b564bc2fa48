/* The operations table: all that a transformer's forward pass needs, one row a
 * backend. `ref` is the specification (tests only: naive, double), `cpu` and
 * `cuda` are tested against it.
 *
 *     const struct tw_ops *ops;
 *     tw_ops_find("cpu", &ops, &err);
 *     ops->init(&(struct tw_ops_config){.threads = 2}, &ctx, &err);
 *     ops->weight_load(ctx, &matrix, &w, &err);        // once a model
 *     ops->start(ctx, batch, &err);                    // once a batch
 *     ops->embed(ctx, x, w, 1.0f, &err); ...
 *     ops->finish(ctx, &err);                          // obs valid from here
 *
 * Conventions. An *activation buffer* comes from alloc and holds rows of the
 * started batch, row-major [rows][width], in the backend's compute type (cpu,
 * ref: float). Weights are described by struct tw_matrix, row-major [out][in]
 * as in the checkpoint, and stay the caller's: mapped memory that outlives the
 * weight. So do the vectors given to calls (norms, biases, frequencies): the
 * same address holds the same numbers until trim or fini. Every slot returns
 * TW_OK or fills err; a NULL slot means the backend can't (TW_ERR_UNSUPPORTED
 * by the caller, with the name): never a silent fall-back to another backend.
 *
 * Determinism. A row's result depends on its sequence's rows up to it and on
 * its place in the sequence alone: never on the batch, the threads or the
 * sequence's place in the batch. */
#ifndef TW_KERNELS_OPS_H
#define TW_KERNELS_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/active.h"
#include "base/batch.h"
#include "base/dtype.h"
#include "base/obs.h"
#include "kernels/activation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A stored matrix: row-major [rows][cols], or a vector with rows = 1. data
 * NULL: absent (no bias). */
struct tw_matrix {
    const void *data;
    enum tw_dtype dtype; /* F32, BF16 or F16 */
    int64_t rows, cols;
};

/* Which of the cuda backend's kernels run. */
enum tw_cuda_path {
    TW_CUDA_AUTO,    /* the fastest that the device can run */
    TW_CUDA_HOPPER,  /* compute capability 9.0 */
    TW_CUDA_PORTABLE /* 8.0 and later */
};

struct tw_ops_config {
    int threads;         /* cpu: workers; 0: all cores at hand */
    int device;          /* cuda: device number */
    int64_t keep_bytes;  /* widened weights that may stay in memory between
                          * batches; 0: the backend's default */
    enum tw_cuda_path cuda_path; /* cuda: which kernels */
    enum tw_dtype dtype; /* cuda: TW_BF16 or TW_F16, the type of buffers,
                          * weights and h, for checkpoints of F16 the latter;
                          * 0 (TW_F32): compute_dtype */
};

/* NONE: the model has no norm here; a backend is never asked for it. */
enum tw_norm_kind { TW_NORM_NONE, TW_NORM_RMS, TW_NORM_LAYER };

/* y = (offset + weight) normed(x) + bias, over the whole row or over each of
 * `groups` equal parts of it (heads). */
struct tw_norm {
    enum tw_norm_kind kind;
    float eps;
    float offset;   /* added to every weight: 0, or 1 (Gemma, LayerNorm1P) */
    int64_t groups; /* 0 as 1 */
    /* [1][width / groups], the same for all groups, or one row for each;
     * weight absent: 1; bias may be absent. */
    struct tw_matrix weight, bias;
};

/* Rotary embedding: pair (i, i + dims/2), or with is_interleaved (2i, 2i + 1),
 * turns by position * inv_freq[i]. Frequencies are computed by the model
 * (scaling rules live there). */
struct tw_rope {
    int64_t dims;          /* rotated leading dimensions of a head, even */
    const float *inv_freq; /* [dims/2] */
    float scale;           /* multiplies sin and cos; 1 */
    bool is_interleaved;   /* GPT-J, Cohere; Llama's files are half-split */
};

struct tw_attention {
    int64_t heads, kv_heads, head_dim; /* heads % kv_heads == 0 */
    float scale;                       /* on q.k, usually 1/sqrt(head_dim) */
    int64_t window;                    /* keys seen, itself included; 0: all */
    float soft_cap;                    /* c: c tanh(s/c); 0: none */
    const float *alibi;                /* [heads] slopes, NULL: none */
    float alibi_bf16;                  /* c > 0 (Falcon): slopes are bfloat16,
                                        * and c bf16(slope * bf16(position of
                                        * the key)) is added, not slope *
                                        * distance */
};

enum tw_ffn_path {
    TW_FFN_TWELL, /* sparse, rows with an overflowing tile routed dense */
    TW_FFN_DENSE  /* dense for every row (SiLU, GELU, or a plan's wish) */
};

/* One feed-forward layer. Gated: h = act(x Wg^T + bg) * (x Wu^T + bu), with
 * is_up_activated act(x Wg^T + bg) * act(x Wu^T + bu) (dReLU); plain (gate.data
 * NULL): h = act(x Wu^T + bu); y = h Wd^T + bd. The pattern is act(gate) != 0
 * in both gated forms. */
struct tw_ffn_desc {
    int64_t d_model, d_ff;
    struct tw_activation activation;
    bool is_up_activated;                /* gated only */
    struct tw_matrix gate, up;          /* [d_ff][d_model] */
    struct tw_matrix down;              /* [d_model][d_ff] */
    struct tw_matrix gate_bias, up_bias; /* [1][d_ff], may be absent */
    struct tw_matrix down_bias;         /* [1][d_model], may be absent */
    enum tw_ffn_path path;
    const struct tw_active *apply;      /* --apply: h = 0 where not active, and
                                         * the pattern is this; NULL: none */
};

/* How a layer is computed. Rows with more than row_limit non-zeros in their
 * pattern take the dense path of a sparse layer. */
#define TW_NO_ROW_LIMIT INT32_MAX
struct tw_ffn_plan {
    enum tw_ffn_path path;
    int64_t row_limit; /* 0 .. TW_NO_ROW_LIMIT */
};

/* What a layer did to the rows that a plan is made from: TW_PLAN_ROWS of the
 * corpus, fewer where it is shorter. */
#define TW_PLAN_ROWS 4096
struct tw_ffn_seen {
    int64_t rows, overflow_rows;
    const uint32_t *nnz; /* [rows] of the pattern */
};

/* The layers of a model that are about to be loaded, for a backend whose memory
 * may not hold them all. */
struct tw_layers {
    int64_t count;
    /* What each is shaped like: the matrices that weight_load gets, and the
     * feed-forward layer. */
    const struct tw_matrix *const *matrix;
    int matrices;
    const struct tw_ffn_desc *ffn;
    int64_t rows;         /* of the batches to come; 0: unknown */
    int64_t row_elements; /* of a row, in all buffers that will be asked for */
};

/* What to count: definitions (the first is the primary) and where. */
struct tw_probes {
    int count;
    const struct tw_active *active; /* [count] */
};

/* Loss head: logits = x W^T (+ bias), in chunks of the vocabulary that are
 * never all in memory. */
struct tw_head {
    struct tw_matrix bias;       /* [1][vocab], may be absent */
    float soft_cap;              /* c tanh(z/c); 0: none */
    float scale;                 /* multiplies the logits; 1 */
    int64_t logit_rows;          /* rows whose logits are wanted, usually 0 */
    const int64_t *logit_row;    /* [logit_rows] */
    float *logits;               /* [logit_rows][vocab] host memory */
};

struct tw_weight;    /* a backend's form of one matrix */
struct tw_ffn;       /* a backend's form of one feed-forward layer */
struct tw_bench_ops; /* kernels/bench.h */

struct tw_ops {
    const char *name;

    /* Life. probe: TW_OK if this machine can run the backend, else the reason
     * in err. fini takes NULL. */
    enum tw_status (*probe)(struct tw_error *err);
    enum tw_status (*init)(const struct tw_ops_config *config, void **ctx,
                           struct tw_error *err);
    void (*fini)(void *ctx);

    /* "OpenBLAS SkylakeX, kernels v4", the processor type in which
     * results may differ, and the type products are computed in unless the
     * config names another ("float32"): static or owned by ctx. */
    const char *(*device)(void *ctx);
    const char *compute_dtype;
    /* Heeds the config's dtype TW_F16: products are computed in float16. */
    bool has_f16;

    /* Activation buffers: elements of the compute type. */
    enum tw_status (*alloc)(void *ctx, int64_t elements, void **buffer,
                            struct tw_error *err);
    void (*free)(void *ctx, void *buffer);
    /* Copies between host floats and a buffer, for tests and --compare. */
    enum tw_status (*upload)(void *ctx, void *buffer, const float *host,
                             int64_t elements, struct tw_error *err);
    enum tw_status (*download)(void *ctx, float *host, const void *buffer,
                               int64_t elements, struct tw_error *err);

    /* Weights. The matrix's memory must outlive the weight. */
    enum tw_status (*weight_load)(void *ctx, const struct tw_matrix *matrix,
                                  struct tw_weight **weight,
                                  struct tw_error *err);
    void (*weight_free)(void *ctx, struct tw_weight *weight);
    enum tw_status (*ffn_load)(void *ctx, const struct tw_ffn_desc *desc,
                               struct tw_ffn **ffn, struct tw_error *err);
    void (*ffn_free)(void *ctx, struct tw_ffn *ffn);
    /* Before the weights of layer `number` are loaded, 0 to count - 1 in this
     * order, after all others': what is loaded from here to the next such call
     * is that layer's. A backend may keep it outside of the device's memory and
     * bring it there for each batch; such weights are good for matmul and ffn
     * alone, in any order, fastest layer by layer. TW_ERR_NOMEM says how much
     * would be needed. NULL: the backend keeps all weights at hand. */
    enum tw_status (*layer_load)(void *ctx, const struct tw_layers *layers,
                                 int64_t number, struct tw_error *err);
    /* Where the layers are, for the user: "12 of 28 layers resident, the others
     * streamed, 9.80 GiB a batch", owned by ctx; NULL: all at hand. */
    const char *(*weights)(void *ctx);
    /* How the layer is best computed: a function of its shapes and types, the
     * device's type and the rows seen, which ran as it was loaded. A layer
     * loaded as TW_FFN_DENSE stays so. */
    enum tw_status (*plan)(void *ctx, const struct tw_ffn *ffn,
                           const struct tw_ffn_seen *seen,
                           struct tw_ffn_plan *plan, struct tw_error *err);
    /* From the next ffn on (not between start and finish). TW_ERR_MISMATCH for
     * TW_FFN_TWELL on a layer loaded as TW_FFN_DENSE. */
    enum tw_status (*plan_use)(void *ctx, struct tw_ffn *ffn,
                               const struct tw_ffn_plan *plan,
                               struct tw_error *err);

    /* The batch all following calls are about, until finish. It and every obs
     * given stay the caller's and untouched by him until finish returns. */
    enum tw_status (*start)(void *ctx, const struct tw_batch *batch,
                            struct tw_error *err);
    enum tw_status (*finish)(void *ctx, struct tw_error *err);
    /* Batches in flight, where a backend computes while its caller goes on:
     * submit ends the batch's calls as finish does, but returns at once;
     * collect waits until the oldest batch submitted is done and its obs, nll
     * and logits are valid. At most `flights` may be submitted and not yet
     * collected; buffers may be used for the next batch at once, and freed when
     * all are collected. A batch's arrays and layer obs stay untouched until
     * it is collected; of the other structs given (head, its obs, probes) only
     * the arrays that they point to. A batch in which a call failed is
     * submitted and collected all the same, its results are nobody's; one whose
     * submit or collect fails is in flight no more. NULL and 0: finish alone,
     * which is submit and collect. */
    enum tw_status (*submit)(void *ctx, struct tw_error *err);
    enum tw_status (*collect)(void *ctx, struct tw_error *err);
    int flights;
    /* Marks, for timing parts of a batch: mark records point `index` (0 to a
     * few thousand) in the order of the device's work, between start and
     * finish (or submit), without waiting; put again, it moves. mark_ns, after
     * that finish (or collect), gives the nanoseconds between two of them, as
     * the device's clock has it; TW_ERR_MISMATCH for one that was never put.
     * What marks cost is theirs: they never change an output bit. A batch in
     * flight shares them with the next, so with marks a caller keeps one in
     * flight. Both or neither are NULL. */
    enum tw_status (*mark)(void *ctx, int index, struct tw_error *err);
    enum tw_status (*mark_ns)(void *ctx, int from, int to, double *ns,
                              struct tw_error *err);
    /* "This layer's weights are done for this batch": copies beyond
     * keep_bytes are dropped. */
    void (*layer_end)(void *ctx);
    /* Between batches, none in flight: memory that was made for a batch's size
     * and not asked for by alloc is given back; smaller batches follow a
     * TW_ERR_NOMEM, after which a ctx is as good as before. NULL: there is none
     * worth it. */
    void (*trim)(void *ctx);

    /* y[rows][w.cols] = scale * w[token]; */
    enum tw_status (*embed)(void *ctx, void *y, const struct tw_weight *w,
                            float scale, struct tw_error *err);
    /* y[rows][w.cols] += w[first + position], position = place in sequence. */
    enum tw_status (*positions)(void *ctx, void *y, const struct tw_weight *w,
                                int64_t first, struct tw_error *err);
    /* y = norm(x), width columns; y may be x. */
    enum tw_status (*norm)(void *ctx, void *y, const void *x, int64_t width,
                           const struct tw_norm *norm, struct tw_error *err);
    /* y[rows][w.rows] = x[rows][w.cols] w^T (+ bias) (+ residual); residual may
     * be y. */
    enum tw_status (*matmul)(void *ctx, void *y, const void *x,
                             const struct tw_weight *w,
                             const struct tw_matrix *bias, const void *residual,
                             struct tw_error *err);
    /* In place on x[rows][heads * head_dim]; position = place in sequence. */
    enum tw_status (*rope)(void *ctx, void *x, int64_t heads, int64_t head_dim,
                           const struct tw_rope *rope, struct tw_error *err);
    /* y[rows][heads*head_dim]; q likewise, k and v [rows][kv_heads*head_dim];
     * causal within each sequence. */
    enum tw_status (*attention)(void *ctx, void *y, const void *q,
                                const void *k, const void *v,
                                const struct tw_attention *attention,
                                struct tw_error *err);
    /* y[rows][width] = x + scale * part; y may be x or part. */
    enum tw_status (*add)(void *ctx, void *y, const void *x, const void *part,
                          int64_t width, float scale, struct tw_error *err);
    /* y = act(gate) * up, or act(gate) where up is NULL; [rows][width]. */
    enum tw_status (*act_mul)(void *ctx, void *y, const void *gate,
                              const void *up, int64_t width,
                              const struct tw_activation *activation,
                              struct tw_error *err);
    /* y[rows][d_model] = residual + FFN(x), counting into obs (already reset,
     * probes as many as obs has). Counting never changes an output bit. */
    enum tw_status (*ffn)(void *ctx, void *y, const void *x,
                          const void *residual, struct tw_ffn *ffn,
                          const struct tw_probes *probes,
                          struct tw_layer_obs *obs, struct tw_error *err);
    /* Fills obs->nll if not NULL, and the wanted logits. */
    enum tw_status (*head_nll)(void *ctx, const void *x,
                               const struct tw_weight *w,
                               const struct tw_head *head,
                               struct tw_head_obs *obs, struct tw_error *err);

    /* What `bench` asks of it beside all this; NULL: it can't be timed. */
    const struct tw_bench_ops *bench;
};

extern const struct tw_ops tw_ops_cpu;

/* compute_dtype as a context of that config's dtype has it. Static. */
const char *tw_ops_compute_dtype(const struct tw_ops *ops, enum tw_dtype dtype);

/* "auto", "hopper" or "portable"; TW_ERR_USAGE names another. */
TW_MUST_USE enum tw_status tw_cuda_path_parse(const char *text,
                                              enum tw_cuda_path *path,
                                              struct tw_error *err);

/* The backend of that name ("cpu", "cuda"; "auto": cuda where there is a device
 * for it, else cpu). Returns TW_OK, or TW_ERR_UNSUPPORTED with the reason.
 * Static. */
TW_MUST_USE enum tw_status tw_ops_find(const char *name,
                                       const struct tw_ops **ops,
                                       struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
