/* The sparse pass: up and down over a chunk's packed entries.
 *
 *   h = a (x W_up^T + b_up) at the packed columns; y = residual + h W_down^T +
 * b
 *
 * Shapes: rows of x and y [width]; W_up [d_ff][width] where it lies in the
 * checkpoint, W_down^T [d_ff][width]. FLOPs 4 d_model and bytes 2 d_model
 * sizeof an entry (simd_sparse.h has the inner loops).
 *
 * Rows go one after another through all their tiles while few neurons fire; at
 * higher densities all rows of the chunk pass a few columns before the next, so
 * that those rows of W are read from the second-level cache. A row's entries
 * keep their order in both, so the bits are the same. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"

#include <string.h>

/* Bytes of W_up and W_down^T rows that a sweep keeps in cache. */
#define CACHED_BYTES (1 << 20)

/* Columns that all rows of the chunk pass before the next; 0: each row passes
 * all of its own at once. */
static int64_t columns_at_once(const struct twp_ffn_call *call,
                               const struct tw_twell *t, int64_t rows)
{
    int64_t pair =
        call->ffn->width * (int64_t)(tw_dtype_size(call->sparse.up.dtype) +
                                     tw_dtype_size(call->sparse.down.dtype));
    if (!call->is_by_tile || call->ffn->desc.d_ff * pair <= 2 * CACHED_BYTES)
        return 0;
    int64_t entries = 0;
    for (int64_t i = 0; i < rows * t->tiles; i++)
        entries += t->count[i] <= t->slots ? t->count[i] : 0;
    if (entries < 3 * call->ffn->desc.d_ff) // few rows would share a column
        return 0;
    int64_t columns = TWP_TILE;
    while (columns > 32 && columns * pair > CACHED_BYTES)
        columns /= 2;
    return columns;
}

static void pass(const struct twp_ffn_call *call, struct twp_work *work,
                 int64_t row, int64_t r, int64_t n, float *x, float *y)
{
    if (n == 0)
        return;
    call->simd->sparse(&call->sparse, x, y, work->neuron, work->value,
                       work->hidden, n);
    if (call->obs)
        twp_count_list(call, work, row + r, work->neuron, work->value,
                       work->hidden, n, work->lane + 16 * r);
}

static void start_row(const struct twp_ffn_call *call, struct twp_work *work,
                      int64_t row, int64_t r, float *x, float *y)
{
    int64_t d = call->ffn->desc.d_model, width = call->ffn->width;
    call->simd->order(call->sparse.up.dtype, x, call->x + (row + r) * d, d,
                      width);
    memset(y, 0, (size_t)width * sizeof *y);
    memset(work->lane + 16 * r, 0, 16 * sizeof *work->lane);
}

static void finish_row(const struct twp_ffn_call *call, struct twp_work *work,
                       int64_t row, int64_t r, float *x, const float *y)
{
    const struct tw_ffn *ffn = call->ffn;
    int64_t d = ffn->desc.d_model, at = (row + r) * d;
    call->simd->unorder(call->sparse.down.dtype, x, y, ffn->width);
    call->simd->give(call->y + at, x, ffn->down_bias,
                     call->residual ? call->residual + at : NULL, d);
    if (call->obs)
        twp_count_row(call, work, row + r, work->lane + 16 * r);
}

/* A row at a time, its x and y in the first-level cache. */
static void row_after_row(const struct twp_ffn_call *call,
                          struct twp_work *work, int64_t row, int64_t rows)
{
    const struct tw_twell *t = &work->pack;
    for (int64_t r = 0; r < rows; r++) {
        if (work->route[r] != TWP_STAYS)
            continue;
        start_row(call, work, row, r, work->x, work->y);
        int64_t n = tw_twell_list(t, r, 0, t->tiles, work->neuron, work->value);
        pass(call, work, row, r, n, work->x, work->y);
        finish_row(call, work, row, r, work->x, work->y);
    }
}

/* The entries of one tile from slot *at on whose columns are below `limit`. */
static int64_t list_part(const struct tw_twell *t, int64_t r, int64_t tile,
                         int64_t limit, uint16_t *at, uint32_t *neuron,
                         float *value)
{
    int64_t cell = r * t->tiles + tile, n = 0;
    const uint8_t *column = t->column + cell * t->slots;
    for (; *at < t->count[cell] && column[*at] < limit; ++*at, n++) {
        neuron[n] = (uint32_t)(tile * TWP_TILE) + column[*at];
        value[n] = t->value[cell * t->slots + *at];
    }
    return n;
}

/* All rows pass a few columns before the next. */
static void columns_after_columns(const struct twp_ffn_call *call,
                                  struct twp_work *work, int64_t row,
                                  int64_t rows, int64_t columns)
{
    const struct tw_twell *t = &work->pack;
    int64_t width = call->ffn->width;
    for (int64_t r = 0; r < rows; r++)
        start_row(call, work, row, r, work->x + r * width, work->y + r * width);
    for (int64_t tile = 0; tile < t->tiles; tile++) {
        memset(work->cursor, 0, (size_t)rows * sizeof *work->cursor);
        for (int64_t to = columns; to <= TWP_TILE; to += columns)
            for (int64_t r = 0; r < rows; r++) {
                if (work->route[r] != TWP_STAYS)
                    continue;
                int64_t n = list_part(t, r, tile, to, &work->cursor[r],
                                      work->neuron, work->value);
                pass(call, work, row, r, n, work->x + r * width,
                     work->y + r * width);
            }
    }
    for (int64_t r = 0; r < rows; r++)
        if (work->route[r] == TWP_STAYS)
            finish_row(call, work, row, r, work->x + r * width,
                       work->y + r * width);
}

/* A function of the row alone. */
static enum twp_route route_of(const struct tw_twell *t, int64_t r,
                               const struct tw_ffn *ffn)
{
    if (tw_twell_is_routed(t, r))
        return TWP_OVERFLOWS;
    int64_t nnz = 0;
    for (int64_t tile = 0; tile < t->tiles; tile++)
        nnz += t->count[r * t->tiles + tile];
    return nnz > ffn->plan.row_limit ? TWP_OVER_LIMIT : TWP_STAYS;
}

void twp_ffn_sparse(const struct twp_ffn_call *call, struct twp_work *work,
                    int64_t row, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++)
        work->route[r] = (uint8_t)route_of(&work->pack, r, call->ffn);
    int64_t columns = columns_at_once(call, &work->pack, rows);
    if (columns == 0) {
        row_after_row(call, work, row, rows);
        return;
    }
    columns_after_columns(call, work, row, rows, columns);
}
