/* The cuda row of the operations table, so far its feed-forward layer: a NULL
 * slot is what it can't do yet. Buffers hold the config's type. One stream a
 * context; ffn returns at once, its counts reach the obs in finish. */
#include <config.h>

#include "kernels/cuda/cuda_internal.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/module.h"

/* One call's counts on the device, until finish. */
struct pending {
    void *memory;
    size_t bytes;
    int32_t cols;
    struct twp_counts counts; /* its definitions; no pointers */
    struct tw_probes probes;
    struct tw_layer_obs *obs;
};

struct twp_cuda {
    struct twp_device device;
    enum tw_dtype type; /* TW_BF16 or TW_F16 */
    char name[300];
    struct CUstream_st *stream;
    const struct tw_batch *batch; /* the started one, else NULL */
    void *work;
    size_t work_bytes;
    uint8_t *skip; /* [rows] on the device */
    size_t skip_bytes;
    void *host; /* a counts' block */
    size_t host_bytes;
    struct pending *pending;
    size_t pendings, pending_room;
    struct twp_cuda_bench *bench; /* NULL until it is asked for */
};

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
    for (size_t i = 0; i < cuda->pending_room; i++)
        twp_device_free(cuda->pending[i].memory);
    twp_cuda_bench_destroy(cuda->bench);
    tw_free(cuda->pending);
    tw_free(cuda->host);
    twp_device_free(cuda->skip);
    twp_device_free(cuda->work);
    if (cuda->stream)
        cudaStreamDestroy(cuda->stream);
    tw_free(cuda);
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
    struct cudaDeviceProp p;
    enum tw_status status =
        twp_cuda_check(cudaSetDevice(config->device), "device", err);
    if (status == TW_OK)
        status = twp_device_open(config->device, &cuda->device, err);
    if (status == TW_OK)
        status = twp_device_take_path(&cuda->device, config->cuda_path, err);
    if (status == TW_OK)
        status = tw_launch_check(&cuda->device, err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaGetDeviceProperties(&p, config->device),
                                "device", err);
    if (status == TW_OK)
        status = twp_cuda_check(
            cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking),
            "stream", err);
    if (status != TW_OK) {
        cuda_fini(cuda);
        return status;
    }
    snprintf(cuda->name, sizeof cuda->name, "%s", p.name);
    *ctx = cuda;
    return TW_OK;
}

static const char *cuda_device(void *ctx)
{
    return ((struct twp_cuda *)ctx)->name;
}

static enum tw_status cuda_alloc(void *ctx, int64_t elements, void **buffer,
                                 struct tw_error *err)
{
    (void)ctx;
    return twp_device_alloc(buffer, (size_t)elements * 2, err);
}

static void cuda_free(void *ctx, void *buffer)
{
    (void)ctx;
    twp_device_free(buffer);
}

static enum tw_status cuda_upload(void *ctx, void *buffer, const float *host,
                                  int64_t elements, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    uint16_t *narrow = tw_alloc((size_t)elements, sizeof *narrow);
    if (!narrow)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a copy");
    twp_narrow(narrow, host, cuda->type, (size_t)elements);
    cudaError_t error =
        cudaMemcpyAsync(buffer, narrow, (size_t)elements * sizeof *narrow,
                        cudaMemcpyHostToDevice, cuda->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(cuda->stream);
    tw_free(narrow);
    return twp_cuda_check(error, "upload", err);
}

static enum tw_status cuda_download(void *ctx, float *host, const void *buffer,
                                    int64_t elements, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    uint16_t *narrow = tw_alloc((size_t)elements, sizeof *narrow);
    if (!narrow)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a copy");
    cudaError_t error =
        cudaMemcpyAsync(narrow, buffer, (size_t)elements * sizeof *narrow,
                        cudaMemcpyDeviceToHost, cuda->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(cuda->stream);
    if (error == cudaSuccess)
        tw_widen(host, narrow, cuda->type, (size_t)elements);
    tw_free(narrow);
    return twp_cuda_check(error, "download", err);
}

static enum tw_status cuda_ffn_load(void *ctx, const struct tw_ffn_desc *desc,
                                    struct tw_ffn **ffn, struct tw_error *err)
{
    return twp_ffn_create(desc, ((struct twp_cuda *)ctx)->type, ffn, err);
}

static void cuda_ffn_free(void *ctx, struct tw_ffn *ffn)
{
    (void)ctx;
    twp_ffn_destroy(ffn);
}

/* Device memory of at least that size; what it held is lost. Waits for the
 * stream only where it grows. */
static enum tw_status grow(struct twp_cuda *cuda, void **memory, size_t *have,
                           size_t bytes, struct tw_error *err)
{
    if (*have >= bytes)
        return TW_OK;
    enum tw_status status =
        twp_cuda_check(cudaStreamSynchronize(cuda->stream), "stream", err);
    if (status != TW_OK)
        return status;
    twp_device_free(*memory);
    *memory = NULL;
    *have = 0;
    status = twp_device_alloc(memory, bytes, err);
    if (status == TW_OK)
        *have = bytes;
    return status;
}

static enum tw_status cuda_start(void *ctx, const struct tw_batch *batch,
                                 struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    size_t rows = (size_t)batch->rows;
    void *skip = cuda->skip;
    enum tw_status status = grow(cuda, &skip, &cuda->skip_bytes, rows, err);
    cuda->skip = skip;
    if (status != TW_OK)
        return status;
    uint8_t *flags = tw_alloc(rows, 1);
    if (!flags)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a batch");
    for (size_t r = 0; r < rows; r++)
        flags[r] = (batch->row_class[r] & TW_ROW_SKIPPED) != 0;
    cudaError_t error = cudaMemcpyAsync(cuda->skip, flags, rows,
                                        cudaMemcpyHostToDevice, cuda->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(cuda->stream);
    tw_free(flags);
    if (error == cudaSuccess)
        cuda->batch = batch;
    return twp_cuda_check(error, "batch", err);
}

/* The next counts' block of this batch, cleared. */
static enum tw_status
take_pending(struct twp_cuda *cuda, const struct tw_ffn *ffn,
             const struct tw_probes *probes, struct tw_layer_obs *obs,
             struct twp_counts *counts, struct tw_error *err)
{
    int32_t rows = (int32_t)cuda->batch->rows;
    enum tw_status status = twp_counts_defs(probes, counts, err);
    if (status != TW_OK)
        return status;
    if (cuda->pendings == cuda->pending_room) {
        void *array = cuda->pending;
        size_t room = cuda->pending_room;
        if (tw_grow(&array, &room, room + 1, sizeof *cuda->pending) != 0)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory for counts");
        cuda->pending = array;
        memset(cuda->pending + cuda->pending_room, 0,
               (room - cuda->pending_room) * sizeof *cuda->pending);
        cuda->pending_room = room;
    }
    struct pending *p = &cuda->pending[cuda->pendings];
    p->counts = *counts;
    status = grow(cuda, &p->memory, &p->bytes,
                  twp_counts_bytes(rows, ffn->f, counts->defs), err);
    if (status != TW_OK)
        return status;
    twp_counts_carve(rows, ffn->f, p->memory, counts);
    counts->is_on = true;
    counts->skip = cuda->skip;
    p->cols = ffn->f;
    p->probes = *probes;
    p->obs = obs;
    cuda->pendings++;
    return twp_counts_clear(counts, rows, ffn->f, cuda->stream, err);
}

enum tw_status twp_context_call(void *ctx, const struct tw_ffn *ffn,
                                const struct tw_probes *probes,
                                struct tw_layer_obs *obs,
                                struct twp_ffn_call *call, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    int32_t rows = call->rows = (int32_t)cuda->batch->rows;
    if (obs && obs->magnitude)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda' cannot count magnitudes");
    if (obs && obs->set_start)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda' cannot list active sets");
    enum tw_status status = grow(cuda, &cuda->work, &cuda->work_bytes,
                                 twp_ffn_work_bytes(ffn, rows), err);
    if (status != TW_OK)
        return status;
    twp_ffn_work_carve(ffn, rows, cuda->work, &call->work);
    if (obs)
        status = take_pending(cuda, ffn, probes, obs, &call->counts, err);
    return status;
}

static enum tw_status cuda_ffn(void *ctx, void *y, const void *x,
                               const void *residual, struct tw_ffn *ffn,
                               const struct tw_probes *probes,
                               struct tw_layer_obs *obs, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    struct twp_ffn_call call = {.y = y, .x = x, .residual = residual};
    enum tw_status status =
        twp_context_call(ctx, ffn, probes, obs, &call, err);
    if (status == TW_OK)
        status = twp_ffn_run(ffn, &cuda->device, &call, cuda->stream, err);
    return status;
}

void twp_context_of(void *ctx, struct twp_context *context)
{
    struct twp_cuda *cuda = ctx;
    *context = (struct twp_context){.device = &cuda->device,
                                    .stream = cuda->stream,
                                    .type = cuda->type,
                                    .bench = &cuda->bench};
}

static enum tw_status fetch(struct twp_cuda *cuda, const struct pending *p,
                            uint8_t *skip, struct tw_error *err)
{
    int32_t rows = (int32_t)cuda->batch->rows;
    size_t bytes = twp_counts_bytes(rows, p->cols, p->counts.defs);
    if (cuda->host_bytes < bytes) {
        tw_free(cuda->host);
        cuda->host_bytes = 0;
        cuda->host = tw_alloc(bytes, 1);
        if (!cuda->host)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory for counts");
        cuda->host_bytes = bytes;
    }
    cudaError_t error = cudaMemcpyAsync(cuda->host, p->memory, bytes,
                                        cudaMemcpyDeviceToHost, cuda->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(cuda->stream);
    enum tw_status status = twp_cuda_check(error, "counts", err);
    if (status != TW_OK)
        return status;
    struct twp_counts counts = p->counts;
    counts.skip = skip;
    twp_counts_carve(rows, p->cols, cuda->host, &counts);
    twp_counts_merge(&counts, &p->probes, p->obs);
    return TW_OK;
}

static enum tw_status cuda_finish(void *ctx, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    enum tw_status status =
        twp_cuda_check(cudaStreamSynchronize(cuda->stream), "batch", err);
    size_t rows = cuda->batch ? (size_t)cuda->batch->rows : 0;
    uint8_t *skip = tw_alloc(rows, 1);
    if (status == TW_OK && !skip)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory for counts");
    for (size_t r = 0; skip && r < rows; r++)
        skip[r] = (cuda->batch->row_class[r] & TW_ROW_SKIPPED) != 0;
    for (size_t i = 0; status == TW_OK && i < cuda->pendings; i++)
        status = fetch(cuda, &cuda->pending[i], skip, err);
    tw_free(skip);
    cuda->pendings = 0;
    cuda->batch = NULL;
    return status;
}

extern const struct tw_ops tw_ops_cuda;
const struct tw_ops tw_ops_cuda = {
    .name = "cuda",
    .probe = cuda_probe,
    .init = cuda_init,
    .fini = cuda_fini,
    .device = cuda_device,
    .compute_dtype = "bfloat16",
    .alloc = cuda_alloc,
    .free = cuda_free,
    .upload = cuda_upload,
    .download = cuda_download,
    .ffn_load = cuda_ffn_load,
    .ffn_free = cuda_ffn_free,
    .plan = twp_cuda_plan,
    .plan_use = twp_cuda_plan_use,
    .start = cuda_start,
    .finish = cuda_finish,
    .ffn = cuda_ffn,
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
