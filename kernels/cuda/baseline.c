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
#include "kernels/cuda/lt_form.h"

#define WORKSPACE ((size_t)64 << 20)
#define LIST      16 /* algorithms that are tried */
#define TRIES     3  /* timed runs of each, after one that isn't */
#define FORMS     16

/* One form and how it is run. */
struct form {
    struct twp_lt_form lt;
    bool is_added;
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

enum tw_status twp_lt_create(struct CUstream_st *stream, struct twp_lt **out,
                             struct tw_error *err)
{
    struct twp_lt *lt = tw_calloc(1, sizeof *lt);
    if (!lt)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    lt->stream = stream;
    enum tw_status status =
        twp_lt_check(cublasLtCreate(&lt->handle), "start", err);
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

void twp_lt_destroy(struct twp_lt *lt)
{
    if (!lt)
        return;
    for (int i = 0; i < lt->forms; i++)
        twp_lt_form_fini(&lt->form[i].lt);
    if (lt->from)
        cudaEventDestroy(lt->from);
    if (lt->to)
        cudaEventDestroy(lt->to);
    if (lt->handle)
        cublasLtDestroy(lt->handle);
    twp_device_free(lt->workspace);
    tw_free(lt);
}

static enum tw_status multiply(struct twp_lt *lt, const struct form *f,
                               const cublasLtMatmulAlgo_t *algorithm,
                               const struct twp_lt_product *p,
                               struct tw_error *err)
{
    const float one = 1, beta = f->is_added ? 1 : 0;
    const struct twp_lt_form *form = &f->lt;
    return twp_lt_check(cublasLtMatmul(lt->handle, form->op, &one, p->w,
                                       form->w, p->x, form->x, &beta,
                                       f->is_added ? p->residual : p->y,
                                       form->y, p->y, form->y, algorithm,
                                       lt->workspace, WORKSPACE, lt->stream),
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
        got = cublasLtMatmulAlgoGetHeuristic(lt->handle, f->lt.op, f->lt.w,
                                             f->lt.x, f->lt.y, f->lt.y, wish,
                                             LIST, list, count);
    if (wish)
        cublasLtMatmulPreferenceDestroy(wish);
    return twp_lt_check(got, "algorithms", err);
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

static cublasLtEpilogue_t epilogue_of(const struct twp_lt_product *p)
{
    return p->is_rectified ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

static bool is_of(const struct form *f, const struct twp_lt_product *p)
{
    const struct twp_lt_form *lt = &f->lt;
    return lt->type == p->type && lt->m == p->m && lt->n == p->n &&
           lt->k == p->k && lt->epilogue == epilogue_of(p) &&
           f->is_added == (p->residual != NULL);
}

static enum tw_status make_form(struct twp_lt *lt,
                                const struct twp_lt_product *p,
                                struct form **out, struct tw_error *err)
{
    if (lt->forms == FORMS) {
        twp_lt_form_fini(&lt->form[0].lt);
        lt->form[0] = lt->form[--lt->forms];
    }
    struct form *f = &lt->form[lt->forms];
    *f = (struct form){.lt = {.type = p->type,
                              .n = p->n,
                              .k = p->k,
                              .ld = p->n,
                              .epilogue = epilogue_of(p)},
                       .is_added = p->residual != NULL};
    enum tw_status status = twp_lt_form_init(&f->lt, err);
    if (status == TW_OK)
        status = twp_lt_form_rows(&f->lt, p->m, err);
    if (status == TW_OK)
        status = choose(lt, f, p, err);
    if (status != TW_OK) {
        twp_lt_form_fini(&f->lt);
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
