/* One golden checkpoint on one backend, compared with its stored answers. */
#ifndef TESTS_GOLDEN_RUN_H
#define TESTS_GOLDEN_RUN_H

#include "kernels/ops.h"
#include "load/safetensors.h"
#include "model/model.h"

/* The golden at hand; one at a time. */
struct golden {
    struct tw_model *model;
    struct tw_tensors oracle;
    int64_t seqs, length, rows; /* rows = seqs * length */
};

/* Opens the checkpoint in `folder` and the answers in `answers`. On an error
 * of the model nothing is open; other faults fail the test. */
enum tw_status golden_open(const char *folder, const char *answers,
                           struct golden *golden, struct tw_error *err);
void golden_close(struct golden *golden);

/* Runs it and compares: logits, losses, l1, and counts, which may differ
 * by the oracle's `near`, where it has one. */
void golden_check(const struct golden *golden, const struct tw_ops *ops);

#endif
