/* y = x w^T by cuBLASLt: one algorithm for each form (n, k, types, epilogue),
 * used for every m, so that a row's sum runs in one order whatever the batch.
 * It is the heuristic's first for REFERENCE rows that splits no sum among
 * blocks (split-K, stream-K); never chosen by time, so that two runs agree. */
#include <config.h>

#include "kernels/cuda/context.h"

#include "base/memory.h"
#include "kernels/cuda/lt_form.h"

#define WORKSPACE ((size_t)32 << 20)
#define REFERENCE 4096 /* rows */
#define LIST      32   /* algorithms asked for */

struct form {
    struct twp_lt_form lt;
    bool is_added;
    cublasLtMatmulAlgo_t algorithm;
};

struct twp_products {
    cublasLtHandle_t handle;
    void *workspace;
    struct form *form;
    size_t forms, room;
};

enum tw_status twp_products_create(struct twp_products **products,
                                   struct tw_error *err)
{
    struct twp_products *made = tw_calloc(1, sizeof *made);
    if (!made)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status =
        twp_lt_check(cublasLtCreate(&made->handle), "start", err);
    if (status == TW_OK)
        status = twp_device_alloc(&made->workspace, WORKSPACE, err);
    if (status == TW_OK)
        *products = made;
    else
        twp_products_destroy(made);
    return status;
}

void twp_products_destroy(struct twp_products *products)
{
    if (!products)
        return;
    for (size_t i = 0; i < products->forms; i++)
        twp_lt_form_fini(&products->form[i].lt);
    tw_free(products->form);
    if (products->handle)
        cublasLtDestroy(products->handle);
    twp_device_free(products->workspace);
    tw_free(products);
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

/* The greatest power of two up to 256 that divides a row's bytes. */
static uint32_t alignment_of(int64_t bytes)
{
    uint32_t power = 256;
    while (bytes % power != 0)
        power /= 2;
    return power;
}

static enum tw_status ask(const struct twp_products *products,
                          const struct twp_lt_form *f,
                          cublasLtMatmulHeuristicResult_t *list, int *count,
                          struct tw_error *err)
{
    cublasLtMatmulPreference_t wish = NULL;
    size_t bytes = WORKSPACE;
    uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
    uint32_t row_w = alignment_of(f->k * 2);
    uint32_t row_y = alignment_of(f->ld * (f->is_wide ? 4 : 2));
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
    return twp_lt_check(got, "algorithms", err);
}

static enum tw_status choose(const struct twp_products *products,
                             struct form *f, struct tw_error *err)
{
    cublasLtMatmulHeuristicResult_t list[LIST];
    int count = 0;
    enum tw_status status = twp_lt_form_rows(&f->lt, REFERENCE, err);
    if (status == TW_OK)
        status = ask(products, &f->lt, list, &count, err);
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
                              (long long)f->lt.n, (long long)f->lt.k);
}

static cublasLtEpilogue_t epilogue_of(const struct twp_product *p)
{
    return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static bool is_of(const struct form *f, enum tw_dtype type,
                  const struct twp_product *p)
{
    const struct twp_lt_form *lt = &f->lt;
    return lt->type == type && lt->n == p->n && lt->k == p->k &&
           lt->ld == p->ld && lt->is_wide == p->is_wide &&
           lt->epilogue == epilogue_of(p) &&
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
    *f = (struct form){.lt = {.type = type,
                              .n = p->n,
                              .k = p->k,
                              .ld = p->ld,
                              .is_wide = p->is_wide,
                              .epilogue = epilogue_of(p)},
                       .is_added = p->residual != NULL};
    enum tw_status status = twp_lt_form_init(&f->lt, err);
    if (status == TW_OK)
        status = choose(products, f, err);
    if (status == TW_OK)
        products->forms++;
    else
        twp_lt_form_fini(&f->lt);
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
    struct twp_lt_form *lt = &f->lt;
    const float one = 1, beta = f->is_added ? 1 : 0;
    status = twp_lt_form_rows(lt, p->m, err);
    if (status != TW_OK)
        return status;
    cublasStatus_t got = CUBLAS_STATUS_SUCCESS;
    if (p->bias)
        got = cublasLtMatmulDescSetAttribute(lt->op,
                                             CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                             &p->bias, sizeof p->bias);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatmul(products->handle, lt->op, &one, p->w, lt->w, p->x,
                             lt->x, &beta, f->is_added ? p->residual : p->y,
                             lt->y, p->y, lt->y, &f->algorithm,
                             products->workspace, WORKSPACE, cuda->stream);
    return twp_lt_check(got, "a product", err);
}
