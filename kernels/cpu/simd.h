/* Vector kernels of the cpu backend, compiled once an instruction set from the
 * same bodies (simd_*.h) and chosen when the program starts, so that one
 * binary runs everywhere and -march is never needed.
 *
 * Design rule: an element's sum is formed in an order that depends on its own
 * row and column alone. The place of a row in a chunk, the chunk's size, the
 * blocking over K and the tile order never reach the bits, so that no padding
 * to fixed shapes is needed (R1 of cpu_internal.h holds by construction).
 * Different instruction sets give different bits, as different processors do.
 */
#ifndef TW_KERNELS_CPU_SIMD_H
#define TW_KERNELS_CPU_SIMD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "kernels/activation.h"

/* Columns of a panel: two 16-wide vectors. */
#define TWP_PANEL 32
/* Steps of K that a panel block holds in the first-level cache (24 KiB). */
#define TWP_K_BLOCK 192
/* Columns of a TwELL tile; 8-bit column numbers. */
#define TWP_TILE 256

/* A weight [n][k] as panels of TWP_PANEL columns n, each [k][32], zero-padded:
 * float, or two consecutive k of a 16-bit type in one 32-bit word [k/2][32]. */
struct twp_panels {
    void *data;
    enum tw_dtype dtype;
    int64_t n, k;
};

/* c[groups * mr][ldc], columns of panels first .. last-1, (+)= A W^T over steps
 * k0 .. k1-1. a: groups of [k][mr] floats (twp_pack_rows); wide: room for
 * TWP_K_BLOCK * TWP_PANEL floats. k0 is a multiple of TWP_K_BLOCK. */
struct twp_product {
    const struct twp_panels *panels;
    int64_t first, last, k0, k1;
    const float *a;
    int64_t groups;
    float *c;
    int64_t ldc;
    bool is_adding;
    float *wide;
};

/* Which values of an activated tile are packed: act(g) != 0 when threshold is
 * negative, else !(|act(g)| <= threshold), so that NaN is always seen. */
struct twp_pack {
    const struct tw_activation *activation;
    float threshold;
    int slots;
};

/* Rows of W_up and W_down^T as the sparse pass reads them: [d_ff][stride]
 * elements of dtype, stride a multiple of 32, zero-padded. */
struct twp_rows {
    const void *data;
    enum tw_dtype dtype;
    int64_t stride;
};

struct twp_sparse {
    struct twp_rows up, down;                  /* up.data NULL: plain, h = a */
    const float *up_bias;                      /* [d_ff] or NULL */
    const struct tw_activation *up_activation; /* of up too; NULL: none */
    int64_t width;                             /* d_model rounded up to 32 */
};

struct twp_simd {
    const char *name;
    int mr; /* rows of a group */
    void (*product)(const struct twp_product *product);
    /* v[n] = act(v + bias); n a multiple of 16; bias may be NULL. */
    void (*activate)(const struct tw_activation *activation, float *v,
                     const float *bias, int64_t n);
    /* Activates c[256] in place and packs it; bits: the pattern; part: its
     * counts by 64 columns. Returns the exact count, also beyond the slots. */
    int (*pack)(const struct twp_pack *pack, float *c, const float *bias,
                float *value, uint8_t *column, uint64_t bits[4],
                uint8_t part[4]);
    /* h[i] = a[i] * act(x . W_up[neuron[i]] + bias), y += h[i] W_down^T[..], in
     * the order of i; x and y in the orders of `order`. */
    void (*sparse)(const struct twp_sparse *sparse, const float *x, float *y,
                   const uint32_t *neuron, const float *a, float *h, int64_t n);
    /* out[width] = x[n] in the element order that dots with rows of that type
     * want, zero-padded; and back. */
    void (*order)(enum tw_dtype dtype, float *out, const float *x, int64_t n,
                  int64_t width);
    void (*unorder)(enum tw_dtype dtype, float *out, const float *y,
                    int64_t width);
    /* out[k][mr] = row[0 .. n-1][k]; the places of missing rows stay. */
    void (*interleave)(float *out, const float *const *row, int n, int64_t k);
    /* y[n] = residual + (v + bias); bias and residual may be NULL. */
    void (*give)(float *y, const float *v, const float *bias,
                 const float *residual, int64_t n);
    /* The pattern of v[n], n a multiple of 64, as pack's threshold says. */
    void (*bits)(const float *v, int64_t n, float threshold, uint64_t *bits);
    /* Where |v| > threshold, NaN left out. */
    void (*above)(const float *v, int64_t n, float threshold, uint64_t *bits);
    /* v[i] = 0 where bit i is clear. */
    void (*mask)(float *v, int64_t n, const uint64_t *bits);
    /* A row's firings: where bit i is set fired[i]++, first[i] = min(row),
     * last[i] = max(row). Returns how many are set; fired NULL: that alone. */
    uint32_t (*tally)(const uint64_t *bits, int64_t n, uint32_t row,
                      uint32_t *fired, uint32_t *first, uint32_t *last);
    /* lane[i % 16] += |h[i]|, ascending. */
    void (*lanes)(const float *h, int64_t n, double lane[16]);
    /* h[n] = a == 0 ? 0 : a * (u + bias), n a multiple of 16. */
    void (*multiply)(float *h, const float *a, const float *u,
                     const float *bias, int64_t n);
};

extern const struct twp_simd twp_simd_base;
#if defined(__x86_64__)
extern const struct twp_simd twp_simd_v3, twp_simd_v4;
#endif

/* The widest that this processor runs; the same one for the whole process.
 * TW_SIMD=base|v3|v4 in the environment asks for a narrower one (tests). */
const struct twp_simd *twp_simd_find(void);

#endif
