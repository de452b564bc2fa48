/* What the .cu files share: errors of launches, number types, activations,
 * definitions. */
#ifndef TW_KERNELS_CUDA_COMMON_CUH
#define TW_KERNELS_CUDA_COMMON_CUH

#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.h"

/* A kernel's dynamic shared memory: bytes, so aligned (1024: the period of the
 * tensor cores' swizzle). tests/emu has its own. */
#ifndef TW_CUDA_EMULATED
#define TW_DYNAMIC_SHARED_ALIGNED(name, align)                                                    \
    extern __shared__ __align__(align) unsigned char name[]
#endif
#define TW_DYNAMIC_SHARED(name) TW_DYNAMIC_SHARED_ALIGNED(name, 1024)

namespace common {

constexpr uint32_t FULL_WARP = 0xffffffffu;

/* The bits of an entry that hold its value. */
constexpr uint32_t VALUE_BITS = 0xffffff00u;

inline enum tw_status launched(const char *kernel, struct tw_error *err)
{
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess)
        return TW_OK;
    return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: launch of %s: %s", kernel,
                        cudaGetErrorString(error));
}

/* Launches a kernel once the one before it on the stream is done. CLUSTER: the
 * blocks of a cluster, as the kernel's own __cluster_dims__ says. */
template <int CLUSTER = 1, typename... Params>
inline enum tw_status launch_plain(const char *name, void (*kernel)(Params...), dim3 blocks,
                                   dim3 threads, int shared_bytes, cudaStream_t stream,
                                   struct tw_error *err, const Params &...params)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
#ifdef TW_CUDA_EMULATED
    config.clusterBlocks = CLUSTER;
#endif
    cudaLaunchKernelEx(&config, kernel, params...);
    return launched(name, err);
}

/* Launches a kernel that may start, up to its wait_for_last, while the one before
 * it on the stream still runs. */
template <typename... Params>
inline enum tw_status launch(const char *name, void (*kernel)(Params...), dim3 blocks, dim3 threads,
                             int shared_bytes, cudaStream_t stream, struct tw_error *err,
                             const Params &...params)
{
    int device = 0, major = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = major >= 9;
    cudaLaunchKernelEx(&config, kernel, params...);
    return launched(name, err);
}

/* Until the kernel before this one is done and its writes are seen. Each thread
 * that reads or writes what other kernels do; every kernel that launch starts
 * waits, so that what is seen is all that came before. */
__device__ __forceinline__ void wait_for_last()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The kernel after this one may start once every block has come here or ended. */
__device__ __forceinline__ void let_next_start()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* The row at a place of the list. */
__device__ __forceinline__ int64_t number_of(const struct twp_rows &rows, int place)
{
    return rows.list ? rows.list[place] : place;
}

/* Copies the tensor map into a kernel's parameter. */
inline CUtensorMap map_of(const struct twp_map *map)
{
    static_assert(sizeof(CUtensorMap) == sizeof map->opaque, "a tensor map");
    CUtensorMap out;
    memcpy(&out, map->opaque, sizeof out);
    return out;
}

/* The halves of a pair of type T. */
template <enum tw_dtype T> __device__ __forceinline__ float low_half(uint32_t pair)
{
    return T == TW_F16 ? hopper::widen_half((uint16_t)pair) : __uint_as_float(pair << 16);
}

template <enum tw_dtype T> __device__ __forceinline__ float high_half(uint32_t pair)
{
    return T == TW_F16 ? hopper::widen_half((uint16_t)(pair >> 16))
                       : __uint_as_float(pair & 0xffff0000u);
}

/* Two pre-activations to the activation's values before squaring, rounded to T.
 * The comparison is in fp32. NaN stays NaN, -0 and what isn't active is 0. */
template <int ACT, enum tw_dtype T>
__device__ __forceinline__ uint32_t cut_pair(float low, float high, float t)
{
    if (ACT != TW_ACT_FATRELU && T == TW_BF16)
        return hopper::relu_pair<T>(low, high);
    constexpr float LEAST = 5.9604645e-8f; // fp16's: what is active doesn't round to 0
    if (T == TW_F16) {
        low = low <= t ? low : hopper::max_or_nan(low, LEAST);
        high = high <= t ? high : hopper::max_or_nan(high, LEAST);
    }
    return hopper::round_pair<T>(low <= t ? 0.0f : low, high <= t ? 0.0f : high);
}

/* A cut value to the value that is packed: 24 bits of fp32. */
template <int ACT> __device__ __forceinline__ float packed_value(float r)
{
    if (ACT == TW_ACT_RELU2)
        return __uint_as_float(__float_as_uint(hopper::mul_ftz(r, r)) & VALUE_BITS);
    return r;
}

/* Is the neuron active under the definition? a: act(gate); is_in: in the pattern.
 * -0 isn't, NaN is where it is only compared with zero. */
__device__ __forceinline__ bool is_active(const struct twp_def &def, bool is_in, float a, float h)
{
    switch (def.kind) {
    case TW_ACTIVE_GATE:
        return is_in;
    case TW_ACTIVE_HIDDEN:
        return h != 0;
    case TW_ACTIVE_ABS:
        return fabsf(h) > def.threshold;
    default:
        return fabsf(a) > def.threshold;
    }
}

} // namespace common

#endif
