/* The second pass of a layer: definitions that need a row's h as a whole (topp,
 * topk), magnitudes, active sets; also definitions beyond those that the
 * layer's own kernels count. Only where one is asked for. Private to
 * kernels/cuda and its tests.
 *
 *     twp_second_defs     what there is to do
 *     twp_second_take     its memory, in the context and in the batch's pending
 *     twp_second_part     dense rows are hidden in parts, whose fp32 h the
 *     twp_second_rows     ... kernels then see; once for the rows in lists too
 *     twp_second_end      behind the layer
 *     twp_second_merge    when the batch is collected
 *
 * The rows' bits and the first pass's counts are the same with it and without.
 *
 * How many neurons are active is known to the device alone: with active sets
 * the host waits for that number, part after part, before their values are
 * written. Without them nothing waits. */
#ifndef TW_KERNELS_CUDA_SECOND_H
#define TW_KERNELS_CUDA_SECOND_H

#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/launch_second.h"

/* Bytes of fp32 h and act(gate) at once; tests take less. */
#define TWP_SECOND_BYTES (INT64_C(256) << 20)
/* A part's rows are a multiple of it: whole tiles of the products. */
#define TWP_SECOND_STEP 128

struct twp_cuda;
struct twp_pending;

/* What is wanted beyond the layer's own counts. */
struct twp_second_wish {
    int32_t defs; /* with magnitudes or sets the first is the primary */
    struct twp_second_def def[TWP_SECOND_DEFS];
    bool has_magnitudes, has_sets;
};

/* A call's part in it. Memory is the device's. */
struct twp_second_call {
    struct twp_second to;             /* definitions as asked for */
    struct twp_magnitudes magnitudes; /* abs_sum NULL: not wanted */
    int64_t *start;                   /* [rows + 1] of sets, NULL: not wanted */
    int32_t part;                     /* rows that h has room for */
    float *h, *gate;        /* [part][f_stride]; gate NULL: not looked at */
    float *listed_gate;     /* [rows][list's room], or NULL */
    int32_t *list, *actual; /* [rows], [parts] */
    struct twp_cuda *cuda;
    struct twp_pending *pending;
};

/* second.c. What is wanted; no definitions: nothing. TW_ERR_UNSUPPORTED names
 * the definition that is one too many. */
TW_MUST_USE enum tw_status twp_second_defs(const struct tw_probes *probes,
                                           const struct tw_layer_obs *obs,
                                           const struct twp_counts *counts,
                                           struct twp_second_wish *wish,
                                           struct tw_error *err);
int32_t twp_second_find(const struct twp_second_wish *wish,
                        const struct tw_active *active);
/* The definition as the kernels compare h and act(gate) of such rows. */
struct twp_def twp_second_rule(const struct tw_ffn *ffn, struct twp_def def,
                               bool is_listed);
/* Is act(gate) looked at, of rows in lists or of dense ones? */
bool twp_second_needs_gate(const struct tw_ffn *ffn,
                           const struct twp_second_wish *wish, bool is_listed);
/* Bytes of what comes back to the host, a multiple of 8, and its parts; what
 * starts as all ones stands first, up to *ones. */
size_t twp_second_carve(int32_t rows, int32_t cols,
                        const struct twp_second_wish *wish, char *memory,
                        struct twp_second_call *call, size_t *ones);

/* second_run.c. Of a context; fini takes one that init wasn't called for. */
TW_MUST_USE enum tw_status twp_second_init(struct twp_cuda *cuda,
                                           struct tw_error *err);
void twp_second_fini(struct twp_cuda *cuda);
/* Memory for the call; to.skip and results are set by the caller.
 */
TW_MUST_USE enum tw_status
twp_second_take(struct twp_cuda *cuda, const struct tw_ffn *ffn, int32_t rows,
                const struct twp_second_wish *wish,
                struct twp_second_call *call, struct tw_error *err);
/* In how many parts dense rows are hidden, and which rows the i-th has. */
int32_t twp_second_parts(const struct twp_second_call *call,
                         const struct twp_rows *rows);
TW_MUST_USE enum tw_status twp_second_divide(const struct twp_second_call *call,
                                             const struct twp_rows *rows,
                                             struct CUstream_st *stream,
                                             struct tw_error *err);
struct twp_rows twp_second_part(const struct twp_second_call *call,
                                const struct twp_rows *rows, int32_t i);
/* The part's rows, whose h is in call->h; with a list those in it, whose
 * act(gate) is in packed. */
TW_MUST_USE enum tw_status
twp_second_rows(const struct twp_second_call *call, const struct tw_ffn *ffn,
                const struct twp_rows *rows, const struct twp_list *list,
                const struct twp_packed *packed, struct CUstream_st *stream,
                struct tw_error *err);
TW_MUST_USE enum tw_status twp_second_end(const struct twp_second_call *call,
                                          struct CUstream_st *stream,
                                          struct tw_error *err);

/* second_back.c. The sets of those rows to the pending's pinned memory. */
TW_MUST_USE enum tw_status twp_second_sets(const struct twp_second_call *call,
                                           const struct twp_second *to,
                                           const struct twp_second_h *h,
                                           struct tw_error *err);
/* Adds a block that was copied to the host, and the sets, to the pending's obs.
 * TW_ERR_OVERFLOW where a neuron's sum of |h| is beyond 64 bits. */
TW_MUST_USE enum tw_status twp_second_merge(const struct twp_pending *pending,
                                            char *host, struct tw_error *err);

#endif
