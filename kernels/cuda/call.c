/* The feed-forward layer of a started batch. */
#include <config.h>

#include "kernels/cuda/context.h"

#include <string.h>

#include "base/memory.h"

enum tw_status twp_cuda_ffn_load(void *ctx, const struct tw_ffn_desc *desc,
                                 struct tw_ffn **ffn, struct tw_error *err)
{
    const struct twp_cuda *cuda = ctx;
    return twp_ffn_create_in(desc, cuda->type, cuda->loading, ffn, err);
}

void twp_cuda_ffn_free(void *ctx, struct tw_ffn *ffn)
{
    (void)ctx;
    twp_ffn_destroy(ffn);
}

static enum tw_status reserve_pending(struct twp_flight *flight,
                                      struct tw_error *err)
{
    if (flight->pendings < flight->pending_room)
        return TW_OK;
    void *array = flight->pending;
    size_t room = flight->pending_room;
    if (tw_grow(&array, &room, room + 1, sizeof *flight->pending) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for counts");
    flight->pending = array;
    memset(flight->pending + flight->pending_room, 0,
           (room - flight->pending_room) * sizeof *flight->pending);
    flight->pending_room = room;
    return TW_OK;
}

/* The next counts' block of this batch, cleared. */
static enum tw_status
take_pending(struct twp_cuda *cuda, const struct tw_ffn *ffn,
             const struct tw_probes *probes, struct tw_layer_obs *obs,
             struct twp_counts *counts, struct tw_error *err)
{
    struct twp_flight *flight = cuda->now;
    int32_t rows = flight->on_device.rows;
    enum tw_status status = twp_counts_defs(probes, counts, err);
    if (status == TW_OK)
        status = reserve_pending(flight, err);
    if (status != TW_OK)
        return status;
    struct twp_pending *p = &flight->pending[flight->pendings];
    p->host.is_host = true;
    p->bytes = twp_counts_bytes(rows, ffn->f, counts->defs);
    p->counts = *counts;
    p->cols = ffn->f;
    p->probes = *probes;
    p->obs = obs;
    status = twp_memory_grow(cuda, &p->device, p->bytes, err);
    if (status == TW_OK)
        status = twp_memory_grow(cuda, &p->host, p->bytes, err);
    if (status != TW_OK)
        return status;
    twp_counts_carve(rows, ffn->f, p->device.at, counts);
    counts->is_on = true;
    counts->skip = flight->on_device.skip;
    flight->pendings++;
    return twp_counts_clear(counts, rows, ffn->f, cuda->stream, err);
}

enum tw_status twp_context_call(void *ctx, const struct tw_ffn *ffn,
                                const struct tw_probes *probes,
                                struct tw_layer_obs *obs,
                                struct twp_ffn_call *call, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    int32_t rows = call->rows = cuda->now->on_device.rows;
    if (obs && obs->magnitude)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda' cannot count magnitudes");
    if (obs && obs->set_start)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda' cannot list active sets");
    enum tw_status status =
        twp_memory_grow(cuda, &cuda->work, twp_ffn_work_bytes(ffn, rows), err);
    if (status != TW_OK)
        return status;
    twp_ffn_work_carve(ffn, rows, cuda->work.at, &call->work);
    if (obs)
        status = take_pending(cuda, ffn, probes, obs, &call->counts, err);
    return status;
}

enum tw_status twp_cuda_ffn(void *ctx, void *y, const void *x,
                            const void *residual, struct tw_ffn *ffn,
                            const struct tw_probes *probes,
                            struct tw_layer_obs *obs, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    struct twp_ffn_call call = {.y = y, .x = x, .residual = residual};
    enum tw_status status = twp_ffn_bring(cuda, ffn, err);
    if (status == TW_OK)
        status = twp_context_call(ctx, ffn, probes, obs, &call, err);
    if (status == TW_OK)
        status = twp_ffn_run(ffn, &cuda->device, &call, cuda->stream, err);
    return status;
}

void twp_context_of(void *ctx, struct twp_context *context)
{
    struct twp_cuda *cuda = ctx;
    *context = (struct twp_context){.device = &cuda->device,
                                    .stream = cuda->stream,
                                    .type = cuda->type,
                                    .bench = &cuda->bench};
}
