/* How far a run is: handed to src/cmd, which draws it. */
#ifndef TW_RUN_PROGRESS_H
#define TW_RUN_PROGRESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tw_progress {
    int64_t tokens;  /* rows done, by this process */
    double seconds;  /* since counting began */
    double fraction; /* of the whole, 0..1; negative: unknown */
    double mean_nnz; /* so far, primary definition, mean over layers */
};

typedef void tw_progress_fn(void *arg, const struct tw_progress *progress);

#ifdef __cplusplus
}
#endif
#endif
