/* v = act(v + bias), elementwise: a body of simd_*.c.
 *
 * The formulas are those of tw_activation_apply (the specification) in floats:
 * exp by a degree-6 polynomial after a two-part reduction (about 1 ulp), erf
 * and erfc by a pair of polynomials. 0 gives 0 and NaN gives NaN in each. */
#ifndef TW_KERNELS_CPU_SIMD_ACT_H
#define TW_KERNELS_CPU_SIMD_ACT_H

#include "kernels/cpu/simd_vector.h"

/* exp(x) for x <= 0. 2^n in two factors, so that what is below the normal
 * numbers fades out as it should: whether a value is zero is counted. */
FN vec exponential(vec x)
{
    x = choose(x < -104.0f, splat(-104.0f), x);
    vec shifted = FMA(x, splat(1.44269504f), splat(12582912.0f));
    vec n = shifted - 12582912.0f; // nearest integer to x log2(e)
    vec r = FMA(n, splat(-0.693359375f), x);
    r = FMA(n, splat(2.12194440e-4f), r);
    vec p = splat(1.9875691500e-4f);
    p = FMA(p, r, splat(1.3981999507e-3f));
    p = FMA(p, r, splat(8.3334519073e-3f));
    p = FMA(p, r, splat(4.1665795894e-2f));
    p = FMA(p, r, splat(1.6666665459e-1f));
    p = FMA(p, r, splat(5.0000001201e-1f));
    p = FMA(p * r, r, r) + 1.0f;
    ivec whole = (ivec)shifted - 0x4b400000; // the low bits hold n
    ivec half = whole >> 1;
    vec first = (vec)((half + 127) << 23);
    vec second = (vec)((whole - half + 127) << 23);
    return p * first * second;
}

/* x sigmoid(z); e / (1 + e) below zero, so that nothing cancels. */
FN vec gated_by_sigmoid(vec x, vec z)
{
    vec e = exponential(-magnitude(z));
    return x * choose(z < 0.0f, e, splat(1)) / (1.0f + e);
}

/* x Phi(x), by erf below |x| = 1.31 and by erfc above, there a polynomial's
 * exponential and from |x| = 5.66 on the asymptotic series, which keeps what
 * is far below 1 from becoming 0. */
FN vec gelu(vec x)
{
    vec z = x * 0.707106781f, t = magnitude(z), s = z * z;
    vec near = splat(-5.96761703e-4f);
    near = FMA(near, s, splat(4.99119423e-3f));
    near = FMA(near, s, splat(-2.67681349e-2f));
    near = FMA(near, s, splat(1.12819925e-1f));
    near = FMA(near, s, splat(-3.76125336e-1f));
    near = FMA(near, s, splat(1.28379166e-1f));
    near = FMA(near, z, z);
    vec power = FMA(splat(-1.72853470e-5f), t, splat(3.83197126e-4f));
    power =
        FMA(power, s, FMA(splat(-3.88396438e-3f), t, splat(2.42546219e-2f)));
    power = FMA(power, t, splat(-1.06777877e-1f));
    power = FMA(power, t, splat(-6.34846687e-1f));
    power = FMA(power, t, splat(-1.28717512e-1f));
    power = FMA(power, t, -t);
    ivec is_tail = t > 4.0f;
    vec over = 1.0f / s; // series in 1 / t^2
    vec tail = FMA(over, splat(-1.875f), splat(0.75f));
    tail = FMA(over, tail, splat(-0.5f));
    tail = FMA(over, tail, splat(1)) * 0.564189584f / t;
    vec erfc = exponential(choose(is_tail, -s, power));
    erfc = choose(is_tail, erfc * tail, erfc);
    vec far = choose(z < 0.0f, 0.5f * erfc, 1.0f - 0.5f * erfc);
    return x * choose(t > 0.927734375f, far, 0.5f + 0.5f * near);
}

FN vec activated(enum tw_act act, float arg, vec x)
{
    switch (act) {
    case TW_ACT_RELU:
        return choose(x < 0.0f, (vec){0}, x);
    case TW_ACT_RELU2:
        x = choose(x < 0.0f, (vec){0}, x);
        return x * x;
    case TW_ACT_FATRELU:
        return choose(x <= arg, (vec){0}, x);
    case TW_ACT_SILU:
        return gated_by_sigmoid(x, x);
    case TW_ACT_GELU:
        return gelu(x);
    case TW_ACT_GELU_TANH: {
        vec cubed = FMA(x * x * x, splat(0.044715f), x);
        return gated_by_sigmoid(x, cubed * 1.59576912f);
    }
    case TW_ACT_QUICK_GELU:
        return gated_by_sigmoid(x, x * 1.702f);
    case TW_ACTS:
        break;
    }
    return x;
}

FN void activate_as(enum tw_act act, float arg, float *v, const float *bias,
                    int64_t n)
{
    if (bias)
        for (int64_t i = 0; i < n; i += VW)
            store(v + i, activated(act, arg, load(v + i) + load(bias + i)));
    else
        for (int64_t i = 0; i < n; i += VW)
            store(v + i, activated(act, arg, load(v + i)));
}

static TWP_TARGET void activate(const struct tw_activation *activation,
                                float *v, const float *bias, int64_t n)
{
    float arg = activation->arg;
    switch (activation->act) {
#define CASE(name)                                                             \
    case TW_ACT_##name:                                                        \
        activate_as(TW_ACT_##name, arg, v, bias, n);                           \
        break;
        CASE(RELU)
        CASE(RELU2)
        CASE(FATRELU)
        CASE(SILU)
        CASE(GELU)
        CASE(GELU_TANH)
        CASE(QUICK_GELU)
#undef CASE
    case TW_ACTS:
        break;
    }
}

/* h = a == 0 ? 0 : a (u + bias): an inactive neuron gives nothing even where u
 * is not finite, as on the sparse path. */
static TWP_TARGET void multiply(float *h, const float *a, const float *u,
                                const float *bias, int64_t n)
{
    for (int64_t i = 0; i < n; i += VW) {
        vec gate = load(a + i), up = load(u + i);
        if (bias)
            up = up + load(bias + i);
        store(h + i, choose(gate == 0.0f, (vec){0}, gate * up));
    }
}

#endif
