/* Rows of a staged tile four at a time, by a warp: what pack_rows.cuh does, by a
 * third of its instructions where lanes hold one entry or none, which one sum
 * tells. Whole tiles of 64 rows alone.
 *
 * The 64 rows of a half tile are 16 groups; warps take groups in turn, so that a
 * row's swizzle is known but for one bit. */
#ifndef TW_KERNELS_CUDA_PACK_GROUPS_CUH
#define TW_KERNELS_CUDA_PACK_GROUPS_CUH

#include "kernels/cuda/pack_rows.cuh"

namespace packing {

constexpr int GROUP_ROWS = 4;

/* Where the first row of a half tile goes, and entries from one row to the next. */
struct GroupOut {
    uint32_t *count, *entry;
    uint32_t tiles, entries;
    int slots;
};

/* Entry i of this lane's 8 columns. */
template <int ACT, enum tw_dtype T>
__device__ __forceinline__ uint32_t entry_of(uint32_t chunk, int i)
{
    float value = common::low_half<T>(load_half(chunk + 2 * i));
    return __float_as_uint(common::packed_value<ACT>(value)) | (8 * (threadIdx.x % 32) + i);
}

/* A row's entries, however many. */
template <int ACT, enum tw_dtype T>
__device__ __forceinline__ void write_entries(uint32_t chunk, uint32_t mask, int total,
                                              const GroupOut &out, int row)
{
    int below = 0, n = __popc(mask);
#pragma unroll
    for (int bit = 0; bit < 4; bit++)
        below += __popc(__ballot_sync(FULL_WARP, n >> bit & 1) &
                        ((1u << threadIdx.x % 32) - 1))
                 << bit;
    if (total > out.slots)
        return;
    uint32_t *to = out.entry + (row * out.entries + below);
    for (; mask; mask &= mask - 1)
        *to++ = entry_of<ACT, T>(chunk, __ffs(mask) - 1);
}

/* chunk[i]: this lane's 8 columns of row i. row: within the half tile. */
template <int ACT, enum tw_dtype T>
__device__ __forceinline__ void pack_group(const uint32_t (&chunk)[GROUP_ROWS], const GroupOut &out,
                                           int row)
{
    int lane = threadIdx.x % 32, total[GROUP_ROWS];
    uint32_t mask[GROUP_ROWS], counts[GROUP_ROWS], lanes[GROUP_ROWS];
    bool is_single = true; // no lane has two
#pragma unroll
    for (int r = 0; r < GROUP_ROWS; r++) {
        uint4 v = load_chunk(chunk[r]);
        mask[r] = ACT == TW_ACT_RELU2 ? square_bits<T>(v) : nonzero_bits(v);
    }
#pragma unroll
    for (int r = 0; r < GROUP_ROWS; r++) {
        counts[r] = __reduce_add_sync(FULL_WARP, __popc(mask[r]) << (lane & 24));
        lanes[r] = __ballot_sync(FULL_WARP, mask[r] != 0);
    }
#pragma unroll
    for (int r = 0; r < GROUP_ROWS; r++) {
        total[r] = __dp4a(counts[r], 0x01010101u, 0u);
        is_single = is_single && total[r] == __popc(lanes[r]) && total[r] <= out.slots;
    }
    uint32_t even = lane == 0 ? counts[0] : counts[2], odd = lane == 1 ? counts[1] : counts[3];
    uint32_t mine = lane % 2 ? odd : even;
    if (lane < GROUP_ROWS)
        out.count[(row + lane) * out.tiles] = mine;
    if (is_single) {
#pragma unroll
        for (int r = 0; r < GROUP_ROWS; r++)
            if (mask[r])
                out.entry[(row + r) * out.entries + __popc(lanes[r] & ((1u << lane) - 1))] =
                    entry_of<ACT, T>(chunk[r], 31 - __clz(mask[r]));
    } else {
#pragma unroll
        for (int r = 0; r < GROUP_ROWS; r++)
            write_entries<ACT, T>(chunk[r], mask[r], total[r], out, row + r);
    }
}

/* Groups first, first + WARPS, ... of a half tile's 64 rows, whose first one is
 * `row` of the tensor. */
template <int ACT, enum tw_dtype T, int WARPS>
__device__ __forceinline__ void pack_groups(const struct twp_packed &to, uint32_t staged,
                                            int64_t row, int tile, int first)
{
    constexpr int GROUPS = 64 / GROUP_ROWS;
    int64_t cell = row * to.tiles + tile;
    GroupOut out = {to.count + cell, to.entry + cell * to.slots, (uint32_t)to.tiles,
                    (uint32_t)(to.tiles * to.slots), to.slots};
    uint32_t within[GROUP_ROWS]; // staged_chunk of the first rows
#pragma unroll
    for (int r = 0; r < GROUP_ROWS; r++)
        within[r] = staged_chunk(staged, ROW_BYTES, r, threadIdx.x % 32);
#pragma unroll 1
    for (int g = first; g < GROUPS; g += WARPS) {
        uint32_t chunk[GROUP_ROWS];
#pragma unroll
        for (int r = 0; r < GROUP_ROWS; r++) // rows 4 on of 8: the swizzle's upper bit
            chunk[r] = (within[r] ^ g % 2 << 6) + g * GROUP_ROWS * ROW_BYTES;
        pack_group<ACT, T>(chunk, out, g * GROUP_ROWS);
    }
}

} // namespace packing

#endif
