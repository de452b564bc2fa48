/* What the second pass's launchers are told: definitions and scratch. */
#include <config.h>

#include "kernels/cuda/launch_second.h"

#include "kernels/cuda/cuda_internal.h"

struct twp_second_def twp_second_def_of(const struct tw_active *active)
{
    struct twp_second_def def = {.def = twp_def_of(active)};
    if (active->kind == TW_ACTIVE_TOPP)
        def.share = active->arg;
    if (active->kind == TW_ACTIVE_TOPK) { /* taken while i < arg */
        bool is_all = active->arg >= (double)TWP_SECOND_COLS;
        def.most = is_all ? TWP_SECOND_COLS : (uint32_t)active->arg;
        def.most += !is_all && (double)def.most < active->arg;
    }
    return def;
}

int64_t twp_second_room(int32_t cols)
{
    int64_t room = 1;
    while (room < cols)
        room *= 2;
    return room;
}
