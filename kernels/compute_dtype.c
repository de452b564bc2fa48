/* The number type of a context's products, as runs record it. */
#include <config.h>

#include "kernels/ops.h"

const char *tw_ops_compute_dtype(const struct tw_ops *ops, enum tw_dtype dtype)
{
    return ops->has_f16 && dtype == TW_F16 ? "float16" : ops->compute_dtype;
}
