/* Counting a sparse row's entries, one in a lane: sums of the row where h is known
 * (route.cu if plain, unpack.cu's hide if gated), firings beside the gathering of
 * W_down, which leaves the L2 cache's atomics idle (in hide they took 0.044 ms, 4 %
 * of the layer, at 16384 rows of 29 entries). */
#ifndef TW_KERNELS_CUDA_COUNTING_CUH
#define TW_KERNELS_CUDA_COUNTING_CUH

#include "kernels/cuda/common.cuh"

namespace counting {

/* A row's counts, in the lanes of its warp. */
struct RowSums {
    float l1 = 0;
    uint32_t nnz[TWP_DEFS] = {};
};

/* a: the packed act(gate). */
__device__ __forceinline__ void add_entry(const struct twp_counts &c, RowSums &sums,
                                          uint32_t neuron, float a, float h, uint32_t row)
{
    sums.l1 += fabsf(h);
    if (!isfinite(h))
        atomicMin(c.bad, (unsigned long long)row << 32 | neuron);
#pragma unroll
    for (int d = 0; d < TWP_DEFS; d++)
        if (d < c.defs)
            sums.nnz[d] += common::is_active(c.def[d], true, a, h);
}

/* The whole warp. */
__device__ __forceinline__ void finish_row(const struct twp_counts &c, const RowSums &sums,
                                           uint32_t row)
{
    float l1 = sums.l1;
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
        l1 += __shfl_xor_sync(common::FULL_WARP, l1, step);
    if (threadIdx.x % 32 == 0)
        c.l1[row] = l1;
#pragma unroll
    for (int d = 0; d < TWP_DEFS; d++) {
        if (d >= c.defs)
            break;
        uint32_t nnz = __reduce_add_sync(common::FULL_WARP, sums.nnz[d]);
        if (threadIdx.x % 32 == 0)
            c.nnz[d][row] = nnz;
    }
}

/* An entry of a row that isn't skipped. Results are unused: reductions, nothing
 * waits for them. */
__device__ __forceinline__ void fire(const struct twp_counts &c, uint32_t neuron, float a, float h,
                                     uint32_t row)
{
#pragma unroll
    for (int d = 0; d < TWP_DEFS; d++) {
        if (d >= c.defs || !common::is_active(c.def[d], true, a, h))
            continue;
        atomicAdd(c.fired[d] + neuron, 1);
        atomicMin(c.first[d] + neuron, row);
        atomicMax(c.last[d] + neuron, row + 1);
    }
}

} // namespace counting

#endif
