/* The kernel of attention.cu: see there. */
#ifndef TW_KERNELS_CUDA_ATTENTION_CUH
#define TW_KERNELS_CUDA_ATTENTION_CUH

#include <math.h>

#include "kernels/cuda/launch_model.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/rows16.cuh"

#ifndef TW_DYNAMIC_SHARED
#define TW_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#endif

namespace attention {

constexpr float LOG2_E = 1.44269504f;

struct params {
    uint16_t *y;
    const uint16_t *q, *k, *v;
    const float *alibi;
    const int32_t *offset, *tile_seq, *tile_place;
    int32_t tiles, heads, kv_heads, head_dim;
    int32_t window;                                /* INT32_MAX: all */
    float scale, soft_cap, cap_factor, alibi_bf16; /* cap_factor: 2 log2 e / soft_cap */
};

/* DIM: of a head, padded. A warp has MM blocks of 16 queries, N keys are a
 * tile, KEEP: Q's fragments stay in registers. */
template <int DIM_, int MM_, int N_, bool KEEP_, int BLOCKS_> struct Shape {
    static constexpr int DIM = DIM_, MM = MM_, N = N_;
    static constexpr bool KEEP = KEEP_;
    static constexpr int BLOCKS = BLOCKS_; /* that should fit a multiprocessor */
    static constexpr int WARPS = TWP_ATTENTION_ROWS / (16 * MM), THREADS = 32 * WARPS;
    static constexpr int CHUNKS = DIM / 8;         /* of 16 bytes in a row */
    static constexpr int TILE_BYTES = N * DIM * 2; /* of K, and of V */
    static constexpr int Q_BYTES = TWP_ATTENTION_ROWS * DIM * 2;
    static constexpr int BYTES = 4 * TILE_BYTES + (KEEP ? 0 : Q_BYTES);
    static_assert(!KEEP || Q_BYTES <= 4 * TILE_BYTES, "Q passes through K's and V's place");
};

/* Where a row's chunk stands, in bytes: eight rows' chunks of one number, which
 * ldmatrix reads at once, lie in different banks. */
template <int CHUNKS> __device__ __forceinline__ uint32_t place(int row, int chunk)
{
    int turned = CHUNKS % 8 == 0 ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & 3);
    return (uint32_t)(row * CHUNKS + turned) * 16;
}

/* `rows` rows of a matrix whose first `have` exist; zeros for the others and
 * behind `width` columns. */
template <typename S>
__device__ __forceinline__ void fetch(uint32_t to, const uint16_t *from, int64_t stride, int rows,
                                      int have, int width)
{
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * S::CHUNKS; i += S::THREADS) {
        int row = i / S::CHUNKS, chunk = i % S::CHUNKS;
        bool is_there = row < have && chunk * 8 < width;
        const uint16_t *source = is_there ? from + row * stride + chunk * 8 : from;
        mma::copy_async(to + place<S::CHUNKS>(row, chunk), source, is_there ? 16 : 0, 1);
    }
}

/* One warp's 16 MM queries. */
template <typename S> struct Rows {
    float o[S::MM][S::CHUNKS][4];
    float max[S::MM][2], sum[S::MM][2]; /* of rows l / 4 and l / 4 + 8 */
};

/* A block of 16 rows and 16 columns as the A operand. */
template <typename S>
__device__ __forceinline__ void load_a(uint32_t (&a)[4], uint32_t from, int row, int k)
{
    int lane = threadIdx.x % 32;
    hopper::load_blocks(from + place<S::CHUNKS>(row + lane % 16, k * 2 + lane / 16), a);
}

template <enum tw_dtype T, typename S>
__device__ __forceinline__ void scores(float (&s)[S::MM][S::N / 8][4],
                                       const uint32_t (&q)[S::MM][S::DIM / 16][4], uint32_t from_q,
                                       uint32_t from_k, int warp_row)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < S::MM; m++)
#pragma unroll
        for (int n = 0; n < S::N / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[m][n][e] = 0;
#pragma unroll
    for (int k = 0; k < S::DIM / 16; k++) {
        uint32_t a[S::MM][4];
#pragma unroll
        for (int m = 0; m < S::MM; m++) {
            if (!S::KEEP)
                load_a<S>(a[m], from_q, warp_row + 16 * m, k);
            else
#pragma unroll
                for (int e = 0; e < 4; e++)
                    a[m][e] = q[m][k][e];
        }
#pragma unroll
        for (int n = 0; n < S::N / 16; n++) {
            uint32_t b[4];
            int key = n * 16 + lane / 16 * 8 + lane % 8, chunk = k * 2 + lane / 8 % 2;
            hopper::load_blocks(from_k + place<S::CHUNKS>(key, chunk), b);
#pragma unroll
            for (int m = 0; m < S::MM; m++) {
                mma::multiply<T>(s[m][2 * n], a[m], b[0], b[1]);
                mma::multiply<T>(s[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* Scale, soft cap and alibi, where exp2's factor can't hold them: natural
 * units. */
template <typename S>
__device__ __forceinline__ void bend(float (&s)[S::MM][S::N / 8][4], const params &p, float slope,
                                     int row, int key)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < S::MM; m++)
#pragma unroll
        for (int n = 0; n < S::N / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float z = s[m][n][e] * p.scale;
                int at = key + n * 8 + lane % 4 * 2 + e % 2;
                int query = row + m * 16 + lane / 4 + e / 2 * 8;
                if (p.soft_cap > 0) {
                    float power = hopper::exp2_ftz(fabsf(z) * p.cap_factor);
                    z = copysignf(p.soft_cap - 2 * p.soft_cap * hopper::reciprocal_ftz(power + 1),
                                  z);
                }
                if (p.alibi_bf16 > 0)
                    z += p.alibi_bf16 * common::low_half<TW_BF16>(hopper::round_pair<TW_BF16>(
                                            slope * common::low_half<TW_BF16>(
                                                        hopper::round_pair<TW_BF16>((float)at, 0)),
                                            0));
                else
                    z += slope * (float)(at - query);
                s[m][n][e] = z;
            }
}

template <typename S>
__device__ __forceinline__ void mask(float (&s)[S::MM][S::N / 8][4], int window, int row, int key)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < S::MM; m++)
#pragma unroll
        for (int n = 0; n < S::N / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int back = row + m * 16 + lane / 4 + e / 2 * 8 - key - n * 8 - lane % 4 * 2 - e % 2;
                if (back < 0 || back >= window)
                    s[m][n][e] = -INFINITY;
            }
}

/* Scores to weights 2^(c (s - max)); sums and outputs take the factor by which
 * the maximum has grown, exactly 1 where it hasn't. */
template <typename S>
__device__ __forceinline__ void weigh(float (&s)[S::MM][S::N / 8][4], Rows<S> &r, float c)
{
#pragma unroll
    for (int m = 0; m < S::MM; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float max = r.max[m][half];
#pragma unroll
            for (int n = 0; n < S::N / 8; n++)
                max = fmaxf(max, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
            max = fmaxf(max, __shfl_xor_sync(common::FULL_WARP, max, 1));
            max = fmaxf(max, __shfl_xor_sync(common::FULL_WARP, max, 2));
            float base = max == -INFINITY ? 0.0f : max * c; /* nothing seen yet */
            float factor = hopper::exp2_ftz(fmaf(r.max[m][half], c, -base));
            float sum = 0;
#pragma unroll
            for (int n = 0; n < S::N / 8; n++)
#pragma unroll
                for (int e = 2 * half; e < 2 * half + 2; e++) {
                    s[m][n][e] = hopper::exp2_ftz(fmaf(s[m][n][e], c, -base));
                    sum += s[m][n][e];
                }
            r.sum[m][half] = fmaf(r.sum[m][half], factor, sum);
            r.max[m][half] = max;
            if (__all_sync(common::FULL_WARP, factor == 1.0f))
                continue; /* mostly, once a row has seen some keys */
#pragma unroll
            for (int d = 0; d < S::CHUNKS; d++) {
                r.o[m][d][2 * half] *= factor;
                r.o[m][d][2 * half + 1] *= factor;
            }
        }
}

template <enum tw_dtype T, typename S>
__device__ __forceinline__ void add_values(Rows<S> &r, const float (&s)[S::MM][S::N / 8][4],
                                           uint32_t from_v)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < S::N / 16; k++) {
        uint32_t a[S::MM][4];
#pragma unroll
        for (int m = 0; m < S::MM; m++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                a[m][e] = hopper::round_pair<T>(s[m][2 * k + e / 2][e % 2 * 2],
                                                s[m][2 * k + e / 2][e % 2 * 2 + 1]);
#pragma unroll
        for (int d = 0; d < S::CHUNKS / 2; d++) {
            uint32_t b[4];
            mma::load_blocks_turned(
                from_v + place<S::CHUNKS>(k * 16 + lane % 16, d * 2 + lane / 16), b);
#pragma unroll
            for (int m = 0; m < S::MM; m++) {
                mma::multiply<T>(r.o[m][2 * d], a[m], b[0], b[1]);
                mma::multiply<T>(r.o[m][2 * d + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* y = o / sum, by way of shared memory: rows are written 16 bytes at a time. */
template <enum tw_dtype T, typename S>
__device__ __forceinline__ void store(Rows<S> &r, uint32_t at, const unsigned char *memory,
                                      uint16_t *y, int64_t stride, int warp_row, int have,
                                      int width)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < S::MM; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = r.sum[m][half];
            sum += __shfl_xor_sync(common::FULL_WARP, sum, 1);
            sum += __shfl_xor_sync(common::FULL_WARP, sum, 2);
            float share = 1.0f / sum;
            int row = warp_row + 16 * m + lane / 4 + 8 * half;
#pragma unroll
            for (int d = 0; d < S::CHUNKS; d++)
                hopper::store_word(at + place<S::CHUNKS>(row, d) + lane % 4 * 4,
                                   hopper::round_pair<T>(r.o[m][d][2 * half] * share,
                                                         r.o[m][d][2 * half + 1] * share));
        }
    __syncwarp();
    for (int i = lane; i < 16 * S::MM * S::CHUNKS; i += 32) {
        int row = warp_row + i / S::CHUNKS, chunk = i % S::CHUNKS;
        if (row < have && chunk * 8 < width)
            *reinterpret_cast<uint4 *>(y + row * stride + chunk * 8) =
                *reinterpret_cast<const uint4 *>(memory + place<S::CHUNKS>(row, chunk));
    }
}

template <enum tw_dtype T, typename S, bool IS_BENT>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS) attention_kernel(const params p)
{
    TW_DYNAMIC_SHARED(memory);
    const uint32_t base = hopper::smem_address(memory);
    const uint32_t from_q = base + (S::KEEP ? 0 : 4 * S::TILE_BYTES);
    common::wait_for_last();
    const int head = blockIdx.x / p.tiles, tile = blockIdx.x % p.tiles;
    const int first = p.offset[p.tile_seq[tile]], length = p.offset[p.tile_seq[tile] + 1] - first;
    const int start = p.tile_place[tile]; /* the block's first query */
    const int warp_row = (int)threadIdx.x / 32 * 16 * S::MM, row = start + warp_row;
    const int64_t stride_q = (int64_t)p.heads * p.head_dim;
    const int64_t stride_k = (int64_t)p.kv_heads * p.head_dim;
    const int64_t at_q = (int64_t)(first + start) * stride_q + (int64_t)head * p.head_dim;
    const int64_t at_k = first * stride_k + (int64_t)(head / (p.heads / p.kv_heads)) * p.head_dim;
    const int have = min(TWP_ATTENTION_ROWS, length - start);
    const int begin = start >= p.window ? (start - p.window + 1) / S::N * S::N : 0;
    const int end = start + have; /* behind the last key */

    fetch<S>(from_q, p.q + at_q, stride_q, TWP_ATTENTION_ROWS, have, p.head_dim);
    hopper::copy_commit();
    uint32_t q[S::MM][S::DIM / 16][4];
    if (S::KEEP) {
        hopper::copy_wait<0>();
        __syncthreads();
#pragma unroll
        for (int m = 0; m < S::MM; m++)
#pragma unroll
            for (int k = 0; k < S::DIM / 16; k++)
                load_a<S>(q[m][k], from_q, warp_row + 16 * m, k);
        __syncthreads();
    }
    auto fetch_keys = [&](int key, int stage) {
        uint32_t to = base + stage * 2 * S::TILE_BYTES;
        fetch<S>(to, p.k + at_k + key * stride_k, stride_k, S::N, length - key, p.head_dim);
        fetch<S>(to + S::TILE_BYTES, p.v + at_k + key * stride_k, stride_k, S::N, length - key,
                 p.head_dim);
        hopper::copy_commit();
    };
    Rows<S> r;
#pragma unroll
    for (int m = 0; m < S::MM; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            r.max[m][half] = -INFINITY;
            r.sum[m][half] = 0;
        }
#pragma unroll
        for (int d = 0; d < S::CHUNKS; d++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                r.o[m][d][e] = 0;
    }
    const float slope = p.alibi ? p.alibi[head] : 0.0f;
    const float c = IS_BENT ? LOG2_E : p.scale * LOG2_E;
    fetch_keys(begin, 0);
    int stage = 0;
    for (int key = begin; key < end; key += S::N, stage ^= 1) {
        hopper::copy_wait<0>();
        __syncthreads(); /* this tile is here, and the one before is done with
                          */
        if (key + S::N < end)
            fetch_keys(key + S::N, stage ^ 1);
        const int last = row + 16 * S::MM - 1;
        if (key > last || (key + S::N - 1 <= row - p.window))
            continue; /* no query of this warp sees these keys */
        const uint32_t from_k = base + stage * 2 * S::TILE_BYTES;
        float s[S::MM][S::N / 8][4];
        scores<T, S>(s, q, from_q, from_k, warp_row);
        if (IS_BENT)
            bend<S>(s, p, slope, row, key);
        if (key + S::N - 1 > row || key <= last - p.window)
            mask<S>(s, p.window, row, key);
        weigh<S>(s, r, c);
        add_values<T, S>(r, s, from_k + S::TILE_BYTES);
    }
    __syncthreads(); /* K, V and Q are done with */
    common::let_next_start();
    store<T, S>(r, from_q, memory + (from_q - base), p.y + at_q, stride_q, warp_row, have,
                p.head_dim);
}

template <enum tw_dtype T, typename S, bool IS_BENT>
enum tw_status run(const struct twp_device *device, const params &p, cudaStream_t stream,
                   struct tw_error *err)
{
    if (S::BYTES > device->shared_bytes)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "cuda: attention heads of %d need %d bytes of shared memory, the "
                            "device has %d",
                            p.head_dim, S::BYTES, device->shared_bytes);
    cudaFuncSetAttribute(attention_kernel<T, S, IS_BENT>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, S::BYTES);
    return common::launch("attention", attention_kernel<T, S, IS_BENT>,
                          (unsigned)(p.tiles * p.heads), S::THREADS, S::BYTES, stream, err, p);
}

} // namespace attention

#endif
