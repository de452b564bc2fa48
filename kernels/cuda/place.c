/* Where layers stay. On the device, where all fit beside a batch of FEW_ROWS
 * rows. Else as many as leave room for the ring's two blocks and for a batch of
 * the rows asked for; the others, spread evenly among them so that copies go on
 * while those on the device compute, are kept by the host as the device wants
 * them: 16 bits, pinned.
 *
 * Pinned copies, made once, since from there the device fetches them alone at
 * the bus's speed. Converting from the checkpoint's file into a pinned block
 * for each batch instead would save that memory, but take a core or more that
 * read as fast as the bus (some 50 GB/s), and submit would wait for it. The
 * file's pages are clean: where memory is short, they go. So the host needs
 * what the device doesn't hold, not the model twice.
 *
 * Set aside for a batch of r rows: the buffers asked for by alloc, a layer's
 * workspace, the counts of COUNTED definitions for every layer and flight, rows
 * and losses, the head's logits; and of the free memory 1/SHARE, for what
 * allocations are rounded up by and vectors take. */
#include <config.h>

#include "kernels/cuda/context.h"

#include <assert.h>
#include <stdio.h>

#include "base/memory.h"

#define FEW_ROWS 4096 /* they keep a device busy */
#define COUNTED  2
#define SHARE    64
#define GRAIN    ((size_t)1 << 10) /* of a small allocation */
#define ROW      32 /* bytes of a row in batch.c's block, and its loss */

static double gib(size_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* What a batch takes beside the weights. */
static size_t batch_bytes(const struct tw_layers *all, const struct tw_ffn *ffn,
                          int64_t rows)
{
    int32_t r = (int32_t)rows;
    size_t counts = twp_counts_bytes(r, ffn->f, COUNTED) + GRAIN;
    return (size_t)(rows * all->row_elements) * 2 + twp_ffn_work_bytes(ffn, r) +
           TWP_FLIGHTS * ((size_t)all->count * counts + (size_t)rows * ROW) +
           twp_head_bytes();
}

/* A layer's bytes on the host and on the device. */
static void size_layer(const struct tw_layers *all, const struct tw_ffn *ffn,
                       struct twp_streaming *s)
{
    size_t made;
    twp_ffn_matrix_bytes(ffn, &s->layer_bytes, &made);
    for (int i = 0; i < all->matrices; i++)
        s->layer_bytes += twp_block_align(
            (size_t)(all->matrix[i]->rows * all->matrix[i]->cols) * 2);
    s->block_bytes = s->layer_bytes + made;
}

static enum tw_status check_host(const struct twp_streaming *s,
                                 struct tw_error *err)
{
    size_t needed = (size_t)s->streamed * s->layer_bytes;
    size_t there = (size_t)tw_memory_available();
    if (there == 0 || needed <= there)
        return TW_OK;
    return tw_error_set(err, TW_ERR_NOMEM,
                        "cuda: %lld of %lld layers don't fit the device and "
                        "need %.2f GiB of the host's memory; %.2f GiB are "
                        "available",
                        (long long)s->streamed, (long long)s->count,
                        gib(needed), gib(there));
}

static void describe(struct twp_streaming *s)
{
    size_t bytes = (size_t)s->streamed * s->layer_bytes;
    bool is_small = bytes < (size_t)1 << 30;
    snprintf(s->text, sizeof s->text,
             "%lld of %lld layers resident, the others streamed, %.1f %s a "
             "batch",
             (long long)(s->count - s->streamed), (long long)s->count,
             gib(bytes) * (is_small ? 1024 : 1), is_small ? "MiB" : "GiB");
}

/* Sets s->streamed, 0 where all fit. */
static enum tw_status choose(const struct tw_layers *all,
                             const struct tw_ffn *ffn, struct twp_streaming *s,
                             struct tw_error *err)
{
    size_t free = 0, whole = 0;
    enum tw_status status =
        twp_cuda_check(cudaMemGetInfo(&free, &whole), "memory", err);
    if (status != TW_OK)
        return status;
    int64_t most = INT32_MAX / 4; /* of any batch */
    int64_t rows = all->rows > 0 ? all->rows : FEW_ROWS;
    size_t usable = free - free / SHARE, ring = TWP_BLOCKS * s->block_bytes;
    size_t few = batch_bytes(all, ffn, rows < FEW_ROWS ? rows : FEW_ROWS);
    if ((size_t)all->count * s->block_bytes + few <= usable)
        return TW_OK;
    if (all->count <= TWP_BLOCKS || ring > usable)
        return tw_error_set(err, TW_ERR_NOMEM,
                            "cuda: out of memory: of %lld layers at least %d "
                            "must fit, %.3f GiB, and %.3f of %.3f GiB are free "
                            "beside the embedding and the head",
                            (long long)all->count, TWP_BLOCKS, gib(ring),
                            gib(free), gib(whole));
    size_t taken = ring + batch_bytes(all, ffn, rows < most ? rows : most);
    int64_t resident =
        taken < usable ? (int64_t)((usable - taken) / s->block_bytes) : 0;
    s->streamed = s->count - resident;
    assert(s->streamed > TWP_BLOCKS);
    return TW_OK;
}

static enum tw_status decide(struct twp_cuda *cuda, const struct tw_layers *all,
                             struct tw_error *err)
{
    struct tw_ffn shape;
    struct twp_streaming *s = tw_calloc(1, sizeof *s);
    if (!s)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for layers");
    s->count = all->count;
    enum tw_status status = twp_ffn_shape(all->ffn, cuda->type, &shape, err);
    if (status == TW_OK) {
        size_layer(all, &shape, s);
        status = choose(all, &shape, s, err);
    }
    if (status == TW_OK)
        status = check_host(s, err);
    if (status != TW_OK || s->streamed == 0) {
        tw_free(s);
        return status;
    }
    describe(s);
    cuda->streaming = s; /* fini's from here on */
    return twp_ring_init(s, err);
}

/* The layer's place on the host; NULL: it stays on the device. */
static enum tw_status begin_layer(struct twp_cuda *cuda, int64_t number,
                                  struct tw_error *err)
{
    struct twp_streaming *s = cuda->streaming;
    int64_t before = number * s->streamed / s->count;
    if ((number + 1) * s->streamed / s->count == before)
        return TW_OK;
    struct twp_layer *layer = &s->layer[before];
    void *host = NULL;
    if (cudaMallocHost(&host, s->layer_bytes) != cudaSuccess) {
        cudaGetLastError(); /* not the next call's */
        return tw_error_set(err, TW_ERR_NOMEM,
                            "cuda: out of pinned memory: %.2f GiB of layers "
                            "that don't fit the device, the host gave %.2f",
                            gib((size_t)s->streamed * s->layer_bytes),
                            gib((size_t)before * s->layer_bytes));
    }
    *layer = (struct twp_layer){.host = host, .room = s->layer_bytes};
    cuda->loading = layer;
    return TW_OK;
}

enum tw_status twp_cuda_layer_load(void *ctx, const struct tw_layers *layers,
                                   int64_t number, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    enum tw_status status = TW_OK;
    cuda->loading = NULL;
    if (number == 0)
        status = decide(cuda, layers, err);
    if (status == TW_OK && cuda->streaming)
        status = begin_layer(cuda, number, err);
    return status;
}

const char *twp_cuda_weights(void *ctx)
{
    const struct twp_cuda *cuda = ctx;
    return cuda->streaming ? cuda->streaming->text : NULL;
}

void twp_streaming_destroy(struct twp_streaming *streaming)
{
    if (!streaming)
        return;
    twp_ring_fini(streaming);
    tw_free(streaming);
}
