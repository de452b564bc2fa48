/* The portable path's instructions emulated: stands for kernels/cuda/mma.cuh,
 * function by function. */
#ifndef TW_KERNELS_CUDA_MMA_CUH
#define TW_KERNELS_CUDA_MMA_CUH

#include <stdint.h>

#include "base/dtype.h"
#include "emu_device.h"

namespace mma {

inline void copy_async(uint32_t to, const void *from, uint32_t bytes, uint32_t is_wanted)
{
    if (is_wanted)
        emu::copy_async(to, from, 16, bytes);
}

inline uint32_t of_lane_0(uint32_t value) { return __shfl_sync(0xffffffffu, value, 0); }
inline void copy_arrive(uint32_t barrier) { emu::copy_arrive(barrier); }
inline void barrier_init(uint32_t barrier, uint32_t n) { emu::barrier_init(barrier, n); }
inline void barrier_arrive(uint32_t barrier) { emu::barrier_arrive(barrier); }
inline bool barrier_is_over(uint32_t barrier, uint32_t parity)
{
    return emu::barrier_is_over(barrier, parity);
}
inline void barrier_wait(uint32_t barrier, uint32_t parity) { emu::barrier_wait(barrier, parity); }

template <enum tw_dtype T>
inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    emu::multiply(d, a, b0, b1, T == TW_F16);
}

inline void load_blocks_turned(uint32_t address, uint32_t (&v)[4])
{
    emu::load_matrices(address, v, true);
}

} // namespace mma

#endif
