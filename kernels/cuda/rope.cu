/* Rotary embedding in place: a pair (a, b) of a head turns by position *
 * inv_freq[i],
 *     a' = scale (a cos - b sin),  b' = scale (b cos + a sin),
 * pairs (i, i + dims / 2) or (2 i, 2 i + 1). 4 bytes an element of memory; the
 * angles are computed once a row for all heads: one row a block, its cosines
 * and sines in shared memory. The angle is a float product, as in the
 * specification; cosf and sinf reduce it exactly, which the fast ones don't. */
#include "kernels/cuda/launch_model.h"
#include "kernels/cuda/rows16.cuh"

using namespace common;

namespace {

constexpr int THREADS = 256;
constexpr int MAX_HALF = 512;

struct params {
    uint16_t *x;
    const int32_t *position;
    const float *inv_freq;
    int32_t heads, head_dim, half;
    float scale;
};

template <enum tw_dtype T>
__device__ __forceinline__ void turn(uint16_t &a, uint16_t &b, float c, float s)
{
    float low = rows16::widen<T>(a), high = rows16::widen<T>(b);
    a = rows16::narrow<T>(low * c - high * s);
    b = rows16::narrow<T>(high * c + low * s);
}

/* Pairs whose halves lie apart, two pairs (4 bytes each side) a thread where
 * everything is even. */
template <enum tw_dtype T>
__device__ __forceinline__ void turn_two(uint16_t *a, uint16_t *b, const float *c, const float *s)
{
    uint32_t low = *reinterpret_cast<uint32_t *>(a), high = *reinterpret_cast<uint32_t *>(b);
    float a0 = low_half<T>(low), a1 = high_half<T>(low);
    float b0 = low_half<T>(high), b1 = high_half<T>(high);
    *reinterpret_cast<uint32_t *>(a) =
        hopper::round_pair<T>(a0 * c[0] - b0 * s[0], a1 * c[1] - b1 * s[1]);
    *reinterpret_cast<uint32_t *>(b) =
        hopper::round_pair<T>(b0 * c[0] + a0 * s[0], b1 * c[1] + a1 * s[1]);
}

template <enum tw_dtype T, bool IS_INTERLEAVED, bool IS_EVEN>
__global__ void __launch_bounds__(THREADS) rope_kernel(const params p)
{
    __shared__ float c[MAX_HALF], s[MAX_HALF];
    wait_for_last();
    int64_t row = blockIdx.x;
    float position = (float)p.position[row];
    for (int i = threadIdx.x; i < p.half; i += THREADS) {
        float angle = position * p.inv_freq[i];
        c[i] = cosf(angle) * p.scale;
        s[i] = sinf(angle) * p.scale;
    }
    __syncthreads();
    uint16_t *x = p.x + row * p.heads * p.head_dim;
    constexpr int STEP = IS_EVEN ? 2 : 1;
    int per_head = p.half / STEP;
    for (int i = threadIdx.x; i < p.heads * per_head; i += THREADS) {
        int head = i / per_head, at = i % per_head * STEP;
        uint16_t *h = x + head * p.head_dim;
        if (IS_INTERLEAVED)
            turn<T>(h[2 * at], h[2 * at + 1], c[at], s[at]);
        else if (IS_EVEN)
            turn_two<T>(h + at, h + p.half + at, c + at, s + at);
        else
            turn<T>(h[at], h[p.half + at], c[at], s[at]);
    }
    let_next_start();
}

template <enum tw_dtype T>
enum tw_status rope_of(const params &p, bool is_interleaved, int32_t rows, cudaStream_t stream,
                       struct tw_error *err)
{
    bool is_even = p.half % 2 == 0 && p.head_dim % 2 == 0 && (uintptr_t)p.x % 4 == 0;
    auto run = is_interleaved ? rope_kernel<T, true, false>
               : is_even      ? rope_kernel<T, false, true>
                              : rope_kernel<T, false, false>;
    return launch("rope", run, rows, THREADS, 0, stream, err, p);
}

} // namespace

extern "C" enum tw_status tw_launch_rope(const struct twp_rope_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    params p = {static_cast<uint16_t *>(args->x),
                args->batch->position,
                args->inv_freq,
                args->heads,
                args->head_dim,
                args->dims / 2,
                args->scale};
    if (p.half > MAX_HALF)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "cuda: rotary embedding of %d dimensions, more than %d", args->dims,
                            2 * MAX_HALF);
    auto run = args->type == TW_F16 ? rope_of<TW_F16> : rope_of<TW_BF16>;
    return run(p, args->is_interleaved, args->batch->rows, stream, err);
}
