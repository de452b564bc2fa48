/* cuBLASLt's products. A product's form (shape, type, epilogue) is looked up in
 * a small table; where it is new, the heuristic's list is tried on the
 * product's own operands and the fastest stays. Trials are for a yardstick:
 * layers of the backend never choose by time. */
#include <config.h>

#include "kernels/cuda/bench.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "base/memory.h"
#include "kernels/cuda/cuda_internal.h"

#define WORKSPACE ((size_t)64 << 20)
#define LIST      16 /* algorithms that are tried */
#define TRIES     3  /* timed runs of each, after one that isn't */
#define FORMS     16

/* One form and how it is run. */
struct form {
    enum tw_dtype type;
    int64_t m, n, k;
    bool is_rectified, is_added;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t x, w, y;
    cublasLtMatmulAlgo_t algorithm;
};

struct twp_lt {
    struct CUstream_st *stream;
    cublasLtHandle_t handle;
    void *workspace;
    cudaEvent_t from, to;
    struct form form[FORMS];
    int forms;
};

size_t twp_lt_workspace_bytes(void)
{
    return WORKSPACE;
}

static enum tw_status check(cublasStatus_t got, const char *what,
                            struct tw_error *err)
{
    if (got == CUBLAS_STATUS_SUCCESS)
        return TW_OK;
    return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuBLASLt: %s: %s", what,
                        cublasLtGetStatusName(got));
}

enum tw_status twp_lt_create(struct CUstream_st *stream, struct twp_lt **out,
                             struct tw_error *err)
{
    struct twp_lt *lt = tw_calloc(1, sizeof *lt);
    if (!lt)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    lt->stream = stream;
    enum tw_status status = check(cublasLtCreate(&lt->handle), "start", err);
    if (status == TW_OK)
        status = twp_device_alloc(&lt->workspace, WORKSPACE, err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaEventCreate(&lt->from), "event", err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaEventCreate(&lt->to), "event", err);
    if (status == TW_OK)
        *out = lt;
    else
        twp_lt_destroy(lt);
    return status;
}

static void form_fini(struct form *form)
{
    if (form->op)
        cublasLtMatmulDescDestroy(form->op);
    cublasLtMatrixLayout_t layouts[] = {form->x, form->w, form->y};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            cublasLtMatrixLayoutDestroy(layouts[i]);
}

void twp_lt_destroy(struct twp_lt *lt)
{
    if (!lt)
        return;
    for (int i = 0; i < lt->forms; i++)
        form_fini(&lt->form[i]);
    if (lt->from)
        cudaEventDestroy(lt->from);
    if (lt->to)
        cudaEventDestroy(lt->to);
    if (lt->handle)
        cublasLtDestroy(lt->handle);
    twp_device_free(lt->workspace);
    tw_free(lt);
}

/* Row-major to cuBLAS's columns: y^T[n][m] = (w^T)^T x^T. */
static enum tw_status describe(struct form *f, struct tw_error *err)
{
    cudaDataType_t type = f->type == TW_F16 ? CUDA_R_16F : CUDA_R_16BF;
    cublasOperation_t turn = CUBLAS_OP_T;
    cublasLtEpilogue_t epilogue =
        f->is_rectified ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
    uint64_t m = (uint64_t)f->m, n = (uint64_t)f->n, k = (uint64_t)f->k;
    cublasStatus_t got =
        cublasLtMatmulDescCreate(&f->op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatmulDescSetAttribute(f->op, CUBLASLT_MATMUL_DESC_TRANSA,
                                             &turn, sizeof turn);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatmulDescSetAttribute(
            f->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatrixLayoutCreate(&f->w, type, k, n, f->k);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatrixLayoutCreate(&f->x, type, k, m, f->k);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatrixLayoutCreate(&f->y, type, n, m, f->n);
    return check(got, "a product's form", err);
}

static enum tw_status multiply(struct twp_lt *lt, const struct form *f,
                               const cublasLtMatmulAlgo_t *algorithm,
                               const struct twp_lt_product *p,
                               struct tw_error *err)
{
    const float one = 1, beta = f->is_added ? 1 : 0;
    return check(cublasLtMatmul(lt->handle, f->op, &one, p->w, f->w, p->x, f->x,
                                &beta, f->is_added ? p->residual : p->y, f->y,
                                p->y, f->y, algorithm, lt->workspace, WORKSPACE,
                                lt->stream),
                 "a product", err);
}

/* Milliseconds of TRIES runs. */
static enum tw_status try_one(struct twp_lt *lt, const struct form *f,
                              const cublasLtMatmulAlgo_t *algorithm,
                              const struct twp_lt_product *p, float *ms,
                              struct tw_error *err)
{
    enum tw_status status = multiply(lt, f, algorithm, p, err);
    cudaEventRecord(lt->from, lt->stream);
    for (int i = 0; i < TRIES && status == TW_OK; i++)
        status = multiply(lt, f, algorithm, p, err);
    cudaEventRecord(lt->to, lt->stream);
    if (status == TW_OK)
        status = twp_cuda_check(cudaEventSynchronize(lt->to), "a product", err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaEventElapsedTime(ms, lt->from, lt->to),
                                "a product's time", err);
    return status;
}

static enum tw_status list_algorithms(struct twp_lt *lt, const struct form *f,
                                      cublasLtMatmulHeuristicResult_t *list,
                                      int *count, struct tw_error *err)
{
    cublasLtMatmulPreference_t wish = NULL;
    size_t bytes = WORKSPACE;
    cublasStatus_t got = cublasLtMatmulPreferenceCreate(&wish);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatmulPreferenceSetAttribute(
            wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
            sizeof bytes);
    if (got == CUBLAS_STATUS_SUCCESS)
        got = cublasLtMatmulAlgoGetHeuristic(
            lt->handle, f->op, f->w, f->x, f->y, f->y, wish, LIST, list, count);
    if (wish)
        cublasLtMatmulPreferenceDestroy(wish);
    return check(got, "algorithms", err);
}

static enum tw_status choose(struct twp_lt *lt, struct form *f,
                             const struct twp_lt_product *p,
                             struct tw_error *err)
{
    cublasLtMatmulHeuristicResult_t list[LIST];
    int count = 0;
    float best = 0;
    bool has_one = false;
    enum tw_status status = list_algorithms(lt, f, list, &count, err);
    for (int i = 0; i < count && status == TW_OK; i++) {
        float ms;
        if (list[i].state != CUBLAS_STATUS_SUCCESS)
            continue;
        status = try_one(lt, f, &list[i].algo, p, &ms, err);
        if (status == TW_OK && (!has_one || ms < best)) {
            best = ms;
            has_one = true;
            f->algorithm = list[i].algo;
        }
    }
    if (status == TW_OK && !has_one)
        status =
            tw_error_set(err, TW_ERR_UNSUPPORTED,
                         "cuBLASLt: no algorithm for %lld x %lld x %lld",
                         (long long)p->m, (long long)p->n, (long long)p->k);
    return status;
}

static bool is_of(const struct form *f, const struct twp_lt_product *p)
{
    return f->type == p->type && f->m == p->m && f->n == p->n && f->k == p->k &&
           f->is_rectified == p->is_rectified &&
           f->is_added == (p->residual != NULL);
}

static enum tw_status make_form(struct twp_lt *lt,
                                const struct twp_lt_product *p,
                                struct form **out, struct tw_error *err)
{
    if (lt->forms == FORMS) {
        form_fini(&lt->form[0]);
        lt->form[0] = lt->form[--lt->forms];
    }
    struct form *f = &lt->form[lt->forms];
    *f = (struct form){.type = p->type,
                       .m = p->m,
                       .n = p->n,
                       .k = p->k,
                       .is_rectified = p->is_rectified,
                       .is_added = p->residual != NULL};
    enum tw_status status = describe(f, err);
    if (status == TW_OK)
        status = choose(lt, f, p, err);
    if (status != TW_OK) {
        form_fini(f);
        return status;
    }
    lt->forms++;
    *out = f;
    return TW_OK;
}

enum tw_status twp_lt_run(struct twp_lt *lt, const struct twp_lt_product *p,
                          struct tw_error *err)
{
    struct form *form = NULL;
    enum tw_status status = TW_OK;
    for (int i = 0; i < lt->forms && !form; i++)
        if (is_of(&lt->form[i], p))
            form = &lt->form[i];
    if (!form)
        status = make_form(lt, p, &form, err);
    return status == TW_OK ? multiply(lt, form, &form->algorithm, p, err)
                           : status;
}
