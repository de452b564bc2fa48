/* Hopper's own instructions, one a function: mbarrier, TMA, WGMMA, stmatrix,
 * clusters. What is PTX in this folder stands here, in wgmma.cuh and mma.cuh.
 * Addresses are 32-bit shared-memory addresses (smem_address). */
#ifndef TW_KERNELS_CUDA_HOPPER_CUH
#define TW_KERNELS_CUDA_HOPPER_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "base/dtype.h"

namespace hopper {

__device__ __forceinline__ uint32_t smem_address(const void *pointer)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/* ---- mbarrier ---- */

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/* Makes barrier_init visible to the cluster and to the copy engine. */
__device__ __forceinline__ void barrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                 "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void barrier_arrive_here(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives at the barrier of that block of the cluster. */
__device__ __forceinline__ void barrier_arrive(uint32_t barrier, uint32_t rank)
{
    asm volatile("{\n"
                 ".reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
                 "}\n" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Arrives and waits until that phase is over. */
__device__ __forceinline__ void barrier_meet(uint32_t barrier)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 ".reg .b64 phase;\n"
                 "mbarrier.arrive.shared::cta.b64 phase, [%0];\n"
                 "again:\n"
                 "mbarrier.try_wait.shared::cta.b64 done, [%0], phase;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(barrier)
                 : "memory");
}

/* ---- named barriers of a block: whole warps, which a __syncwarp brings together ---- */

__device__ __forceinline__ void named_sync(int id, int threads)
{
    asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void named_arrive(int id, int threads)
{
    asm volatile("barrier.cta.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* ---- clusters ---- */

__device__ __forceinline__ uint32_t cluster_rank()
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* ---- TMA ---- */

__device__ __forceinline__ void map_prefetch(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* A box at (column, row) of a matrix into this block's shared memory. */
__device__ __forceinline__ void tma_load(uint32_t to, const CUtensorMap *map, uint32_t barrier,
                                         int column, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(column), "r"(row)
                 : "memory");
}

/* The same into every block of the cluster named by mask, at the same place. */
__device__ __forceinline__ void tma_multicast(uint32_t to, const CUtensorMap *map,
                                              uint32_t barrier, int column, int row,
                                              uint16_t mask)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(column), "r"(row), "h"(mask)
                 : "memory");
}

/* The other way. The writers of shared memory passed proxy_fence before this thread
 * knew of it. */
__device__ __forceinline__ void tma_store(const CUtensorMap *map, uint32_t from, int column,
                                          int row)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
                 " [%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(from), "r"(column), "r"(row)
                 : "memory");
}

/* This thread's stores have read their shared memory. */
__device__ __forceinline__ void tma_stores_read()
{
    asm volatile("cp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group.read 0;" ::
                     : "memory");
}

/* ---- warpgroup matrix products ---- */

template <int REGISTERS> __device__ __forceinline__ void registers_up()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS> __device__ __forceinline__ void registers_down()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* Of a tile of 128-byte rows (64 bf16 along K) under the 128-byte swizzle:
 * groups of 8 rows 1024 bytes apart. Add 2 for each 32 bytes along K. */
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t address)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)64 << 32 |
           (uint64_t)1 << 62;
}

__device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int GROUPS> __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}

/* d[64][256] = (adds ? d : 0) + a[64][16] b[256][16]^T, operands of type T. Thread
 * t of the group holds in d[4 j + 2 i + e] row 16 (t / 32) + t % 32 / 4 + 8 i,
 * column 8 j + 2 (t % 4) + e. */
#define TW_WGMMA(TYPE)                                                                            \
    asm volatile(                                                                                 \
        "{\n"                                                                                     \
        ".reg .pred p;\n"                                                                         \
        "setp.ne.b32 p, %130, 0;\n"                                                               \
        "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " {"                         \
        "%0, %1, %2, %3, %4, %5, %6, %7, "                                                        \
        "%8, %9, %10, %11, %12, %13, %14, %15, "                                                  \
        "%16, %17, %18, %19, %20, %21, %22, %23, "                                                \
        "%24, %25, %26, %27, %28, %29, %30, %31, "                                                \
        "%32, %33, %34, %35, %36, %37, %38, %39, "                                                \
        "%40, %41, %42, %43, %44, %45, %46, %47, "                                                \
        "%48, %49, %50, %51, %52, %53, %54, %55, "                                                \
        "%56, %57, %58, %59, %60, %61, %62, %63, "                                                \
        "%64, %65, %66, %67, %68, %69, %70, %71, "                                                \
        "%72, %73, %74, %75, %76, %77, %78, %79, "                                                \
        "%80, %81, %82, %83, %84, %85, %86, %87, "                                                \
        "%88, %89, %90, %91, %92, %93, %94, %95, "                                                \
        "%96, %97, %98, %99, %100, %101, %102, %103, "                                            \
        "%104, %105, %106, %107, %108, %109, %110, %111, "                                        \
        "%112, %113, %114, %115, %116, %117, %118, %119, "                                        \
        "%120, %121, %122, %123, %124, %125, %126, %127 "                                         \
        "}, %128, %129, p, 1, 1, 0, 0;\n"                                                         \
        "}\n"                                                                                     \
        :                                                                                         \
          "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),                                         \
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),                                         \
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),                                       \
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),                                     \
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),                                     \
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),                                     \
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),                                     \
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),                                     \
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),                                     \
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),                                     \
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),                                     \
          "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),                                     \
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),                                     \
          "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),                                     \
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),                                     \
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),                                     \
          "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]),                                     \
          "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),                                     \
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]),                                     \
          "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),                                     \
          "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),                                     \
          "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),                                     \
          "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),                                     \
          "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),                                     \
          "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),                                     \
          "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),                                 \
          "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),                                 \
          "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),                                 \
          "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),                                 \
          "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),                                 \
          "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]),                                 \
          "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])                                  \
        : "l"(a), "l"(b), "r"(adds))

template <enum tw_dtype T>
__device__ __forceinline__ void wgmma(float (&d)[128], uint64_t a, uint64_t b, int adds)
{
    if (T == TW_F16)
        TW_WGMMA("f16");
    else
        TW_WGMMA("bf16");
}
#undef TW_WGMMA

/* The same for b[64][16]: d[64][64], the places as above. */
#define TW_WGMMA_NARROW(TYPE)                                                                      \
    asm volatile(                                                                                  \
        "{\n"                                                                                      \
        ".reg .pred p;\n"                                                                          \
        "setp.ne.b32 p, %34, 0;\n"                                                                 \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {"                           \
        "%0, %1, %2, %3, %4, %5, %6, %7, " \
        "%8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, " \
        "%24, %25, %26, %27, %28, %29, %30, %31 " \
        "}, %32, %33, p, 1, 1, 0, 0;\n"                                                            \
        "}\n"                                                                                      \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) \
        : "l"(a), "l"(b), "r"(adds))
template <enum tw_dtype T>
__device__ __forceinline__ void wgmma_narrow(float (&d)[32], uint64_t a, uint64_t b, int adds)
{
    if (T == TW_F16)
        TW_WGMMA_NARROW("f16");
    else
        TW_WGMMA_NARROW("bf16");
}
#undef TW_WGMMA_NARROW

/* ---- asynchronous copies ---- */

/* 16 bytes from global to shared memory, past the L1 cache; zeros, and nothing
 * is read, where not is_in. */
__device__ __forceinline__ void copy_async(uint32_t to, const void *from, bool is_in)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(is_in ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All but this thread's last GROUPS groups have arrived. */
template <int GROUPS> __device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

/* What this thread wrote to shared memory is seen by WGMMA after a barrier. */
__device__ __forceinline__ void proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- shared memory ---- */

/* Four 8 x 8 blocks of 16-bit values; lane l gives the row l % 8 of block
 * l / 8. */
__device__ __forceinline__ void store_blocks(uint32_t address, uint32_t a, uint32_t b,
                                             uint32_t c, uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     address),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

/* The inverse: four 8 x 8 blocks into registers. */
__device__ __forceinline__ void load_blocks(uint32_t address, uint32_t (&v)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void store_word(uint32_t address, uint32_t v)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

__device__ __forceinline__ uint32_t load_word(uint32_t address)
{
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
    return v;
}

__device__ __forceinline__ void store_byte(uint32_t address, uint32_t v)
{
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

__device__ __forceinline__ uint32_t load_half(uint32_t address)
{
    uint16_t v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address));
    return v;
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

/* ---- time ---- */

__device__ __forceinline__ uint64_t nanoseconds()
{
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

/* ---- numbers ---- */

/* Numbers below 2^-126 are 0 in these: as operand and as result. */
__device__ __forceinline__ float mul_ftz(float a, float b)
{
    float product;
    asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
    return product;
}

__device__ __forceinline__ float exp2_ftz(float x) // within 2^-22, relative
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

__device__ __forceinline__ float reciprocal_ftz(float x) // within 1 ulp
{
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

/* 1 in each half that isn't 0 but for its sign. A sum with itself drops the sign; with
 * the minimum it is one instruction, of twice the rate of a minimum alone. */
__device__ __forceinline__ uint32_t nonzero_halves(uint32_t pair)
{
#if __CUDA_ARCH__ >= 900
    uint32_t flags;
    asm("{\n"
        ".reg .b32 twice;\n"
        "add.u16x2 twice, %1, %1;\n"
        "min.u16x2 %0, twice, %2;\n"
        "}\n"
        : "=r"(flags)
        : "r"(pair), "r"(0x00010001u));
    return flags;
#else
    return ((pair & 0x7fff7fffu) + 0x7fff7fffu) >> 15 & 0x00010001u;
#endif
}

/* Rounds two to type T, the first in the lower half. */
template <enum tw_dtype T> __device__ __forceinline__ uint32_t round_pair(float low, float high)
{
    uint32_t pair;
    if (T == TW_F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* The same and cuts below zero; NaN stays. */
template <enum tw_dtype T> __device__ __forceinline__ uint32_t relu_pair(float low, float high)
{
    uint32_t pair;
    if (T == TW_F16)
        asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ float widen_half(uint16_t half)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

/* The greater; NaN if one is. */
__device__ __forceinline__ float max_or_nan(float a, float b)
{
    float greater;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(greater) : "f"(a), "f"(b));
    return greater;
}

} // namespace hopper

#endif
