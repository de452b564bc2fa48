/* `bench ffn`: one feed-forward layer on synthetic or recorded rows, the whole
 * TwELL layer (packing, routing, counting) against dense forms, interleaved.
 *
 *     struct tw_bench_ffn_options o = {.backend = "cpu", .rows = 2048, ...};
 *     struct tw_bench_point points[TW_MAX_BENCH];
 *     tw_bench_ffn(&o, points, &err);            // o.n_nnz points
 */
#ifndef TW_RUN_BENCH_FFN_H
#define TW_RUN_BENCH_FFN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_MAX_BENCH       32
#define TW_BENCH_MAX_FORMS 12

struct tw_bench_ffn_options {
    const char *backend, *path; /* path: auto, or kernels by name */
    int device, threads;        /* threads >= 1 */
    int rows, d_model, d_ff;    /* recorded rows set all three anew */
    bool is_plain;
    enum tw_dtype dtype;      /* of the stored weights */
    double nnz[TW_MAX_BENCH]; /* wanted mean non-zeros a row */
    int n_nnz;                /* recorded rows: one point, whatever nnz says */
    const char *data;         /* "uniform", "skewed", or a checkpoint */
    const char *const *files; /* its text, or prompt */
    int n_files;
    const char *prompt;
    int ctx, layer;  /* of recorded rows: 0 and -1 are the defaults */
    int repetitions; /* 0: the backend's own number */
    bool has_energy; /* where the device counts it */
    uint64_t seed;
    char device_name[300];  /* filled */
    char data_name[300];    /* filled: "skewed", "NAME layer 3" */
    char energy_cause[200]; /* filled: why nothing is known, else "" */
};

/* One form of the layer, or of its first product, on a point's rows. Times in
 * nanoseconds of repetitions runs. */
struct tw_bench_row {
    const char *target; /* "ffn": the whole layer; "gate": its first product */
    const char *name;   /* what is computed, bench_forms.c's list */
    const char *path;   /* by which kernels or library */
    bool is_dense;      /* a baseline: the least median of them is `dense` */
    int64_t median, min, mad;
    double speedup;      /* median over the repetitions of dense / this: load
                          * that comes and goes meets both */
    double rel_error;    /* ||y - y_dense|| / ||y_dense|| without residual;
                          * NaN where no y is made */
    double mj_per_token; /* NaN: not measured */
    int64_t peak_bytes;  /* cpu: of the process; cuda: what this form needs on
                          * the device; 0: unknown */
};

struct tw_bench_point {
    double nnz_mean; /* measured */
    int64_t nnz_max;
    int64_t rows, routed; /* routed: of these rows, by the twell form */
    int repetitions;
    double idle_watt;                /* NaN: not measured */
    bool has_plan, is_planned_dense; /* what `auto` chose */
    struct tw_bench_row row[TW_BENCH_MAX_FORMS];
    int n_rows;
};

/* Fills points[n_nnz] and what options says is filled. Returns TW_OK;
 * TW_ERR_UNSUPPORTED for what the backend can't, naming it; TW_ERR_NOMEM; what
 * opening the checkpoint and its text gives. */
TW_MUST_USE enum tw_status tw_bench_ffn(struct tw_bench_ffn_options *options,
                                        struct tw_bench_point *points,
                                        struct tw_error *err);

/* The row of that name, NULL if it was not run. */
const struct tw_bench_row *tw_bench_find(const struct tw_bench_point *point,
                                         const char *target, const char *name);
/* The whole layer's fastest dense form, NULL if there is none. */
const struct tw_bench_row *tw_bench_dense(const struct tw_bench_point *point);

/* The mean nnz at which twell and dense take equally long, by interpolation in
 * log nnz between neighbours of ascending nnz; NaN where none is crossed. */
double tw_bench_break_even(const struct tw_bench_point *points, int n);

#ifdef __cplusplus
}
#endif
#endif
