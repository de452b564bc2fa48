/* The TwELL format in plain C: what its fields mean. The backends pack in their
 * own kernels and are tested against this. */
#include <config.h>

#include "kernels/twell.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

enum tw_status tw_twell_init(struct tw_twell *twell, int64_t rows, int64_t cols,
                             int slots, struct tw_error *err)
{
    assert(rows > 0 && cols > 0 && slots >= 1 && slots <= TW_TWELL_TILE);
    int64_t tiles = tw_twell_tiles(cols);
    size_t cells = (size_t)rows * (size_t)tiles;
    *twell = (struct tw_twell){rows, cols, tiles, slots, NULL, NULL, NULL};
    twell->count = tw_calloc(cells, sizeof *twell->count);
    twell->value = tw_alloc(cells, (size_t)slots * sizeof *twell->value);
    twell->column = tw_alloc(cells, (size_t)slots);
    if (!twell->count || !twell->value || !twell->column) {
        tw_twell_fini(twell);
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for TwELL");
    }
    return TW_OK;
}

void tw_twell_fini(struct tw_twell *twell)
{
    tw_free(twell->count);
    tw_free(twell->value);
    tw_free(twell->column);
    *twell = (struct tw_twell){0};
}

static int64_t tile_width(const struct tw_twell *twell, int64_t tile)
{
    int64_t left = twell->cols - tile * TW_TWELL_TILE;
    return left < TW_TWELL_TILE ? left : TW_TWELL_TILE;
}

void tw_twell_pack_row(struct tw_twell *twell, int64_t r, const float *row)
{
    for (int64_t t = 0; t < twell->tiles; t++) {
        int64_t cell = r * twell->tiles + t;
        float *value = twell->value + cell * twell->slots;
        uint8_t *column = twell->column + cell * twell->slots;
        const float *tile = row + t * TW_TWELL_TILE;
        int count = 0;
        for (int64_t i = 0; i < tile_width(twell, t); i++) {
            if (tile[i] == 0)
                continue;
            if (count < twell->slots) {
                value[count] = tile[i];
                column[count] = (uint8_t)i;
            }
            count++;
        }
        twell->count[cell] = (uint16_t)count;
    }
}

void tw_twell_unpack_row(const struct tw_twell *twell, int64_t r, float *row)
{
    for (int64_t t = 0; t < twell->tiles; t++) {
        int64_t cell = r * twell->tiles + t;
        const float *value = twell->value + cell * twell->slots;
        const uint8_t *column = twell->column + cell * twell->slots;
        float *tile = row + t * TW_TWELL_TILE;
        int count = twell->count[cell];
        if (count > twell->slots)
            continue;
        memset(tile, 0, (size_t)tile_width(twell, t) * sizeof *tile);
        for (int i = 0; i < count; i++)
            tile[column[i]] = value[i];
    }
}

bool tw_twell_is_routed(const struct tw_twell *twell, int64_t r)
{
    const uint16_t *count = twell->count + r * twell->tiles;
    for (int64_t t = 0; t < twell->tiles; t++)
        if (count[t] > twell->slots)
            return true;
    return false;
}

int64_t tw_twell_list(const struct tw_twell *twell, int64_t r, int64_t first,
                      int64_t last, uint32_t *column, float *value)
{
    int64_t n = 0;
    for (int64_t t = first; t < last; t++) {
        int64_t cell = r * twell->tiles + t;
        const float *from = twell->value + cell * twell->slots;
        const uint8_t *at = twell->column + cell * twell->slots;
        int count = twell->count[cell];
        assert(count <= twell->slots);
        for (int i = 0; i < count; i++, n++) {
            column[n] = (uint32_t)(t * TW_TWELL_TILE) + at[i];
            value[n] = from[i];
        }
    }
    return n;
}
