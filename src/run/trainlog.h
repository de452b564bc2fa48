/* Logs of other trainers: a Hugging Face trainer_state.json (log_history), a
 * wandb CSV export, JSON lines or one JSON array of objects.
 *
 *     tw_trainlog_read("trainer_state.json", &log, &err);
 *     tw_trainlog_store(&log, store, run, &err);     // in a transaction
 *     tw_trainlog_fini(&log);
 *
 * Columns are known by a table of names; what is not in it is listed in
 * `unknown`, never guessed. Files come from strangers: an error is one line
 * that names the file and the row. */
#ifndef TW_RUN_TRAINLOG_H
#define TW_RUN_TRAINLOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values of a step, or of one layer in it. NaN: none. */
enum tw_train_field {
    TW_TRAIN_TOKENS,
    TW_TRAIN_CE,
    TW_TRAIN_LOSS,
    TW_TRAIN_L1,
    TW_TRAIN_L1_COEFFICIENT,
    TW_TRAIN_LR,
    TW_TRAIN_GRAD_NORM,
    TW_TRAIN_STEP_NS,
    TW_TRAIN_TOKENS_PER_MS,
    TW_TRAIN_PEAK_BYTES,
    TW_TRAIN_MEAN_NNZ, /* from here on also by layer */
    TW_TRAIN_MAX_NNZ,
    TW_TRAIN_ALIVE,
    TW_TRAIN_DENSE_ROWS,
    TW_TRAIN_FIELDS
};

struct tw_train_row {
    int64_t step;
    int32_t layer; /* -1: of the whole model */
    int64_t order; /* of the value in the file: later ones win */
    double value[TW_TRAIN_FIELDS];
};

struct tw_trainlog {
    struct tw_train_row *row; /* by step, then layer, each once */
    size_t rows, room;
    int64_t steps, without_step; /* rows of the file that had none */
    int32_t layers;
    struct tw_strbuf unknown; /* "epoch, t" */
};

/* Returns TW_OK, TW_ERR_FORMAT, TW_ERR_NOMEM, or that of reading the file.
 * End with fini, also after an error. */
TW_MUST_USE enum tw_status tw_trainlog_read(const char *path,
                                            struct tw_trainlog *log,
                                            struct tw_error *err);
/* Into training_step_ and training_layer_. A step's mean_nnz and alive are the
 * averages over its layers where the file has none of the whole model. */
TW_MUST_USE enum tw_status tw_trainlog_store(const struct tw_trainlog *log,
                                             struct tw_store *store,
                                             int64_t run, struct tw_error *err);
void tw_trainlog_fini(struct tw_trainlog *log);

#ifdef __cplusplus
}
#endif
#endif
