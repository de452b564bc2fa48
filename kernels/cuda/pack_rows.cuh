/* From a staged tile of 16-bit values to count words and entries: what both
 * packing kernels do with a row. A row is a warp's: lane l holds columns 8 l ..
 * 8 l + 7; ballots over the bits of the lanes' numbers give each entry its slot,
 * so entries ascend by column and no atomic is needed. */
#ifndef TW_KERNELS_CUDA_PACK_ROWS_CUH
#define TW_KERNELS_CUDA_PACK_ROWS_CUH

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/staged.cuh"

namespace packing {

using namespace staged;
using hopper::load_half;

constexpr int ROW_BYTES = TWP_TILE * 2;
constexpr uint32_t FULL_WARP = 0xffffffffu;

/* In place of an activation: any, and what isn't active under gate-abs is 0. NaN
 * stays. */
constexpr int APPLIED = -1;

/* Zero where the magnitude isn't beyond the threshold; else rounded, never to 0. */
template <enum tw_dtype T>
__device__ __forceinline__ uint32_t keep_pair(float low, float high, float t)
{
    constexpr float LEAST = T == TW_F16 ? 5.9604645e-8f : 9.1835e-41f;
    if (fabsf(low) < LEAST && fabsf(low) > t)
        low = copysignf(LEAST, low);
    if (fabsf(high) < LEAST && fabsf(high) > t)
        high = copysignf(LEAST, high);
    return hopper::round_pair<T>(fabsf(low) <= t ? 0.0f : low, fabsf(high) <= t ? 0.0f : high);
}

/* Squares that vanish aren't in the pattern. */
template <enum tw_dtype T> __device__ __forceinline__ uint32_t square_bits(uint4 v)
{
    uint32_t word[4] = {v.x, v.y, v.z, v.w}, mask = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float r = i % 2 ? common::high_half<T>(word[i / 2])
                        : common::low_half<T>(word[i / 2]);
        mask |= (common::packed_value<TW_ACT_RELU2>(r) != 0.0f) << i;
    }
    return mask;
}

/* Where a warp's row goes. */
struct RowOut {
    uint32_t *count, *entry;
};

/* ROWS rows of a tile at once, by a warp, so that their latencies overlap: count
 * words and entries. chunk: the address of this lane's 8 columns of a row. */
template <int ACT, enum tw_dtype T, int ROWS>
__device__ __forceinline__ void pack_rows(const uint32_t (&chunk)[ROWS], uint32_t valid, int slots,
                                          const RowOut (&out)[ROWS])
{
    int lane = threadIdx.x % 32;
    uint32_t mask[ROWS], counts[ROWS];
    int slot[ROWS] = {}; // entries in the lanes below, from the bits of their numbers
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        uint4 v = load_chunk(chunk[r]);
        mask[r] = valid & (ACT == TW_ACT_RELU2 ? square_bits<T>(v) : nonzero_bits(v));
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        counts[r] = __reduce_add_sync(FULL_WARP, __popc(mask[r]) << (lane & 24));
#pragma unroll
    for (int bit = 0; bit < 4; bit++)
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            uint32_t lanes = __ballot_sync(FULL_WARP, __popc(mask[r]) >> bit & 1);
            slot[r] += __popc(lanes & ((1u << lane) - 1)) << bit;
        }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (lane == 0)
            *out[r].count = counts[r];
        if ((int)__dp4a(counts[r], 0x01010101u, 0u) > slots)
            mask[r] = 0;
        uint32_t *to = out[r].entry + slot[r];
        for (; mask[r]; mask[r] &= mask[r] - 1) {
            int i = __ffs(mask[r]) - 1;
            float value = common::low_half<T>(load_half(chunk[r] + 2 * i));
            *to++ = __float_as_uint(common::packed_value<ACT>(value)) | (8 * lane + i);
        }
    }
}

/* Bit i: column 8 lane + i of a tile that ends after `columns` exists. */
__device__ __forceinline__ uint32_t columns_of_lane(int columns)
{
    int room = columns - 8 * (int)(threadIdx.x % 32);
    return room >= 8 ? 0xff : room > 0 ? (1u << room) - 1 : 0;
}

/* Rows r, r + STEP, ... of a staged tile, by this warp, AT_ONCE at once. */
template <int ACT, enum tw_dtype T, int STEP, int AT_ONCE>
__device__ __forceinline__ void pack_tile(const struct twp_packed &out, uint32_t staged,
                                          int64_t row, int rows, int tile, uint32_t valid, int r)
{
    int lane = threadIdx.x % 32;
    int64_t cell = (row + r) * out.tiles + tile;
    RowOut at = {out.count + cell, out.entry + cell * out.slots};
    int64_t cells = STEP * out.tiles, entries = cells * out.slots;
#pragma unroll 1
    for (; r + (AT_ONCE - 1) * STEP < rows; r += AT_ONCE * STEP) {
        RowOut to[AT_ONCE];
        uint32_t chunks[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            to[i] = {at.count + i * cells, at.entry + i * entries};
            chunks[i] = staged_chunk(staged, ROW_BYTES, r + i * STEP, lane);
        }
        pack_rows<ACT, T, AT_ONCE>(chunks, valid, out.slots, to);
        at = {at.count + AT_ONCE * cells, at.entry + AT_ONCE * entries};
    }
#pragma unroll 1
    for (; r < rows; r += STEP) {
        const uint32_t chunk[1] = {staged_chunk(staged, ROW_BYTES, r, lane)};
        const RowOut one[1] = {at};
        pack_rows<ACT, T, 1>(chunk, valid, out.slots, one);
        at = {at.count + cells, at.entry + entries};
    }
}

} // namespace packing

#endif
