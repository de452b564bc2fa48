/* The cuda backend as `bench` sees it. */
#include <config.h>

#include "kernels/bench.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/cuda/bench.h"
#include "kernels/cuda/cuda_internal.h"

/* Longer than queueing a layer takes: the clock doesn't count the host. */
#define HOLD_NS 150000

/* Kept in a context once it is asked for. */
struct twp_cuda_bench {
    struct twp_lt *lt;
    cudaEvent_t from, to;
    double *sums; /* [2] on the device */
};

/* cuBLASLt's layer: the weights are a dense layer's. */
struct tw_bench_dense {
    struct tw_ffn *ffn;
    int64_t rows;
    void *h, *up; /* [rows][f]; up NULL: plain */
};

void twp_cuda_bench_destroy(struct twp_cuda_bench *bench)
{
    if (!bench)
        return;
    twp_lt_destroy(bench->lt);
    if (bench->from)
        cudaEventDestroy(bench->from);
    if (bench->to)
        cudaEventDestroy(bench->to);
    twp_device_free(bench->sums);
    tw_free(bench);
}

static enum tw_status bench_create(const struct twp_context *context,
                                   struct tw_error *err)
{
    struct twp_cuda_bench *made = tw_calloc(1, sizeof *made);
    void *sums = NULL;
    if (!made)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status = twp_lt_create(context->stream, &made->lt, err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaEventCreate(&made->from), "event", err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaEventCreate(&made->to), "event", err);
    if (status == TW_OK)
        status = twp_device_alloc(&sums, 2 * sizeof *made->sums, err);
    made->sums = sums;
    if (status == TW_OK)
        *context->bench = made;
    else
        twp_cuda_bench_destroy(made);
    return status;
}

static enum tw_status open_context(void *ctx, struct twp_context *context,
                                   struct tw_error *err)
{
    twp_context_of(ctx, context);
    return *context->bench ? TW_OK : bench_create(context, err);
}

static void dense_destroy(void *ctx, struct tw_bench_dense *dense)
{
    (void)ctx;
    twp_ffn_destroy(dense->ffn);
    twp_device_free(dense->h);
    twp_device_free(dense->up);
    tw_free(dense);
}

static enum tw_status check_layer(const struct tw_ffn_desc *desc,
                                  struct tw_error *err)
{
    bool has_bias =
        desc->gate_bias.data || desc->up_bias.data || desc->down_bias.data;
    if (desc->d_model % 8 != 0 || desc->d_ff % 8 != 0 || has_bias ||
        desc->apply)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "the cuBLASLt layer takes no biases, no --apply, "
                            "and widths that are multiples of 8");
    return TW_OK;
}

static enum tw_status dense_create(void *ctx, const struct tw_ffn_desc *desc,
                                   int64_t rows, struct tw_bench_dense **out,
                                   struct tw_error *err)
{
    struct twp_context context;
    struct tw_ffn_desc own = *desc;
    own.path = TW_FFN_DENSE;
    enum tw_status status = check_layer(desc, err);
    if (status == TW_OK)
        status = open_context(ctx, &context, err);
    if (status != TW_OK)
        return status;
    struct tw_bench_dense *dense = tw_calloc(1, sizeof *dense);
    if (!dense)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    size_t bytes = (size_t)(rows * desc->d_ff) * 2;
    dense->rows = rows;
    status = twp_ffn_create(&own, context.type, &dense->ffn, err);
    if (status == TW_OK)
        status = twp_device_alloc(&dense->h, bytes, err);
    if (status == TW_OK && dense->ffn->is_gated)
        status = twp_device_alloc(&dense->up, bytes, err);
    if (status == TW_OK)
        *out = dense;
    else
        dense_destroy(ctx, dense);
    return status;
}

/* y = x w^T with what can be fused into it. */
static enum tw_status product(struct twp_lt *lt,
                              const struct tw_bench_dense *dense, void *y,
                              const void *x, const void *w,
                              const void *residual, bool is_rectified,
                              struct tw_error *err)
{
    const struct tw_ffn *ffn = dense->ffn;
    bool is_down = w == ffn->down;
    const struct twp_lt_product p = {.type = ffn->type,
                                     .m = dense->rows,
                                     .n = is_down ? ffn->d : ffn->f,
                                     .k = is_down ? ffn->f : ffn->d,
                                     .is_rectified = is_rectified,
                                     .x = x,
                                     .w = w,
                                     .residual = residual,
                                     .y = y};
    return twp_lt_run(lt, &p, err);
}

/* relu is the library's own; others are left to the pass between. */
static enum tw_status dense_run(void *ctx, struct tw_bench_dense *dense,
                                void *y, const void *x, const void *residual,
                                struct tw_error *err)
{
    struct twp_context context;
    const struct tw_ffn *ffn = dense->ffn;
    bool is_relu = ffn->desc.activation.act == TW_ACT_RELU;
    enum tw_status status = open_context(ctx, &context, err);
    if (status != TW_OK)
        return status;
    struct twp_lt *lt = (*context.bench)->lt;
    const void *first = ffn->is_gated ? ffn->gate : ffn->up;
    status = product(lt, dense, dense->h, x, first, NULL, is_relu, err);
    if (status == TW_OK && ffn->is_gated)
        status = product(lt, dense, dense->up, x, ffn->up, NULL, false, err);
    if (status == TW_OK && (ffn->is_gated || !is_relu))
        status = tw_launch_multiply(ffn->type, dense->h, dense->up,
                                    dense->rows * ffn->f, &ffn->desc.activation,
                                    context.stream, err);
    if (status == TW_OK)
        status =
            product(lt, dense, y, dense->h, ffn->down, residual, false, err);
    return status;
}

static enum tw_status dense_product(void *ctx, struct tw_bench_dense *dense,
                                    const void *x, struct tw_error *err)
{
    struct twp_context context;
    const struct tw_ffn *ffn = dense->ffn;
    enum tw_status status = open_context(ctx, &context, err);
    if (status == TW_OK)
        status = product((*context.bench)->lt, dense, dense->h, x,
                         ffn->is_gated ? ffn->gate : ffn->up, NULL, false, err);
    return status;
}

static enum tw_status pack(void *ctx, struct tw_ffn *ffn, const void *x,
                           const struct tw_probes *probes,
                           struct tw_layer_obs *obs, struct tw_error *err)
{
    struct twp_context context;
    struct twp_ffn_call call = {
        .x = x, .until = obs ? TWP_UNTIL_ROUTED : TWP_UNTIL_PACKED};
    twp_context_of(ctx, &context);
    enum tw_status status = twp_context_call(ctx, ffn, probes, obs, &call, err);
    if (status == TW_OK)
        status = twp_ffn_run(ffn, context.device, &call, context.stream, err);
    return status;
}

static int64_t weight_bytes(const struct tw_ffn *ffn, int matrices)
{
    return (int64_t)matrices * ffn->f_stride * ffn->d * 2;
}

static int64_t dense_bytes(const struct tw_bench_dense *dense)
{
    const struct tw_ffn *ffn = dense->ffn;
    int between = ffn->is_gated ? 2 : 1; /* h, up */
    return weight_bytes(ffn, 1 + between) + between * dense->rows * ffn->f * 2 +
           (int64_t)twp_lt_workspace_bytes();
}

/* W_down stands there twice where rows are packed: rows for the product,
 * columns for the gather. */
static int64_t ffn_bytes(const struct tw_ffn *ffn, int64_t rows)
{
    return weight_bytes(ffn, (ffn->is_gated ? 3 : 2) + ffn->can_pack) +
           (int64_t)twp_ffn_work_bytes(ffn, (int32_t)rows) +
           (int64_t)twp_cuda_counts_bytes((int32_t)rows, ffn->f, 1);
}

static enum tw_status clock_start(void *ctx, struct tw_error *err)
{
    struct twp_context context;
    enum tw_status status = open_context(ctx, &context, err);
    if (status == TW_OK)
        status = tw_launch_wait(HOLD_NS, context.stream, err);
    if (status == TW_OK)
        status = twp_cuda_check(
            cudaEventRecord((*context.bench)->from, context.stream), "clock",
            err);
    return status;
}

static enum tw_status clock_stop(void *ctx, int64_t *ns, struct tw_error *err)
{
    struct twp_context context;
    twp_context_of(ctx, &context);
    const struct twp_cuda_bench *bench = *context.bench;
    float ms = 0;
    cudaError_t error = cudaEventRecord(bench->to, context.stream);
    if (error == cudaSuccess)
        error = cudaEventSynchronize(bench->to);
    if (error == cudaSuccess)
        error = cudaEventElapsedTime(&ms, bench->from, bench->to);
    *ns = llround(1e6 * (double)ms);
    return twp_cuda_check(error, "clock", err);
}

static enum tw_status poison(void *ctx, void *buffer, int64_t elements,
                             struct tw_error *err)
{
    struct twp_context context;
    twp_context_of(ctx, &context);
    return twp_cuda_check(
        cudaMemsetAsync(buffer, 0xff, (size_t)elements * 2, context.stream),
        "poison", err);
}

static enum tw_status distance(void *ctx, const void *a, const void *b,
                               int64_t elements, double *out,
                               struct tw_error *err)
{
    struct twp_context context;
    double sums[2];
    enum tw_status status = open_context(ctx, &context, err);
    if (status != TW_OK)
        return status;
    double *device = (*context.bench)->sums;
    status =
        twp_cuda_check(cudaMemsetAsync(device, 0, sizeof sums, context.stream),
                       "distance", err);
    if (status == TW_OK)
        status = tw_launch_distance(context.type, a, b, elements, device,
                                    context.stream, err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaMemcpyAsync(sums, device, sizeof sums,
                                                cudaMemcpyDeviceToHost,
                                                context.stream),
                                "distance", err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaStreamSynchronize(context.stream),
                                "distance", err);
    if (status == TW_OK)
        *out = sums[1] > 0 ? sqrt(sums[0] / sums[1]) : sqrt(sums[0]);
    return status;
}

static int64_t cache_bytes(void *ctx)
{
    struct twp_context context;
    int bytes = 0;
    twp_context_of(ctx, &context);
    if (cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize,
                               context.device->number) != cudaSuccess)
        return 0;
    return bytes;
}

static int64_t device_bytes(void *ctx)
{
    size_t left, all;
    (void)ctx;
    return cudaMemGetInfo(&left, &all) == cudaSuccess ? (int64_t)(all - left)
                                                      : 0;
}

static const char *path(void *ctx)
{
    struct twp_context context;
    twp_context_of(ctx, &context);
    return context.device->path == TW_CUDA_HOPPER ? "hopper" : "portable";
}

static void bus_id(void *ctx, char id[TW_BENCH_ID])
{
    struct twp_context context;
    twp_context_of(ctx, &context);
    if (cudaDeviceGetPCIBusId(id, TW_BENCH_ID, context.device->number) !=
        cudaSuccess)
        id[0] = '\0';
}

const struct tw_bench_ops twp_bench_cuda = {
    .library = "cublaslt",
    .has_uncounted = true,
    .dense_create = dense_create,
    .dense_destroy = dense_destroy,
    .dense_run = dense_run,
    .dense_product = dense_product,
    .pack = pack,
    .dense_bytes = dense_bytes,
    .ffn_bytes = ffn_bytes,
    .clock_start = clock_start,
    .clock_stop = clock_stop,
    .poison = poison,
    .distance = distance,
    .cache_bytes = cache_bytes,
    .device_bytes = device_bytes,
    .path = path,
    .bus_id = bus_id,
};
