/* A warpgroup's rows in attention_wgmma.cuh: products, weights, the result. */
#ifndef TW_KERNELS_CUDA_ATTENTION_ROWS_CUH
#define TW_KERNELS_CUDA_ATTENTION_ROWS_CUH

#include <math.h>

#include "kernels/cuda/attention_form.cuh"

namespace attention_wgmma {

constexpr float LOG2_E = 1.44269504f;
constexpr float GROWTH = 8;      // weights are at most 2^GROWTH
constexpr float NO_KEY = -1e38f; // a base before any key: below what scores come to

/* Named barriers: of a warpgroup, and its turn at the tensor cores. */
constexpr int OWN = 1, TURN = 5;

/* Its 64 queries; a thread has the rows l / 4 and l / 4 + 8 of its warp's 16. */
template <typename F> struct Rows {
    float s[F::N / 2]; // scores, then weights: wgmma.cuh says which
    float o[F::DIM / 2];
    uint32_t w[F::N / 16][4]; // weights as the next product's left side
    uint32_t q[F::KEEP ? F::DIM / 16 : 1][4];
    float base[2], sum[2]; // of weights: 2^(c s - base)
};

template <typename F> __device__ __forceinline__ void keep_queries(Rows<F> &r, uint32_t from)
{
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < F::DIM / 16; k++)
        hopper::load_blocks(from + k / 4 * GROUP_ROWS * ROW_BYTES + row * ROW_BYTES +
                                ((k % 4 * 2 + lane / 16) ^ (row % 8)) * 16,
                            r.q[k]);
}

/* s = q k^T, not waited for. */
template <enum tw_dtype T, typename F>
__device__ __forceinline__ void multiply_keys(Rows<F> &r, uint32_t from_q, uint32_t from_k)
{
    const uint64_t q = hopper::tile_descriptor(from_q), k = hopper::tile_descriptor(from_k);
#pragma unroll
    for (int i = 0; i < F::DIM / 16; i++) {
        const uint64_t at = k + i / 4 * (F::N * ROW_BYTES / 16) + i % 4 * 2;
        if constexpr (F::KEEP)
            hopper::wgmma_rows<T, false>(r.s, r.q[i], at, i > 0);
        else
            hopper::wgmma_tiles<T>(
                r.s, q + i / 4 * (GROUP_ROWS * ROW_BYTES / 16) + i % 4 * 2, at, i > 0);
    }
    hopper::wgmma_commit();
}

/* o += w v, not waited for. */
template <enum tw_dtype T, typename F>
__device__ __forceinline__ void multiply_values(Rows<F> &r, uint32_t from_v)
{
    const uint64_t v = hopper::turned_descriptor(from_v, F::N * ROW_BYTES);
#pragma unroll
    for (int i = 0; i < F::N / 16; i++)
        hopper::wgmma_rows<T, true>(r.o, r.w[i], v + i * (16 * ROW_BYTES / 16), 1);
    hopper::wgmma_commit();
}

/* Of rows from `row` on and keys from `key` on. */
template <typename F>
__device__ __forceinline__ void mask(Rows<F> &r, int window, int row, int key)
{
    const int lane = threadIdx.x % 32;
    const int ahead = row + threadIdx.x % 128 / 32 * 16 + lane / 4 - key - lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < F::N / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int back = ahead + e / 2 * 8 - n * 8 - e % 2;
            if (back < 0 || back >= window)
                r.s[4 * n + e] = -INFINITY;
        }
}

/* Of this tile's scores, over the four threads that share a row. */
template <typename F> __device__ __forceinline__ void greatest(const Rows<F> &r, float (&max)[2])
{
#pragma unroll
    for (int half = 0; half < 2; half++)
        max[half] = fmaxf(r.s[2 * half], r.s[2 * half + 1]);
#pragma unroll
    for (int n = 1; n < F::N / 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            max[half] = fmaxf(max[half], fmaxf(r.s[4 * n + 2 * half], r.s[4 * n + 2 * half + 1]));
#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2)
#pragma unroll
        for (int half = 0; half < 2; half++)
            max[half] = fmaxf(max[half], __shfl_xor_sync(common::FULL_WARP, max[half], lanes));
}

/* Scores to weights 2^(c s - base). The base follows the row's greatest c s where
 * that is GROWTH above it: then sums and outputs so far take the factor. Returns
 * whether they do for a row of this warp; mostly not, once it has seen some keys. */
template <typename F>
__device__ __forceinline__ bool weigh(Rows<F> &r, float c, float (&factor)[2])
{
    float max[2];
    greatest(r, max);
    const bool grows[2] = {fmaf(max[0], c, -r.base[0]) > GROWTH,
                           fmaf(max[1], c, -r.base[1]) > GROWTH};
    const bool is_scaled = __any_sync(common::FULL_WARP, grows[0] || grows[1]);
    if (is_scaled)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float base = grows[half] ? max[half] * c : r.base[half];
            factor[half] = hopper::exp2_ftz(r.base[half] - base); // 1 where it stays
            r.base[half] = base;
            r.sum[half] *= factor[half];
        }
#pragma unroll
    for (int n = 0; n < F::N / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float &s = r.s[4 * n + e];
            s = hopper::exp2_ftz(fmaf(s, c, -r.base[e / 2]));
            r.sum[e / 2] += s;
        }
    return is_scaled;
}

template <typename F>
__device__ __forceinline__ void rescale(Rows<F> &r, const float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < F::DIM / 2; i++)
        r.o[i] *= factor[i / 2 % 2];
}

template <enum tw_dtype T, typename F> __device__ __forceinline__ void round_weights(Rows<F> &r)
{
#pragma unroll
    for (int i = 0; i < F::N / 16; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            r.w[i][e] = hopper::round_pair<T>(r.s[8 * i + 2 * e], r.s[8 * i + 2 * e + 1]);
}

/* V's rows that are another sequence's: a weight of 0 times its NaN were NaN. All
 * warpgroups that read this tile write these zeros. */
template <typename F>
__device__ __forceinline__ void clear_others(uint32_t from_v, int have, int group)
{
    if (have >= F::N)
        return;
    for (int i = threadIdx.x % 128; i < (F::N - have) * F::BOXES * 8; i += 128) {
        const int row = have + i / (F::BOXES * 8), chunk = i % (F::BOXES * 8);
        hopper::store_chunk(from_v + chunk / 8 * F::N * ROW_BYTES + row * ROW_BYTES +
                                chunk % 8 * 16,
                            make_uint4(0, 0, 0, 0));
    }
    hopper::proxy_fence();
    hopper::named_sync(OWN + group, 128);
}

/* y = o / sum, by way of shared memory: rows are written 16 bytes at a time. */
template <enum tw_dtype T, typename F>
__device__ __forceinline__ void store(const Rows<F> &r, uint32_t at, uint16_t *y, int64_t stride,
                                      int have)
{
    const int lane = threadIdx.x % 32, warp_row = threadIdx.x % 128 / 32 * 16;
    float share[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = r.sum[half];
        sum += __shfl_xor_sync(common::FULL_WARP, sum, 1);
        sum += __shfl_xor_sync(common::FULL_WARP, sum, 2);
        share[half] = 1.0f / sum;
    }
    const int row = warp_row + lane % 16;
#pragma unroll
    for (int j = 0; j < F::CHUNKS; j += 2) {
        uint32_t out[4];
#pragma unroll
        for (int i = 0; i < 4; i++) // block i: rows 8 (i % 2) on, chunk j + i / 2
            out[i] = hopper::round_pair<T>(r.o[4 * j + 2 * i] * share[i % 2],
                                           r.o[4 * j + 2 * i + 1] * share[i % 2]);
        const int chunk = j + lane / 16;
        hopper::store_blocks(at + chunk / 8 * GROUP_ROWS * ROW_BYTES + row * ROW_BYTES +
                                 (chunk % 8 ^ row % 8) * 16,
                             out[0], out[1], out[2], out[3]);
    }
    __syncwarp();
    for (int i = lane; i < 16 * F::CHUNKS; i += 32) {
        const int to = warp_row + i / F::CHUNKS, chunk = i % F::CHUNKS;
        if (to < have)
            *reinterpret_cast<uint4 *>(y + to * stride + chunk * 8) =
                hopper::load_chunk(at + chunk / 8 * GROUP_ROWS * ROW_BYTES + to * ROW_BYTES +
                                   (chunk % 8 ^ to % 8) * 16);
    }
}

} // namespace attention_wgmma

#endif
