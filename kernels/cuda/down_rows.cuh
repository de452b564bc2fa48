/* What the down products of both paths add up of a row. */
#ifndef TW_KERNELS_CUDA_DOWN_ROWS_CUH
#define TW_KERNELS_CUDA_DOWN_ROWS_CUH

#include "kernels/cuda/common.cuh"

namespace down {

/* A row's parts are added by two sides, whose pairs of parts take turns, each in one
 * order; then the sides. */
constexpr int SIDES = 2, ROWS_AT_ONCE = 32 / SIDES;

/* What a side has of a row. */
struct Row {
    float l1 = 0;
    uint32_t nnz = 0, below = 0; // below: of the tile of 256 so far

    /* Counts into the histograms of tiles of 64, 128 and 256. left: columns from here. */
    __device__ __forceinline__ void add(uint32_t *histogram, uint32_t count, int part, int left,
                                        bool is_counted)
    {
        uint32_t *of_128 = histogram + 65, *of_256 = of_128 + 129;
        uint32_t low = count & 0xff, high = count >> 8, sum = low + high;
        nnz += sum;
        below = part % 2 ? below + sum : sum;
        if (!is_counted)
            return;
        atomicAdd(histogram + low, 1);
        if (left > 64)
            atomicAdd(histogram + high, 1);
        atomicAdd(of_128 + sum, 1);
        if (part % 2 || left <= TWP_PART)
            atomicAdd(of_256 + below, 1);
    }
};

/* A side's part behind this one. */
__device__ __forceinline__ int next_part(int part)
{
    return part % 2 ? part + 2 * SIDES - 1 : part + 1;
}

/* Statistics of up to ROWS_AT_ONCE rows from `first` on, by a warp: partial l1, tiles,
 * and where adds_nnz the sum of the counts. */
template <class Params>
__device__ __forceinline__ void sum_rows(const Params &p, uint32_t *histogram, int first, int end)
{
    int lane = threadIdx.x % 32, r = first + lane % ROWS_AT_ONCE, side = lane / ROWS_AT_ONCE;
    bool is_in = r < end, is_counted = is_in && !(p.counts.skip && p.counts.skip[r]);
    Row row;
    const float *l1 = p.sums.l1 + r;
    const uint16_t *count = p.sums.count + r;
#pragma unroll 4
    for (int part = 2 * side; is_in && part < p.parts; part = next_part(part)) {
        row.l1 += l1[part * p.sums.stride];
        if (p.sums.count)
            row.add(histogram, count[part * p.sums.stride], part, p.cols - part * TWP_PART,
                    is_counted);
    }
    row.l1 += __shfl_xor_sync(common::FULL_WARP, row.l1, ROWS_AT_ONCE);
    row.nnz += __shfl_xor_sync(common::FULL_WARP, row.nnz, ROWS_AT_ONCE);
    if (!is_in || side)
        return;
    for (int def = 0; p.adds_nnz && def < p.counts.defs; def++) // a row is no other lane's
        p.counts.nnz[def][r] += row.nnz;
    p.counts.l1[common::number_of(p.rows, r)] = row.l1;
}

/* l1 of a row alone. */
__device__ __forceinline__ float sum_l1(const struct twp_parts &sums, int cols, int r)
{
    float of_side[SIDES] = {};
    for (int side = 0; side < SIDES; side++)
        for (int part = 2 * side; part * TWP_PART < cols; part = next_part(part))
            of_side[side] += sums.l1[part * sums.stride + r];
    return of_side[0] + of_side[1];
}

} // namespace down

#endif
