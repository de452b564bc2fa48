/* What every backend checks of a feed-forward layer before it loads it. Shared
 * inside this room. */
#ifndef TW_KERNELS_FFN_DESC_H
#define TW_KERNELS_FFN_DESC_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Matrices that are there have ops.h's shapes and a type of F32, BF16 or F16;
 * up and down are there. Reads desc alone, keeps nothing. Returns TW_OK,
 * TW_ERR_MISMATCH or TW_ERR_UNSUPPORTED naming the matrix. */
TW_MUST_USE enum tw_status twp_ffn_desc_check(const struct tw_ffn_desc *desc,
                                              struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
