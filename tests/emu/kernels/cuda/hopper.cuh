/* Hopper's instructions emulated, and what both paths share: stands for
 * kernels/cuda/hopper.cuh, function by function. */
#ifndef TW_KERNELS_CUDA_HOPPER_CUH
#define TW_KERNELS_CUDA_HOPPER_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "base/dtype.h"

namespace hopper {

inline uint32_t smem_address(const void *pointer) { return emu::shared_address(pointer); }

/* ---- barriers, clusters ---- */

inline void barrier_init(uint32_t barrier, uint32_t n) { emu::barrier_init(barrier, n); }
inline void barrier_init_fence() {}
inline void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    emu::barrier_expect(barrier, bytes);
}
inline void barrier_arrive_here(uint32_t barrier) { emu::barrier_arrive(barrier); }
inline void barrier_arrive(uint32_t barrier, uint32_t rank)
{
    emu::barrier_arrive_at(barrier, rank);
}
inline void barrier_wait(uint32_t barrier, uint32_t parity) { emu::barrier_wait(barrier, parity); }
inline void named_sync(int id, int threads) { emu::sync_named(id, threads); }
inline void named_arrive(int id, int threads) { emu::arrive_named(id, threads); }
inline uint32_t cluster_rank() { return emu::rank_in_cluster(); }
inline void cluster_sync() { emu::sync_cluster(); }

/* ---- TMA ---- */

inline void map_prefetch(const CUtensorMap *) {}
inline void tma_load(uint32_t to, const CUtensorMap *map, uint32_t barrier, int column, int row)
{
    emu::tma_load(to, map, barrier, column, row, 0);
}
inline void tma_multicast(uint32_t to, const CUtensorMap *map, uint32_t barrier, int column,
                          int row, uint16_t mask)
{
    emu::tma_load(to, map, barrier, column, row, mask);
}

inline void tma_store(const CUtensorMap *map, uint32_t from, int column, int row)
{
    emu::tma_store(map, from, column, row);
}
inline void tma_stores_read() { emu::tma_stores_read(); }

/* ---- warpgroup matrix products ---- */

template <int REGISTERS> inline void registers_up() {}
template <int REGISTERS> inline void registers_down() {}
inline uint64_t tile_descriptor(uint32_t address)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)64 << 32 |
           (uint64_t)1 << 62;
}
inline void wgmma_fence() {}
inline void wgmma_commit() { emu::wgmma_commit(); }
template <int GROUPS> inline void wgmma_wait() { emu::wgmma_wait(GROUPS); }
template <enum tw_dtype T> inline void wgmma(float (&d)[128], uint64_t a, uint64_t b, int adds)
{
    emu::wgmma(d, a, b, 256, adds != 0, T == TW_F16);
}
template <enum tw_dtype T>
inline void wgmma_narrow(float (&d)[32], uint64_t a, uint64_t b, int adds)
{
    emu::wgmma(d, a, b, 64, adds != 0, T == TW_F16);
}

/* ---- asynchronous copies ---- */

inline void copy_async(uint32_t to, const void *from, bool is_in)
{
    emu::copy_async(to, from, 16, is_in ? 16 : 0);
}
inline void copy_commit() { emu::copy_commit(); }
template <int GROUPS> inline void copy_wait() { emu::copy_wait(GROUPS); }
inline void proxy_fence() {}

/* ---- shared memory ---- */

inline void store_blocks(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t v[4] = {a, b, c, d};
    emu::store_matrices(address, v);
}
inline void load_blocks(uint32_t address, uint32_t (&v)[4])
{
    emu::load_matrices(address, v, false);
}
inline void store_word(uint32_t address, uint32_t v) { emu::store_shared(address, v, "word"); }
inline uint32_t load_word(uint32_t address)
{
    return emu::load_shared<uint32_t>(address, "word");
}
inline void store_byte(uint32_t address, uint32_t v)
{
    emu::store_shared(address, (uint8_t)v, "byte");
}
inline uint32_t load_half(uint32_t address)
{
    return emu::load_shared<uint16_t>(address, "half");
}
inline uint4 load_chunk(uint32_t address) { return emu::load_shared<uint4>(address, "chunk"); }
inline void store_chunk(uint32_t address, uint4 v) { emu::store_shared(address, v, "chunk"); }

/* ---- time, numbers ---- */

inline uint64_t nanoseconds() { return emu::nanoseconds(); }

inline float mul_ftz(float a, float b) { return emu::flush(emu::flush(a) * emu::flush(b)); }
inline float exp2_ftz(float x) { return emu::flush(exp2f(emu::flush(x))); }
inline float reciprocal_ftz(float x) { return emu::flush(1 / emu::flush(x)); }

template <enum tw_dtype T> inline uint32_t round_pair(float low, float high)
{
    return T == TW_F16 ? (uint32_t)emu::round_f16(high) << 16 | emu::round_f16(low)
                       : (uint32_t)emu::round_bf16(high) << 16 | emu::round_bf16(low);
}
inline uint32_t nonzero_halves(uint32_t pair)
{
    return ((pair >> 16 & 0x7fff) != 0) << 16 | ((pair & 0x7fff) != 0);
}
template <enum tw_dtype T> inline uint32_t relu_pair(float low, float high)
{
    return round_pair<T>(low <= 0 ? 0.0f : low, high <= 0 ? 0.0f : high);
}
inline float widen_half(uint16_t half) { return emu::widen_f16(half); }
inline float max_or_nan(float a, float b)
{
    return isnan(a) || isnan(b) ? NAN : a > b || (a == b && signbit(b)) ? a : b;
}

} // namespace hopper

#endif
