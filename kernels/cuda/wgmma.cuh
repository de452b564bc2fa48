/* The warpgroup products of attention: the left operand in registers, or the
 * right one turned. Accumulators and fragments stand as in hopper.cuh's wgmma:
 * thread t of the group holds in d[4 j + 2 i + e] row 16 (t / 32) + t % 32 / 4 +
 * 8 i, column 8 j + 2 (t % 4) + e; in the pair a[2 h + i] of a block of 16
 * columns that row, columns 8 h + 2 (t % 4) and the next. */
#ifndef TW_KERNELS_CUDA_WGMMA_CUH
#define TW_KERNELS_CUDA_WGMMA_CUH

#include "kernels/cuda/hopper.cuh"

namespace hopper {

/* A right operand that lies turned: rows of 128 bytes, 64 columns each, one row for
 * each number along K, under the 128-byte swizzle. Columns 64 on stand `apart`
 * bytes behind. Add 128 for each 16 rows. */
__device__ __forceinline__ uint64_t turned_descriptor(uint32_t address, uint32_t apart)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(apart >> 4) << 16 |
           (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

/* Here the compiler takes the values for new: what uses them stays behind, and
 * what makes them before. */
template <int COUNT> __device__ __forceinline__ void settle(float (&d)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

#define TW_OUT4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define TW_OUT16(i) TW_OUT4(i), TW_OUT4(i + 4), TW_OUT4(i + 8), TW_OUT4(i + 12)
#define TW_NAMES_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define TW_NAMES_1                                                                                 \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TW_NAMES_2                                                                                 \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define TW_NAMES_3                                                                                 \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TW_NAMES_32 TW_NAMES_0 ", " TW_NAMES_1
#define TW_NAMES_48 TW_NAMES_32 ", " TW_NAMES_2
#define TW_NAMES_64 TW_NAMES_48 ", " TW_NAMES_3
#define TW_OUT_32 TW_OUT16(0), TW_OUT16(16)
#define TW_OUT_48 TW_OUT_32, TW_OUT16(32)
#define TW_OUT_64 TW_OUT_48, TW_OUT16(48)

/* COUNT: accumulators of a thread. LEFT, RIGHT, ADDS: names of the operands that
 * follow; LAST: what is turned. */
#define TW_PRODUCT(SHAPE, TYPE, COUNT, LEFT, RIGHT, ADDS, LAST, ...)                               \
    asm volatile("{\n"                                                                             \
                 ".reg .pred p;\n"                                                                 \
                 "setp.ne.b32 p, " ADDS ", 0;\n"                                                   \
                 "wgmma.mma_async.sync.aligned.m64" SHAPE "k16.f32." TYPE "." TYPE                 \
                 " {" TW_NAMES_##COUNT "}, " LEFT ", " RIGHT ", p, 1, 1, " LAST ";\n"              \
                 "}\n"                                                                             \
                 : TW_OUT_##COUNT                                                                  \
                 : __VA_ARGS__)
#define TW_ROWS_PRODUCT(SHAPE, TYPE, COUNT, LEFT, RIGHT, ADDS, TURNED)                             \
    TW_PRODUCT(SHAPE, TYPE, COUNT, "{" LEFT "}", RIGHT, ADDS, TURNED, "r"(a[0]), "r"(a[1]),        \
               "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds), "n"(IS_TURNED ? 1 : 0))
#define TW_ROWS_32(TYPE)                                                                           \
    TW_ROWS_PRODUCT("n64", TYPE, 32, "%32, %33, %34, %35", "%36", "%37", "%38")
#define TW_ROWS_48(TYPE)                                                                           \
    TW_ROWS_PRODUCT("n96", TYPE, 48, "%48, %49, %50, %51", "%52", "%53", "%54")
#define TW_ROWS_64(TYPE)                                                                           \
    TW_ROWS_PRODUCT("n128", TYPE, 64, "%64, %65, %66, %67", "%68", "%69", "%70")
#define TW_TILES_64(TYPE)                                                                          \
    TW_PRODUCT("n128", TYPE, 64, "%64", "%65", "%66", "0, 0", "l"(a), "l"(b), "r"(adds))
#define TW_OF_TYPE(PRODUCT)                                                                        \
    if constexpr (T == TW_F16) {                                                                   \
        PRODUCT("f16");                                                                            \
    } else {                                                                                       \
        PRODUCT("bf16");                                                                           \
    }

/* d[64][2 COUNT] = (adds ? d : 0) + a[64][16] b, where a's fragments are
 * registers, which stay as they are until the product is waited for, and b is
 * [2 COUNT][16] (tile_descriptor), transposed, or, IS_TURNED, [16][2 COUNT]
 * (turned_descriptor). */
template <enum tw_dtype T, bool IS_TURNED, int COUNT>
__device__ __forceinline__ void wgmma_rows(float (&d)[COUNT], const uint32_t (&a)[4], uint64_t b,
                                           int adds)
{
    static_assert(COUNT == 32 || COUNT == 48 || COUNT == 64, "columns of a product");
    if constexpr (COUNT == 32) {
        TW_OF_TYPE(TW_ROWS_32)
    } else if constexpr (COUNT == 48) {
        TW_OF_TYPE(TW_ROWS_48)
    } else {
        TW_OF_TYPE(TW_ROWS_64)
    }
}

/* d[64][2 COUNT] = (adds ? d : 0) + a[64][16] b[2 COUNT][16]^T, both in shared
 * memory (tile_descriptor). */
template <enum tw_dtype T, int COUNT>
__device__ __forceinline__ void wgmma_tiles(float (&d)[COUNT], uint64_t a, uint64_t b, int adds)
{
    static_assert(COUNT == 32 || COUNT == 64, "columns of a product");
    if constexpr (COUNT == 32) {
        wgmma_narrow<T>(d, a, b, adds);
    } else {
        TW_OF_TYPE(TW_TILES_64)
    }
}

#undef TW_OF_TYPE
#undef TW_TILES_64
#undef TW_ROWS_64
#undef TW_ROWS_48
#undef TW_ROWS_32
#undef TW_ROWS_PRODUCT
#undef TW_PRODUCT
#undef TW_OUT_64
#undef TW_OUT_48
#undef TW_OUT_32
#undef TW_NAMES_64
#undef TW_NAMES_48
#undef TW_NAMES_32
#undef TW_NAMES_3
#undef TW_NAMES_2
#undef TW_NAMES_1
#undef TW_NAMES_0
#undef TW_OUT16
#undef TW_OUT4

} // namespace hopper

#endif
