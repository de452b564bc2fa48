/* c (+)= A W^T: the dense product of the feed-forward layer, a body of
 * simd_*.c.
 *
 *   c[m][n] = sum_k a[m][k] w[n][k], k ascending, one fused add each
 *
 * Shapes: A in groups of mr rows [k][mr]; W in panels [k][32]; c row-major.
 * FLOPs: 2 m n k. Bytes: W once a chunk of rows (n k sizeof), A once a panel
 * from the second-level cache.
 *
 * A micro-kernel keeps an mr x 32 (v4) or mr x 2 vectors block of c in
 * registers over a block of K; between blocks of K it waits in c, which changes
 * no bit. 16-bit panels are widened once a block into 24 KiB that all groups
 * of the chunk then read. */
#ifndef TW_KERNELS_CPU_SIMD_PRODUCT_H
#define TW_KERNELS_CPU_SIMD_PRODUCT_H

#include "kernels/cpu/simd_vector.h"

#if VW == 16
#define MR 14
#define MICRO_ROWS(X)                                                          \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#else
#define MR            6
#define MICRO_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)
#endif

/* One block: MR rows, 2 VW columns; b steps by a whole panel row. Meanwhile k
 * lines from `ahead` on are called into the second-level cache. */
static TWP_TARGET void micro(const float *a, const float *b, int64_t k,
                             float *c, int64_t ldc, bool is_adding,
                             const char *ahead)
{
#define DECLARE(r) vec l##r = {0}, h##r = {0};
#define TAKE(r)                                                                \
    l##r = load(c + r * ldc);                                                  \
    h##r = load(c + r * ldc + VW);
#define STEP(r)                                                                \
    x = splat(a[r]);                                                           \
    l##r = FMA(x, low, l##r);                                                  \
    h##r = FMA(x, high, h##r);
#define GIVE(r)                                                                \
    store(c + r * ldc, l##r);                                                  \
    store(c + r * ldc + VW, h##r);
    MICRO_ROWS(DECLARE)
    if (is_adding) {
        MICRO_ROWS(TAKE)
    }
    for (; k > 0; k--, a += MR, b += TWP_PANEL, ahead += 64) {
        __builtin_prefetch(ahead, 0, 2);
        vec x, low = load(b), high = load(b + VW);
        MICRO_ROWS(STEP)
    }
    MICRO_ROWS(GIVE)
#undef DECLARE
#undef TAKE
#undef STEP
#undef GIVE
}

/* Steps k0 .. k0+k-1 of one panel as floats: where they lie, or widened. */
static TWP_TARGET const float *widen_block(const struct twp_panels *p,
                                           int64_t panel, int64_t k0, int64_t k,
                                           float *wide)
{
    if (p->dtype == TW_F32)
        return (const float *)p->data + (panel * p->k + k0) * TWP_PANEL;
    const uint32_t *word = (const uint32_t *)p->data +
                           (panel * ((p->k + 1) / 2) + k0 / 2) * TWP_PANEL;
    for (int64_t i = 0; i < (k + 1) / 2; i++, word += TWP_PANEL) {
        float *even = wide + 2 * i * TWP_PANEL, *odd = even + TWP_PANEL;
        for (int j = 0; j < TWP_PANEL; j += VW) {
            uvec w = load_bits(word + j);
            if (p->dtype == TW_BF16) {
                store(even + j, (vec)(w << 16));
                store(odd + j, (vec)(w & 0xffff0000u));
                continue;
            }
            uint16_t low[VW], high[VW];
            for (int s = 0; s < VW; s++) {
                low[s] = (uint16_t)word[j + s];
                high[s] = (uint16_t)(word[j + s] >> 16);
            }
            store(even + j, load_half(low));
            store(odd + j, load_half(high));
        }
    }
    return wide;
}

/* Where the block after (panel, k0) lies. */
FN const char *block_ahead(const struct twp_product *p, int64_t panel,
                           int64_t k0)
{
    int64_t k = k0 + TWP_K_BLOCK;
    if (k >= p->k1) {
        k = p->k0;
        panel++;
    }
    const char *data = (const char *)p->panels->data;
    if (p->panels->dtype == TW_F32)
        return data + (panel * p->panels->k + k) * TWP_PANEL * 4;
    return data + (panel * ((p->panels->k + 1) / 2) + k / 2) * TWP_PANEL * 4;
}

static TWP_TARGET void product(const struct twp_product *p)
{
    for (int64_t panel = p->first; panel < p->last; panel++) {
        float *column = p->c + (panel - p->first) * TWP_PANEL;
        for (int64_t k0 = p->k0; k0 < p->k1; k0 += TWP_K_BLOCK) {
            int64_t k = p->k1 - k0 < TWP_K_BLOCK ? p->k1 - k0 : TWP_K_BLOCK;
            bool is_adding = p->is_adding || k0 > p->k0;
            const float *b = widen_block(p->panels, panel, k0, k, p->wide);
            const char *ahead = block_ahead(p, panel, k0);
            for (int64_t g = 0; g < p->groups; g++, ahead += 64 * k) {
                const float *a = p->a + (g * p->panels->k + k0) * MR;
                float *c = column + g * MR * p->ldc;
                for (int j = 0; j < TWP_PANEL; j += 2 * VW)
                    micro(a, b + j, k, c + j, p->ldc, is_adding, ahead);
            }
        }
    }
}

/* Four rows at a time, four steps of each, so that loads and stores are of 16
 * bytes; what is left goes one by one. */
static TWP_TARGET void interleave(float *out, const float *const *row, int n,
                                  int64_t k)
{
    int r = 0;
    for (; r + 4 <= n; r += 4) {
        float *to = out + r;
        int64_t i = 0;
        for (; i + 4 <= k; i += 4, to += 4 * MR) {
            float t[4][4];
            transpose4(t, row + r, i);
            for (int s = 0; s < 4; s++)
                memcpy(to + s * MR, t[s], sizeof t[s]);
        }
        for (; i < k; i++, to += MR)
            for (int q = 0; q < 4; q++)
                to[q] = row[r + q][i];
    }
    for (; r < n; r++)
        for (int64_t i = 0; i < k; i++)
            out[i * MR + r] = row[r][i];
}

static TWP_TARGET void give(float *y, const float *v, const float *bias,
                            const float *residual, int64_t n)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        vec sum = load(v + i);
        if (bias)
            sum = sum + load(bias + i);
        if (residual)
            sum = load(residual + i) + sum;
        store(y + i, sum);
    }
    for (; i < n; i++) {
        float sum = bias ? v[i] + bias[i] : v[i];
        y[i] = residual ? residual[i] + sum : sum;
    }
}

#endif
