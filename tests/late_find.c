/* Stands for kernels/ops.c where the whole program is linked with late_ops:
 * TW_LATE="ROWS PLACE" is where it has no memory. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/late_ops.h"

enum tw_status tw_ops_find(const char *name, const struct tw_ops **ops,
                           struct tw_error *err)
{
    static const char *const places[LATE_PLACES] = {
        "nowhere", "alloc", "start", "ffn", "head", "submit", "collect"};
    const char *limit = getenv("TW_LATE");
    long rows = 0;
    char place[16] = "nowhere";
    if (limit && sscanf(limit, "%ld %15s", &rows, place) != 2)
        return tw_error_set(err, TW_ERR_USAGE, "TW_LATE: '%s'", limit);
    for (int i = 0; i < LATE_PLACES; i++)
        if (strcmp(place, places[i]) == 0)
            late_place = (enum late_place)i;
    late_rows = rows;
    *ops = late_ops();
    return strcmp(name, "cuda") == 0
               ? tw_error_set(err, TW_ERR_UNSUPPORTED, "backend 'cuda'")
               : TW_OK;
}
