/* A staged tile: its rows in shared memory, in chunks of 16 bytes swizzled by the
 * row's low three bits, so that the products' fragments and whole rows both hit
 * all banks. */
#ifndef TW_KERNELS_CUDA_STAGED_CUH
#define TW_KERNELS_CUDA_STAGED_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels/cuda/hopper.cuh"

namespace staged {

__device__ __forceinline__ uint32_t staged_chunk(uint32_t staged, int row_bytes, int row,
                                                 int chunk)
{
    return staged + row * row_bytes + ((chunk ^ (row % 8)) << 4);
}

/* The same in boxes of 64 rows and columns, one behind the other, as the copy engine
 * takes them. */
constexpr int BOX = 64, BOX_BYTES = BOX * BOX * 2;

__device__ __forceinline__ uint32_t boxed_chunk(uint32_t staged, int row, int chunk)
{
    return staged + chunk / 8 * BOX_BYTES + row * (2 * BOX) + (((chunk ^ row) % 8) << 4);
}

using hopper::load_chunk;
using hopper::load_word;
using hopper::store_chunk;

/* Bit i: value i of a chunk isn't zero, whatever its sign. */
__device__ __forceinline__ uint32_t nonzero_bits(uint4 v)
{
    uint32_t word[4] = {v.x, v.y, v.z, v.w}, pairs = 0;
#pragma unroll
    for (int i = 3; i >= 0; i--)
        pairs = 4 * pairs + hopper::nonzero_halves(word[i]);
    return (pairs | pairs >> 15) & 0xff; // even columns from bit 0 on, odd from 16 on
}

} // namespace staged

#endif
