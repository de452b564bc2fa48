/* The instructions of the portable path, one a function: cp.async, mbarrier
 * and mma.sync, on every GPU since compute capability 8.0. ldmatrix and the conversions stand
 * in hopper.cuh. Addresses are 32-bit shared-memory addresses. */
#ifndef TW_KERNELS_CUDA_MMA_CUH
#define TW_KERNELS_CUDA_MMA_CUH

#include <stdint.h>

#include "base/dtype.h"

namespace mma {

/* 16 bytes from global to shared memory, past the L1 cache, where is_wanted isn't
 * 0; zeros, and nothing is read, where `bytes` is 0 instead of 16. */
__device__ __forceinline__ void copy_async(uint32_t to, const void *from, uint32_t bytes,
                                           uint32_t is_wanted)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.u32 p, %3, 0;\n"
                 "@p cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n"
                 "}\n" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(is_wanted)
                 : "memory");
}

/* The same value, which the assembler then knows to be the same in all lanes. */
__device__ __forceinline__ uint32_t of_lane_0(uint32_t value)
{
    uint32_t same;
    asm volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, 0xffffffff;" : "=r"(same) : "r"(value));
    return same;
}

/* Arrives at the barrier when this thread's copies until now have; counted in
 * the barrier's expected arrivals. */
__device__ __forceinline__ void copy_arrive(uint32_t barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("{\n"
                 ".reg .b64 state;\n"
                 "mbarrier.arrive.shared.b64 state, [%0];\n"
                 "}\n" ::"r"(barrier)
                 : "memory");
}

/* Is that phase over? */
__device__ __forceinline__ bool barrier_is_over(uint32_t barrier, uint32_t parity)
{
    uint32_t is_over;
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "mbarrier.test_wait.parity.shared.b64 done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, done;\n"
                 "}\n"
                 : "=r"(is_over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return is_over != 0;
}

/* Until that phase is over. */
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* d[16][8] += a[16][16] b[8][16]^T. Lane l holds in d[2 i + e] row l / 4 + 8 i,
 * column 2 (l % 4) + e; a is load_blocks of rows 0-7 and 8-15 at K 0, then both
 * at K 8; b the two halves along K. */
template <enum tw_dtype T>
__device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1)
{
    if (T == TW_F16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* hopper::load_blocks of the transposed blocks. */
__device__ __forceinline__ void load_blocks_turned(uint32_t address, uint32_t (&v)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(address)
                 : "memory");
}

} // namespace mma

#endif
