/* A product's form as cuBLASLt describes it: y[m][ld] = x[m][k] w[n][k]^T of
 * 16-bit numbers. What the backend's products (matmul.c) and bench's baselines
 * (baseline.c) share; each chooses its algorithm. Private to kernels/cuda. */
#ifndef TW_KERNELS_CUDA_LT_FORM_H
#define TW_KERNELS_CUDA_LT_FORM_H

#include <cublasLt.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"

struct twp_lt_form {
    enum tw_dtype type; /* of x, w, bias and y: TW_BF16 or TW_F16 */
    int64_t n, k, ld;   /* ld: numbers from row to row of y */
    bool is_wide;       /* y is fp32 */
    cublasLtEpilogue_t epilogue;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t w, x, y; /* x and y: of m rows */
    int64_t m;
};

/* TW_OK, or "cuBLASLt: WHAT: ..." as TW_ERR_NOMEM or TW_ERR_UNSUPPORTED. */
TW_MUST_USE enum tw_status twp_lt_check(cublasStatus_t got, const char *what,
                                        struct tw_error *err);
/* Makes op and w of a form whose other fields down to the epilogue are set, and
 * the rest zero. The caller ends it with twp_lt_form_fini, also after an error.
 */
TW_MUST_USE enum tw_status twp_lt_form_init(struct twp_lt_form *form,
                                            struct tw_error *err);
void twp_lt_form_fini(struct twp_lt_form *form);
/* x and y for m rows from now on. */
TW_MUST_USE enum tw_status twp_lt_form_rows(struct twp_lt_form *form, int64_t m,
                                            struct tw_error *err);

#endif
