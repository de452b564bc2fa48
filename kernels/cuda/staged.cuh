/* A staged tile: its rows in shared memory, in chunks of 16 bytes swizzled by the
 * row's low three bits, so that the products' fragments and whole rows both hit
 * all banks. */
#ifndef TW_KERNELS_CUDA_STAGED_CUH
#define TW_KERNELS_CUDA_STAGED_CUH

#include <cuda_runtime.h>
#include <stdint.h>

namespace staged {

__device__ __forceinline__ uint32_t staged_chunk(uint32_t staged, int row_bytes, int row,
                                                 int chunk)
{
    return staged + row * row_bytes + ((chunk ^ (row % 8)) << 4);
}

__device__ __forceinline__ uint4 load_chunk(uint32_t address)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

__device__ __forceinline__ void store_chunk(uint32_t address, uint4 v)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y),
                 "r"(v.z), "r"(v.w)
                 : "memory");
}

__device__ __forceinline__ uint32_t load_word(uint32_t address)
{
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
    return v;
}

} // namespace staged

#endif
