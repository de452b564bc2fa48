/* The second pass's results on their way to the obs. Active sets are copied as
 * soon as a part of a layer's rows has its own, by the second stream; the rest
 * comes with the batch's counts. */
#include <config.h>

#include "kernels/cuda/second.h"

#include <string.h>

#include "kernels/cuda/context.h"

/* Pinned memory of that many bytes that keeps its first `used` ones. */
static enum tw_status grow_kept(struct twp_cuda *cuda,
                                struct twp_memory *memory, size_t used,
                                size_t bytes, struct tw_error *err)
{
    if (memory->bytes >= bytes)
        return TW_OK;
    struct twp_memory more = {.is_host = true};
    enum tw_status status =
        twp_memory_grow(cuda, &more, bytes + bytes / 4, err);
    if (status == TW_OK) /* copies into it are under way */
        status =
            twp_cuda_check(cudaStreamSynchronize(cuda->back), "stream", err);
    if (status != TW_OK) {
        twp_memory_fini(&more);
        return status;
    }
    if (used > 0)
        memcpy(more.at, memory->at, used);
    twp_memory_fini(memory);
    *memory = more;
    return TW_OK;
}

/* Room for `count` more entries of sets, on the device once the last ones are
 * copied. */
static enum tw_status make_room(struct twp_cuda *cuda, struct twp_pending *p,
                                size_t count, struct twp_second_sets *sets,
                                struct tw_error *err)
{
    size_t used = (size_t)p->set_count * 4, all = used + count * 4;
    struct twp_memory *pool = &cuda->second.sets;
    enum tw_status status = grow_kept(cuda, &p->set, used, all, err);
    if (status == TW_OK)
        status = grow_kept(cuda, &p->set_value, used, all, err);
    if (status == TW_OK && pool->bytes < count * 8) { /* is it being copied? */
        status =
            twp_cuda_check(cudaStreamSynchronize(cuda->back), "stream", err);
        if (status == TW_OK)
            status = twp_memory_grow(cuda, pool, count * 10, err);
    }
    if (status == TW_OK)
        status = twp_cuda_check(
            cudaStreamWaitEvent(cuda->stream, cuda->second.copied, 0), "event",
            err);
    sets->set = pool->at;
    sets->value = (float *)pool->at + count;
    return status;
}

/* On the second stream, once the first has written them. */
static enum tw_status copy_sets(struct twp_cuda *cuda, struct twp_pending *p,
                                size_t count,
                                const struct twp_second_sets *sets,
                                struct tw_error *err)
{
    size_t to = (size_t)p->set_count, bytes = count * 4;
    struct twp_second_memory *second = &cuda->second;
    cudaError_t error = cudaEventRecord(second->written, cuda->stream);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(cuda->back, second->written, 0);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync((uint32_t *)p->set.at + to, sets->set, bytes,
                                cudaMemcpyDeviceToHost, cuda->back);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync((float *)p->set_value.at + to, sets->value,
                                bytes, cudaMemcpyDeviceToHost, cuda->back);
    if (error == cudaSuccess)
        error = cudaEventRecord(second->copied, cuda->back);
    return twp_cuda_check(error, "copy of active sets", err);
}

enum tw_status twp_second_sets(const struct twp_second_call *call,
                               const struct twp_second *to,
                               const struct twp_second_h *h,
                               struct tw_error *err)
{
    struct twp_cuda *cuda = call->cuda;
    struct twp_pending *p = call->pending;
    struct twp_second_sets sets = {.start = call->start, .first = p->set_count};
    int64_t end = 0;
    enum tw_status status =
        tw_launch_set_starts(to, h, call->start, cuda->stream, err);
    if (status == TW_OK)
        status = twp_cuda_check(
            cudaMemcpyAsync(&end, call->start + to->rows, sizeof end,
                            cudaMemcpyDeviceToHost, cuda->stream),
            "number of active neurons", err);
    if (status == TW_OK)
        status =
            twp_cuda_check(cudaStreamSynchronize(cuda->stream), "stream", err);
    if (status != TW_OK || end == p->set_count)
        return status;
    size_t count = (size_t)(end - p->set_count);
    status = make_room(cuda, p, count, &sets, err);
    if (status == TW_OK)
        status = tw_launch_sets(to, h, &sets, cuda->stream, err);
    if (status == TW_OK)
        status = copy_sets(cuda, p, count, &sets, err);
    if (status == TW_OK)
        p->set_count = end;
    return status;
}

/* From the order of the parts to that of the rows. */
static enum tw_status merge_sets(const struct twp_pending *p,
                                 const struct twp_second_call *host,
                                 struct tw_error *err)
{
    struct tw_layer_obs *obs = p->obs;
    enum tw_status status = tw_layer_obs_set_room(obs, p->set_count, err);
    if (status != TW_OK)
        return status;
    int64_t to = 0;
    obs->set_start[0] = 0;
    for (int32_t r = 0; r < obs->rows; r++) {
        int64_t from = host->start[r], n = host->to.nnz[0][r];
        if (n > 0) {
            memcpy(obs->set + to, (uint32_t *)p->set.at + from,
                   (size_t)n * sizeof *obs->set);
            memcpy(obs->set_value + to, (float *)p->set_value.at + from,
                   (size_t)n * sizeof *obs->set_value);
        }
        obs->set_start[r + 1] = to += n;
    }
    return TW_OK;
}

static enum tw_status merge_magnitudes(const struct twp_magnitudes *from,
                                       struct tw_layer_obs *obs,
                                       struct tw_error *err)
{
    bool is_overflown = *from->is_overflown != 0;
    for (int b = 0; b < TW_MAGNITUDE_BINS; b++)
        obs->magnitude[b] += from->magnitude[b];
    for (int64_t n = 0; n < obs->width; n++) {
        is_overflown |= __builtin_add_overflow(
            obs->abs_sum[n], from->abs_sum[n], &obs->abs_sum[n]);
        if (from->abs_max[n] > obs->abs_max[n])
            obs->abs_max[n] = from->abs_max[n];
    }
    if (is_overflown)
        return tw_error_set(err, TW_ERR_OVERFLOW,
                            "the sum of |h| of a neuron exceeds 64 bits");
    return TW_OK;
}

enum tw_status twp_second_merge(const struct twp_pending *p, char *memory,
                                struct tw_error *err)
{
    const struct twp_second_wish *wish = &p->wish;
    struct tw_layer_obs *obs = p->obs;
    struct twp_second_call host = {.part = 0};
    size_t ones;
    enum tw_status status = TW_OK;
    twp_second_carve(obs->rows, obs->width, wish, memory, &host, &ones);
    for (int probe = 0; probe < p->probes.count; probe++) {
        int32_t d = twp_second_find(wish, &p->probes.active[probe]);
        struct twp_def def = twp_def_of(&p->probes.active[probe]);
        if (d < wish->defs &&
            twp_counts_find(&p->counts, def) == p->counts.defs)
            twp_columns_merge(
                &(struct twp_columns){host.to.nnz[d], host.to.fired[d],
                                      host.to.first[d], host.to.last[d]},
                probe, obs);
    }
    if (wish->has_magnitudes)
        status = merge_magnitudes(&host.magnitudes, obs, err);
    if (status == TW_OK && wish->has_sets)
        status = merge_sets(p, &host, err);
    return status;
}
