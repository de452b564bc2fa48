/* What the files of `bench model` share. Private to src/run. */
#ifndef TW_RUN_BENCH_MODEL_INTERNAL_H
#define TW_RUN_BENCH_MODEL_INTERNAL_H

#include "run/batch_copy.h"
#include "run/bench_internal.h"
#include "run/bench_model.h"
#include "run/job.h"

struct twp_model_bench {
    const struct tw_bench_model_options *o;
    struct tw_bench_model *to;
    struct tw_profile_options text; /* of the job, which points to it */
    struct tw_job *job;             /* model, ops, runner; of text also that */
    struct twp_batch_copy input;
    struct tw_layer_obs *obs; /* [layers] */
    struct tw_head_obs head;  /* nll NULL: no head */
    bool is_there[TW_BENCH_MODEL_FORMS];
    int baseline;
    struct tw_ffn_plan *plans[TW_BENCH_MODEL_FORMS]; /* [layers] each */
    int form;                                        /* set up in the runner */
    int64_t *ns[TW_BENCH_MODEL_FORMS];               /* [repetitions] */
    int64_t *layer_ns[TW_BENCH_MODEL_FORMS]; /* [layers][layer_repetitions] */
    double ffn_ns[TW_BENCH_MODEL_FORMS];     /* sums over timed passes */
    double all_ns[TW_BENCH_MODEL_FORMS];
    struct tw_layer_ns *times; /* [layers] */
    double *ratio;             /* [repetitions] */
    struct tw_energy *energy;  /* NULL: not measured */
};

/* bench_model_input.c. Opens model and backend, and makes the batch. */
TW_MUST_USE enum tw_status twp_model_bench_open(struct twp_model_bench *b,
                                                struct tw_error *err);

/* bench_model_forms.c. Which forms there are, their plans; fills what the
 * input's non-zeros are. */
TW_MUST_USE enum tw_status twp_model_bench_plan(struct twp_model_bench *b,
                                                struct tw_error *err);
/* Does a pass of the form count? */
bool twp_is_counted(enum tw_bench_model_form form);
/* Does it run the head? */
bool twp_has_loss(const struct twp_model_bench *b,
                  enum tw_bench_model_form form);
/* One pass; *ns by the host's clock. */
TW_MUST_USE enum tw_status twp_model_bench_pass(struct twp_model_bench *b,
                                                int form, int64_t *ns,
                                                struct tw_error *err);

/* bench_model_time.c. Fills to->row. */
TW_MUST_USE enum tw_status twp_model_bench_time(struct twp_model_bench *b,
                                                struct tw_error *err);
/* bench_model_energy.c. Of each row, where the device counts it. */
TW_MUST_USE enum tw_status twp_model_bench_energy(struct twp_model_bench *b,
                                                  struct tw_error *err);

#endif
