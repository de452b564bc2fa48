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

/* The parts of its block on the device, cleared. */
static enum tw_status clear(struct twp_cuda *cuda, struct twp_pending *p,
                            struct twp_counts *counts,
                            struct twp_second_call *second,
                            struct tw_error *err)
{
    int32_t rows = cuda->now->on_device.rows;
    twp_counts_carve(rows, p->cols, p->device.at, counts);
    enum tw_status status =
        twp_counts_clear(counts, rows, p->cols, cuda->stream, err);
    if (p->wish.defs == 0 || status != TW_OK)
        return status;
    char *memory = (char *)p->device.at + p->second_at;
    size_t ones, bytes = twp_second_carve(rows, p->cols, &p->wish, memory,
                                          second, &ones);
    cudaError_t error = cudaMemsetAsync(memory, 0, bytes, cuda->stream);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(memory, 0xff, ones, cuda->stream);
    return twp_cuda_check(error, "clearing counts", err);
}

/* Memory on the device and on the host for what the call counts. */
static enum tw_status grow(struct twp_cuda *cuda, struct twp_pending *p,
                           struct tw_error *err)
{
    int32_t rows = cuda->now->on_device.rows;
    size_t ones;
    p->second_at = p->bytes =
        twp_cuda_counts_bytes(rows, p->cols, p->counts.defs);
    if (p->wish.defs > 0) {
        twp_place(NULL, &p->second_at, 0);
        p->bytes = p->second_at +
                   twp_second_carve(rows, p->cols, &p->wish, NULL,
                                    &(struct twp_second_call){0}, &ones);
    }
    p->host.is_host = true;
    enum tw_status status = twp_memory_grow(cuda, &p->device, p->bytes, err);
    return status == TW_OK ? twp_memory_grow(cuda, &p->host, p->bytes, err)
                           : status;
}

/* The next counts' block of this batch, cleared. */
static enum tw_status
take_pending(struct twp_cuda *cuda, const struct tw_ffn *ffn,
             const struct tw_probes *probes, struct tw_layer_obs *obs,
             struct twp_counts *counts, struct twp_second_call *second,
             struct tw_error *err)
{
    struct twp_flight *flight = cuda->now;
    enum tw_status status = reserve_pending(flight, err);
    if (status != TW_OK)
        return status;
    struct twp_pending *p = &flight->pending[flight->pendings];
    twp_counts_defs(probes, counts);
    status = twp_second_defs(probes, obs, counts, &p->wish, err);
    if (status != TW_OK)
        return status;
    p->counts = *counts;
    p->cols = ffn->f;
    p->probes = *probes;
    p->obs = obs;
    p->is_whole = p->is_sent = false;
    p->set_count = 0;
    status = grow(cuda, p, err);
    if (status == TW_OK && p->wish.defs > 0)
        status = twp_second_take(cuda, ffn, flight->on_device.rows, &p->wish,
                                 second, err);
    if (status != TW_OK)
        return status;
    second->pending = p;
    second->to.skip = counts->skip = flight->on_device.skip;
    counts->is_on = true;
    flight->pendings++;
    return clear(cuda, p, counts, second, err);
}

/* second: where a second pass stands, if there is one. */
static enum tw_status make_call(struct twp_cuda *cuda, const struct tw_ffn *ffn,
                                const struct tw_probes *probes,
                                struct tw_layer_obs *obs,
                                struct twp_ffn_call *call,
                                struct twp_second_call *second,
                                struct tw_error *err)
{
    int32_t rows = call->rows = cuda->now->on_device.rows;
    enum tw_status status =
        twp_memory_grow(cuda, &cuda->work, twp_ffn_work_bytes(ffn, rows), err);
    if (status != TW_OK)
        return status;
    twp_ffn_work_carve(ffn, rows, cuda->work.at, &call->work);
    if (obs)
        status =
            take_pending(cuda, ffn, probes, obs, &call->counts, second, err);
    if (status == TW_OK && second->to.defs > 0)
        call->second = second;
    return status;
}

enum tw_status twp_context_call(void *ctx, const struct tw_ffn *ffn,
                                const struct tw_probes *probes,
                                struct tw_layer_obs *obs,
                                struct twp_ffn_call *call, struct tw_error *err)
{
    struct twp_second_call second = {.part = 0};
    enum tw_status status =
        make_call(ctx, ffn, probes, obs, call, &second, err);
    call->second = NULL;
    return status;
}

enum tw_status twp_cuda_ffn(void *ctx, void *y, const void *x,
                            const void *residual, struct tw_ffn *ffn,
                            const struct tw_probes *probes,
                            struct tw_layer_obs *obs, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    struct twp_ffn_call call = {.y = y, .x = x, .residual = residual};
    struct twp_second_call second = {.part = 0};
    enum tw_status status = twp_ffn_bring(cuda, ffn, err);
    if (status == TW_OK)
        status = make_call(cuda, ffn, probes, obs, &call, &second, err);
    if (status == TW_OK)
        status = twp_ffn_run(ffn, &cuda->device, &call, cuda->stream, err);
    if (status == TW_OK && call.second)
        second.pending->is_whole = true;
    if (status == TW_OK && obs)
        status = twp_pending_send(
            cuda, &cuda->now->pending[cuda->now->pendings - 1], err);
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
