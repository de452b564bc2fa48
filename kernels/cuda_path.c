/* The cuda backend's paths by name. Apart from ops.c, so that a test of the
 * backend alone doesn't take in the others. */
#include <config.h>

#include <string.h>

#include "kernels/ops.h"

enum tw_status tw_cuda_path_parse(const char *text, enum tw_cuda_path *path,
                                  struct tw_error *err)
{
    static const char *const names[] = {[TW_CUDA_AUTO] = "auto",
                                        [TW_CUDA_HOPPER] = "hopper",
                                        [TW_CUDA_PORTABLE] = "portable"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            *path = (enum tw_cuda_path)i;
            return TW_OK;
        }
    return tw_error_set(err, TW_ERR_USAGE,
                        "unknown path '%s': auto, hopper or portable", text);
}
