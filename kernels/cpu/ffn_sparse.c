/* The sparse pass: up and down over a chunk's packed entries.
 *
 *   h = a (x W_up^T + b_up) at the packed columns; y = residual + h W_down^T + b
 *
 * Shapes: rows of x and y [width]; W_up [d_ff][width] where it lies in the
 * checkpoint, W_down^T [d_ff][width]. FLOPs 4 d_model and bytes 2 d_model
 * sizeof an entry (simd_sparse.h has the inner loops).
 *
 * Rows go one after another through all their tiles while few neurons fire; at
 * higher densities all rows of the chunk pass a few tiles before the next, so
 * that the tiles' rows of W are read from the second-level cache. A row's
 * entries keep their order in both, so the bits are the same. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"

#include <string.h>

/* Bytes of W_up and W_down^T rows that are worth keeping in cache. */
#define CACHED_BYTES (1 << 20)

/* Tiles that all rows pass before the next: all of them, or a cacheful where
 * a tile's rows are read several times by the chunk. */
static int64_t tiles_at_once(const struct twp_ffn_call *call,
                             const struct tw_twell *t, int64_t rows)
{
    if (!call->is_by_tile)
        return t->tiles;
    int64_t entries = 0;
    for (int64_t i = 0; i < rows * t->tiles; i++)
        entries += t->count[i] <= t->slots ? t->count[i] : 0;
    if (entries < 2 * call->ffn->desc.d_ff)
        return t->tiles;
    int64_t tile_bytes = TWP_TILE * call->ffn->width *
                         (int64_t)(tw_dtype_size(call->sparse.up.dtype) +
                                   tw_dtype_size(call->sparse.down.dtype));
    int64_t tiles = CACHED_BYTES / tile_bytes;
    return tiles < 1 ? 1 : tiles;
}

static void pass(const struct twp_ffn_call *call, struct twp_work *work,
                 int64_t row, int64_t r, int64_t first, int64_t last)
{
    int64_t width = call->ffn->width;
    int64_t n = tw_twell_list(&work->pack, r, first, last, work->neuron,
                              work->value);
    if (n == 0)
        return;
    call->simd->sparse(&call->sparse, work->x + r * width, work->y + r * width,
                       work->neuron, work->value, work->hidden, n);
    if (call->obs)
        twp_count_list(call, work, row + r, work->neuron, work->value,
                       work->hidden, n, work->lane + 16 * r);
}

static void finish_row(const struct twp_ffn_call *call, struct twp_work *work,
                       int64_t row, int64_t r)
{
    const struct tw_ffn *ffn = call->ffn;
    int64_t d = ffn->desc.d_model;
    call->simd->unorder(call->sparse.down.dtype, work->x + r * ffn->width,
                        work->y + r * ffn->width, ffn->width);
    call->simd->give(call->y + (row + r) * d, work->x + r * ffn->width,
                     ffn->down_bias,
                     call->residual ? call->residual + (row + r) * d : NULL, d);
    if (call->obs)
        twp_count_row(call, work, row + r, work->lane + 16 * r);
}

void twp_ffn_sparse(const struct twp_ffn_call *call, struct twp_work *work,
                    int64_t row, int64_t rows)
{
    int64_t d = call->ffn->desc.d_model, width = call->ffn->width;
    const struct tw_twell *t = &work->pack;
    int64_t step = tiles_at_once(call, t, rows);
    for (int64_t r = 0; r < rows; r++)
        call->simd->order(call->sparse.up.dtype, work->x + r * width,
                          call->x + (row + r) * d, d, width);
    memset(work->y, 0, (size_t)(rows * width) * sizeof *work->y);
    memset(work->lane, 0, (size_t)rows * 16 * sizeof *work->lane);
    for (int64_t first = 0; first < t->tiles; first += step) {
        int64_t last = t->tiles - first < step ? t->tiles : first + step;
        for (int64_t r = 0; r < rows; r++)
            if (!tw_twell_is_routed(t, r))
                pass(call, work, row, r, first, last);
    }
    for (int64_t r = 0; r < rows; r++)
        if (!tw_twell_is_routed(t, r))
            finish_row(call, work, row, r);
}
