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
 * workspace, its h in fp32 for what is counted in a second pass (WIDE_H bytes
 * at most), the counts of COUNTED definitions for every layer and flight, rows
 * and losses, the head's logits; and of the free memory 1/SHARE, for what
 * allocations are rounded up by and vectors take. */
#include <config.h>

#include "kernels/cuda/context.h"
#include "kernels/cuda/layers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

#define FEW_ROWS  4096            /* they keep a device busy */
#define MOST_ROWS (INT32_MAX / 4) /* of any batch */
#define COUNTED   2
#define WIDE_H    ((size_t)256 << 20)
#define SHARE     64
#define GRAIN     ((size_t)1 << 10) /* of a small allocation */
#define ROW       32 /* bytes of a row in batch.c's block, and its loss */

/* What a batch takes beside the weights. */
static size_t batch_bytes(const struct tw_layers *all, const struct tw_ffn *ffn,
                          int64_t rows)
{
    int32_t r = (int32_t)rows;
    size_t counts = twp_cuda_counts_bytes(r, ffn->f, COUNTED) + GRAIN;
    size_t wide = (size_t)(rows * ffn->f) * sizeof(float);
    return (size_t)(rows * all->row_elements) * 2 + twp_ffn_work_bytes(ffn, r) +
           (wide < WIDE_H ? wide : WIDE_H) +
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
    char wanted[TWP_SIZE_TEXT], there[TWP_SIZE_TEXT];
    size_t bytes = (size_t)s->streamed * s->layer_bytes;
    size_t available = (size_t)tw_memory_available();
    if (available == 0 || bytes <= available)
        return TW_OK;
    return tw_error_set(err, TW_ERR_NOMEM,
                        "cuda: out of memory: %lld of %lld layers don't fit "
                        "the device and need %s of the host's memory; %s are "
                        "available",
                        (long long)s->streamed, (long long)s->count,
                        twp_size_text(wanted, bytes),
                        twp_size_text(there, available));
}

static void describe(struct twp_streaming *s)
{
    char size[TWP_SIZE_TEXT];
    snprintf(s->text, sizeof s->text,
             "%lld of %lld layers resident, the others streamed, %s a batch",
             (long long)(s->count - s->streamed), (long long)s->count,
             twp_size_text(size, (size_t)s->streamed * s->layer_bytes));
}

/* What is free, or less for tests. */
static enum tw_status find_memory(size_t *free, size_t *whole,
                                  struct tw_error *err)
{
    const char *most = getenv("TW_CUDA_MEMORY");
    enum tw_status status =
        twp_cuda_check(cudaMemGetInfo(free, whole), "memory", err);
    if (status == TW_OK && most && strtoull(most, NULL, 10) < *free)
        *free = strtoull(most, NULL, 10);
    return status;
}

static enum tw_status too_little(const struct twp_streaming *s, size_t free,
                                 size_t whole, struct tw_error *err)
{
    char wanted[TWP_SIZE_TEXT], there[TWP_SIZE_TEXT], all[TWP_SIZE_TEXT];
    return tw_error_set(
        err, TW_ERR_NOMEM,
        "cuda: out of memory: of %lld layers %d need %s, but beside the "
        "embedding and the head %s of %s are free",
        (long long)s->count, TWP_BLOCKS,
        twp_size_text(wanted, TWP_BLOCKS * s->block_bytes),
        twp_size_text(there, free), twp_size_text(all, whole));
}

/* Sets s->streamed, 0 where all fit. */
static enum tw_status choose(const struct tw_layers *all,
                             const struct tw_ffn *ffn, struct twp_streaming *s,
                             struct tw_error *err)
{
    size_t free = 0, whole = 0, block = s->block_bytes;
    enum tw_status status = find_memory(&free, &whole, err);
    if (status != TW_OK)
        return status;
    int64_t rows = all->rows > 0 ? all->rows : FEW_ROWS;
    rows = rows < MOST_ROWS ? rows : MOST_ROWS;
    size_t usable = free - free / SHARE, ring = TWP_BLOCKS * block;
    size_t few = batch_bytes(all, ffn, rows < FEW_ROWS ? rows : FEW_ROWS);
    if ((size_t)all->count * block + few <= usable)
        return TW_OK;
    if (all->count <= TWP_BLOCKS || ring > usable)
        return too_little(s, free, whole, err);
    size_t taken = ring + batch_bytes(all, ffn, rows);
    size_t room = taken < usable ? (usable - taken) / block : 0;
    s->streamed = s->count - (int64_t)room;
    assert(s->streamed > TWP_BLOCKS);
    return TW_OK;
}

static enum tw_status decide(struct twp_cuda *cuda, const struct tw_layers *all,
                             struct tw_error *err)
{
    assert(!cuda->streaming);
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
        char wanted[TWP_SIZE_TEXT], got[TWP_SIZE_TEXT];
        cudaGetLastError(); /* not the next call's */
        return tw_error_set(
            err, TW_ERR_NOMEM,
            "cuda: out of pinned memory: %s of layers don't fit the device, of "
            "which the host takes %s",
            twp_size_text(wanted, (size_t)s->streamed * s->layer_bytes),
            twp_size_text(got, (size_t)before * s->layer_bytes));
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
