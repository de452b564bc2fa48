/* The layer and the rows that `bench ffn` times: synthetic with planted
 * firing rates, or a checkpoint's with the rows it met in a text.
 *
 *     tw_bench_data_make(&shape, &data, &err);
 *     tw_bench_data_plant(&data, rate);        // once a point
 *     ops->ffn_load(ctx, &data.desc, &ffn, &err); ...
 *     tw_bench_data_fini(&data);
 */
#ifndef TW_RUN_BENCH_DATA_H
#define TW_RUN_BENCH_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_bench_shape {
    int64_t rows, d_model, d_ff;
    bool is_plain;
    enum tw_dtype dtype; /* of the stored weights: F32, BF16 or F16 */
    int threads;         /* that make the numbers, >= 1; they don't change
                          * them */
    uint64_t seed;
};

/* Which rows of which checkpoint. */
struct tw_bench_source {
    const char *model;        /* as profile -m */
    const char *const *files; /* or prompt; as profile -f and -p */
    int n_files;
    const char *prompt;
    int ctx;       /* 0: min(2048, the model's limit) */
    int64_t layer; /* -1: the middle one */
    int64_t rows;  /* at most */
    int threads;
};

struct tw_job; /* run/job.h */

struct tw_bench_data {
    struct tw_ffn_desc desc; /* points into the owned or the model's memory */
    int64_t rows, layer;     /* layer -1: synthetic */
    float *x;                /* [rows][d_model] */
    void *gate, *up, *down;  /* synthetic weights, else NULL */
    struct tw_job *job;      /* of recorded rows: holds the model; else NULL */
};

/* Normal weights of unit gain; x is normal but for its last component, which
 * is 1, so that a neuron's weight for that sets how often it fires. Returns
 * TW_OK or TW_ERR_NOMEM; free with tw_bench_data_fini. */
TW_MUST_USE enum tw_status
tw_bench_data_make(const struct tw_bench_shape *shape,
                   struct tw_bench_data *data, struct tw_error *err);
/* Neuron n's pre-activation is then positive with probability rate[n] (0:
 * never), as nearly as the stored type can say. Synthetic data only. */
void tw_bench_data_plant(struct tw_bench_data *data, const double *rate);

/* Runs the checkpoint on the cpu backend over the text and keeps the input of
 * that layer's feed-forward part, as many rows as there are up to
 * source->rows; name says which: "sparselm-17m layer 3". Returns TW_OK;
 * TW_ERR_UNSUPPORTED for an activation without zeros; what opening model,
 * tokenizer and text gives. */
TW_MUST_USE enum tw_status
tw_bench_data_record(const struct tw_bench_source *source,
                     struct tw_bench_data *data, char *name, size_t name_size,
                     struct tw_error *err);

void tw_bench_data_fini(struct tw_bench_data *data);

#ifdef __cplusplus
}
#endif
#endif
