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

} // namespace staged

#endif
