/* A worker's memory for one region, laid out by one walk that either adds up
 * bytes or hands out addresses. Dense rows take buffers of d_ff columns, which
 * are there only in a region that needs them. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"

#include <string.h>

struct walk {
    char *memory; /* NULL: only the size is asked for */
    size_t bytes;
};

static void *take(struct walk *walk, int64_t count, size_t size)
{
    void *at = walk->memory ? walk->memory + walk->bytes : NULL;
    walk->bytes += ((size_t)count * size + 63) & ~(size_t)63;
    return at;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void lay_out(const struct twp_ffn_call *call, struct walk *walk,
                    struct twp_work *work)
{
    const struct tw_ffn *ffn = call->ffn;
    int64_t chunk = call->chunk, padded = ffn->padded, width = ffn->width;
    int64_t d = ffn->desc.d_model;
    int64_t k = call->has_dense ? larger(d, ffn->desc.d_ff) : d;
    work->wide = take(walk, TWP_K_BLOCK * TWP_PANEL, sizeof(float));
    work->a = take(walk, chunk * k, sizeof(float));
    work->c = take(walk, chunk * larger(TWP_TILE, width), sizeof(float));
    work->bits = take(walk, 2 * padded / 64, sizeof(uint64_t));
    work->key = take(walk, padded, sizeof(uint64_t));
    work->key2 = take(walk, padded, sizeof(uint64_t));
    if (call->has_dense) {
        work->act = take(walk, chunk * padded, sizeof(float));
        work->hid = take(walk, chunk * padded, sizeof(float));
        return;
    }
    int64_t cells = chunk * ffn->tiles;
    work->x = take(walk, chunk * width, sizeof(float));
    work->y = take(walk, chunk * width, sizeof(float));
    work->pack = (struct tw_twell){
        .rows = chunk,
        .cols = ffn->desc.d_ff,
        .tiles = ffn->tiles,
        .slots = ffn->slots,
        .count = take(walk, cells, sizeof(uint16_t)),
        .value = take(walk, cells * ffn->slots, sizeof(float)),
        .column = take(walk, cells * ffn->slots, 1)};
    work->lane = take(walk, chunk * 16, sizeof(double));
    work->cursor = take(walk, chunk, sizeof *work->cursor);
    work->route = take(walk, chunk, sizeof *work->route);
    work->neuron = take(walk, padded, sizeof(uint32_t));
    work->value = take(walk, padded, sizeof(float));
    work->hidden = take(walk, padded, sizeof(float));
    work->hid = take(walk, padded, sizeof(float)); // a row spread, for top-k
}

size_t twp_work_bytes(const struct twp_ffn_call *call)
{
    struct walk walk = {NULL, 0};
    struct twp_work work;
    memset(&work, 0, sizeof work);
    lay_out(call, &walk, &work);
    return walk.bytes;
}

void twp_work_carve(const struct twp_ffn_call *call, void *memory,
                    struct twp_work *work)
{
    struct walk walk = {memory, 0};
    memset(work, 0, sizeof *work);
    lay_out(call, &walk, work);
}
