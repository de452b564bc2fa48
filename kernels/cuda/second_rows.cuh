/* Rows of h for the second pass's kernels: dense, or lists of what isn't zero.
 * Both have n elements, ascending by column. */
#ifndef TW_KERNELS_CUDA_SECOND_ROWS_CUH
#define TW_KERNELS_CUDA_SECOND_ROWS_CUH

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch_second.h"

namespace second {

using common::FULL_WARP;

constexpr uint32_t SIZE = 0x7fffffff; // the bits of |h|
constexpr uint32_t INF = 0x7f800000;  // beyond it is NaN
constexpr uint32_t ROUTED = 0xffffffff;

struct Dense {
    static constexpr bool IS_LIST = false;
    const float *h, *a;
    int n, number; // the batch's row

    __device__ __forceinline__ Dense(const struct twp_second_h &from, int cols, int place)
        : h(from.h + place * from.stride), a(from.a ? from.a + place * from.stride : nullptr),
          n(cols), number((int)common::number_of(from.rows, place))
    {
    }
    __device__ __forceinline__ bool is_here() const { return true; }
    __device__ __forceinline__ float value(int i) const { return h[i]; }
    __device__ __forceinline__ int column(int i) const { return i; }
    __device__ __forceinline__ bool is_in(int i) const { return a[i] != 0; }
    __device__ __forceinline__ uint32_t size(int i) const { return __float_as_uint(h[i]) & SIZE; }
};

struct Listed {
    static constexpr bool IS_LIST = true;
    const uint2 *pair;
    const float *a;
    int n, number;

    __device__ __forceinline__ Listed(const struct twp_second_h &from, int, int place)
        : pair(reinterpret_cast<const uint2 *>(from.list.pair) + (int64_t)place * from.list.room),
          a(from.a ? from.a + (int64_t)place * from.list.room : nullptr), n(from.list.n[place]),
          number(place)
    {
    }
    __device__ __forceinline__ bool is_here() const { return (uint32_t)n != ROUTED; }
    __device__ __forceinline__ float value(int i) const { return __uint_as_float(pair[i].y); }
    __device__ __forceinline__ int column(int i) const { return pair[i].x; }
    __device__ __forceinline__ bool is_in(int) const { return true; }
    __device__ __forceinline__ uint32_t size(int i) const { return pair[i].y & SIZE; }
};

__device__ __forceinline__ int actual_rows(const struct twp_rows &rows)
{
    return rows.actual ? *rows.actual : rows.rows;
}

__device__ __forceinline__ bool is_skipped(const struct twp_second &s, int number)
{
    return s.skip && s.skip[number];
}

/* Is the primary active there? */
__device__ __forceinline__ bool is_primary(const struct twp_second &s, int number, int column)
{
    return s.bits[0][(int64_t)number * s.words + column / 32] >> (column % 32) & 1;
}

} // namespace second

#endif
