/* Loading a feed-forward layer: shapes are checked, biases widened, and nothing
 * else is copied until the layer first runs. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"

#include <string.h>

#include "base/memory.h"
#include "kernels/ffn_desc.h"

/* The vector as floats, zeros after its end. */
static enum tw_status load_bias(const struct tw_matrix *m, int64_t padded,
                                float **out, struct tw_error *err)
{
    *out = NULL;
    if (!m->data)
        return TW_OK;
    float *bias = tw_alloc_aligned((size_t)padded, sizeof *bias);
    if (!bias)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a bias");
    memset(bias, 0, (size_t)padded * sizeof *bias);
    tw_widen(bias, m->data, m->dtype, (size_t)m->cols);
    *out = bias;
    return TW_OK;
}

enum tw_status twp_cpu_ffn_load(void *ctx, const struct tw_ffn_desc *desc,
                                struct tw_ffn **out, struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    enum tw_status status = twp_ffn_desc_check(desc, err);
    if (status != TW_OK)
        return status;
    struct tw_ffn *ffn = tw_calloc(1, sizeof *ffn);
    if (!ffn)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a layer");
    ffn->desc = *desc;
    if (desc->apply) {
        ffn->apply = *desc->apply;
        ffn->desc.apply = &ffn->apply;
    }
    ffn->simd = twp_simd_find();
    ffn->slots = TWP_SLOTS;
    ffn->plan = (struct tw_ffn_plan){desc->path, TW_NO_ROW_LIMIT};
    ffn->tiles = tw_twell_tiles(desc->d_ff);
    ffn->padded = ffn->tiles * TWP_TILE;
    ffn->width = (desc->d_model + TWP_PANEL - 1) / TWP_PANEL * TWP_PANEL;
    status = load_bias(&desc->gate_bias, ffn->padded, &ffn->gate_bias, err);
    if (status == TW_OK)
        status = load_bias(&desc->up_bias, ffn->padded, &ffn->up_bias, err);
    if (status == TW_OK)
        status = load_bias(&desc->down_bias, ffn->width, &ffn->down_bias, err);
    if (status == TW_OK)
        status = twp_ffn_share(cpu, err);
    if (status != TW_OK) {
        tw_free(ffn->gate_bias);
        tw_free(ffn->up_bias);
        tw_free(ffn->down_bias);
        tw_free(ffn);
        return status;
    }
    *out = ffn;
    return TW_OK;
}

void twp_cpu_ffn_free(void *ctx, struct tw_ffn *ffn)
{
    if (!ffn)
        return;
    twp_ffn_drop(ctx, ffn, true);
    twp_ffn_unshare(ctx);
    tw_free(ffn->gate_bias);
    tw_free(ffn->up_bias);
    tw_free(ffn->down_bias);
    tw_free(ffn);
}
