/* The backend's runner of a job: in float16 for checkpoints of float16 where
 * the backend has that. */
#include <config.h>

#include <string.h>

#include "base/log.h"
#include "run/job.h"

/* GGUF files have names of their own for types. */
static bool is_float16(const char *type)
{
    return strcmp(type, "F16") == 0 || strcmp(type, tw_dtype_name(TW_F16)) == 0;
}

enum tw_status tw_job_open_runner(struct tw_job *s, int64_t rows,
                                  struct tw_error *err)
{
    bool is_f16 = s->ops->has_f16 && is_float16(s->model->dtype);
    s->dtype = is_f16 ? TW_F16 : TW_F32;
    const struct tw_runner_config config = {.ops = {.threads = s->o->threads,
                                                    .device = s->o->device,
                                                    .dtype = s->dtype},
                                            .max_rows = rows};
    enum tw_status status =
        tw_runner_create(s->model, s->ops, &config, &s->runner, err);
    if (status == TW_OK && tw_runner_weights(s->runner))
        tw_log(TW_LOG_DEBUG, "weights: %s", tw_runner_weights(s->runner));
    return status;
}
