/* What the down products of both paths add up of a row. */
#ifndef TW_KERNELS_CUDA_DOWN_ROWS_CUH
#define TW_KERNELS_CUDA_DOWN_ROWS_CUH

#include "kernels/cuda/common.cuh"

namespace down {

/* A row's count words into the histograms of tiles of 64, 128 and 256. */
__device__ __forceinline__ void add_word(uint32_t *histogram, uint32_t word, int cols)
{
    uint32_t *of_128 = histogram + 65, *of_256 = of_128 + 129;
    uint32_t q[4] = {word & 0xff, word >> 8 & 0xff, word >> 16 & 0xff, word >> 24};
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (cols > 64 * i)
            atomicAdd(histogram + q[i], 1);
    atomicAdd(of_128 + q[0] + q[1], 1);
    if (cols > 128)
        atomicAdd(of_128 + q[2] + q[3], 1);
    atomicAdd(of_256 + q[0] + q[1] + q[2] + q[3], 1);
}

/* Row r's statistics by a warp: partial l1 added in one order, its tiles, and where
 * adds_nnz the sum of its count words. */
template <class Params>
__device__ __forceinline__ void sum_row(const Params &p, uint32_t *histogram, int r)
{
    int lane = threadIdx.x % 32;
    float sum = common::sum_parts(p.l1_part, p.parts, r);
    bool is_counted = !(p.counts.skip && p.counts.skip[r]);
    uint32_t nnz = 0;
    for (int tile = lane; p.count && tile < p.tiles; tile += 32) {
        uint32_t word = p.count[(int64_t)r * p.tiles + tile];
        nnz = __dp4a(word, 0x01010101u, nnz);
        if (is_counted)
            add_word(histogram, word, p.cols - tile * TWP_TILE);
    }
    nnz = __reduce_add_sync(0xffffffffu, nnz);
    if (p.adds_nnz && lane < p.counts.defs) // a row is no other warp's
        p.counts.nnz[lane][r] += nnz;
    if (lane == 0)
        p.counts.l1[common::number_of(p.rows, r)] = sum;
}

} // namespace down

#endif
