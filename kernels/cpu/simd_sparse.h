/* The fused up and down pass over a row's packed entries: a body of simd_*.c.
 *
 *   h_i = a_i (x . W_up[n_i] + b_up[n_i]);  y += h_i W_down^T[n_i]
 *   or, with up_activation, h_i = a_i act(x . W_up[n_i] + b_up[n_i])
 *
 * Shapes: x[width], y[width]; per entry one row of W_up and one of W_down^T.
 * FLOPs: 4 d_model an entry; bytes: 2 d_model sizeof an entry, from whatever
 * cache holds the two rows.
 *
 * Four entries share the loads of x and the loads and stores of y. Each entry's
 * dot runs in two vectors of partial sums and one tree, and y takes entries one
 * after another, so that how entries are grouped changes no bit. bf16 is
 * widened in registers, 2 VW at once: the even elements by a shift, the odd
 * ones by a mask, which is why x and y stand in the order (evens, odds) of 2
 * VW. The next four entries' rows are called in while these are worked on. */
#ifndef TW_KERNELS_CPU_SIMD_SPARSE_H
#define TW_KERNELS_CPU_SIMD_SPARSE_H

#include "kernels/cpu/simd_act.h"
#include "kernels/cpu/simd_vector.h"

/* Elements i .. i+2VW-1 of a stored row. */
FN void widen_pair(enum tw_dtype dtype, const char *row, int64_t i, vec *low,
                   vec *high)
{
    if (dtype == TW_F32) {
        *low = load(row + 4 * i);
        *high = load(row + 4 * (i + VW));
    } else if (dtype == TW_BF16) {
        uvec w = load_bits(row + 2 * i);
        *low = (vec)(w << 16);
        *high = (vec)(w & 0xffff0000u);
    } else {
        *low = load_half((const uint16_t *)(const void *)(row + 2 * i));
        *high = load_half((const uint16_t *)(const void *)(row + 2 * i) + VW);
    }
}

/* Calls in what the next group reads at step i. */
FN void call_in(enum tw_dtype dtype, const char *row, int64_t i)
{
    int64_t at = dtype == TW_F32 ? 4 * i : 2 * i;
    __builtin_prefetch(row + at, 0, 3);
    if (dtype == TW_F32 && VW == 16)
        __builtin_prefetch(row + at + 64, 0, 3);
}

FN void dots_as(enum tw_dtype dtype, int n, const float *x,
                const char *const *row, const char *const *next, int64_t width,
                float *out)
{
    vec even[4] = {{0}, {0}, {0}, {0}}, odd[4] = {{0}, {0}, {0}, {0}};
    for (int64_t i = 0; i < width; i += 2 * VW) {
        vec x0 = load(x + i), x1 = load(x + i + VW), low, high;
#pragma GCC unroll 4
        for (int e = 0; e < n; e++) {
            call_in(dtype, next[e], i);
            widen_pair(dtype, row[e], i, &low, &high);
            even[e] = FMA(x0, low, even[e]);
            odd[e] = FMA(x1, high, odd[e]);
        }
    }
    for (int e = 0; e < 4; e++)
        even[e] = even[e] + odd[e];
    reduce4(even, out);
}

FN void axpys_as(enum tw_dtype dtype, int n, float *y, const float *h,
                 const char *const *row, const char *const *next, int64_t width)
{
    for (int64_t i = 0; i < width; i += 2 * VW) {
        vec y0 = load(y + i), y1 = load(y + i + VW), low, high;
#pragma GCC unroll 4
        for (int e = 0; e < n; e++) {
            call_in(dtype, next[e], i);
            widen_pair(dtype, row[e], i, &low, &high);
            y0 = FMA(splat(h[e]), low, y0);
            y1 = FMA(splat(h[e]), high, y1);
        }
        store(y + i, y0);
        store(y + i + VW, y1);
    }
}

#define BY_COUNT(n, of)                                                        \
    switch (n) {                                                               \
    case 4:                                                                    \
        of(4);                                                                 \
        break;                                                                 \
    case 3:                                                                    \
        of(3);                                                                 \
        break;                                                                 \
    case 2:                                                                    \
        of(2);                                                                 \
        break;                                                                 \
    default:                                                                   \
        of(1);                                                                 \
    }
#define DOTS_AND_AXPYS(name, dtype)                                            \
    static TWP_TARGET void dots_##name(                                        \
        int n, const float *x, const char *const *row,                         \
        const char *const *next, int64_t width, float *out)                    \
    {                                                                          \
        BY_COUNT(n, DOTS_OF_##name)                                            \
    }                                                                          \
    static TWP_TARGET void axpys_##name(                                       \
        int n, float *y, const float *h, const char *const *row,               \
        const char *const *next, int64_t width)                                \
    {                                                                          \
        BY_COUNT(n, AXPYS_OF_##name)                                           \
    }
#define DOTS_OF_f32(n)   dots_as(TW_F32, n, x, row, next, width, out)
#define DOTS_OF_bf16(n)  dots_as(TW_BF16, n, x, row, next, width, out)
#define DOTS_OF_f16(n)   dots_as(TW_F16, n, x, row, next, width, out)
#define AXPYS_OF_f32(n)  axpys_as(TW_F32, n, y, h, row, next, width)
#define AXPYS_OF_bf16(n) axpys_as(TW_BF16, n, y, h, row, next, width)
#define AXPYS_OF_f16(n)  axpys_as(TW_F16, n, y, h, row, next, width)
DOTS_AND_AXPYS(f32, TW_F32)
DOTS_AND_AXPYS(bf16, TW_BF16)
DOTS_AND_AXPYS(f16, TW_F16)
#undef DOTS_AND_AXPYS
#undef BY_COUNT

FN void dots(enum tw_dtype dtype, int n, const float *x, const char *const *row,
             const char *const *next, int64_t width, float *out)
{
    if (dtype == TW_BF16)
        dots_bf16(n, x, row, next, width, out);
    else if (dtype == TW_F32)
        dots_f32(n, x, row, next, width, out);
    else
        dots_f16(n, x, row, next, width, out);
}

FN void axpys(enum tw_dtype dtype, int n, float *y, const float *h,
              const char *const *row, const char *const *next, int64_t width)
{
    if (dtype == TW_BF16)
        axpys_bf16(n, y, h, row, next, width);
    else if (dtype == TW_F32)
        axpys_f32(n, y, h, row, next, width);
    else
        axpys_f16(n, y, h, row, next, width);
}

/* Rows of entries i .. i+n-1; past the end the last one again. */
FN void rows_of(const struct twp_rows *rows, const uint32_t *neuron, int64_t i,
                int64_t end, const char *out[4])
{
    size_t bytes = (size_t)rows->stride * (rows->dtype == TW_F32 ? 4 : 2);
    for (int e = 0; e < 4; e++) {
        int64_t at = i + e < end ? i + e : end - 1;
        out[e] = (const char *)rows->data + neuron[at] * bytes;
    }
}

static TWP_TARGET void up_pass(const struct twp_sparse *s, const float *x,
                               const uint32_t *neuron, const float *a, float *h,
                               int64_t n)
{
    const char *row[4], *next[4];
    for (int64_t i = 0, step; i < n; i += step) {
        step = n - i < 4 ? n - i : 4;
        float sum[4];
        rows_of(&s->up, neuron, i, n, row);
        rows_of(&s->up, neuron, i + step, n, next);
        dots(s->up.dtype, (int)step, x, row, next, s->width, sum);
        for (int64_t e = i; e < i + step; e++)
            h[e] = a[e] * (s->up_bias ? sum[e - i] + s->up_bias[neuron[e]]
                                      : sum[e - i]);
    }
}

/* The same with up activated, as the dense path rounds it: act(sum + bias),
 * then times a. */
static TWP_TARGET void up_pass_activated(const struct twp_sparse *s,
                                         const float *x, const uint32_t *neuron,
                                         const float *a, float *h, int64_t n)
{
    const char *row[4], *next[4];
    for (int64_t i = 0, step; i < n; i += step) {
        float sum[16] = {0};
        step = n - i < 4 ? n - i : 4;
        rows_of(&s->up, neuron, i, n, row);
        rows_of(&s->up, neuron, i + step, n, next);
        dots(s->up.dtype, (int)step, x, row, next, s->width, sum);
        for (int64_t e = 0; s->up_bias && e < step; e++)
            sum[e] += s->up_bias[neuron[i + e]];
        activate(s->up_activation, sum, NULL, 16);
        for (int64_t e = 0; e < step; e++)
            h[i + e] = a[i + e] * sum[e];
    }
}

static TWP_TARGET void down_pass(const struct twp_sparse *s, float *y,
                                 const uint32_t *neuron, const float *h,
                                 int64_t n)
{
    const char *row[4], *next[4];
    for (int64_t i = 0, step; i < n; i += step) {
        step = n - i < 4 ? n - i : 4;
        rows_of(&s->down, neuron, i, n, row);
        rows_of(&s->down, neuron, i + step, n, next);
        axpys(s->down.dtype, (int)step, y, h + i, row, next, s->width);
    }
}

/* All dots, then all sums into y: the dots of one group needn't wait for the
 * last one's h. */
static TWP_TARGET void sparse(const struct twp_sparse *s, const float *x,
                              float *y, const uint32_t *neuron, const float *a,
                              float *h, int64_t n)
{
    if (s->up.data && s->up_activation)
        up_pass_activated(s, x, neuron, a, h, n);
    else if (s->up.data)
        up_pass(s, x, neuron, a, h, n);
    else
        memcpy(h, a, (size_t)n * sizeof *h);
    down_pass(s, y, neuron, h, n);
}

/* bf16 rows are read as (evens, odds) of 2 VW, the others as they stand. */
static TWP_TARGET void order(enum tw_dtype dtype, float *out, const float *x,
                             int64_t n, int64_t width)
{
    float tail[2 * VW] = {0};
    for (int64_t i = 0; i < width; i += 2 * VW) {
        const float *from = x + i;
        if (i + 2 * VW > n) {
            memset(tail, 0, sizeof tail);
            if (i < n)
                memcpy(tail, from, (size_t)(n - i) * sizeof *tail);
            from = tail;
        }
        vec low = load(from), high = load(from + VW);
        if (dtype == TW_BF16)
            split(&low, &high);
        store(out + i, low);
        store(out + i + VW, high);
    }
}

static TWP_TARGET void unorder(enum tw_dtype dtype, float *out, const float *y,
                               int64_t width)
{
    for (int64_t i = 0; i < width; i += 2 * VW) {
        vec low = load(y + i), high = load(y + i + VW);
        if (dtype == TW_BF16)
            join(&low, &high);
        store(out + i, low);
        store(out + i + VW, high);
    }
}

#endif
