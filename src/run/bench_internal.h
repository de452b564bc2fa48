/* What the files of `bench` share: a layer loaded in every form that a backend
 * has of it. Private to src/run. */
#ifndef TW_RUN_BENCH_INTERNAL_H
#define TW_RUN_BENCH_INTERNAL_H

#include "base/batch.h"
#include "base/obs.h"
#include "kernels/bench.h"
#include "run/bench_data.h"
#include "run/bench_ffn.h"
#include "run/energy.h"
#include "run/random.h"

/* In the order in which they are reported. */
enum twp_form {
    TWP_FORM_LIBRARY,   /* dense, by the library */
    TWP_FORM_FUSED,     /* dense, own kernels, nothing counted */
    TWP_FORM_COUNTED,   /* dense as profile runs it */
    TWP_FORM_TWELL,     /* sparse as profile runs it */
    TWP_FORM_UNCOUNTED, /* sparse, nothing counted */
    TWP_FORM_AUTO,      /* as the backend plans it from the first rows */
    TWP_FORM_PRODUCT,   /* the first product, by the library */
    TWP_FORM_PACK,      /* the same, packed */
    TWP_FORM_ROUTE,     /* packed and routed, rows' statistics summed */
    TWP_FORMS
};

#define TWP_INPUTS 8 /* copies of x at most */

struct twp_bench {
    const struct tw_bench_ffn_options *o;
    const struct tw_ops *ops;
    void *ctx;
    struct tw_bench_data *data;
    int64_t rows, elements; /* elements: rows * d_model */
    void *x[TWP_INPUTS];    /* the same rows, past the cache */
    int inputs, next_input;
    bool is_bare; /* no residual: x otherwise */
    void *y, *dense_y;
    struct tw_batch batch;     /* arrays owned */
    int64_t *offset, *numbers; /* numbers: zeros, document and start */
    int32_t *token;
    uint8_t *row_class;
    struct tw_layer_obs obs;
    /* Of one point; NULL between points. */
    struct tw_bench_dense *library;
    struct tw_ffn *twell, *dense, *planned;
    struct tw_ffn_plan plan;
    bool is_there[TWP_FORMS];
    int baseline; /* the form that the others' outputs are compared with */
    /* Times. */
    int repetitions;
    int64_t *ns[TWP_FORMS];   /* [repetitions] */
    int64_t *sorted;          /* [repetitions] */
    double *ratio;            /* [repetitions] */
    struct tw_energy *energy; /* NULL: not measured */
    double idle_watt;
};

/* bench_forms.c. What a form is called; path by backend and ctx. */
void twp_form_describe(const struct twp_bench *b, int form,
                       struct tw_bench_row *row);
/* Loads b->data's layer in every form there is; the planned one runs once. */
TW_MUST_USE enum tw_status twp_forms_load(struct twp_bench *b,
                                          struct tw_error *err);
void twp_forms_free(struct twp_bench *b);
/* Runs a form so often, each time on the next input; *ns by the device's
 * clock. The outputs go to b->y. Counts are in b->obs afterwards, added up
 * over the runs. */
TW_MUST_USE enum tw_status twp_form_run(struct twp_bench *b, int form,
                                        int64_t times, int64_t *ns,
                                        struct tw_error *err);
/* ||y - y_dense|| / ||y_dense|| of one run without residual on poisoned y; the
 * baseline first. NaN for what makes no y. */
TW_MUST_USE enum tw_status twp_form_compare(struct twp_bench *b, int form,
                                            double *rel_error,
                                            struct tw_error *err);
int64_t twp_form_bytes(const struct twp_bench *b, int form);

/* bench_time.c. Fills b->ns of every form, interleaved, then the rows' times
 * and speed-ups; rows in the order of forms that are there. */
TW_MUST_USE enum tw_status twp_bench_time(struct twp_bench *b,
                                          struct tw_error *err);
void twp_bench_spread(struct twp_bench *b, struct tw_bench_point *point);

/* Sorts ns away. mad: the median distance from the median. */
void twp_spread(int64_t *ns, int n, int64_t *median, int64_t *min,
                int64_t *mad);
/* Shuffles order[n]. */
void twp_shuffle(int *order, int n, struct tw_random *random);
/* Median over i of a[i] / b[i], through ratio[n]. */
double twp_median_ratio(const int64_t *a, const int64_t *b, double *ratio,
                        int n);

/* bench_energy.c. Opens the device's counter and measures the idle power; where
 * there is none, says why in cause and leaves *energy as it was. */
TW_MUST_USE enum tw_status twp_energy_open(const struct tw_ops *ops, void *ctx,
                                           struct tw_energy **energy,
                                           double *idle_watt, char *cause,
                                           size_t cause_size,
                                           struct tw_error *err);
/* Millijoules of one run of work that takes so long, over a second of it. */
typedef enum tw_status twp_work(void *arg, int64_t times, struct tw_error *err);
TW_MUST_USE enum tw_status twp_energy_measure(const struct tw_energy *energy,
                                              int64_t ns, twp_work *work,
                                              void *arg, double *mj,
                                              struct tw_error *err);
/* Millijoules a row of a form that takes so long. */
TW_MUST_USE enum tw_status twp_bench_energy(struct twp_bench *b, int form,
                                            int64_t median_ns, double *mj,
                                            struct tw_error *err);

#endif
