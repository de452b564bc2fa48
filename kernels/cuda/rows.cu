/* What works on elements alone:
 *     embed      y = scale table[token]           2 bytes read, 2 written
 *     positions  y = y + table[first + position]  4 read, 2 written
 *     residual   y = x + scale part               4 read, 2 written
 *     act_mul    y = act(gate) up                 4 read, 2 written
 * an element; fp32 between, one rounding. Bound by memory: a thread takes eight
 * elements (16 bytes) of every operand, where widths and addresses allow it. */
#include "kernels/cuda/act.cuh"
#include "kernels/cuda/launch_model.h"
#include "kernels/cuda/rows16.cuh"

using namespace common;

namespace {

constexpr int THREADS = 256;

/* Which row of the table a row of y takes. */
struct ByToken {
    const int32_t *token;
    __device__ __forceinline__ int64_t operator()(int64_t row) const
    {
        return token[row];
    }
};

struct ByPosition {
    const int32_t *position;
    int64_t first;
    __device__ __forceinline__ int64_t operator()(int64_t row) const
    {
        return first + position[row];
    }
};

/* One row a block, N elements a thread and step. IS_ADDED: y + table, else
 * scale * table. */
template <enum tw_dtype T, int N, bool IS_ADDED, typename Pick>
__global__ void __launch_bounds__(THREADS)
    pick_kernel(uint16_t *y, const uint16_t *table, int32_t width, float scale, Pick pick)
{
    wait_for_last();
    int64_t row = blockIdx.x;
    const uint16_t *from = table + pick(row) * width;
    uint16_t *to = y + row * width;
    for (int i = threadIdx.x * N; i < width; i += THREADS * N) {
        if constexpr (N == 8) {
            float a[8], b[8];
            rows16::widen8<T>(a, *reinterpret_cast<const uint4 *>(from + i));
            if (IS_ADDED)
                rows16::widen8<T>(b, *reinterpret_cast<const uint4 *>(to + i));
#pragma unroll
            for (int e = 0; e < 8; e++)
                a[e] = IS_ADDED ? b[e] + a[e] : scale * a[e];
            *reinterpret_cast<uint4 *>(to + i) = rows16::narrow8<T>(a);
        } else {
            float a = rows16::widen<T>(from[i]);
            a = IS_ADDED ? rows16::widen<T>(to[i]) + a : scale * a;
            to[i] = rows16::narrow<T>(a);
        }
    }
    let_next_start();
}

template <enum tw_dtype T, bool IS_ADDED, typename Pick>
enum tw_status pick_rows(const char *name, void *y, const void *table, int32_t rows, int32_t width,
                         float scale, Pick pick, cudaStream_t stream, struct tw_error *err)
{
    auto *to = static_cast<uint16_t *>(y);
    auto *from = static_cast<const uint16_t *>(table);
    if (rows16::is_wide(width, y, table, nullptr))
        return launch(name, pick_kernel<T, 8, IS_ADDED, Pick>, rows, THREADS, 0, stream, err, to,
                      from, width, scale, pick);
    return launch(name, pick_kernel<T, 1, IS_ADDED, Pick>, rows, THREADS, 0, stream, err, to, from,
                  width, scale, pick);
}

/* y = f(a, b), element by element; y may be a or b, which are read before. */
template <enum tw_dtype T, int N, typename F>
__global__ void __launch_bounds__(THREADS)
    pair_kernel(uint16_t *y, const uint16_t *a, const uint16_t *b, int64_t elements, F f)
{
    wait_for_last();
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (at >= elements)
        return;
    if constexpr (N == 8) {
        float one[8], two[8] = {};
        rows16::widen8<T>(one, *reinterpret_cast<const uint4 *>(a + at));
        if (b)
            rows16::widen8<T>(two, *reinterpret_cast<const uint4 *>(b + at));
#pragma unroll
        for (int e = 0; e < 8; e += 2)
            f(one[e], one[e + 1], two[e], two[e + 1]);
        *reinterpret_cast<uint4 *>(y + at) = rows16::narrow8<T>(one);
    } else {
        float one = rows16::widen<T>(a[at]), two = b ? rows16::widen<T>(b[at]) : 0.0f;
        float unused = 0, none = 0;
        f(one, unused, two, none);
        y[at] = rows16::narrow<T>(one);
    }
}

template <enum tw_dtype T, typename F>
enum tw_status by_pairs(const char *name, void *y, const void *a, const void *b, int64_t elements,
                        F f, cudaStream_t stream, struct tw_error *err)
{
    bool is_wide = rows16::is_wide(elements, y, a, b);
    int64_t blocks = (elements + (int64_t)THREADS * (is_wide ? 8 : 1) - 1) /
                     ((int64_t)THREADS * (is_wide ? 8 : 1));
    if (blocks > INT32_MAX)
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: %s of too many elements", name);
    auto *to = static_cast<uint16_t *>(y);
    auto *one = static_cast<const uint16_t *>(a), *two = static_cast<const uint16_t *>(b);
    if (is_wide)
        return launch(name, pair_kernel<T, 8, F>, (unsigned)blocks, THREADS, 0, stream, err, to,
                      one, two, elements, f);
    return launch(name, pair_kernel<T, 1, F>, (unsigned)blocks, THREADS, 0, stream, err, to, one,
                  two, elements, f);
}

struct Residual {
    float scale;
    __device__ __forceinline__ void operator()(float &x0, float &x1, float p0, float p1) const
    {
        x0 = fmaf(scale, p0, x0);
        x1 = fmaf(scale, p1, x1);
    }
};

/* As the specification: without the rounding of the packed forms. */
template <int ACT> __device__ __forceinline__ float value(float x, float t)
{
    switch (ACT) {
    case TW_ACT_RELU:
        return x <= 0 ? 0.0f : x;
    case TW_ACT_RELU2:
        return x <= 0 ? 0.0f : x * x;
    case TW_ACT_FATRELU:
        return x <= t ? 0.0f : x;
    case TW_ACT_GELU:
        return act::gelu(x);
    case TW_ACT_GELU_TANH:
        return act::gelu_tanh(x);
    case TW_ACT_QUICK_GELU:
        return act::quick_gelu(x);
    default:
        return act::silu(x);
    }
}

template <int ACT, bool HAS_UP> struct ActMul {
    float t;
    __device__ __forceinline__ void operator()(float &g0, float &g1, float u0, float u1) const
    {
        g0 = HAS_UP ? value<ACT>(g0, t) * u0 : value<ACT>(g0, t);
        g1 = HAS_UP ? value<ACT>(g1, t) * u1 : value<ACT>(g1, t);
    }
};

template <enum tw_dtype T, int ACT>
enum tw_status act_mul(const struct twp_act_mul_args *args, cudaStream_t stream,
                       struct tw_error *err)
{
    float t = args->activation.arg;
    if (args->up)
        return by_pairs<T>("act_mul", args->y, args->gate, args->up, args->elements,
                           ActMul<ACT, true>{t}, stream, err);
    return by_pairs<T>("act_mul", args->y, args->gate, nullptr, args->elements,
                       ActMul<ACT, false>{t}, stream, err);
}

template <enum tw_dtype T>
enum tw_status act_mul_of(const struct twp_act_mul_args *args, cudaStream_t stream,
                          struct tw_error *err)
{
    using form =
        enum tw_status (*)(const struct twp_act_mul_args *, cudaStream_t, struct tw_error *);
    static const form forms[TW_ACTS] = {act_mul<T, TW_ACT_RELU>,      act_mul<T, TW_ACT_RELU2>,
                                        act_mul<T, TW_ACT_FATRELU>,   act_mul<T, TW_ACT_SILU>,
                                        act_mul<T, TW_ACT_GELU>,      act_mul<T, TW_ACT_GELU_TANH>,
                                        act_mul<T, TW_ACT_QUICK_GELU>};
    return forms[args->activation.act](args, stream, err);
}

} // namespace

extern "C" enum tw_status tw_launch_embed(const struct twp_embed_args *args,
                                          struct CUstream_st *stream, struct tw_error *err)
{
    ByToken pick = {args->batch->token};
    auto run = args->type == TW_F16 ? pick_rows<TW_F16, false, ByToken>
                                    : pick_rows<TW_BF16, false, ByToken>;
    return run("embed", args->y, args->table, args->batch->rows, args->width, args->scale, pick,
               stream, err);
}

extern "C" enum tw_status tw_launch_positions(const struct twp_positions_args *args,
                                              struct CUstream_st *stream, struct tw_error *err)
{
    ByPosition pick = {args->batch->position, args->first};
    auto run = args->type == TW_F16 ? pick_rows<TW_F16, true, ByPosition>
                                    : pick_rows<TW_BF16, true, ByPosition>;
    return run("positions", args->y, args->table, args->batch->rows, args->width, 1.0f, pick,
               stream, err);
}

extern "C" enum tw_status tw_launch_residual(const struct twp_residual_args *args,
                                             struct CUstream_st *stream, struct tw_error *err)
{
    auto run = args->type == TW_F16 ? by_pairs<TW_F16, Residual> : by_pairs<TW_BF16, Residual>;
    return run("residual", args->y, args->x, args->part, args->elements, Residual{args->scale},
               stream, err);
}

extern "C" enum tw_status tw_launch_act_mul(const struct twp_act_mul_args *args,
                                            struct CUstream_st *stream, struct tw_error *err)
{
    return args->type == TW_F16 ? act_mul_of<TW_F16>(args, stream, err)
                                : act_mul_of<TW_BF16>(args, stream, err);
}
