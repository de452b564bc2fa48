/* The dense path: rows that overflow, or all rows of a layer that isn't sparse.
 *
 *   a = act(x Wg^T + bg); h = a (x Wu^T + bu); y = residual + h Wd^T + bd
 *   with is_up_activated h = a act(x Wu^T + bu)
 *
 * Shapes: the rows of a chunk, gathered; three products of panels (simd.h);
 * a and h [rows][d_ff] stay in the worker's memory. FLOPs: 6 d_model d_ff a
 * row. Bytes: each weight once a chunk.
 *
 * h of an inactive neuron is 0 whatever u is, as on the sparse path. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"

#include <string.h>

/* act[rows][padded] */
static void gate_rows(const struct twp_ffn_call *call, struct twp_work *work,
                      int64_t rows, int64_t groups)
{
    const struct tw_ffn *ffn = call->ffn;
    const float *bias = ffn->desc.gate.data ? ffn->gate_bias : ffn->up_bias;
    for (int64_t tile = 0; tile < ffn->tiles; tile++) {
        twp_product_tile(call, work, &call->gate, tile, groups);
        for (int64_t i = 0; i < rows; i++) {
            float *act = work->act + i * ffn->padded + tile * TWP_TILE;
            memcpy(act, work->c + i * TWP_TILE, TWP_TILE * sizeof *act);
            call->simd->activate(&ffn->desc.activation, act,
                                 bias ? bias + tile * TWP_TILE : NULL,
                                 TWP_TILE);
        }
    }
}

static void up_rows(const struct twp_ffn_call *call, struct twp_work *work,
                    int64_t rows, int64_t groups)
{
    const struct tw_ffn *ffn = call->ffn;
    if (!ffn->desc.gate.data) {
        memcpy(work->hid, work->act,
               (size_t)(rows * ffn->padded) * sizeof *work->hid);
        return;
    }
    for (int64_t tile = 0; tile < ffn->tiles; tile++) {
        twp_product_tile(call, work, &call->up, tile, groups);
        const float *bias =
            ffn->up_bias ? ffn->up_bias + tile * TWP_TILE : NULL;
        for (int64_t i = 0; i < rows; i++) {
            int64_t at = i * ffn->padded + tile * TWP_TILE;
            float *up = work->c + i * TWP_TILE;
            if (ffn->desc.is_up_activated)
                call->simd->activate(&ffn->desc.activation, up, bias, TWP_TILE);
            call->simd->multiply(work->hid + at, work->act + at, up,
                                 ffn->desc.is_up_activated ? NULL : bias,
                                 TWP_TILE);
        }
    }
}

/* The pattern of one row, h cut to it where a definition is applied. */
static void pattern_of(const struct twp_ffn_call *call, struct twp_work *work,
                       int64_t row, const float *act, float *h, uint64_t *bits)
{
    int64_t padded = call->ffn->padded;
    const struct tw_active *apply = call->ffn->desc.apply;
    enum tw_active_kind kind = apply ? apply->kind : TW_ACTIVE_GATE;
    switch (kind) {
    case TW_ACTIVE_HIDDEN:
        call->simd->bits(h, padded, -1, bits);
        break;
    case TW_ACTIVE_ABS:
        call->simd->bits(h, padded, twp_threshold(apply->arg), bits);
        break;
    case TW_ACTIVE_TOPP:
    case TW_ACTIVE_TOPK:
        if (call->obs) // NaN is never taken, but seen
            twp_count_bad(work, row, NULL, h, padded);
        twp_select_top(apply, h, padded, work, bits);
        break;
    default: // gate-abs, or none
        call->simd->bits(act, padded, call->rule.threshold, bits);
    }
    if (apply)
        call->simd->mask(h, padded, bits);
}

static void down_rows(const struct twp_ffn_call *call, struct twp_work *work,
                      const int64_t *list, int64_t rows)
{
    const struct tw_ffn *ffn = call->ffn;
    int64_t mr = call->simd->mr, groups = (rows + mr - 1) / mr;
    int64_t d = ffn->desc.d_model, k = ffn->desc.d_ff;
    twp_pack_rows(call->simd, work->a, work->hid, ffn->padded, NULL, rows, k);
    for (int64_t k0 = 0; k0 < k; k0 += TWP_K_OUTER) {
        struct twp_product product = {
            .panels = &call->down,
            .first = 0,
            .last = ffn->width / TWP_PANEL,
            .k0 = k0,
            .k1 = k - k0 < TWP_K_OUTER ? k : k0 + TWP_K_OUTER,
            .a = work->a,
            .groups = groups,
            .c = work->c,
            .ldc = ffn->width,
            .is_adding = k0 > 0,
            .wide = work->wide};
        call->simd->product(&product);
    }
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = list[i] * d;
        call->simd->give(call->y + at, work->c + i * ffn->width, ffn->down_bias,
                         call->residual ? call->residual + at : NULL, d);
    }
}

void twp_ffn_dense(const struct twp_ffn_call *call, struct twp_work *work,
                   const int64_t *list, int64_t rows)
{
    int64_t mr = call->simd->mr, groups = (rows + mr - 1) / mr;
    int64_t d = call->ffn->desc.d_model, padded = call->ffn->padded;
    twp_pack_rows(call->simd, work->a, call->x, d, list, rows, d);
    gate_rows(call, work, rows, groups);
    up_rows(call, work, rows, groups);
    for (int64_t i = 0; i < rows; i++) {
        float *act = work->act + i * padded, *h = work->hid + i * padded;
        pattern_of(call, work, list[i], act, h, work->bits);
        if (call->obs)
            twp_count_dense(call, work, list[i], act, h, work->bits);
    }
    down_rows(call, work, list, rows);
}
