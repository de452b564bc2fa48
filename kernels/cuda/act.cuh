/* Activation functions in fp32, within 1.2e-6 of their value (relative; the
 * specification is tw_activation_apply). What is below 2^-126 is 0, NaN stays and
 * an infinite argument gives NaN or Inf.
 *
 * exp(x) is 2^(x log2 e) by the chip's exp2, which is exact to 2^-22 only if its
 * argument is: the product's rounding error, |x| 2^-24, is computed by a fused
 * multiply-add and put right to first order. */
#ifndef TW_KERNELS_CUDA_ACT_CUH
#define TW_KERNELS_CUDA_ACT_CUH

#include "kernels/cuda/common.cuh"

namespace act {

constexpr float END = 16; // beyond it gelu is 0 or its argument
constexpr float LN_2 = 0.693147181f;
constexpr float LOG2_E = 1.44269502f, LOG2_E_LOW = 1.92596299e-8f; // their sum is it

/* exp(x + low) = power * correction, low far below x. power may be 0 or Inf. */
struct Exponential {
    float power, correction;
    __device__ __forceinline__ Exponential(float x, float low)
    {
        float y = x * LOG2_E;
        float rest = fmaf(low, LOG2_E, fmaf(x, LOG2_E_LOW, fmaf(x, LOG2_E, -y)));
        power = hopper::exp2_ftz(y);
        correction = fmaf(rest, LN_2, 1.0f);
    }
};

/* x sigmoid(z), -z = minus + low. */
__device__ __forceinline__ float times_sigmoid(float x, float minus, float low)
{
    Exponential e(minus, low);
    return hopper::mul_ftz(x, hopper::reciprocal_ftz(fmaf(e.power, e.correction, 1.0f)));
}

__device__ __forceinline__ float silu(float x)
{
    return times_sigmoid(x, -x, 0.0f);
}

__device__ __forceinline__ float quick_gelu(float x)
{
    constexpr float C = 1.70200002f, C_LOW = -2.19345093e-8f; // 1.702
    float z = x * C;
    return times_sigmoid(x, -z, -fmaf(x, C_LOW, fmaf(x, C, -z)));
}

/* x sigmoid(x (A + B x^2)), twice the argument of the formula's tanh. */
__device__ __forceinline__ float gelu_tanh(float x)
{
    constexpr float A = 1.59576917f, A_LOW = -4.53406805e-8f;
    constexpr float B = 0.0713548139f, B_LOW = 2.39883247e-9f;
    float y = fminf(fmaxf(x, -END), END);
    float s = y * y, s_low = fmaf(y, y, -s);
    float q = fmaf(s, B, A);
    float q_low = A - fmaf(-s, B, q) + fmaf(s, B_LOW, A_LOW);
    q_low = fmaf(s_low, B, q_low);
    float z = y * q;
    return times_sigmoid(x, -z, -fmaf(y, q_low, fmaf(y, q, -z)));
}

/* x Phi(x). Phi(-|x|) = exp(-x^2 / 2) t p(t) with t = 1 / (1 + 0.3 |x| / sqrt 2):
 * p is fitted to erfcx over [0, 12], 2e-8 off at most, halved. */
__device__ __forceinline__ float gelu(float x)
{
    float y = fminf(fabsf(x), END), s = y * y, s_low = fmaf(y, y, -s);
    Exponential e(-0.5f * s, -0.5f * s_low);
    float t = hopper::reciprocal_ftz(fmaf(y, 0.212132037f, 1.0f));
    float p = -0.0646260682f;
    p = fmaf(p, t, 0.24214837f);
    p = fmaf(p, t, -0.25488135f);
    p = fmaf(p, t, 0.272478223f);
    p = fmaf(p, t, -0.0464095958f);
    p = fmaf(p, t, 0.107089333f);
    p = fmaf(p, t, 0.074260965f);
    p = fmaf(p, t, 0.0853454173f);
    p = fmaf(p, t, 0.084594682f);
    float tail = p * t * e.correction * e.power;
    return hopper::mul_ftz(x, x < 0 ? tail : 1.0f - tail);
}

/* v, which isn't below 0, as the result of a float instruction: accumulators of a
 * WGMMA that are overwritten by an integer instruction's make the compiler (13.0)
 * wait after each of them (C7511). */
__device__ __forceinline__ float as_float(float v)
{
    return hopper::max_or_nan(v, 0.0f);
}

/* Any activation; those that TwELL packs rounded to T as they are packed, so that
 * a row's pattern is the same on both paths. */
template <int ACT, enum tw_dtype T>
__device__ __forceinline__ void activate_pair(float &low, float &high, float t)
{
    if (ACT == TW_ACT_SILU) {
        low = silu(low);
        high = silu(high);
    } else if (ACT == TW_ACT_QUICK_GELU) {
        low = quick_gelu(low);
        high = quick_gelu(high);
    } else if (ACT == TW_ACT_GELU) {
        low = gelu(low);
        high = gelu(high);
    } else if (ACT == TW_ACT_GELU_TANH) {
        low = gelu_tanh(low);
        high = gelu_tanh(high);
    } else {
        uint32_t cut = common::cut_pair<ACT, T>(low, high, t);
        low = as_float(common::packed_value<ACT>(common::low_half<T>(cut)));
        high = as_float(common::packed_value<ACT>(common::high_half<T>(cut)));
    }
}

template <int ACT, enum tw_dtype T, int N>
__device__ __forceinline__ void activate_all(float (&d)[128], float t)
{
#pragma unroll
    for (int i = 0; i < N; i += 2)
        activate_pair<ACT, T>(d[i], d[i + 1], t);
}

/* The first N pre-activations in place. */
template <enum tw_dtype T, int N, bool SMOOTH>
__device__ __forceinline__ void activate(float (&d)[128], enum tw_act act, float t)
{
    switch (act) {
    case TW_ACT_GELU:
        return activate_all<TW_ACT_GELU, T, N>(d, t);
    case TW_ACT_GELU_TANH:
        return activate_all<TW_ACT_GELU_TANH, T, N>(d, t);
    case TW_ACT_QUICK_GELU:
        return activate_all<TW_ACT_QUICK_GELU, T, N>(d, t);
    case TW_ACT_RELU:
        if (!SMOOTH)
            activate_all<TW_ACT_RELU, T, N>(d, t);
        return;
    case TW_ACT_RELU2:
        if (!SMOOTH)
            activate_all<TW_ACT_RELU2, T, N>(d, t);
        return;
    case TW_ACT_FATRELU:
        if (!SMOOTH)
            activate_all<TW_ACT_FATRELU, T, N>(d, t);
        return;
    default:
        return activate_all<TW_ACT_SILU, T, N>(d, t);
    }
}

} // namespace act

#endif
