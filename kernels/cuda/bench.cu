/* Kernels of `bench` alone: what cuBLASLt leaves between its products, and what
 * timing and comparing need. None of them is part of a layer.
 *
 *   multiply   h = act(h) * up, 16-bit [count]; 6 (gated) or 4 bytes an element,
 *              bound by memory
 *   distance   sums[0] += sum (a - b)^2, sums[1] += sum b^2, in fp64
 *   wait       holds the stream so long that the host can queue what follows
 *
 * One thread takes 8 elements (16 bytes) at a time. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/bench.h"
#include "kernels/cuda/common.cuh"

namespace {

constexpr int THREADS = 256, CHUNK = 8; // elements of 16 bytes

template <typename T2> __device__ __forceinline__ float2 widen(T2 pair);
template <> __device__ __forceinline__ float2 widen(__nv_bfloat162 pair)
{
    return __bfloat1622float2(pair);
}
template <> __device__ __forceinline__ float2 widen(__half2 pair)
{
    return __half22float2(pair);
}

template <typename T2> __device__ __forceinline__ T2 narrow(float2 pair);
template <> __device__ __forceinline__ __nv_bfloat162 narrow(float2 pair)
{
    return __float22bfloat162_rn(pair);
}
template <> __device__ __forceinline__ __half2 narrow(float2 pair)
{
    return __float22half2_rn(pair);
}

__device__ __forceinline__ float activate(float g, int act, float t)
{
    if (act == TW_ACT_FATRELU)
        return g <= t ? 0.0f : g;
    float r = g <= 0 ? 0.0f : g; // NaN stays
    return act == TW_ACT_RELU2 ? r * r : r;
}

template <typename T2>
__global__ void __launch_bounds__(THREADS)
    multiply_kernel(uint4 *__restrict__ h, const uint4 *__restrict__ up, int64_t chunks, int act,
                    float t)
{
    int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= chunks)
        return;
    uint4 gates = h[i], ups = up ? up[i] : uint4{};
    T2 *g = reinterpret_cast<T2 *>(&gates);
    const T2 *u = reinterpret_cast<const T2 *>(&ups);
    for (int j = 0; j < CHUNK / 2; j++) {
        float2 v = widen(g[j]), w = up ? widen(u[j]) : make_float2(1, 1);
        g[j] = narrow<T2>(make_float2(activate(v.x, act, t) * w.x, activate(v.y, act, t) * w.y));
    }
    h[i] = gates;
}

template <typename T2>
__global__ void __launch_bounds__(THREADS)
    distance_kernel(const T2 *a, const T2 *b, int64_t pairs, double *sums)
{
    double far = 0, size = 0;
    int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < pairs; i += step) {
        float2 p = widen(a[i]), q = widen(b[i]);
        double dx = (double)p.x - q.x, dy = (double)p.y - q.y;
        far += dx * dx + dy * dy;
        size += (double)q.x * q.x + (double)q.y * q.y;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        far += __shfl_down_sync(~0u, far, lanes);
        size += __shfl_down_sync(~0u, size, lanes);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&sums[0], far);
        atomicAdd(&sums[1], size);
    }
}

__global__ void wait_kernel(uint64_t ns)
{
    uint64_t begin = hopper::nanoseconds();
    while (hopper::nanoseconds() - begin < ns) {
    }
}

template <typename T2>
enum tw_status multiply(void *h, const void *up, int64_t chunks,
                        const struct tw_activation *activation, cudaStream_t stream,
                        struct tw_error *err)
{
    int64_t blocks = (chunks + THREADS - 1) / THREADS;
    return common::launch_plain("multiply", multiply_kernel<T2>, (unsigned)blocks, THREADS, 0,
                                stream, err, static_cast<uint4 *>(h),
                                static_cast<const uint4 *>(up), chunks, (int)activation->act,
                                activation->arg);
}

template <typename T2>
enum tw_status distance(const void *a, const void *b, int64_t pairs, double *sums,
                        cudaStream_t stream, struct tw_error *err)
{
    constexpr int BLOCKS = 1024;
    return common::launch_plain("distance", distance_kernel<T2>, BLOCKS, THREADS, 0, stream, err,
                                static_cast<const T2 *>(a), static_cast<const T2 *>(b), pairs,
                                sums);
}

} // namespace

extern "C" enum tw_status tw_launch_multiply(enum tw_dtype type, void *h, const void *up,
                                             int64_t count,
                                             const struct tw_activation *activation,
                                             struct CUstream_st *stream, struct tw_error *err)
{
    return type == TW_F16
               ? multiply<__half2>(h, up, count / CHUNK, activation, stream, err)
               : multiply<__nv_bfloat162>(h, up, count / CHUNK, activation, stream, err);
}

extern "C" enum tw_status tw_launch_distance(enum tw_dtype type, const void *a, const void *b,
                                             int64_t count, double *sums,
                                             struct CUstream_st *stream, struct tw_error *err)
{
    return type == TW_F16 ? distance<__half2>(a, b, count / 2, sums, stream, err)
                          : distance<__nv_bfloat162>(a, b, count / 2, sums, stream, err);
}

extern "C" enum tw_status tw_launch_wait(int64_t ns, struct CUstream_st *stream,
                                         struct tw_error *err)
{
    return common::launch_plain("wait", wait_kernel, 1, 1, 0, stream, err, (uint64_t)ns);
}
