/* Memory of a context and copies between host floats and buffers. */
#include <config.h>

#include "kernels/cuda/context.h"

#include "base/memory.h"

enum tw_status twp_memory_grow(struct twp_cuda *cuda, struct twp_memory *memory,
                               size_t bytes, struct tw_error *err)
{
    if (memory->bytes >= bytes)
        return TW_OK;
    enum tw_status status =
        twp_cuda_check(cudaStreamSynchronize(cuda->stream), "stream", err);
    if (status != TW_OK)
        return status;
    twp_memory_fini(memory);
    if (!memory->is_host)
        status = twp_device_alloc(&memory->at, bytes, err);
    else if (cudaMallocHost(&memory->at, bytes) != cudaSuccess) {
        cudaGetLastError(); /* not the next call's */
        status =
            tw_error_set(err, TW_ERR_NOMEM,
                         "cuda: out of pinned memory for %zu bytes", bytes);
    }
    if (status == TW_OK)
        memory->bytes = bytes;
    return status;
}

void twp_memory_fini(struct twp_memory *memory)
{
    if (memory->is_host && memory->at)
        cudaFreeHost(memory->at);
    else if (memory->at)
        twp_device_free(memory->at);
    memory->at = NULL;
    memory->bytes = 0;
}

enum tw_status twp_cuda_alloc(void *ctx, int64_t elements, void **buffer,
                              struct tw_error *err)
{
    (void)ctx;
    return twp_device_alloc(buffer, (size_t)elements * 2, err);
}

void twp_cuda_free(void *ctx, void *buffer)
{
    (void)ctx;
    twp_device_free(buffer);
}

enum tw_status twp_cuda_upload(void *ctx, void *buffer, const float *host,
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

enum tw_status twp_cuda_download(void *ctx, float *host, const void *buffer,
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
