/* Norms over a row, or over each of `groups` equal parts of it:
 *     rms    y = (offset + w) x / sqrt(mean x^2 + eps) + b
 *     layer  y = (offset + w) (x - mean) / sqrt(mean (x - mean)^2 + eps) + b
 * x, y [rows][width] of 16 bits, w and b fp32; 2 bytes read and 2 written an
 * element, bound by memory. The residual isn't part of it: the products before
 * (FFN, attention's output) add it as they store, so that a norm reads x once
 * and writes y once, less than a fused residual-and-norm would move.
 *
 * A part is one warp's (up to 256 elements: heads) or one block's; a thread
 * keeps its elements in registers between the passes, the variance is that of
 * the differences, not of squares less a square. Sums run in one order: each
 * thread's own, then by halves of the warp, then over the warps. */
#include "kernels/cuda/launch_model.h"
#include "kernels/cuda/rows16.cuh"

using namespace common;

namespace {

constexpr int WARP_WIDTH = 256; // of a part that one warp takes
constexpr int SMALL_WARPS = 8;  // parts of one block then

struct params {
    uint16_t *y;
    const uint16_t *x;
    const float *weight, *bias;
    int64_t parts; // of all rows
    int32_t groups, width;
    float eps, offset;
    bool is_per_group;
};

/* The sum over THREADS threads, the same in all of them. */
template <int THREADS> __device__ __forceinline__ float sum_of(float value, float *shared)
{
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_xor_sync(FULL_WARP, value, step);
    if (THREADS == 32)
        return value;
    __syncthreads(); // the sum before is read
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
#pragma unroll
    for (int i = 0; i < THREADS / 32; i++)
        value += shared[i];
    return value;
}

/* One part: N elements at once (8, or 1 where rows aren't aligned), STEPS
 * times. */
template <enum tw_dtype T, bool IS_LAYER, int THREADS, int N, int STEPS>
__device__ __forceinline__ void norm_part(const params &p, int64_t part, int lane, float *shared)
{
    const uint16_t *x = p.x + part * p.width;
    uint16_t *y = p.y + part * p.width;
    float v[STEPS][N];
    float sum = 0;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        int i = (s * THREADS + lane) * N;
#pragma unroll
        for (int e = 0; e < N; e++)
            v[s][e] = 0;
        if (i >= p.width)
            continue;
        if constexpr (N == 8)
            rows16::widen8<T>(v[s], *reinterpret_cast<const uint4 *>(x + i));
        else
            v[s][0] = rows16::widen<T>(x[i]);
#pragma unroll
        for (int e = 0; e < N; e++)
            sum += IS_LAYER ? v[s][e] : v[s][e] * v[s][e];
    }
    sum = sum_of<THREADS>(sum, shared);
    float mean = 0;
    if (IS_LAYER) {
        mean = sum / (float)p.width;
        float squares = 0;
#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
            for (int e = 0; e < N; e++) {
                float d = v[s][e] - mean;
                squares += (s * THREADS + lane) * N < p.width ? d * d : 0.0f;
            }
        sum = sum_of<THREADS>(squares, shared);
    }
    float factor = 1.0f / sqrtf(sum / (float)p.width + p.eps);
    int64_t own = p.is_per_group ? part % p.groups * p.width : 0;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        int i = (s * THREADS + lane) * N;
        if (i >= p.width)
            continue;
#pragma unroll
        for (int e = 0; e < N; e++) {
            float w = p.weight ? p.offset + p.weight[own + i + e] : 1.0f;
            float b = p.bias ? p.bias[own + i + e] : 0.0f;
            v[s][e] = fmaf(w, (v[s][e] - mean) * factor, b);
        }
        if constexpr (N == 8)
            *reinterpret_cast<uint4 *>(y + i) = rows16::narrow8<T>(v[s]);
        else
            y[i] = rows16::narrow<T>(v[s][0]);
    }
}

template <enum tw_dtype T, bool IS_LAYER, int N>
__global__ void __launch_bounds__(SMALL_WARPS * 32) norm_warp_kernel(const params p)
{
    wait_for_last();
    int64_t part = (int64_t)blockIdx.x * SMALL_WARPS + threadIdx.x / 32;
    if (part < p.parts)
        norm_part<T, IS_LAYER, 32, N, WARP_WIDTH / 32 / N>(p, part, threadIdx.x % 32, nullptr);
}

template <enum tw_dtype T, bool IS_LAYER, int THREADS, int N, int STEPS>
__global__ void __launch_bounds__(THREADS) norm_kernel(const params p)
{
    __shared__ float shared[THREADS / 32];
    wait_for_last();
    norm_part<T, IS_LAYER, THREADS, N, STEPS>(p, blockIdx.x, threadIdx.x, shared);
}

using kernel = void (*)(const params);

/* By width, the narrowest that holds it. */
struct form {
    int32_t width;
    int threads;
    kernel run[2]; // rms, layer
};

template <enum tw_dtype T, int N, int THREADS, int STEPS> constexpr form form_of()
{
    return {THREADS * N * STEPS,
            THREADS,
            {norm_kernel<T, false, THREADS, N, STEPS>, norm_kernel<T, true, THREADS, N, STEPS>}};
}

template <enum tw_dtype T>
enum tw_status norm_of(const params &p, bool is_layer, bool is_wide, cudaStream_t stream,
                       struct tw_error *err)
{
    static const form wide[] = {form_of<T, 8, 128, 1>(),  form_of<T, 8, 256, 1>(),
                                form_of<T, 8, 256, 2>(),  form_of<T, 8, 512, 2>(),
                                form_of<T, 8, 1024, 2>(), form_of<T, 8, 1024, 4>()};
    static const form narrow[] = {form_of<T, 1, 256, 8>(), form_of<T, 1, 1024, 8>(),
                                  form_of<T, 1, 1024, 32>()};
    static const kernel small[2][2] = {
        {norm_warp_kernel<T, false, 1>, norm_warp_kernel<T, true, 1>},
        {norm_warp_kernel<T, false, 8>, norm_warp_kernel<T, true, 8>}};
    if (p.width <= WARP_WIDTH)
        return launch("norm", small[is_wide][is_layer],
                      (unsigned)((p.parts + SMALL_WARPS - 1) / SMALL_WARPS), SMALL_WARPS * 32, 0,
                      stream, err, p);
    const form *forms = is_wide ? wide : narrow;
    int count = is_wide ? sizeof wide / sizeof *wide : sizeof narrow / sizeof *narrow;
    for (int i = 0; i < count; i++)
        if (p.width <= forms[i].width)
            return launch("norm", forms[i].run[is_layer], (unsigned)p.parts, forms[i].threads, 0,
                          stream, err, p);
    return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: a norm over %d columns, more than %d",
                        p.width, forms[count - 1].width);
}

} // namespace

extern "C" enum tw_status tw_launch_norm(const struct twp_norm_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    int32_t groups = args->groups > 0 ? args->groups : 1, width = args->width / groups;
    params p = {static_cast<uint16_t *>(args->y),
                static_cast<const uint16_t *>(args->x),
                args->weight,
                args->bias,
                (int64_t)args->rows * groups,
                groups,
                width,
                args->eps,
                args->offset,
                args->is_per_group};
    bool is_wide = rows16::is_wide(width, args->x, args->y, nullptr);
    auto run = args->type == TW_F16 ? norm_of<TW_F16> : norm_of<TW_BF16>;
    return run(p, args->kind == TW_NORM_LAYER, is_wide, stream, err);
}
