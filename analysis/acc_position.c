/* Room for position tables, which grow with the longest sequence seen, so that
 * short texts don't pay for the context's length. */
#include <config.h>

#include <string.h>

#include "analysis/profile_internal.h"
#include "base/memory.h"

enum { FIRST_POSITIONS = 64 };

/* Points every probe to its rows of the table. */
static void set_views(struct tw_profile *p)
{
    int64_t tables = (int64_t)p->config.probes * p->config.layers;
    for (int64_t i = 0; i < tables; i++)
        p->probe[i].position = p->position_cells + i * p->positions;
}

enum tw_status twp_positions_reserve(struct tw_profile *p, int64_t needed,
                                     struct tw_error *err)
{
    if (needed <= p->positions)
        return TW_OK;
    int64_t room = p->positions ? p->positions : FIRST_POSITIONS;
    while (room < needed)
        room *= 2;
    size_t tables = (size_t)p->config.probes * (size_t)p->config.layers;
    size_t cells = 0;
    int is_huge = __builtin_mul_overflow(tables, (size_t)room, &cells);
    int64_t *count = tw_calloc((size_t)room, sizeof *count);
    struct twp_cell *cell = is_huge ? NULL : tw_calloc(cells, sizeof *cell);
    if (!count || !cell) {
        tw_free(count);
        tw_free(cell);
        return tw_error_set(err, TW_ERR_NOMEM,
                            "out of memory for %lld positions",
                            (long long)room);
    }
    size_t old = (size_t)p->positions;
    if (old) {
        memcpy(count, p->position_count, old * sizeof *count);
        for (size_t i = 0; i < tables; i++)
            memcpy(cell + i * (size_t)room, p->position_cells + i * old,
                   old * sizeof *cell);
    }
    tw_free(p->position_count);
    tw_free(p->position_cells);
    p->position_count = count;
    p->position_cells = cell;
    p->positions = room;
    set_views(p);
    return TW_OK;
}
