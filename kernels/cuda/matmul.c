/* y = x w^T by cuBLASLt: one algorithm for each form (n, k, types, epilogue),
 * used for every m, so that a row's sum runs in one order whatever the batch.
 * It is the heuristic's first for REFERENCE rows that splits no sum among
 * blocks (split-K, stream-K); never chosen by time, so that two runs agree. */
#include <config.h>

#include "kernels/cuda/context.h"

#include "base/memory.h"

#define WORKSPACE ((size_t)32 << 20)
#define REFERENCE 4096 /* rows */
#define LIST      32   /* algorithms asked for */

struct form {
    enum tw_dtype type;
    int64_t n, k, ld;
    bool is_wide, is_biased, is_added;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t w, x, y; /* x and y: of the last m */
    int64_t m;
    cublasLtMatmulAlgo_t algorithm;
};

struct twp_products {
    cublasLtHandle_t handle;
    void *workspace;
    struct form *form;
    size_t forms, room;
};

static enum tw_status check(cublasStatus_t got, const char *what,
                            struct tw_error *err)
{
    if (got == CUBLAS_STATUS_SUCCESS)
        return TW_OK;
    return tw_error_set(err,
                        got == CUBLAS_STATUS_ALLOC_FAILED ? TW_ERR_NOMEM
                                                          : TW_ERR_UNSUPPORTED,
                        "cuBLASLt: %s: %s", what, cublasLtGetStatusName(got));
}

enum tw_status twp_products_create(struct twp_products **products,
                                   struct tw_error *err)
{
    struct twp_products *made = tw_calloc(1, sizeof *made);
    if (!made)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status = check(cublasLtCreate(&made->handle), "start", err);
    if (status == TW_OK)
        status = twp_device_alloc(&made->workspace, WORKSPACE, err);
    if (status == TW_OK)
        *products = made;
    else
        twp_products_destroy(made);
    return status;
}

static void form_fini(struct form *form)
{
    cublasLtMatrixLayout_t layouts[] = {form->x, form->w, form->y};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            cublasLtMatrixLayoutDestroy(layouts[i]);
    if (form->op)
        cublasLtMatmulDescDestroy(form->op);
}

void twp_products_destroy(struct twp_products *products)
{
    if (!products)
        return;
    for (size_t i = 0; i < products->forms; i++)
        form_fini(&products->form[i]);
    tw_free(products->form);
    if (products->handle)
        cublasLtDestroy(products->handle);
    twp_device_free(products->workspace);
    tw_free(products);
}

/* Row-major to cuBLAS's columns: y^T[n][m] = (w^T)^T x^T. */
static enum tw_status describe(struct form *f, struct tw_error *err)
{
    cudaDataType_t type = f->type == TW_F16 ? CUDA_R_16F : CUDA_R_16BF;
    cublasOperation_t turn = CUBLAS_OP_T;
    cublasLtEpilogue_t epilogue =
        f->is_biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    uint64_t n = (uint64_t)f->n, k = (uint64_t)f->k;
    cublasStatus_t got =
        cublasLtMatmulDescCreate(&f->op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatmulDescSetAttribute(f->op, CUBLASLT_MATMUL_DESC_TRANSA,
                                             &turn, sizeof turn);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatmulDescSetAttribute(
            f->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatmulDescSetAttribute(
            f->op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatrixLayoutCreate(&f->w, type, k, n, f->k);
    return check(got, "a product's form", err);
}

/* x and y of m rows. */
static enum tw_status take_rows(struct form *f, int64_t m, struct tw_error *err)
{
    if (f->m == m)
        return TW_OK;
    cudaDataType_t type = f->type == TW_F16 ? CUDA_R_16F : CUDA_R_16BF;
    if (f->x)
        cublasLtMatrixLayoutDestroy(f->x);
    if (f->y)
        cublasLtMatrixLayoutDestroy(f->y);
    f->x = f->y = NULL;
    f->m = 0;
    cublasStatus_t got = cublasLtMatrixLayoutCreate(&f->x, type, (uint64_t)f->k,
                                                    (uint64_t)m, f->k);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatrixLayoutCreate(&f->y, f->is_wide ? CUDA_R_32F : type,
                                         (uint64_t)f->n, (uint64_t)m, f->ld);
    if (got == CUBLAS_STATUS_SUCCESS)
        f->m = m;
    return check(got, "a product's rows", err);
}

/* Does one block alone sum each element? */
static bool is_whole(const cublasLtMatmulAlgo_t *algorithm)
{
    int32_t splits = 0;
    uint32_t scheme = 0;
    return cublasLtMatmulAlgoConfigGetAttribute(
               algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
               sizeof splits, NULL) == CUBLAS_STATUS_SUCCESS &&
           splits <= 1 &&
           cublasLtMatmulAlgoConfigGetAttribute(
               algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
               sizeof scheme, NULL) == CUBLAS_STATUS_SUCCESS &&
           scheme == CUBLASLT_REDUCTION_SCHEME_NONE;
}

/* The greatest power of two up to 256 that divides the address. */
static uint32_t alignment_of(const void *address)
{
    uint32_t bytes = 256;
    while ((uintptr_t)address % bytes != 0)
        bytes /= 2;
    return bytes;
}

static enum tw_status ask(const struct twp_products *products,
                          const struct form *f, const struct twp_product *p,
                          cublasLtMatmulHeuristicResult_t *list, int *count,
                          struct tw_error *err)
{
    cublasLtMatmulPreference_t wish = NULL;
    size_t bytes = WORKSPACE;
    uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
    /* 16 bytes, or less where a row of the model's shapes has less */
    uint32_t row_w = alignment_of((const void *)(uintptr_t)(p->k * 2));
    uint32_t row_y =
        alignment_of((const void *)(uintptr_t)(p->ld * (f->is_wide ? 4 : 2)));
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t size;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &none, sizeof none},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &row_w, sizeof row_w},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &row_w, sizeof row_w},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &row_y, sizeof row_y},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &row_y, sizeof row_y},
    };
    cublasStatus_t got = cublasLtMatmulPreferenceCreate(&wish);
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        if (got == CUBLAS_STATUS_SUCCESS)
            got = cublasLtMatmulPreferenceSetAttribute(
                wish, wishes[i].name, wishes[i].value, wishes[i].size);
    if (got == CUBLAS_STATUS_SUCCESS)
        got =
            cublasLtMatmulAlgoGetHeuristic(products->handle, f->op, f->w, f->x,
                                           f->y, f->y, wish, LIST, list, count);
    if (wish)
        cublasLtMatmulPreferenceDestroy(wish);
    return check(got, "algorithms", err);
}

static enum tw_status choose(const struct twp_products *products,
                             struct form *f, const struct twp_product *p,
                             struct tw_error *err)
{
    cublasLtMatmulHeuristicResult_t list[LIST];
    int count = 0;
    enum tw_status status = take_rows(f, REFERENCE, err);
    if (status == TW_OK)
        status = ask(products, f, p, list, &count, err);
    for (int i = 0; i < count && status == TW_OK; i++)
        if (list[i].state == CUBLAS_STATUS_SUCCESS && is_whole(&list[i].algo)) {
            f->algorithm = list[i].algo;
            return TW_OK;
        }
    return status != TW_OK
               ? status
               : tw_error_set(err, TW_ERR_UNSUPPORTED,
                              "cuBLASLt: no algorithm for a product of %lld "
                              "columns and %lld terms that sums each in one "
                              "order",
                              (long long)p->n, (long long)p->k);
}

static bool is_of(const struct form *f, enum tw_dtype type,
                  const struct twp_product *p)
{
    return f->type == type && f->n == p->n && f->k == p->k && f->ld == p->ld &&
           f->is_wide == p->is_wide && f->is_biased == (p->bias != NULL) &&
           f->is_added == (p->residual != NULL);
}

static enum tw_status make_form(struct twp_products *products,
                                enum tw_dtype type, const struct twp_product *p,
                                struct tw_error *err)
{
    void *array = products->form;
    if (tw_grow(&array, &products->room, products->forms + 1,
                sizeof *products->form) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a product");
    products->form = array;
    struct form *f = &products->form[products->forms];
    *f = (struct form){.type = type,
                       .n = p->n,
                       .k = p->k,
                       .ld = p->ld,
                       .is_wide = p->is_wide,
                       .is_biased = p->bias != NULL,
                       .is_added = p->residual != NULL};
    enum tw_status status = describe(f, err);
    if (status == TW_OK)
        status = choose(products, f, p, err);
    if (status == TW_OK)
        products->forms++;
    else
        form_fini(f);
    return status;
}

enum tw_status twp_multiply(struct twp_cuda *cuda, const struct twp_product *p,
                            struct tw_error *err)
{
    struct twp_products *products = cuda->products;
    size_t i = 0;
    enum tw_status status = TW_OK;
    while (i < products->forms && !is_of(&products->form[i], cuda->type, p))
        i++;
    if (i == products->forms)
        status = make_form(products, cuda->type, p, err);
    if (status != TW_OK)
        return status;
    struct form *f = &products->form[i];
    const float one = 1, beta = f->is_added ? 1 : 0;
    status = take_rows(f, p->m, err);
    cublasStatus_t got = CUBLAS_STATUS_SUCCESS;
    if (status == TW_OK && f->is_biased)
        got = cublasLtMatmulDescSetAttribute(
            f->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias);
    if (status == TW_OK && got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatmul(products->handle, f->op, &one, p->w, f->w, p->x,
                             f->x, &beta, f->is_added ? p->residual : p->y,
                             f->y, p->y, f->y, &f->algorithm,
                             products->workspace, WORKSPACE, cuda->stream);
    return status == TW_OK ? check(got, "a product", err) : status;
}
