/* The ring of blocks through which layers on the host pass. The layer that is
 * asked for is current; the other block is filled with the layer after it, the
 * first after the last: the next batch's. A copy starts once all is passed that
 * was launched with the block's former layer, and what is launched waits for
 * the copy, so the order of streams alone keeps it right, however many batches
 * are under way: nothing waits on the host. A layer that is asked for out of
 * turn, after a batch that failed, is copied then.
 *
 * A layer takes as long as the longer of its copy and what is computed until
 * the next copied layer is over. */
#include <config.h>

#include "kernels/cuda/context.h"
#include "kernels/cuda/layers.h"

#include "base/memory.h"

enum tw_status twp_ring_init(struct twp_streaming *s, struct tw_error *err)
{
    s->layer = tw_calloc((size_t)s->streamed, sizeof *s->layer);
    if (!s->layer)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for layers");
    cudaError_t error =
        cudaStreamCreateWithFlags(&s->copy, cudaStreamNonBlocking);
    for (int i = 0; i < TWP_BLOCKS; i++) {
        struct twp_block *b = &s->block[i];
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&b->ready, cudaEventDisableTiming);
        if (error == cudaSuccess)
            error =
                cudaEventCreateWithFlags(&b->passed, cudaEventDisableTiming);
    }
    enum tw_status status = twp_cuda_check(error, "stream", err);
    for (int i = 0; i < TWP_BLOCKS && status == TW_OK; i++) {
        void *at = NULL;
        status = twp_device_alloc(&at, s->block_bytes, err);
        s->block[i].at = at;
    }
    return status;
}

void twp_ring_fini(struct twp_streaming *s)
{
    if (s->copy)
        cudaStreamSynchronize(s->copy);
    for (int i = 0; i < TWP_BLOCKS; i++) {
        struct twp_block *b = &s->block[i];
        twp_device_free(b->at);
        if (b->ready)
            cudaEventDestroy(b->ready);
        if (b->passed)
            cudaEventDestroy(b->passed);
    }
    for (int64_t l = 0; s->layer && l < s->streamed; l++)
        if (s->layer[l].host)
            cudaFreeHost(s->layer[l].host);
    if (s->copy)
        cudaStreamDestroy(s->copy);
    tw_free(s->layer);
}

/* Behind all that is launched by now. */
static enum tw_status fill(struct twp_cuda *cuda, struct twp_block *block,
                           struct twp_layer *layer, struct tw_error *err)
{
    cudaStream_t copy = cuda->streaming->copy;
    block->holds = NULL;
    cudaError_t error = cudaEventRecord(block->passed, cuda->stream);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(copy, block->passed, 0);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(block->at, layer->host, layer->used,
                                cudaMemcpyHostToDevice, copy);
    enum tw_status status = twp_cuda_check(error, "copy of a layer", err);
    if (status == TW_OK && layer->ffn)
        status = twp_ffn_complete(layer->ffn, block->at, copy, err);
    if (status == TW_OK)
        status =
            twp_cuda_check(cudaEventRecord(block->ready, copy), "event", err);
    if (status == TW_OK)
        block->holds = layer;
    return status;
}

enum tw_status twp_ring_enter(struct twp_cuda *cuda, struct twp_layer *layer,
                              char **at, struct tw_error *err)
{
    struct twp_streaming *s = cuda->streaming;
    struct twp_block *now = &s->block[s->current];
    if (now->holds == layer) {
        *at = now->at;
        return TW_OK;
    }
    s->current = (s->current + 1) % TWP_BLOCKS;
    struct twp_block *before = now;
    now = &s->block[s->current];
    enum tw_status status = TW_OK;
    if (now->holds != layer)
        status = fill(cuda, now, layer, err);
    int64_t next = (layer - s->layer + 1) % s->streamed;
    if (status == TW_OK)
        status = fill(cuda, before, &s->layer[next], err);
    if (status == TW_OK)
        status = twp_cuda_check(
            cudaStreamWaitEvent(cuda->stream, now->ready, 0), "event", err);
    if (status == TW_OK)
        *at = now->at;
    else
        now->holds = NULL; /* asked for again, it is waited for */
    return status;
}

enum tw_status twp_ffn_bring(struct twp_cuda *cuda, struct tw_ffn *ffn,
                             struct tw_error *err)
{
    char *block;
    if (!ffn->layer)
        return TW_OK;
    enum tw_status status = twp_ring_enter(cuda, ffn->layer, &block, err);
    return status == TW_OK ? twp_ffn_bind(ffn, block, err) : status;
}
