/* Row-major to cuBLAS's columns: y^T[n][m] = (w^T)^T x^T. */
#include <config.h>

#include "kernels/cuda/lt_form.h"

enum tw_status twp_lt_check(cublasStatus_t got, const char *what,
                            struct tw_error *err)
{
    if (got == CUBLAS_STATUS_SUCCESS)
        return TW_OK;
    return tw_error_set(err,
                        got == CUBLAS_STATUS_ALLOC_FAILED ? TW_ERR_NOMEM
                                                          : TW_ERR_UNSUPPORTED,
                        "cuBLASLt: %s: %s", what, cublasLtGetStatusName(got));
}

static cudaDataType_t type_of(enum tw_dtype type)
{
    return type == TW_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

enum tw_status twp_lt_form_init(struct twp_lt_form *f, struct tw_error *err)
{
    cudaDataType_t type = type_of(f->type);
    cublasOperation_t turn = CUBLAS_OP_T;
    cublasStatus_t got =
        cublasLtMatmulDescCreate(&f->op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatmulDescSetAttribute(f->op, CUBLASLT_MATMUL_DESC_TRANSA,
                                             &turn, sizeof turn);
    if (got == CUBLAS_STATUS_SUCCESS)
        got =
            cublasLtMatmulDescSetAttribute(f->op, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                           &f->epilogue, sizeof f->epilogue);
    if (got == CUBLAS_STATUS_SUCCESS && f->epilogue == CUBLASLT_EPILOGUE_BIAS)
        got = cublasLtMatmulDescSetAttribute(
            f->op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatrixLayoutCreate(&f->w, type, (uint64_t)f->k,
                                         (uint64_t)f->n, f->k);
    return twp_lt_check(got, "a product's form", err);
}

static void drop_rows(struct twp_lt_form *f)
{
    if (f->x)
        cublasLtMatrixLayoutDestroy(f->x);
    if (f->y)
        cublasLtMatrixLayoutDestroy(f->y);
    f->x = f->y = NULL;
    f->m = 0;
}

void twp_lt_form_fini(struct twp_lt_form *f)
{
    drop_rows(f);
    if (f->w)
        cublasLtMatrixLayoutDestroy(f->w);
    if (f->op)
        cublasLtMatmulDescDestroy(f->op);
    f->w = NULL;
    f->op = NULL;
}

enum tw_status twp_lt_form_rows(struct twp_lt_form *f, int64_t m,
                                struct tw_error *err)
{
    if (f->m == m)
        return TW_OK;
    drop_rows(f);
    cublasStatus_t got = cublasLtMatrixLayoutCreate(
        &f->x, type_of(f->type), (uint64_t)f->k, (uint64_t)m, f->k);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatrixLayoutCreate(
            &f->y, f->is_wide ? CUDA_R_32F : type_of(f->type), (uint64_t)f->n,
            (uint64_t)m, f->ld);
    if (got == CUBLAS_STATUS_SUCCESS)
        f->m = m;
    return twp_lt_check(got, "a product's rows", err);
}
