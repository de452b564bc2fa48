/* The gate product and its packing into TwELL.
 *
 *   c = x W^T (W: gate, or up where there is no gate)
 *   a = act(c + b); (count, values, columns) of a's non-zeros, tile by tile
 *
 * Shapes: a chunk of 8 to 16 groups of rows against 256 columns at a time, so
 * that c (112 to 224 KiB) is packed while it lies in the second-level cache and
 * never reaches memory. FLOPs: 2 d_model d_ff a row, the bulk of a sparse
 * layer. Bytes: W once a chunk, in its stored type.
 *
 * Tried (AVX-512, one core, against one big cblas_sgemm = 1.00; 384 x 1024 and
 * 2048 x 5632): cblas_sgemm in calls of 64 rows 1.3-1.45 and 1.55-1.8, since it
 * packs the weight anew each call; this kernel 0.93 and 1.02. Without calling
 * the next block in: 1.16 for float32 at 2048 x 5632. Blocks of K of 128, 192
 * and 256: within 2 %. Packing from x's rows by scalar code: 3 % of the product
 * at 384 x 1024; by 4 x 4 transposes 2 %. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"

#include <string.h>

void twp_pack_rows(const struct twp_simd *simd, float *out, const float *from,
                   int64_t stride, const int64_t *index, int64_t rows,
                   int64_t k)
{
    int mr = simd->mr;
    for (int64_t g = 0; g < rows; g += mr, out += mr * k) {
        const float *row[16];
        int n = rows - g < mr ? (int)(rows - g) : mr;
        for (int r = 0; r < n; r++)
            row[r] = from + (index ? index[g + r] : g + r) * stride;
        if (n < mr)
            memset(out, 0, (size_t)(mr * k) * sizeof *out);
        simd->interleave(out, row, n, k);
    }
}

void twp_product_tile(const struct twp_ffn_call *call, struct twp_work *work,
                      const struct twp_panels *p, int64_t tile, int64_t groups)
{
    int64_t panels = (p->n + TWP_PANEL - 1) / TWP_PANEL;
    int64_t first = tile * (TWP_TILE / TWP_PANEL);
    int64_t last = first + TWP_TILE / TWP_PANEL;
    if (last > panels) { // columns past the last panel are zero
        last = panels;
        memset(work->c, 0,
               (size_t)(groups * call->simd->mr * TWP_TILE) * sizeof(float));
    }
    for (int64_t k0 = 0; k0 < p->k; k0 += TWP_K_OUTER) {
        struct twp_product product = {
            .panels = p,
            .first = first,
            .last = last,
            .k0 = k0,
            .k1 = p->k - k0 < TWP_K_OUTER ? p->k : k0 + TWP_K_OUTER,
            .a = work->a,
            .groups = groups,
            .c = work->c,
            .ldc = TWP_TILE,
            .is_adding = k0 > 0,
            .wide = work->wide};
        call->simd->product(&product);
    }
}

/* Packs one tile of all rows. */
static void pack_tile(const struct twp_ffn_call *call, struct twp_work *work,
                      int64_t tile, int64_t row, int64_t rows)
{
    struct tw_twell *t = &work->pack;
    const struct tw_ffn *ffn = call->ffn;
    const float *bias = ffn->desc.gate.data ? ffn->gate_bias : ffn->up_bias;
    for (int64_t r = 0; r < rows; r++) {
        int64_t cell = r * t->tiles + tile;
        float *c = work->c + r * TWP_TILE;
        uint64_t bits[4];
        uint8_t part[4];
        int count = call->simd->pack(&call->rule, c,
                                     bias ? bias + tile * TWP_TILE : NULL,
                                     t->value + cell * t->slots,
                                     t->column + cell * t->slots, bits, part);
        t->count[cell] = (uint16_t)count;
        if (call->obs)
            twp_count_tile(call, work, row + r, tile, part);
    }
}

void twp_ffn_gate(const struct twp_ffn_call *call, struct twp_work *work,
                  int64_t row, int64_t rows)
{
    int64_t k = call->ffn->desc.d_model, mr = call->simd->mr;
    int64_t groups = (rows + mr - 1) / mr;
    twp_pack_rows(call->simd, work->a, call->x + row * k, k, NULL, rows, k);
    for (int64_t tile = 0; tile < call->ffn->tiles; tile++) {
        twp_product_tile(call, work, &call->gate, tile, groups);
        pack_tile(call, work, tile, row, rows);
    }
}
