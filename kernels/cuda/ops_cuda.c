/* The cuda row of the operations table: the life of a context. Buffers hold the
 * config's type; all work goes to one stream, in the order of the calls, which
 * return at once. */
#include <config.h>

#include "kernels/cuda/context.h"
#include "kernels/cuda/layers.h"

#include <stdio.h>

#include "base/memory.h"
#include "kernels/module.h"

static enum tw_status cuda_probe(struct tw_error *err)
{
    int devices = 0;
    enum tw_status status =
        twp_cuda_check(cudaGetDeviceCount(&devices), "no device", err);
    if (status != TW_OK)
        return TW_ERR_UNSUPPORTED;
    struct twp_device device;
    status = twp_device_open(0, &device, err);
    return status == TW_OK ? tw_launch_check(&device, err) : status;
}

static void cuda_fini(void *ctx)
{
    struct twp_cuda *cuda = ctx;
    if (!cuda)
        return;
    if (cuda->stream)
        cudaStreamSynchronize(cuda->stream);
    twp_cuda_bench_destroy(cuda->bench);
    twp_flights_fini(cuda);
    twp_streaming_destroy(cuda->streaming);
    twp_vectors_fini(cuda);
    twp_products_destroy(cuda->products);
    twp_memory_fini(&cuda->work);
    twp_memory_fini(&cuda->head);
    twp_second_fini(cuda);
    if (cuda->back)
        cudaStreamDestroy(cuda->back);
    if (cuda->stream)
        cudaStreamDestroy(cuda->stream);
    tw_free(cuda);
}

static enum tw_status open_device(struct twp_cuda *cuda,
                                  const struct tw_ops_config *config,
                                  struct tw_error *err)
{
    struct cudaDeviceProp p;
    enum tw_status status = twp_device_open(config->device, &cuda->device, err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaSetDevice(config->device), "device", err);
    if (status == TW_OK)
        status = twp_device_take_path(&cuda->device, config->cuda_path, err);
    if (status == TW_OK)
        status = tw_launch_check(&cuda->device, err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaGetDeviceProperties(&p, config->device),
                                "device", err);
    if (status == TW_OK)
        snprintf(cuda->name, sizeof cuda->name, "%s", p.name);
    return status;
}

static enum tw_status open_streams(struct twp_cuda *cuda, struct tw_error *err)
{
    cudaError_t error =
        cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&cuda->back, cudaStreamNonBlocking);
    for (int i = 0; i < TWP_FLIGHTS && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&cuda->flight[i].done,
                                         cudaEventDisableTiming);
    enum tw_status status = twp_cuda_check(error, "stream", err);
    if (status == TW_OK)
        status = twp_second_init(cuda, err);
    return status == TW_OK ? twp_products_create(&cuda->products, err) : status;
}

static enum tw_status cuda_init(const struct tw_ops_config *config, void **ctx,
                                struct tw_error *err)
{
    if (config->dtype > TW_F16)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda' cannot compute in %s",
                            tw_dtype_name(config->dtype));
    struct twp_cuda *cuda = tw_calloc(1, sizeof *cuda);
    if (!cuda)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a context");
    cuda->type = config->dtype == TW_F16 ? TW_F16 : TW_BF16;
    enum tw_status status = open_device(cuda, config, err);
    if (status == TW_OK)
        status = open_streams(cuda, err);
    if (status == TW_OK)
        *ctx = cuda;
    else
        cuda_fini(cuda);
    return status;
}

static const char *cuda_device(void *ctx)
{
    return ((struct twp_cuda *)ctx)->name;
}

extern const struct tw_ops tw_ops_cuda;
const struct tw_ops tw_ops_cuda = {
    .name = "cuda",
    .probe = cuda_probe,
    .init = cuda_init,
    .fini = cuda_fini,
    .device = cuda_device,
    .compute_dtype = "bfloat16",
    .has_f16 = true,
    .alloc = twp_cuda_alloc,
    .free = twp_cuda_free,
    .upload = twp_cuda_upload,
    .download = twp_cuda_download,
    .weight_load = twp_cuda_weight_load,
    .weight_free = twp_cuda_weight_free,
    .ffn_load = twp_cuda_ffn_load,
    .ffn_free = twp_cuda_ffn_free,
    .layer_load = twp_cuda_layer_load,
    .weights = twp_cuda_weights,
    .plan = twp_cuda_plan,
    .plan_use = twp_cuda_plan_use,
    .start = twp_cuda_start,
    .finish = twp_cuda_finish,
    .submit = twp_cuda_submit,
    .collect = twp_cuda_collect,
    .flights = TWP_FLIGHTS,
    .mark = twp_cuda_mark,
    .mark_ns = twp_cuda_mark_ns,
    .trim = twp_cuda_trim,
    .embed = twp_cuda_embed,
    .positions = twp_cuda_positions,
    .norm = twp_cuda_norm,
    .matmul = twp_cuda_matmul,
    .rope = twp_cuda_rope,
    .attention = twp_cuda_attention,
    .add = twp_cuda_add,
    .act_mul = twp_cuda_act_mul,
    .ffn = twp_cuda_ffn,
    .head_nll = twp_cuda_head_nll,
    .bench = &twp_bench_cuda,
};

/* The module's one exported name (kernels/module.h). */
extern const struct tw_ops_module tw_ops_module;
__attribute__((visibility("default")))
const struct tw_ops_module tw_ops_module = {
    .version = PACKAGE_VERSION,
    .ops_bytes = sizeof(struct tw_ops),
    .ops = &tw_ops_cuda,
};
