/* Counting a sparse row's entries, one in a lane: shared by the kernels that
 * know h (route.cu where plain, unpack.cu where gated). */
#ifndef TW_KERNELS_CUDA_COUNTING_CUH
#define TW_KERNELS_CUDA_COUNTING_CUH

#include "kernels/cuda/common.cuh"

namespace counting {

/* A row's counts, in the lanes of its warp. */
struct RowSums {
    float l1 = 0;
    uint32_t nnz[TWP_DEFS] = {};
};

__device__ __forceinline__ void fire(const struct twp_counts &c, int def, uint32_t neuron,
                                     uint32_t row)
{
    atomicAdd(c.fired[def] + neuron, 1); // results unused: reductions, nothing waits
    atomicMin(c.first[def] + neuron, row);
    atomicMax(c.last[def] + neuron, row + 1);
}

/* a: the packed act(gate). */
__device__ __forceinline__ void add_entry(const struct twp_counts &c, RowSums &sums,
                                          uint32_t neuron, float a, float h, uint32_t row,
                                          bool is_skipped)
{
    sums.l1 += fabsf(h);
    if (!isfinite(h))
        atomicMin(c.bad, (unsigned long long)row << 32 | neuron);
#pragma unroll
    for (int d = 0; d < TWP_DEFS; d++) {
        if (d >= c.defs || !common::is_active(c.def[d], true, a, h))
            continue;
        sums.nnz[d]++;
        if (!is_skipped)
            fire(c, d, neuron, row);
    }
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

} // namespace counting

#endif
