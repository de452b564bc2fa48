/* Planes of bits: which values of a half tile (64 rows) are active under one
 * definition. A plane covers 128 columns: 16 bytes a row.
 *
 * Two layouts, by who wrote it. MULTIPLIED: a multiplying thread has columns
 * 8 j + 2 k + e of its rows (k = lane % 4; j 0 .. 15; e 0, 1) and writes word k with
 * bit j + 16 e. COPIED: bit c % 32 of word c / 32 is column c.
 *
 * Columns are counted by the block's spare warps: a lane takes a row's word, five
 * exchanges of halves transpose 32 rows by 32 columns, and each lane then has 32
 * rows of one column. Lost: a lane a column, 64 loads of a word each. */
#ifndef TW_KERNELS_CUDA_PLANES_CUH
#define TW_KERNELS_CUDA_PLANES_CUH

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/product.cuh"

namespace planes {

using namespace product;

constexpr int COLUMNS = 128;          // of a plane
constexpr int ROW_BYTES = COLUMNS / 8;
constexpr int BYTES = HALF_ROWS * ROW_BYTES;
constexpr uint32_t FULL_WARP = 0xffffffffu;
static_assert(COLUMNS == TWP_PART, "a plane is a part of a row");

enum Layout { MULTIPLIED, COPIED };

/* Bit r of lane l's word becomes bit l of lane r's: halves, bytes, then bits. A lane
 * keeps the part of its word that stays and takes the other's, moved by the step. */
__device__ __forceinline__ uint32_t transpose(uint32_t v)
{
    uint32_t other = __shfl_xor_sync(FULL_WARP, v, 16);
    v = __byte_perm(v, other, threadIdx.x & 16 ? 0x3276 : 0x5410);
    other = __shfl_xor_sync(FULL_WARP, v, 8);
    v = __byte_perm(v, other, threadIdx.x & 8 ? 0x3715 : 0x6240);
    const uint32_t lower[3] = {0x55555555, 0x33333333, 0x0f0f0f0f};
#pragma unroll
    for (int i = 2; i >= 0; i--) {
        int step = 1 << i;
        bool is_upper = threadIdx.x & step;
        uint32_t keep = is_upper ? ~lower[i] : lower[i];
        other = __shfl_xor_sync(FULL_WARP, v, step);
        other = __funnelshift_l(other, other, is_upper ? 32 - step : step);
        v = (v & keep) | (other & ~keep);
    }
    return v;
}

/* 32 columns of a lane's row: number i of 4. */
template <Layout L> __device__ __forceinline__ uint32_t column_word(uint4 row, int i)
{
    if (L == COPIED) // no array: its place would be memory
        return i < 2 ? i ? row.y : row.x : i == 2 ? row.z : row.w;
    int pick = i | (4 + i) << 4; // byte i of each word
    uint32_t low = __byte_perm(row.x, row.y, pick), high = __byte_perm(row.z, row.w, pick);
    return __byte_perm(low, high, 0x5410);
}

/* The column of its bit. */
template <Layout L> __device__ __forceinline__ int column_of(int i, int bit)
{
    return L == COPIED ? 32 * i + bit : 64 * (i % 2) + 8 * (bit % 8) + 2 * (bit / 8) + i / 2;
}

/* How many bits of a row's columns below 64, and of the others. */
template <Layout L> __device__ __forceinline__ uint2 row_counts(uint4 v)
{
    if (L == COPIED)
        return make_uint2(__popc(v.x) + __popc(v.y), __popc(v.z) + __popc(v.w));
    constexpr uint32_t BELOW = 0x00ff00ff; // j < 8
    return make_uint2(__popc((v.x & BELOW) | (v.y & BELOW) << 8) +
                          __popc((v.z & BELOW) | (v.w & BELOW) << 8),
                      __popc((v.x & ~BELOW) | (v.y >> 8 & BELOW)) +
                          __popc((v.z & ~BELOW) | (v.w >> 8 & BELOW)));
}

/* One column over the rows of a tile, one a bit. */
struct Column {
    uint32_t rows[TILE_M / 32];

    __device__ __forceinline__ bool any() const { return rows[0] | rows[1] | rows[2] | rows[3]; }
    __device__ __forceinline__ uint32_t count() const
    {
        return __popc(rows[0]) + __popc(rows[1]) + __popc(rows[2]) + __popc(rows[3]);
    }
    __device__ __forceinline__ int first() const
    {
        return rows[0]   ? __ffs(rows[0]) - 1
               : rows[1] ? __ffs(rows[1]) + 31
               : rows[2] ? __ffs(rows[2]) + 63
                         : __ffs(rows[3]) + 95;
    }
    __device__ __forceinline__ int last() const
    {
        return rows[3]   ? 127 - __clz(rows[3])
               : rows[2] ? 95 - __clz(rows[2])
               : rows[1] ? 63 - __clz(rows[1])
                         : 31 - __clz(rows[0]);
    }
};
static_assert(TILE_M == 128, "four words");

/* A column that isn't empty into the layer's counts; number(row): of a row. Nothing
 * is read, so nothing is waited for. */
template <typename F>
__device__ __forceinline__ void publish(const struct twp_counts &c, int def, int column,
                                        const Column &rows, F number)
{
    atomicAdd(c.fired[def] + column, rows.count());
    atomicMin(c.first[def] + column, number(rows.first()));
    atomicMax(c.last[def] + column, number(rows.last()) + 1);
}

} // namespace planes

#endif
