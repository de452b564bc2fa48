/* The loss head's second half, by chunks of the vocabulary:
 *     z = cap(scale logit + bias),  cap(z) = c tanh(z / c)
 *     m' = max(m, z..),  s' = s e^(m - m') + sum e^(z - m')
 *     nll = log s + m - z[next token]
 * logits [rows][stride] fp32 of one chunk, 4 bytes read each, once; some 4 FLOP
 * and one exponential. A chunk is sized to be read from the L2, where the
 * product before has left it: then this costs less than a hundredth of that
 * product.
 *
 * One row a block. A thread keeps its own maximum and sum over the columns it
 * sees, four at a time; threads join by halves of the warp and over the warps,
 * so that the order is one and the same for every row. exp by the chip's exp2
 * of a difference <= 0 scaled by log2 e: the sum, of positive terms, is right
 * to some 2e-7 relative, and so is the loss, absolutely. */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/loss_tail.cuh"

using namespace common;
using namespace loss_tail;

namespace {

constexpr int THREADS = 256;

__device__ __forceinline__ void see(Tail &t, const float (&z)[4])
{
    float max = fmaxf(fmaxf(fmaxf(z[0], z[1]), fmaxf(z[2], z[3])), t.max);
    if (max > t.max) {
        t.sum = t.max == -INFINITY ? t.sum : t.sum * power(t.max - max);
        t.max = max;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        t.sum += z[i] == -INFINITY ? 0.0f : power(z[i] - t.max);
}

__device__ __forceinline__ Tail over_warp(Tail t)
{
    for (int step = 16; step > 0; step /= 2) {
        Tail other = {__shfl_xor_sync(FULL_WARP, t.max, step),
                      __shfl_xor_sync(FULL_WARP, t.sum, step)};
        /* the same order of the two in both lanes */
        t = threadIdx.x & step ? joined(other, t) : joined(t, other);
    }
    return t;
}

/* Where the row's z are kept, or NULL. */
__device__ __forceinline__ float *kept_of(const struct twp_loss_args &a, int row)
{
    int place = a.wanted ? place_of(a.wanted, a.n_wanted, row) : -1;
    return place >= 0 ? a.kept + (int64_t)place * a.vocab + a.first : nullptr;
}

template <bool IS_CAPPED>
__device__ __forceinline__ float z_of(const struct twp_loss_args &a, const float *logits, int col)
{
    float bias = a.bias ? a.bias[a.first + col] : 0.0f;
    return cap<IS_CAPPED>(fmaf(a.scale, logits[col], bias), a.soft_cap);
}

template <bool IS_CAPPED>
__device__ __forceinline__ Tail scan(const struct twp_loss_args &a, const float *logits,
                                     float *keep)
{
    Tail t = {-INFINITY, 0};
    for (int col = threadIdx.x * 4; col < a.cols; col += THREADS * 4) {
        float z[4];
        if (col + 4 <= a.cols && !a.bias) {
            float4 four = *reinterpret_cast<const float4 *>(logits + col);
            z[0] = cap<IS_CAPPED>(a.scale * four.x, a.soft_cap);
            z[1] = cap<IS_CAPPED>(a.scale * four.y, a.soft_cap);
            z[2] = cap<IS_CAPPED>(a.scale * four.z, a.soft_cap);
            z[3] = cap<IS_CAPPED>(a.scale * four.w, a.soft_cap);
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++)
                z[i] = col + i < a.cols ? z_of<IS_CAPPED>(a, logits, col + i) : -INFINITY;
        }
        see(t, z);
        for (int i = 0; keep && i < 4 && col + i < a.cols; i++)
            keep[col + i] = z[i];
    }
    return t;
}

template <bool IS_CAPPED>
__global__ void __launch_bounds__(THREADS)
    loss_kernel(const struct twp_loss_args a, const int32_t *token, const int32_t *position,
                int32_t batch_rows)
{
    __shared__ Tail part[THREADS / 32];
    wait_for_last();
    int row = a.first_row + blockIdx.x;
    const float *logits = a.logits + (int64_t)blockIdx.x * a.stride;
    Tail t = over_warp(scan<IS_CAPPED>(a, logits, kept_of(a, row)));
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = t;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int i = 1; i < THREADS / 32; i++)
        t = joined(t, part[i]);
    float *state = a.state + (int64_t)blockIdx.x * 3;
    bool has_next = !is_last(position, batch_rows, row);
    int64_t target = has_next ? (int64_t)token[row + 1] - a.first : -1;
    float goal = a.first ? state[2] : NAN;
    if (target >= 0 && target < a.cols)
        goal = z_of<IS_CAPPED>(a, logits, (int)target);
    if (a.first)
        t = joined({state[0], state[1]}, t);
    state[0] = t.max;
    state[1] = t.sum;
    state[2] = goal;
    if (a.nll && a.first + a.cols == a.vocab)
        a.nll[row] = has_next ? logf(t.sum) + (t.max - goal) : NAN;
}

} // namespace

extern "C" enum tw_status tw_launch_loss(const struct twp_loss_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    auto run = args->soft_cap > 0 ? loss_kernel<true> : loss_kernel<false>;
    return common::launch("loss", run, args->rows, THREADS, 0, stream, err, *args,
                          args->batch->token, args->batch->position, args->batch->rows);
}
