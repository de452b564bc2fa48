/* The cpu backend as one that works on its own: what a batch gives is held back
 * until it is collected, and nobody may touch the batch before. Two flights. */
#ifndef TESTS_LATE_OPS_H
#define TESTS_LATE_OPS_H

#include "kernels/ops.h"

/* Where late_ops has no memory for batches of more than late_rows rows. */
enum late_place {
    LATE_NOWHERE,
    LATE_ALLOC, /* of a buffer of more than 128 numbers a row */
    LATE_START,
    LATE_FFN, /* of the second layer */
    LATE_HEAD,
    LATE_SUBMIT,
    LATE_COLLECT,
    LATE_PLACES
};
extern enum late_place late_place;
extern int64_t late_rows;

/* What was asked of it: submitted and collected batches, the most that were in
 * flight at once, trims. */
extern struct late_calls {
    int submits, collects, most, trims;
} late_calls;

/* Named "cpu", for its results are. One context at a time. */
const struct tw_ops *late_ops(void);

#endif
