/* The reference row of the operations table, for tests: naive loops, double
 * sums, the formulas of ops.h as they stand. Linked into tests only. */
#ifndef TW_KERNELS_OPS_REF_H
#define TW_KERNELS_OPS_REF_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct tw_ops tw_ops_ref;

#ifdef __cplusplus
}
#endif
#endif
