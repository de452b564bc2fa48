/* TwELL, tile-wise ELLPACK: a sparse matrix whose columns stand in tiles of at
 * most 256. Per (row, tile) an exact count, also beyond the slots, and up to
 * `slots` entries of (value, column within the tile), columns ascending. A row
 * with a tile that overflows is *routed*: its slots in that tile hold nothing
 * and the row is computed densely. Nothing is ever dropped.
 *
 *     struct tw_twell t;
 *     tw_twell_init(&t, rows, d_ff, 64, &err);
 *     for (r...) tw_twell_pack_row(&t, r, h + r * d_ff);
 *     if (!tw_twell_is_routed(&t, r)) tw_twell_unpack_row(&t, r, out);
 *     tw_twell_fini(&t);
 */
#ifndef TW_KERNELS_TWELL_H
#define TW_KERNELS_TWELL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_TWELL_TILE 256 /* columns of a tile: 8-bit column numbers */

struct tw_twell {
    int64_t rows, cols, tiles;
    int slots;       /* 1 .. 256 */
    uint16_t *count; /* [rows][tiles] non-zeros, exact */
    float *value;    /* [rows][tiles][slots] */
    uint8_t *column; /* [rows][tiles][slots] */
};

/* Tiles that cols columns fill, the last one perhaps in part. */
static inline int64_t tw_twell_tiles(int64_t cols)
{
    return (cols + TW_TWELL_TILE - 1) / TW_TWELL_TILE;
}

/* Allocates for rows x cols, all counts 0. Free with tw_twell_fini. Returns
 * TW_OK or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status tw_twell_init(struct tw_twell *twell, int64_t rows,
                                         int64_t cols, int slots,
                                         struct tw_error *err);
void tw_twell_fini(struct tw_twell *twell);

/* Packs one dense row[cols]: what is != 0 (NaN is, -0.0 is not). */
void tw_twell_pack_row(struct tw_twell *twell, int64_t r, const float *row);
/* The inverse for a row that is not routed: row[cols], zeros included. Of a
 * routed row the overflowing tiles are left untouched. */
void tw_twell_unpack_row(const struct tw_twell *twell, int64_t r, float *row);
/* Does a tile of this row hold more than the slots? Depends on this row
 * alone. */
bool tw_twell_is_routed(const struct tw_twell *twell, int64_t r);
/* The entries of tiles first .. last-1 as one list, columns ascending; room
 * for (last - first) * slots. The row is not routed. Returns their number. */
int64_t tw_twell_list(const struct tw_twell *twell, int64_t r, int64_t first,
                      int64_t last, uint32_t *column, float *value);

#ifdef __cplusplus
}
#endif
#endif
