/* The device: errors, memory, tensor maps. The driver's one function that is
 * needed is found at run time, so nothing links against libcuda. */
#include <config.h>

#include "kernels/cuda/cuda_internal.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

/* Compute capabilities: the least, and the one of the Hopper kernels. */
#define PORTABLE 80
#define HOPPER   90

enum tw_status twp_cuda_check(int error, const char *what, struct tw_error *err)
{
    if (error == cudaSuccess)
        return TW_OK;
    enum tw_status status =
        error == cudaErrorMemoryAllocation ? TW_ERR_NOMEM : TW_ERR_UNSUPPORTED;
    cudaGetLastError(); // not the next call's
    return tw_error_set(err, status, "cuda: %s: %s", what,
                        cudaGetErrorString((cudaError_t)error));
}

enum tw_status twp_device_alloc(void **memory, size_t bytes,
                                struct tw_error *err)
{
    void *got = NULL;
    enum tw_status status =
        twp_cuda_check(cudaMalloc(&got, bytes ? bytes : 1), "memory", err);
    if (status == TW_OK)
        *memory = got;
    return status;
}

void twp_device_free(void *memory)
{
    cudaFree(memory);
}

const char *twp_size_text(char text[TWP_SIZE_TEXT], size_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes / 1024;
    size_t u = 0;
    while (size >= 1024 && u + 1 < sizeof units / sizeof *units) {
        size /= 1024;
        u++;
    }
    snprintf(text, TWP_SIZE_TEXT, "%.1f %s", size, units[u]);
    return text;
}

/* Is there a device of that number (--device)? */
static enum tw_status check_number(int number, struct tw_error *err)
{
    int devices = 0;
    enum tw_status status =
        twp_cuda_check(cudaGetDeviceCount(&devices), "no device", err);
    if (status != TW_OK || (number >= 0 && number < devices))
        return status;
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "cuda: there is no device %d: this machine's are 0 to "
                        "%d (CUDA_VISIBLE_DEVICES may hide others)",
                        number, devices - 1);
}

enum tw_status twp_device_open(int number, struct twp_device *device,
                               struct tw_error *err)
{
    struct cudaDeviceProp p;
    enum tw_status status = check_number(number, err);
    if (status == TW_OK)
        status =
            twp_cuda_check(cudaGetDeviceProperties(&p, number), "device", err);
    if (status != TW_OK)
        return status;
    int capability = 10 * p.major + p.minor;
    if (capability < PORTABLE)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "cuda: %s is of compute capability %d.%d; the "
                            "kernels need 8.0",
                            p.name, p.major, p.minor);
    *device = (struct twp_device){
        .number = number,
        .multiprocessors = p.multiProcessorCount,
        .shared_bytes = (int)p.sharedMemPerBlockOptin,
        .capability = capability,
        .path = capability == HOPPER ? TW_CUDA_HOPPER : TW_CUDA_PORTABLE};
    return TW_OK;
}

enum tw_status twp_device_take_path(struct twp_device *device,
                                    enum tw_cuda_path path,
                                    struct tw_error *err)
{
    if (path == TW_CUDA_AUTO)
        return TW_OK;
    if (path == TW_CUDA_HOPPER && device->capability != HOPPER)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "cuda: path 'hopper' needs compute capability 9.0, "
                            "not %d.%d",
                            device->capability / 10, device->capability % 10);
    device->path = path;
    return TW_OK;
}

uint16_t twp_bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

uint16_t twp_f16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return 0x7fff;
    if (size >= 0x477ff000u) // 65520, half way past the greatest
        return (uint16_t)(sign | 0x7c00u);
    if (size < 0x38800000u) { // below 2^-14: units of 2^-24, rounded by adding
        float magnitude;
        memcpy(&magnitude, &size, sizeof magnitude);
        magnitude += 0.5f;
        memcpy(&size, &magnitude, sizeof size);
        return (uint16_t)(sign | (size - 0x3f000000u));
    }
    size += 0xfffu + (size >> 13 & 1);
    return (uint16_t)(sign | (size - 0x38000000u) >> 13);
}

void twp_narrow(uint16_t *out, const float *in, enum tw_dtype type,
                size_t count)
{
    uint16_t (*narrow)(float) = type == TW_F16 ? twp_f16_of : twp_bf16_of;
    for (size_t i = 0; i < count; i++)
        out[i] = narrow(in[i]);
}

typedef CUresult (*encode_func)(CUtensorMap *, CUtensorMapDataType, cuuint32_t,
                                void *, const cuuint64_t *, const cuuint64_t *,
                                const cuuint32_t *, const cuuint32_t *,
                                CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill);

enum tw_status twp_map_encode(struct twp_map *map, enum tw_dtype type,
                              const void *matrix, int64_t rows, int64_t cols,
                              int64_t stride, struct tw_error *err)
{
    return twp_map_encode_box(map, type, matrix, rows, cols, stride, 128, err);
}

enum tw_status twp_map_encode_box(struct twp_map *map, enum tw_dtype type,
                                  const void *matrix, int64_t rows,
                                  int64_t cols, int64_t stride, int box_rows,
                                  struct tw_error *err)
{
    *map = (struct twp_map){
        .data = matrix, .rows = rows, .cols = cols, .stride = stride};
    int device = 0, major = 0;
    enum tw_status status =
        twp_cuda_check(cudaGetDevice(&device), "device", err);
    if (status == TW_OK)
        status = twp_cuda_check(
            cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                   device),
            "device", err);
    if (status != TW_OK || 10 * major != HOPPER)
        return status;
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult result;
    status = twp_cuda_check(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                         12000, cudaEnableDefault, &result),
        "tensor maps", err);
    if (status != TW_OK)
        return status;
    if (!found)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "cuda: the driver has no tensor maps");
    encode_func encode;
    memcpy(&encode, &found, sizeof encode);
    cuuint64_t size[2] = {(cuuint64_t)cols, (cuuint64_t)rows};
    cuuint64_t pitch[1] = {(cuuint64_t)stride * 2};
    cuuint32_t box[2] = {64, (cuuint32_t)box_rows}, step[2] = {1, 1};
    CUtensorMap made;
    void *base;
    memcpy(&base, &matrix, sizeof base);
    CUtensorMapDataType number = type == TW_F16
                                     ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                     : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    CUresult error = encode(
        &made, number, 2, base, size, pitch, box, step,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (error != CUDA_SUCCESS)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "cuda: tensor map of %lld x %lld (stride %lld): "
                            "error %d",
                            (long long)rows, (long long)cols, (long long)stride,
                            (int)error);
    memcpy(map->opaque, &made, sizeof map->opaque);
    return TW_OK;
}
