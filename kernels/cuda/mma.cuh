/* Instructions that every GPU since compute capability 8.0 has: cp.async and
 * mma.sync, one a function. Addresses are 32-bit shared-memory addresses. */
#ifndef TW_KERNELS_CUDA_MMA_CUH
#define TW_KERNELS_CUDA_MMA_CUH

#include <stdint.h>

#include "base/dtype.h"

namespace mma {

/* 16 bytes from global to shared memory, past the L1 cache; zeros, and nothing
 * is read, where not is_in. */
__device__ __forceinline__ void copy_async(uint32_t to, const void *from, bool is_in)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(is_in ? 16 : 0)
                 : "memory");
}

/* This thread's copies have arrived. */
__device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* d[16][8] += a[16][16] b[8][16]^T of type T. Lane l holds in d[2 i + e] row
 * l / 4 + 8 i, column 2 (l % 4) + e; of a rows l / 4 and + 8 at K 2 (l % 4), then
 * both 8 further along K; of b column l / 4 at the same two places. */
template <enum tw_dtype T>
__device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1)
{
    if (T == TW_F16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

} // namespace mma

#endif
