/* The backend's runner of a job: in float16 for checkpoints of float16 where the
 * backend has that, and on the CPU where `auto` took a backend that cannot do what
 * the model needs. */
#include <config.h>

#include <string.h>

#include "base/log.h"
#include "run/job.h"

static enum tw_status create(struct tw_job *s, int64_t rows,
                             struct tw_error *err)
{
    bool is_f16 = s->ops->has_f16 && strcmp(s->model->dtype, "F16") == 0;
    s->dtype = is_f16 ? TW_F16 : TW_F32;
    const struct tw_runner_config config = {.ops = {.threads = s->o->threads,
                                                    .device = s->o->device,
                                                    .dtype = s->dtype},
                                            .max_rows = rows};
    return tw_runner_create(s->model, s->ops, &config, &s->runner, err);
}

enum tw_status tw_job_open_runner(struct tw_job *s, int64_t rows,
                                  struct tw_error *err)
{
    struct tw_error own = {0};
    enum tw_status status = create(s, rows, &own);
    bool is_choice = strcmp(s->o->backend, "auto") == 0;
    if (status == TW_ERR_UNSUPPORTED && is_choice && s->ops != &tw_ops_cpu) {
        tw_log(TW_LOG_INFO, "%s: on the CPU then", own.text);
        s->ops = &tw_ops_cpu;
        status = create(s, rows, &own);
    }
    return status == TW_OK ? TW_OK : tw_error_set(err, status, "%s", own.text);
}
