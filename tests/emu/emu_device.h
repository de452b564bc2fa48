/* What kernels call: indices, warp operations, atomics, bits. */
#ifndef TESTS_EMU_DEVICE_H
#define TESTS_EMU_DEVICE_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#include "emu.h"
#include "emu_numbers.h"

#define TW_DYNAMIC_SHARED_ALIGNED(name, align)                                 \
    unsigned char *const name =                                                \
        static_cast<unsigned char *>(emu::dynamic_shared(align))

#define threadIdx (emu::self->thread)
constexpr int warpSize = 32;

/* ---- of the block and the warp ---- */

inline void __syncthreads()
{
    emu::sync_block(false);
}
inline int __syncthreads_count(int is)
{
    return emu::sync_block(is != 0);
}
inline int __syncthreads_or(int is)
{
    return emu::sync_block(is != 0) > 0;
}
inline int __syncthreads_and(int is)
{
    return emu::sync_block(is == 0) == 0;
}
inline void __syncwarp(uint32_t mask = 0xffffffffu)
{
    emu::sync_warp(mask);
}
inline void __threadfence()
{
}
inline void __threadfence_block()
{
}
inline void __threadfence_system()
{
}
inline uint32_t __activemask()
{
    return 1u << emu::self->lane;
}

namespace emu
{

template <typename T> struct Shuffled {
    T value;
    int from; /* lane */
};

template <typename T>
inline T shuffle(const char *name, uint32_t mask, T value, int from)
{
    const Shuffled<T> in = {value, from};
    return gather<T>(name, mask, in, [name](const Group &g) {
        for (int lane = 0; lane < WARP; lane++) {
            if (!g.has(lane))
                continue;
            int source = g.in<Shuffled<T>>(lane).from;
            if (!g.has(source))
                die("%s: lane %d reads lane %d, which takes no part", name,
                    lane, source);
            g.out<T>(lane) = g.in<Shuffled<T>>(source).value;
        }
    });
}

/* The lane, or this one where it is outside its `width` lanes. */
inline int within(int lane, int width)
{
    int mine = self->lane, first = mine - mine % width;
    return lane < first || lane >= first + width ? mine : lane;
}

template <typename T, typename F>
inline T reduce(const char *name, uint32_t mask, T value, F f)
{
    return gather<T>(name, mask, value, [f](const Group &g) {
        T all{};
        bool has_one = false;
        for (int lane = 0; lane < WARP; lane++)
            if (g.has(lane)) {
                all = has_one ? f(all, g.in<T>(lane)) : g.in<T>(lane);
                has_one = true;
            }
        for (int lane = 0; lane < WARP; lane++)
            if (g.has(lane))
                g.out<T>(lane) = all;
    });
}

} // namespace emu

template <typename T>
inline T __shfl_sync(uint32_t mask, T v, int lane, int width = 32)
{
    int first = emu::self->lane - emu::self->lane % width;
    return emu::shuffle("__shfl_sync", mask, v, first + (lane & (width - 1)));
}
template <typename T>
inline T __shfl_xor_sync(uint32_t mask, T v, int bits, int width = 32)
{
    return emu::shuffle("__shfl_xor_sync", mask, v,
                        emu::within(emu::self->lane ^ bits, width));
}
template <typename T>
inline T __shfl_up_sync(uint32_t mask, T v, int by, int width = 32)
{
    return emu::shuffle("__shfl_up_sync", mask, v,
                        emu::within(emu::self->lane - by, width));
}
template <typename T>
inline T __shfl_down_sync(uint32_t mask, T v, int by, int width = 32)
{
    return emu::shuffle("__shfl_down_sync", mask, v,
                        emu::within(emu::self->lane + by, width));
}
inline uint32_t __ballot_sync(uint32_t mask, int is)
{
    uint32_t mine = is ? 1u << emu::self->lane : 0;
    return emu::reduce("__ballot_sync", mask, mine,
                       [](uint32_t a, uint32_t b) { return a | b; });
}
inline int __any_sync(uint32_t mask, int is)
{
    return emu::reduce("__any_sync", mask, (int)(is != 0),
                       [](int a, int b) { return a | b; });
}
inline int __all_sync(uint32_t mask, int is)
{
    return emu::reduce("__all_sync", mask, (int)(is != 0),
                       [](int a, int b) { return a & b; });
}
#define EMU_REDUCE(name, type, how)                                            \
    inline type name(uint32_t mask, type v)                                    \
    {                                                                          \
        return emu::reduce(#name, mask, v,                                     \
                           [](type a, type b) -> type { return how; });        \
    }
EMU_REDUCE(__reduce_add_sync, unsigned, a + b)
EMU_REDUCE(__reduce_add_sync, int, (int)((unsigned)a + (unsigned)b))
EMU_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
EMU_REDUCE(__reduce_min_sync, int, a < b ? a : b)
EMU_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
EMU_REDUCE(__reduce_max_sync, int, a > b ? a : b)
EMU_REDUCE(__reduce_or_sync, unsigned, a | b)
EMU_REDUCE(__reduce_and_sync, unsigned, a &b)
EMU_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef EMU_REDUCE

/* ---- atomics: one fiber runs at a time ---- */

#define EMU_ATOMIC(name, how)                                                  \
    template <typename T, typename U> inline T name(T *p, U value)             \
    {                                                                          \
        emu::check_aligned(p, sizeof(T), #name);                               \
        T old = *p, v = (T)value;                                              \
        (void)v;                                                               \
        *p = how;                                                              \
        return old;                                                            \
    }
EMU_ATOMIC(atomicAdd, (T)(old + v))
EMU_ATOMIC(atomicSub, (T)(old - v))
EMU_ATOMIC(atomicMin, v < old ? v : old)
EMU_ATOMIC(atomicMax, v > old ? v : old)
EMU_ATOMIC(atomicOr, old | v)
EMU_ATOMIC(atomicAnd, old &v)
EMU_ATOMIC(atomicXor, old ^ v)
EMU_ATOMIC(atomicExch, v)
#undef EMU_ATOMIC
template <typename T, typename U, typename V>
inline T atomicCAS(T *p, U compared, V value)
{
    T old = *p;
    if (old == (T)compared)
        *p = (T)value;
    return old;
}

/* ---- memory ---- */

#define EMU_LOAD(name)                                                         \
    template <typename T> inline T name(const T *p)                            \
    {                                                                          \
        emu::check_aligned(p, sizeof(T), #name);                               \
        return *p;                                                             \
    }
EMU_LOAD(__ldg)
EMU_LOAD(__ldcs)
EMU_LOAD(__ldcg)
EMU_LOAD(__ldca)
EMU_LOAD(__ldlu)
#undef EMU_LOAD
#define EMU_STORE(name)                                                        \
    template <typename T, typename U> inline void name(T *p, const U &v)       \
    {                                                                          \
        emu::check_aligned(p, sizeof(T), #name);                               \
        *p = v;                                                                \
    }
EMU_STORE(__stcs)
EMU_STORE(__stcg)
EMU_STORE(__stwt)
#undef EMU_STORE
inline size_t __cvta_generic_to_shared(const void *p)
{
    return emu::shared_address(p);
}

/* ---- numbers ---- */

using std::isfinite;
using std::isinf;
using std::isnan;

template <typename A, typename B> inline std::common_type_t<A, B> min(A a, B b)
{
    std::common_type_t<A, B> x = a, y = b;
    return y < x ? y : x;
}
template <typename A, typename B> inline std::common_type_t<A, B> max(A a, B b)
{
    std::common_type_t<A, B> x = a, y = b;
    return x < y ? y : x;
}

inline float __uint_as_float(unsigned v)
{
    return emu::float_of(v);
}
inline unsigned __float_as_uint(float v)
{
    return emu::bits_of(v);
}
inline float __int_as_float(int v)
{
    return emu::float_of((unsigned)v);
}
inline int __float_as_int(float v)
{
    return (int)emu::bits_of(v);
}
inline float __expf(float x)
{
    return expf(x);
}
inline float __logf(float x)
{
    return logf(x);
}
inline float __log2f(float x)
{
    return log2f(x);
}
inline float __fdividef(float a, float b)
{
    return a / b;
}
inline float __frcp_rn(float x)
{
    return 1 / x;
}
inline float __fmul_rn(float a, float b)
{
    return a * b;
}
inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}
inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
inline float __frsqrt_rn(float x)
{
    return 1 / sqrtf(x);
}
inline float __saturatef(float x)
{
    return x > 0 ? x < 1 ? x : 1 : 0;
}
inline int __float2int_rn(float x)
{
    return (int)rintf(x);
}
inline int __float2int_rz(float x)
{
    return (int)x;
}

inline int __popc(unsigned v)
{
    return __builtin_popcount(v);
}
inline int __popcll(unsigned long long v)
{
    return __builtin_popcountll(v);
}
inline int __clz(int v)
{
    return v ? __builtin_clz((unsigned)v) : 32;
}
inline int __clzll(long long v)
{
    return v ? __builtin_clzll((unsigned long long)v) : 64;
}
inline int __ffs(int v)
{
    return __builtin_ffs(v);
}
inline int __ffsll(long long v)
{
    return __builtin_ffsll(v);
}
inline unsigned __brev(unsigned v)
{
    unsigned out = 0;
    for (int i = 0; i < 32; i++)
        out |= (v >> i & 1) << (31 - i);
    return out;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)((((uint64_t)high << 32 | low) << (by & 31)) >> 32);
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)((((uint64_t)high << 32 | low) << (by < 32 ? by : 32)) >>
                      32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)(((uint64_t)high << 32 | low) >> (by & 31));
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)(((uint64_t)high << 32 | low) >> (by < 32 ? by : 32));
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (a >> i & 0xff) * (b >> i & 0xff);
    return sum;
}
inline int __dp4a(int a, int b, int sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (int)(int8_t)(a >> i) * (int)(int8_t)(b >> i);
    return sum;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned pick)
{
    uint64_t all = (uint64_t)y << 32 | x;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        unsigned from = pick >> 4 * i & 0xf,
                 byte = (unsigned)(all >> 8 * (from & 7)) & 0xff;
        out |= (from & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
    }
    return out;
}

#endif
