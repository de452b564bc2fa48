/* CUDA's vector types and function qualifiers. */
#ifndef TESTS_EMU_TYPES_H
#define TESTS_EMU_TYPES_H

#define __device__
#define __host__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __grid_constant__
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__   static thread_local

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
        : x(x_), y(y_), z(z_)
    {
    }
};

#define EMU_VECTORS(type, name)                                                \
    struct alignas(2 * sizeof(type)) name##2                                   \
    {                                                                          \
        type x, y;                                                             \
    };                                                                         \
    struct alignas(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)) name##4      \
    {                                                                          \
        type x, y, z, w;                                                       \
    };                                                                         \
    inline name##2 make_##name##2(type x, type y)                              \
    {                                                                          \
        return {x, y};                                                         \
    }                                                                          \
    inline name##4 make_##name##4(type x, type y, type z, type w)              \
    {                                                                          \
        return {x, y, z, w};                                                   \
    }
EMU_VECTORS(int, int)
EMU_VECTORS(unsigned, uint)
EMU_VECTORS(float, float)
EMU_VECTORS(double, double)
EMU_VECTORS(short, short)
EMU_VECTORS(unsigned short, ushort)
EMU_VECTORS(unsigned char, uchar)
#undef EMU_VECTORS

#endif
