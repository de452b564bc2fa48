/* Attention's warpgroup products emulated: stands for kernels/cuda/wgmma.cuh,
 * function by function. */
#ifndef TW_KERNELS_CUDA_WGMMA_CUH
#define TW_KERNELS_CUDA_WGMMA_CUH

#include "kernels/cuda/hopper.cuh"

namespace hopper {

inline uint64_t turned_descriptor(uint32_t address, uint32_t apart)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(apart >> 4) << 16 |
           (uint64_t)64 << 32 | (uint64_t)1 << 62;
}
template <int COUNT> inline void settle(float (&)[COUNT]) {}
template <enum tw_dtype T, bool IS_TURNED, int COUNT>
inline void wgmma_rows(float (&d)[COUNT], const uint32_t (&a)[4], uint64_t b, int adds)
{
    emu::wgmma_rows(d, a, b, 2 * COUNT, adds != 0, T == TW_F16, IS_TURNED);
}
template <enum tw_dtype T, int COUNT>
inline void wgmma_tiles(float (&d)[COUNT], uint64_t a, uint64_t b, int adds)
{
    emu::wgmma(d, a, b, 2 * COUNT, adds != 0, T == TW_F16);
}

} // namespace hopper

#endif
