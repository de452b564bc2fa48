/* A feed-forward layer on the device: its workspace, the order of its kernels.
 *
 *   sparse: pack, route, gather, hide, add; hidden and down for routed rows
 *   dense:  hidden, down
 *
 * How many rows are routed is known to the device alone: the kernels read it
 * there, so nothing waits. The rows' bits are free of their place (launch.h),
 * and so of what else is routed. */
#include <config.h>

#include "kernels/cuda/second.h"

#include <cuda_runtime_api.h>
#include <limits.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/cuda/layers.h"
#include "kernels/ffn_desc.h"

#define MAX_D_MODEL 16384

static enum tw_status check_desc(const struct tw_ffn_desc *desc,
                                 struct tw_error *err)
{
    enum tw_status status = twp_ffn_desc_check(desc, err);
    if (status != TW_OK)
        return status;
    if (desc->apply && (desc->apply->kind == TW_ACTIVE_TOPP ||
                        desc->apply->kind == TW_ACTIVE_TOPK))
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda' cannot apply '%s'",
                            desc->apply->name);
    if (desc->d_model > MAX_D_MODEL)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda': d_model %lld is more than %d",
                            (long long)desc->d_model, MAX_D_MODEL);
    if (desc->d_ff > INT32_MAX / 2)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda': d_ff %lld is too large",
                            (long long)desc->d_ff);
    if (desc->is_up_activated)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda' cannot activate the up projection "
                            "too (dReLU)");
    return TW_OK;
}

enum tw_status twp_ffn_shape(const struct tw_ffn_desc *desc, enum tw_dtype type,
                             struct tw_ffn *ffn, struct tw_error *err)
{
    enum tw_status status = check_desc(desc, err);
    if (status != TW_OK)
        return status;
    *ffn = (struct tw_ffn){.desc = *desc,
                           .type = type,
                           .is_gated = desc->gate.data != NULL,
                           .d_model = (int32_t)desc->d_model,
                           .d = (int32_t)(desc->d_model + 7) / 8 * 8,
                           .f = (int32_t)desc->d_ff,
                           .f_stride = (desc->d_ff + 7) / 8 * 8,
                           .slots = TWP_CUDA_SLOTS,
                           .row_limit = INT32_MAX};
    ffn->tiles = (ffn->f + TWP_TILE - 1) / TWP_TILE;
    if (desc->apply && desc->apply->kind != TW_ACTIVE_GATE) {
        ffn->is_applied = true;
        ffn->apply = twp_def_of(desc->apply);
    }
    ffn->can_pack =
        desc->path != TW_FFN_DENSE &&
        (ffn->is_applied ? ffn->apply.kind == TW_ACTIVE_GATE_ABS
                         : tw_activation_is_sparse(desc->activation.act));
    ffn->is_dense = !ffn->can_pack;
    return TW_OK;
}

enum tw_status twp_ffn_create_in(const struct tw_ffn_desc *desc,
                                 enum tw_dtype type, struct twp_layer *layer,
                                 struct tw_ffn **out, struct tw_error *err)
{
    struct tw_ffn shape;
    enum tw_status status = twp_ffn_shape(desc, type, &shape, err);
    if (status != TW_OK)
        return status;
    struct tw_ffn *ffn = tw_alloc(1, sizeof *ffn);
    if (!ffn)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a layer");
    *ffn = shape;
    ffn->layer = layer;
    status = twp_ffn_weights_load(ffn, desc, err);
    if (status == TW_OK)
        *out = ffn;
    else
        twp_ffn_destroy(ffn);
    return status;
}

enum tw_status twp_ffn_create(const struct tw_ffn_desc *desc,
                              enum tw_dtype type, struct tw_ffn **out,
                              struct tw_error *err)
{
    return twp_ffn_create_in(desc, type, NULL, out, err);
}

void twp_ffn_destroy(struct tw_ffn *ffn)
{
    if (!ffn)
        return;
    twp_ffn_weights_free(ffn);
    tw_free(ffn);
}

static size_t carve(const struct tw_ffn *ffn, int32_t rows, char *memory,
                    struct twp_work *w)
{
    size_t at = 0, r = (size_t)rows, tiles = (size_t)ffn->tiles;
    size_t blocks = (r + TWP_ROUTE_ROWS - 1) / TWP_ROUTE_ROWS;
    size_t parts = ((size_t)ffn->f + TWP_PART - 1) / TWP_PART;
    *w = (struct twp_work){
        .packed = {.cols = ffn->f, .tiles = ffn->tiles, .slots = ffn->slots}};
    w->h = twp_place(memory, &at, r * (size_t)ffn->f_stride * 2);
    w->parts.stride = rows;
    w->parts.l1 = twp_place(memory, &at, r * parts * sizeof *w->parts.l1);
    if (ffn->d != ffn->d_model) {
        w->x_wide = twp_place(memory, &at, r * (size_t)ffn->d * 2);
        w->y_wide = twp_place(memory, &at, r * (size_t)ffn->d * 2);
    }
    w->packed.count = twp_place(memory, &at, r * tiles * 4);
    w->parts.count =
        (uint16_t *)w->packed.count; /* a layer wants one of them */
    if (ffn->is_dense)
        return at;
    w->packed.entry =
        twp_place(memory, &at, r * tiles * (size_t)ffn->slots * 4);
    w->list_of_h.room = ffn->tiles * ffn->slots;
    w->list_of_h.n = twp_place(memory, &at, r * sizeof *w->list_of_h.n);
    w->list_of_h.pair =
        twp_place(memory, &at, r * (size_t)w->list_of_h.room * 8);
    w->is_routed = twp_place(memory, &at, r);
    w->block_routed = twp_place(memory, &at, blocks * sizeof *w->block_routed);
    w->list = twp_place(memory, &at, r * sizeof *w->list);
    w->actual = twp_place(memory, &at, sizeof *w->actual);
    w->x = twp_place(memory, &at, r * (size_t)ffn->d * 2);
    return at;
}

size_t twp_ffn_work_bytes(const struct tw_ffn *ffn, int32_t rows)
{
    struct twp_work work;
    return carve(ffn, rows, NULL, &work);
}

void twp_ffn_work_carve(const struct tw_ffn *ffn, int32_t rows, void *memory,
                        struct twp_work *work)
{
    carve(ffn, rows, memory, work);
}

/* Of rows `from` on; without x. */
static struct twp_hidden_args hidden_args(const struct tw_ffn *ffn,
                                          const struct twp_ffn_call *call,
                                          int64_t from, struct twp_rows rows)
{
    struct twp_parts parts = call->work.parts;
    parts.l1 += from;
    parts.count = ffn->is_dense ? parts.count : NULL;
    return (struct twp_hidden_args){
        .type = ffn->type,
        .gate = ffn->is_gated ? &ffn->gate_map : NULL,
        .up = &ffn->up_map,
        .gate_bias = ffn->gate_bias,
        .up_bias = ffn->up_bias,
        .rows = rows,
        .k = ffn->d,
        .cols = ffn->f,
        .activation = ffn->desc.activation,
        .apply = ffn->is_applied ? &ffn->apply : NULL,
        .h = (uint16_t *)call->work.h + from * ffn->f_stride,
        .stride = ffn->f_stride,
        .wide_h = call->second ? call->second->h : NULL,
        .wide_gate = call->second ? call->second->gate : NULL,
        .parts = parts,
        .counts = call->counts};
}

/* The dense pass over those rows of x, `from` rows behind x's and h's first. */
static enum tw_status hide_rows(const struct tw_ffn *ffn,
                                const struct twp_device *device,
                                const struct twp_ffn_call *call, const void *x,
                                int64_t from, struct twp_rows rows,
                                struct CUstream_st *stream,
                                struct tw_error *err)
{
    struct twp_map map;
    enum tw_status status =
        twp_map_encode(&map, ffn->type, (const uint16_t *)x + from * ffn->d,
                       rows.rows, ffn->d, ffn->d, err);
    if (status != TW_OK)
        return status;
    struct twp_hidden_args args = hidden_args(ffn, call, from, rows);
    args.x = &map;
    return tw_launch_hidden(device, &args, stream, err);
}

/* The dense pass, and the second one over its h. */
static enum tw_status
run_hidden(const struct tw_ffn *ffn, const struct twp_device *device,
           const struct twp_ffn_call *call, const void *x, struct twp_rows rows,
           struct CUstream_st *stream, struct tw_error *err)
{
    const struct twp_second_call *second = call->second;
    if (!second)
        return hide_rows(ffn, device, call, x, 0, rows, stream, err);
    int32_t parts = twp_second_parts(second, &rows);
    enum tw_status status = twp_second_divide(second, &rows, stream, err);
    for (int32_t i = 0; status == TW_OK && i < parts; i++) {
        struct twp_rows part = twp_second_part(second, &rows, i);
        status = hide_rows(ffn, device, call, x, (int64_t)i * second->part,
                           part, stream, err);
        if (status == TW_OK)
            status =
                twp_second_rows(second, ffn, &part, NULL, NULL, stream, err);
    }
    return status;
}

static enum tw_status run_down(const struct tw_ffn *ffn,
                               const struct twp_device *device,
                               const struct twp_ffn_call *call,
                               struct twp_rows rows, struct CUstream_st *stream,
                               struct tw_error *err)
{
    struct twp_map map;
    enum tw_status status = twp_map_encode(
        &map, ffn->type, call->work.h, call->rows, ffn->f, ffn->f_stride, err);
    if (status != TW_OK)
        return status;
    struct twp_hidden_args hidden = hidden_args(ffn, call, 0, rows);
    struct twp_down_args args = {.type = ffn->type,
                                 .h = &map,
                                 .down = &ffn->down_map,
                                 .rows = rows,
                                 .cols = ffn->f,
                                 .d = ffn->d,
                                 .bias = ffn->down_bias,
                                 .residual = call->residual,
                                 .y = call->y,
                                 .parts = hidden.parts,
                                 .adds_nnz =
                                     tw_hidden_leaves_nnz(device, &hidden),
                                 .counts = call->counts,
                                 .h_data = call->work.h,
                                 .down_data = ffn->down,
                                 .stride = ffn->f_stride,
                                 .down_rows = ffn->d_model};
    status = tw_launch_down(device, &args, stream, err);
    if (status == TW_OK && rows.actual && device->path == TW_CUDA_HOPPER)
        status = tw_launch_down_thin(&args, stream, err);
    return status;
}

static enum tw_status run_route(const struct tw_ffn *ffn,
                                const struct twp_device *device,
                                const struct twp_ffn_call *call,
                                struct CUstream_st *stream,
                                struct tw_error *err)
{
    struct twp_route_args args = {.in = call->work.packed,
                                  .rows = call->rows,
                                  .row_limit = ffn->row_limit,
                                  .is_routed = call->work.is_routed,
                                  .block_routed = call->work.block_routed,
                                  .counts = call->counts};
    return tw_launch_route(device, &args, stream, err);
}

static enum tw_status run_pack(const struct tw_ffn *ffn,
                               const struct twp_device *device,
                               const struct twp_ffn_call *call,
                               struct CUstream_st *stream, struct tw_error *err)
{
    struct twp_map map;
    enum tw_status status = twp_map_encode(&map, ffn->type, call->x, call->rows,
                                           ffn->d, ffn->d, err);
    if (status != TW_OK)
        return status;
    struct twp_pack_args args = {
        .type = ffn->type,
        .x = &map,
        .w = ffn->is_gated ? &ffn->gate_map : &ffn->up_map,
        .bias = ffn->is_gated ? ffn->gate_bias : ffn->up_bias,
        .rows = call->rows,
        .k = ffn->d,
        .activation = ffn->desc.activation,
        .out = call->work.packed,
        .apply = ffn->is_applied ? &ffn->apply : NULL};
    return tw_launch_pack(device, &args, stream, err);
}

static enum tw_status run_unpack(const struct tw_ffn *ffn,
                                 const struct twp_ffn_call *call,
                                 struct CUstream_st *stream,
                                 struct tw_error *err)
{
    struct twp_unpack_args args = {.type = ffn->type,
                                   .in = call->work.packed,
                                   .list = call->work.list_of_h,
                                   .is_routed = call->work.is_routed,
                                   .rows = call->rows,
                                   .d = ffn->d,
                                   .x = call->x,
                                   .up = ffn->is_gated ? ffn->up : NULL,
                                   .down = ffn->down_t,
                                   .up_bias =
                                       ffn->is_gated ? ffn->up_bias : NULL,
                                   .down_bias = ffn->down_bias,
                                   .residual = call->residual,
                                   .y = call->y,
                                   .counts = call->counts,
                                   .variant = ffn->variant};
    struct twp_rows rows = {.rows = call->rows};
    enum tw_status status = tw_launch_hide(&args, stream, err);
    if (status == TW_OK)
        status = tw_launch_add(&args, stream, err);
    if (status == TW_OK && call->second)
        status = twp_second_rows(call->second, ffn, &rows, &args.list, &args.in,
                                 stream, err);
    return status;
}

static enum tw_status run_gather(const struct tw_ffn *ffn,
                                 const struct twp_ffn_call *call,
                                 struct CUstream_st *stream,
                                 struct tw_error *err)
{
    const struct twp_work *w = &call->work;
    struct twp_gather_args args = {.x = call->x,
                                   .rows = call->rows,
                                   .k = ffn->d,
                                   .is_routed = w->is_routed,
                                   .block_routed = w->block_routed,
                                   .out = w->x,
                                   .list = w->list,
                                   .actual = w->actual};
    return tw_launch_gather(&args, stream, err);
}

static enum tw_status run_dense(const struct tw_ffn *ffn,
                                const struct twp_device *device,
                                const struct twp_ffn_call *call,
                                struct CUstream_st *stream,
                                struct tw_error *err)
{
    struct twp_rows rows = {.rows = call->rows};
    enum tw_status status =
        run_hidden(ffn, device, call, call->x, rows, stream, err);
    if (status == TW_OK)
        status = run_down(ffn, device, call, rows, stream, err);
    return status;
}

static enum tw_status run_sparse(const struct tw_ffn *ffn,
                                 const struct twp_device *device,
                                 const struct twp_ffn_call *call,
                                 struct CUstream_st *stream,
                                 struct tw_error *err)
{
    struct twp_rows routed = {.rows = call->rows,
                              .actual = call->work.actual,
                              .list = call->work.list};
    enum tw_status status = run_pack(ffn, device, call, stream, err);
    if (status == TW_OK && call->until != TWP_UNTIL_PACKED)
        status = run_route(ffn, device, call, stream, err);
    if (call->until != TWP_UNTIL_DONE)
        return status;
    if (status == TW_OK)
        status = run_unpack(ffn, call, stream, err);
    if (status == TW_OK)
        status = run_gather(ffn, call, stream, err);
    if (status == TW_OK)
        status =
            run_hidden(ffn, device, call, call->work.x, routed, stream, err);
    if (status == TW_OK)
        status = run_down(ffn, device, call, routed, stream, err);
    return status;
}

static bool is_below_applied(const struct tw_ffn *ffn, struct twp_def def)
{
    return def.kind == TW_ACTIVE_GATE_ABS &&
           def.threshold < ffn->apply.threshold;
}

/* Does the call count what the packing would leave out? What is packed is
 * active under every gate-abs up to the applied one, also if its rounded value
 * isn't. */
static bool must_be_dense(const struct tw_ffn *ffn,
                          const struct twp_second_call *second,
                          struct twp_counts *counts)
{
    bool is_below = false;
    if (!ffn->is_applied || !counts->is_on)
        return false;
    for (int d = 0; second && d < second->to.defs; d++)
        is_below |= is_below_applied(ffn, second->to.def[d].def);
    for (int d = 0; d < counts->defs; d++) {
        struct twp_def *def = &counts->def[d];
        is_below |= is_below_applied(ffn, *def);
        if (def->kind == TW_ACTIVE_GATE_ABS &&
            def->threshold == ffn->apply.threshold)
            def->kind = TW_ACTIVE_GATE;
    }
    return is_below;
}

static enum tw_status run_layer(const struct tw_ffn *ffn,
                                const struct twp_device *device,
                                const struct twp_ffn_call *call,
                                struct CUstream_st *stream,
                                struct tw_error *err)
{
    struct tw_ffn dense = *ffn;
    struct twp_ffn_call sparse = *call;
    dense.is_dense = true;
    return ffn->is_dense || must_be_dense(ffn, call->second, &sparse.counts)
               ? run_dense(&dense, device, call, stream, err)
               : run_sparse(ffn, device, &sparse, stream, err);
}

/* Rows of a width that the kernels can't address, through copies that are. */
static enum tw_status run_wide(const struct tw_ffn *ffn,
                               const struct twp_device *device,
                               const struct twp_ffn_call *call,
                               struct CUstream_st *stream, struct tw_error *err)
{
    struct twp_ffn_call wide = *call;
    wide.x = call->work.x_wide;
    wide.y = call->work.y_wide;
    wide.residual = call->residual ? wide.y : NULL;
    enum tw_status status =
        tw_launch_repitch(call->work.x_wide, ffn->d, call->x, ffn->d_model,
                          call->rows, ffn->d_model, stream, err);
    if (status == TW_OK && call->residual)
        status = tw_launch_repitch(wide.y, ffn->d, call->residual, ffn->d_model,
                                   call->rows, ffn->d_model, stream, err);
    if (status == TW_OK)
        status = run_layer(ffn, device, &wide, stream, err);
    if (status == TW_OK)
        status = tw_launch_repitch(call->y, ffn->d_model, wide.y, ffn->d,
                                   call->rows, ffn->d_model, stream, err);
    return status;
}

enum tw_status twp_ffn_run(const struct tw_ffn *ffn,
                           const struct twp_device *device,
                           const struct twp_ffn_call *call,
                           struct CUstream_st *stream, struct tw_error *err)
{
    if (call->rows < 1)
        return TW_OK;
    enum tw_status status = ffn->d == ffn->d_model
                                ? run_layer(ffn, device, call, stream, err)
                                : run_wide(ffn, device, call, stream, err);
    if (status == TW_OK && call->second)
        status = twp_second_end(call->second, stream, err);
    return status;
}
