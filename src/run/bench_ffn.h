/* `bench ffn`: one feed-forward layer on synthetic rows, the whole TwELL layer
 * (packing, routing, counting) against the fastest dense form, interleaved. */
#ifndef TW_RUN_BENCH_FFN_H
#define TW_RUN_BENCH_FFN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_MAX_BENCH 32

struct tw_bench_ffn_options {
    const char *backend;
    int threads; /* 0: all cores */
    int rows, d_model, d_ff;
    bool is_plain;
    enum tw_dtype dtype;      /* of the stored weights */
    double nnz[TW_MAX_BENCH]; /* wanted mean non-zeros a row */
    int n_nnz;
    int repetitions;
    uint64_t seed;
    char device[128]; /* filled: the processor type */
};

/* One measurement: the same rows by both paths. Times in nanoseconds. */
struct tw_bench_ffn_result {
    double nnz_mean; /* measured */
    int64_t nnz_max, dense_rows;
    int64_t dense_median, dense_min, dense_mad;
    int64_t twell_median, twell_min, twell_mad;
    double speedup;   /* median over pairs of neighbouring runs of dense /
                       * twell: load that comes and goes meets both */
    double rel_error;   /* ||twell - dense|| / ||dense||, FFN alone */
    int64_t peak_bytes; /* of the process */
};

/* Fills results[n_nnz] and options->device. Source of the synthetic gate: x has
 * a constant component, W_g's weight for it is sized so that the wanted share
 * of pre-activations is positive; every neuron equally likely. */
TW_MUST_USE enum tw_status tw_bench_ffn(struct tw_bench_ffn_options *options,
                                        struct tw_bench_ffn_result *results,
                                        struct tw_error *err);

/* The mean nnz at which both take equally long, by interpolation in log nnz
 * between neighbours of ascending nnz; NaN where none is crossed. */
double tw_bench_break_even(const struct tw_bench_ffn_result *results, int n);

#ifdef __cplusplus
}
#endif
#endif
