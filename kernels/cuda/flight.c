/* Batches in flight. What a layer counts on the device is copied to pinned
 * memory by a second stream once the first has passed the layer, and added to
 * the obs when the batch is collected: layer by layer as they come, so that a
 * caller who waits at once does so beside the layers that follow. The next
 * batch has memory of its own, so that the device goes on meanwhile. */
#include <config.h>

#include "kernels/cuda/context.h"

#include <string.h>

#include "base/memory.h"

enum tw_status twp_cuda_start(void *ctx, const struct tw_batch *batch,
                              struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    struct twp_flight *flight = &cuda->flight[cuda->next];
    if (cuda->now || cuda->in_flight == TWP_FLIGHTS)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "cuda: a batch before the last is submitted, or "
                            "more than %d in flight",
                            TWP_FLIGHTS);
    cuda->now = flight;
    flight->batch = batch;
    flight->pendings = 0;
    flight->nll = flight->logits = NULL;
    flight->rows_host.is_host = true;
    flight->nll_host.is_host = flight->wanted_host.is_host = true;
    enum tw_status status = twp_batch_send(cuda, flight, err);
    if (status != TW_OK)
        cuda->now = NULL;
    return status;
}

static enum tw_status copy_back(struct twp_cuda *cuda, struct twp_memory *host,
                                const void *device, size_t bytes,
                                struct tw_error *err)
{
    return twp_cuda_check(cudaMemcpyAsync(host->at, device, bytes,
                                          cudaMemcpyDeviceToHost, cuda->back),
                          "copy of a batch's counts", err);
}

/* The event stands for the layer's end, then for the copy's. */
enum tw_status twp_pending_send(struct twp_cuda *cuda, struct twp_pending *p,
                                struct tw_error *err)
{
    cudaError_t error = cudaSuccess;
    if (!p->event)
        error = cudaEventCreateWithFlags(&p->event, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventRecord(p->event, cuda->stream);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(cuda->back, p->event, 0);
    enum tw_status status = twp_cuda_check(error, "event", err);
    if (status == TW_OK)
        status = copy_back(cuda, &p->host, p->device.at, p->bytes, err);
    if (status == TW_OK)
        status =
            twp_cuda_check(cudaEventRecord(p->event, cuda->back), "event", err);
    p->is_sent = status == TW_OK;
    return status;
}

/* What was not sent yet: the counts of a call that was not whole, the losses.
 * Whatever failed before: the events are put, so that collect can wait. */
static enum tw_status send_back(struct twp_cuda *cuda,
                                struct twp_flight *flight, struct tw_error *err)
{
    enum tw_status status = twp_cuda_check(
        cudaEventRecord(flight->done, cuda->stream), "event", err);
    if (status == TW_OK)
        status = twp_cuda_check(
            cudaStreamWaitEvent(cuda->back, flight->done, 0), "event", err);
    for (size_t i = 0; status == TW_OK && i < flight->pendings; i++)
        if (!flight->pending[i].is_sent)
            status = twp_pending_send(cuda, &flight->pending[i], err);
    if (status == TW_OK && flight->nll)
        status = copy_back(cuda, &flight->nll_host, flight->nll_device.at,
                           (size_t)flight->batch->rows * sizeof(float), err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaEventRecord(flight->done, cuda->back),
                                "event", err);
    return status;
}

enum tw_status twp_cuda_submit(void *ctx, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    struct twp_flight *flight = cuda->now;
    if (!flight)
        return tw_error_set(err, TW_ERR_MISMATCH, "cuda: no batch is started");
    cuda->now = NULL;
    enum tw_status status = send_back(cuda, flight, err);
    if (status != TW_OK) { /* the batch is in flight no more */
        cudaStreamSynchronize(cuda->stream);
        cudaStreamSynchronize(cuda->back);
        flight->batch = NULL;
        return status;
    }
    cuda->next = (cuda->next + 1) % TWP_FLIGHTS;
    cuda->in_flight++;
    return TW_OK;
}

/* Waits for the counts of one layer. */
static enum tw_status merge(const struct twp_flight *flight,
                            const struct twp_pending *p, uint8_t *skip,
                            struct tw_error *err)
{
    struct twp_counts counts = p->counts;
    enum tw_status status =
        twp_cuda_check(cudaEventSynchronize(p->event), "layer", err);
    if (status != TW_OK)
        return status;
    counts.skip = skip;
    twp_counts_carve((int32_t)flight->batch->rows, p->cols, p->host.at,
                     &counts);
    twp_cuda_counts_merge(&counts, &p->probes, p->obs);
    if (p->wish.defs == 0 || !p->is_whole)
        return TW_OK;
    return twp_second_merge(p, (char *)p->host.at + p->second_at, err);
}

enum tw_status twp_cuda_collect(void *ctx, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    if (cuda->in_flight == 0)
        return tw_error_set(err, TW_ERR_MISMATCH, "cuda: no batch in flight");
    struct twp_flight *flight = &cuda->flight[cuda->oldest];
    cuda->oldest = (cuda->oldest + 1) % TWP_FLIGHTS;
    cuda->in_flight--;
    size_t rows = (size_t)flight->batch->rows;
    enum tw_status status = TW_OK;
    /* The pinned block of the batch ends with its skip flags. */
    uint8_t *skip =
        (uint8_t *)flight->rows_host.at +
        (flight->on_device.skip - (const uint8_t *)flight->rows_device.at);
    for (size_t i = 0; status == TW_OK && i < flight->pendings; i++)
        status = merge(flight, &flight->pending[i], skip, err);
    cudaError_t error = cudaEventSynchronize(flight->done);
    if (status == TW_OK)
        status = twp_cuda_check(error, "batch", err);
    if (status == TW_OK && flight->nll)
        memcpy(flight->nll, flight->nll_host.at, rows * sizeof(float));
    if (status == TW_OK && flight->logits)
        status = twp_cuda_check(
            cudaMemcpy(flight->logits, flight->kept_device.at,
                       flight->logits_bytes, cudaMemcpyDeviceToHost),
            "logits", err);
    flight->batch = NULL;
    return status;
}

enum tw_status twp_cuda_finish(void *ctx, struct tw_error *err)
{
    enum tw_status status = twp_cuda_submit(ctx, err);
    return status == TW_OK ? twp_cuda_collect(ctx, err) : status;
}

enum tw_status twp_cuda_mark(void *ctx, int index, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    if ((size_t)index >= cuda->marks) {
        void *array = cuda->mark;
        size_t room = cuda->marks;
        if (tw_grow(&array, &room, (size_t)index + 1, sizeof *cuda->mark) != 0)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory for marks");
        cuda->mark = array;
        memset(cuda->mark + cuda->marks, 0,
               (room - cuda->marks) * sizeof *cuda->mark);
        cuda->marks = room;
    }
    enum tw_status status = TW_OK;
    if (!cuda->mark[index])
        status =
            twp_cuda_check(cudaEventCreate(&cuda->mark[index]), "event", err);
    if (status == TW_OK)
        status = twp_cuda_check(
            cudaEventRecord(cuda->mark[index], cuda->stream), "event", err);
    return status;
}

enum tw_status twp_cuda_mark_ns(void *ctx, int from, int to, double *ns,
                                struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    size_t a = (size_t)from, b = (size_t)to;
    float ms;
    if (a >= cuda->marks || b >= cuda->marks || !cuda->mark[a] ||
        !cuda->mark[b])
        return tw_error_set(err, TW_ERR_MISMATCH, "no mark %d or %d", from, to);
    enum tw_status status = twp_cuda_check(
        cudaEventElapsedTime(&ms, cuda->mark[a], cuda->mark[b]), "marks", err);
    if (status == TW_OK)
        *ns = (double)ms * 1e6;
    return status;
}

static void flight_trim(struct twp_flight *flight)
{
    struct twp_memory *memory[] = {&flight->rows_host,    &flight->rows_device,
                                   &flight->nll_device,   &flight->nll_host,
                                   &flight->kept_device,  &flight->wanted_host,
                                   &flight->wanted_device};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        twp_memory_fini(memory[i]);
    for (size_t i = 0; i < flight->pending_room; i++) {
        twp_memory_fini(&flight->pending[i].device);
        twp_memory_fini(&flight->pending[i].host);
        twp_memory_fini(&flight->pending[i].set);
        twp_memory_fini(&flight->pending[i].set_value);
    }
}

void twp_cuda_trim(void *ctx)
{
    struct twp_cuda *cuda = ctx;
    for (int i = 0; i < TWP_FLIGHTS; i++)
        flight_trim(&cuda->flight[i]);
    twp_memory_fini(&cuda->work);
    twp_memory_fini(&cuda->head);
    twp_memory_fini(&cuda->second.work);
    twp_memory_fini(&cuda->second.sets);
    twp_vectors_fini(cuda); /* they come again */
}

void twp_flights_fini(struct twp_cuda *cuda)
{
    for (int i = 0; i < TWP_FLIGHTS; i++) {
        flight_trim(&cuda->flight[i]);
        for (size_t p = 0; p < cuda->flight[i].pending_room; p++)
            if (cuda->flight[i].pending[p].event)
                cudaEventDestroy(cuda->flight[i].pending[p].event);
        tw_free(cuda->flight[i].pending);
        if (cuda->flight[i].done)
            cudaEventDestroy(cuda->flight[i].done);
    }
    for (size_t i = 0; i < cuda->marks; i++)
        if (cuda->mark[i])
            cudaEventDestroy(cuda->mark[i]);
    tw_free(cuda->mark);
}
