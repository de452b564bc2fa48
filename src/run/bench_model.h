/* `bench model`: a checkpoint's whole forward pass, sparse against dense layers
 * of one runner, interleaved, on a batch of text or of random ids.
 *
 *     struct tw_bench_model_options o = {.model = "dir", .backend = "cpu",
 * ...}; struct tw_bench_model m; tw_bench_model(&o, &m, &err);
 *     tw_bench_model_fini(&m);
 */
#ifndef TW_RUN_BENCH_MODEL_H
#define TW_RUN_BENCH_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the feed-forward layers run, all layers alike but for AUTO. */
enum tw_bench_model_form {
    TW_BENCH_DENSE,           /* nothing counted, where the backend can */
    TW_BENCH_DENSE_COUNTED,   /* as profile runs a dense layer */
    TW_BENCH_TWELL_UNCOUNTED, /* as TWELL, where the backend can do that */
    TW_BENCH_TWELL_NO_LOSS,   /* as TWELL, where there is a head, without it */
    TW_BENCH_TWELL,           /* sparse, no row dense but those that overflow */
    TW_BENCH_AUTO,            /* as planned from the first rows, as profile */
    TW_BENCH_MODEL_FORMS
};
/* "dense", "dense-counted", "twell-uncounted", "twell-no-loss", "twell",
 * "auto". */
const char *tw_bench_model_name(enum tw_bench_model_form form);

struct tw_bench_model_options {
    const char *model, *backend;
    int device, threads;      /* threads >= 1 */
    const char *ffn;          /* dense, twell, auto; NULL: each */
    const char *const *files; /* text, or prompt; neither with is_paper */
    int n_files;
    const char *prompt;
    bool is_paper;        /* uniformly random ids, no head, the mean of 50 */
    bool no_loss;         /* no head */
    int ctx;              /* 0: min(2048, the model's limit) */
    int64_t batch_tokens; /* of the one batch; 0: 4096, is_paper: 64 ctx */
    int repetitions;      /* 0: by time */
    bool has_energy;      /* where the device counts it */
    uint64_t seed;        /* of the random ids and of the order of runs */
};

/* Nanoseconds. mad: median distance from the median. */
struct tw_bench_spread {
    int64_t median, min, mad;
};

/* One form. What is not measured: NaN. */
struct tw_bench_model_row {
    enum tw_bench_model_form form;
    struct tw_bench_spread pass; /* the whole forward pass, by the host's clock:
                                  * counts brought to the host included */
    double mean_ns, std_ns;
    double speedup; /* median over the repetitions of the first row's / this */
    double mj_per_token, mj_spread; /* median of the windows; their range */
    double mean_nll;                /* no head: NaN */
    int64_t dense_layers;           /* layers with a dense plan */
    int64_t routed;                 /* rows that ran dense in sparse layers */
    struct tw_bench_spread *layer;  /* [layers] operation ffn, by the backend's
                                     * clock; NULL: the backend has no marks */
    double ffn_share;               /* of a timed pass */
};

struct tw_bench_model {
    /* The model and its input. */
    char name[200], model_type[64], hash[65], activation[64];
    char activation_source[160], weight_dtype[32];
    const char *compute_dtype, *backend, *path; /* static */
    char device_name[300], data_name[300];
    int64_t layers, d_model, d_ff, ctx, tokens, sequences;
    bool is_gated, is_sparse; /* is_sparse: the activation has zeros */
    double *mean_nnz;         /* [layers] of the input, counted */
    double nnz_mean;          /* over the layers */
    int64_t nnz_max;
    /* Times. */
    struct tw_bench_model_row row[TW_BENCH_MODEL_FORMS];
    int n_rows; /* row[0] is the baseline: dense */
    int repetitions, layer_repetitions;
    double idle_watt;       /* NaN: energy isn't measured, and why: */
    char energy_cause[200]; /* or "" */
    int64_t peak_bytes;     /* cpu: of the process; else of the device */
    bool is_device_peak;
};

/* Fills bench, which tw_bench_model_fini frees, whatever is returned: TW_OK;
 * TW_ERR_UNSUPPORTED for what the backend or the model can't, naming it;
 * TW_ERR_USAGE; TW_ERR_NOMEM; what opening the checkpoint and its text
 * gives. */
TW_MUST_USE enum tw_status
tw_bench_model(const struct tw_bench_model_options *options,
               struct tw_bench_model *bench, struct tw_error *err);
void tw_bench_model_fini(struct tw_bench_model *bench);

#ifdef __cplusplus
}
#endif
#endif
