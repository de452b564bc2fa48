/* Marks of a backend that computes on the host: points in time. */
#ifndef TW_KERNELS_MARKS_H
#define TW_KERNELS_MARKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Zeroed: no marks. */
struct twp_marks {
    int64_t *ns; /* [capacity] of a monotonic clock; 0: never put */
    size_t capacity;
};

/* What the slots of kernels/ops.h do. Returns TW_OK or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status twp_marks_put(struct twp_marks *marks, int index,
                                         struct tw_error *err);
/* Returns TW_OK, or TW_ERR_MISMATCH for a mark that was never put. */
TW_MUST_USE enum tw_status twp_marks_ns(const struct twp_marks *marks, int from,
                                        int to, double *ns,
                                        struct tw_error *err);
void twp_marks_fini(struct twp_marks *marks);

#endif
