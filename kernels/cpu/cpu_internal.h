/* What the files of the cpu backend share: its context, the 64-row blocks of
 * the started batch, and weights in their widened form. Private to kernels/cpu
 * and its tests.
 *
 * R1. Every dense product is cut into blocks of TWP_BLOCK rows that start at a
 *     sequence's first row. A sequence's last block is padded with zero rows
 *     inside the call, so that all calls of a product have one shape: OpenBLAS
 *     gives other bits to the same row at another place of a call.
 * R2. BLAS runs on one thread; our threads take whole blocks.
 * R3. What a worker adds up (integers) is merged after the region; nothing a
 *     row computes depends on which worker had it. */
#ifndef TW_KERNELS_CPU_INTERNAL_H
#define TW_KERNELS_CPU_INTERNAL_H

#include <stdint.h>

#include "base/threads.h"
#include "kernels/marks.h"
#include "kernels/ops.h"

#define TWP_BLOCK 64

struct twp_ffn_shared;

struct twp_block {
    int64_t row;      /* first row in the batch */
    int64_t position; /* its place in its sequence, a multiple of TWP_BLOCK */
    int32_t rows;     /* 1 .. TWP_BLOCK */
    int32_t seq;      /* sequence in the batch */
};

/* cos and sin of every (position, frequency) of one rope, made when first
 * asked for and grown with the longest sequence. */
#define TWP_ROPES 4 /* kept at once: a model has one or two */
struct twp_rope_table {
    int64_t half, positions; /* half: dims / 2 frequencies; 0: unused */
    float scale;
    float *inv_freq;         /* [half] a copy, compared on lookup */
    float *cos, *sin;        /* [positions][half] */
};

struct twp_cpu {
    struct tw_threads *threads;
    int workers;
    const struct tw_batch *batch;   /* the started one, else NULL */
    struct twp_block *block;        /* [blocks] of the started batch */
    int64_t blocks;
    size_t block_capacity;
    struct twp_ffn_shared *ffn;     /* of ffn_copy.c, while layers are loaded */
    struct twp_scratch *scratch;    /* [workers] */
    int64_t keep_bytes, kept_bytes; /* budget and use of lasting copies */
    struct tw_weight *transient;    /* list: widened for this layer only */
    struct twp_rope_table rope[TWP_ROPES];
    int next_rope;                  /* the slot that is given up next */
    float *head_chunk;              /* a widened piece of the loss head */
    size_t head_chunk_bytes;
    int64_t clock_ns;               /* when bench's clock started */
    struct twp_marks marks;
    char device[128];
};

/* One matrix: the caller's mapped bytes and, while needed, a float copy. F32
 * matrices are used where they lie. */
struct tw_weight {
    struct tw_matrix matrix;
    float *wide;            /* NULL until first use */
    bool is_kept;           /* wide stays beyond layer_end */
    struct tw_weight *next; /* in twp_cpu.transient */
};

/* The weight as [rows][cols] floats, valid until layer_end. Called outside
 * parallel regions; widens in parallel. */
TW_MUST_USE enum tw_status twp_weight_f32(struct twp_cpu *cpu,
                                          struct tw_weight *weight,
                                          const float **wide,
                                          struct tw_error *err);

/* A vector (norm weight, bias) as floats in worker 0's scratch `slot`, or where
 * it lies if it is F32; NULL where it is absent. Called outside parallel
 * regions; all workers may read it until the slot is used again. */
TW_MUST_USE enum tw_status twp_vector_f32(struct twp_cpu *cpu,
                                          const struct tw_matrix *vector,
                                          int slot, const float **wide,
                                          struct tw_error *err);

/* Widens count elements on the calling thread; `in` needs no alignment. */
void twp_widen(float *out, const void *in, enum tw_dtype dtype, int64_t count);
/* The same on all threads. */
void twp_widen_parallel(struct twp_cpu *cpu, float *out, const void *in,
                        enum tw_dtype dtype, int64_t count);

/* One row of attention's running softmax (softmax.c). */
struct twp_softmax {
    float max, sum; /* over the keys so far; start with -INFINITY, 0 */
};
/* Takes the row's scores against keys [first_key, first_key + keys), of which
 * it may see [from, to); turns them into e^(score - max), 0 where unseen.
 * Returns the factor that what was summed with the earlier max must take. */
float twp_softmax_row(struct twp_softmax *state, float *score, int64_t keys,
                      int64_t from, int64_t to, float soft_cap, float slope,
                      int64_t distance);

/* The longest sequence of the started batch. */
int64_t twp_longest_sequence(const struct twp_cpu *cpu);

void twp_rope_fini(struct twp_cpu *cpu);

/* Worker-private aligned memory of at least `bytes`, contents undefined; each
 * worker has TWP_SCRATCH_SLOTS of them, which grow and stay. NULL without
 * memory. Reserve outside the region with twp_scratch_reserve, so that taking
 * cannot fail inside. */
#define TWP_SCRATCH_SLOTS 6
struct twp_scratch {
    void *memory[TWP_SCRATCH_SLOTS];
    size_t bytes[TWP_SCRATCH_SLOTS];
};
TW_MUST_USE enum tw_status twp_scratch_reserve(struct twp_cpu *cpu, int slot,
                                               size_t bytes,
                                               struct tw_error *err);

/* c[64][n] (row stride ldc) = a[64][k] (row stride lda) b[n][k]^T, one BLAS
 * call of a fixed shape on the calling thread; a's rows past `rows` are taken
 * as zero (copied into pad [64][k]), and only the first `rows` rows of c are
 * written (through out [64][n] when rows < 64). */
void twp_block_product(float *c, int64_t ldc, const float *a, int64_t lda,
                       int rows, const float *b, int64_t n, int64_t k,
                       float *pad, float *out);

/* Slots of the operations table, one subject a file. */
enum tw_status twp_cpu_init(const struct tw_ops_config *config, void **ctx,
                            struct tw_error *err);
void twp_cpu_fini(void *ctx);
const char *twp_cpu_device(void *ctx);
enum tw_status twp_cpu_alloc(void *ctx, int64_t elements, void **buffer,
                             struct tw_error *err);
void twp_cpu_free(void *ctx, void *buffer);
enum tw_status twp_cpu_upload(void *ctx, void *buffer, const float *host,
                              int64_t elements, struct tw_error *err);
enum tw_status twp_cpu_download(void *ctx, float *host, const void *buffer,
                                int64_t elements, struct tw_error *err);
enum tw_status twp_cpu_start(void *ctx, const struct tw_batch *batch,
                             struct tw_error *err);
enum tw_status twp_cpu_finish(void *ctx, struct tw_error *err);
enum tw_status twp_cpu_mark(void *ctx, int index, struct tw_error *err);
enum tw_status twp_cpu_mark_ns(void *ctx, int from, int to, double *ns,
                               struct tw_error *err);
void twp_cpu_layer_end(void *ctx);
enum tw_status twp_cpu_weight_load(void *ctx, const struct tw_matrix *matrix,
                                   struct tw_weight **weight,
                                   struct tw_error *err);
void twp_cpu_weight_free(void *ctx, struct tw_weight *weight);
/* Drops the widened copies that aren't kept. */
void twp_weights_layer_end(struct twp_cpu *cpu);
enum tw_status twp_cpu_embed(void *ctx, void *y, const struct tw_weight *w,
                             float scale, struct tw_error *err);
enum tw_status twp_cpu_positions(void *ctx, void *y, const struct tw_weight *w,
                                 int64_t first, struct tw_error *err);
enum tw_status twp_cpu_norm(void *ctx, void *y, const void *x, int64_t width,
                            const struct tw_norm *norm, struct tw_error *err);
enum tw_status twp_cpu_matmul(void *ctx, void *y, const void *x,
                              const struct tw_weight *w,
                              const struct tw_matrix *bias,
                              const void *residual, struct tw_error *err);
enum tw_status twp_cpu_rope(void *ctx, void *x, int64_t heads, int64_t head_dim,
                            const struct tw_rope *rope, struct tw_error *err);
enum tw_status twp_cpu_attention(void *ctx, void *y, const void *q,
                                 const void *k, const void *v,
                                 const struct tw_attention *attention,
                                 struct tw_error *err);
enum tw_status twp_cpu_add(void *ctx, void *y, const void *x, const void *part,
                           int64_t width, float scale, struct tw_error *err);
enum tw_status twp_cpu_act_mul(void *ctx, void *y, const void *gate,
                               const void *up, int64_t width,
                               const struct tw_activation *activation,
                               struct tw_error *err);
enum tw_status twp_cpu_head_nll(void *ctx, const void *x,
                                const struct tw_weight *w,
                                const struct tw_head *head,
                                struct tw_head_obs *obs, struct tw_error *err);
/* ffn_plan.c */
enum tw_status twp_cpu_plan(void *ctx, const struct tw_ffn *ffn,
                            const struct tw_ffn_seen *seen,
                            struct tw_ffn_plan *plan, struct tw_error *err);
enum tw_status twp_cpu_plan_use(void *ctx, struct tw_ffn *ffn,
                                const struct tw_ffn_plan *plan,
                                struct tw_error *err);
/* ffn.c */
enum tw_status twp_cpu_ffn_load(void *ctx, const struct tw_ffn_desc *desc,
                                struct tw_ffn **ffn, struct tw_error *err);
void twp_cpu_ffn_free(void *ctx, struct tw_ffn *ffn);
enum tw_status twp_cpu_ffn(void *ctx, void *y, const void *x,
                           const void *residual, struct tw_ffn *ffn,
                           const struct tw_probes *probes,
                           struct tw_layer_obs *obs, struct tw_error *err);
/* Called by layer_end: drops what the layer's FFN may not keep. */
void twp_cpu_ffn_layer_end(struct twp_cpu *cpu);

/* bench_cpu.c. */
extern const struct tw_bench_ops twp_bench_cpu;

#endif
