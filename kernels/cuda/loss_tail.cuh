/* What both ways to the loss share: a row's running sum of exponentials, its
 * wanted z, its next token. */
#ifndef TW_KERNELS_CUDA_LOSS_TAIL_CUH
#define TW_KERNELS_CUDA_LOSS_TAIL_CUH

#include <math.h>

#include "kernels/cuda/launch_model.h"

namespace loss_tail {

constexpr float LOG2_E = 1.44269504f;

/* sum = sum of e^(z - max). max -Inf: nothing seen; NaN goes into the sum. */
struct Tail {
    float max, sum;
};

__device__ __forceinline__ float power(float difference)
{
    return exp2f(difference * LOG2_E);
}

__device__ __forceinline__ Tail joined(const Tail &a, const Tail &b)
{
    float max = fmaxf(a.max, b.max);
    if (max == -INFINITY)
        return {max, a.sum + b.sum};
    return {max, a.sum * power(a.max - max) + b.sum * power(b.max - max)};
}

template <bool IS_CAPPED> __device__ __forceinline__ float cap(float z, float c)
{
    return IS_CAPPED ? c * tanhf(z / c) : z;
}

/* The row's place among the wanted ones, which ascend, or -1. */
__device__ __forceinline__ int place_of(const int32_t *wanted, int n, int row)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (wanted[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && wanted[low] == row ? low : -1;
}

/* Does the row end its sequence? Then it has no next token. */
__device__ __forceinline__ bool is_last(const int32_t *position, int batch_rows, int row)
{
    return row + 1 >= batch_rows || position[row + 1] == 0;
}

} // namespace loss_tail

#endif
