/* Backends by name. */
#include <config.h>

#include "kernels/ops.h"

#include <string.h>

enum tw_status tw_ops_find(const char *name, const struct tw_ops **ops,
                           struct tw_error *err)
{
    if (strcmp(name, "cuda") == 0)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda' is not part of this build");
    if (strcmp(name, "cpu") != 0 && strcmp(name, "auto") != 0)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "unknown backend '%s': auto, cpu or cuda", name);
    enum tw_status status = tw_ops_cpu.probe(err);
    if (status == TW_OK)
        *ops = &tw_ops_cpu;
    return status;
}
