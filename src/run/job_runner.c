/* The backend's runner of a job: in float16 for checkpoints of float16 where the
 * backend has that, and on the CPU where `auto` took a backend that cannot do what
 * the model or what is to be counted needs. */
#include <config.h>

#include <string.h>

#include "base/log.h"
#include "run/job.h"

/* GGUF files have names of their own for types. */
static bool is_float16(const char *type)
{
    return strcmp(type, "F16") == 0 || strcmp(type, tw_dtype_name(TW_F16)) == 0;
}

static enum tw_status create(struct tw_job *s, int64_t rows,
                             struct tw_error *err)
{
    bool is_f16 = s->ops->has_f16 && is_float16(s->model->dtype);
    s->dtype = is_f16 ? TW_F16 : TW_F32;
    const struct tw_runner_config config = {.ops = {.threads = s->o->threads,
                                                    .device = s->o->device,
                                                    .dtype = s->dtype},
                                            .max_rows = rows};
    return tw_runner_create(s->model, s->ops, &config, &s->runner, err);
}

struct tw_flights_config tw_job_counting(const struct tw_job *s)
{
    struct tw_flights_config config = tw_job_flights(s);
    config.probes = (struct tw_probes){s->rules.n_active, s->rules.active};
    config.has_loss = !s->o->no_loss;
    config.has_magnitudes = s->o->has_magnitudes;
    config.has_sets = tw_job_wants_sets(s);
    config.has_logits = s->oracle && tw_oracle_has_logits(s->oracle);
    return config;
}

/* One row, then the end. */
static enum tw_status read_row(void *arg, struct tw_batch *batch,
                               struct tw_error *err)
{
    static const int64_t offset[] = {0, 1}, zero[1];
    static const int32_t token[1];
    static const uint8_t row_class[] = {TW_ROW_TEXT};
    bool *is_read = arg;
    (void)err;
    *batch = (struct tw_batch){0};
    if (!*is_read)
        *batch = (struct tw_batch){.rows = 1,
                                   .seqs = 1,
                                   .offset = offset,
                                   .document = zero,
                                   .start = zero,
                                   .token = token,
                                   .row_class = row_class};
    *is_read = true;
    return TW_OK;
}

/* What a backend can't do shows in a batch: one row's, counted as the run
 * counts, is for nobody. Only TW_ERR_UNSUPPORTED is its answer; other errors
 * come again where they belong. Benches count nothing, and have no trial. */
static enum tw_status try_row(const struct tw_job *s, struct tw_error *err)
{
    struct tw_error own = {0};
    struct tw_flights *flights = NULL;
    struct tw_flight *flight;
    struct tw_flights_config config = tw_job_counting(s);
    bool is_read = false;
    if (s->rules.n_active == 0)
        return TW_OK;
    config.batch_tokens = 1;
    config.read = read_row;
    config.arg = &is_read;
    enum tw_status status = tw_flights_create(&config, &flights, &own);
    if (status == TW_OK)
        status = tw_flights_next(flights, &flight, &own);
    tw_flights_destroy(flights);
    return status == TW_ERR_UNSUPPORTED
               ? tw_error_set(err, status, "%s", own.text)
               : TW_OK;
}

enum tw_status tw_job_open_runner(struct tw_job *s, int64_t rows,
                                  struct tw_error *err)
{
    struct tw_error own = {0};
    bool is_choice = strcmp(s->o->backend, "auto") == 0;
    enum tw_status status = create(s, rows, &own);
    if (status == TW_OK && is_choice && s->ops != &tw_ops_cpu)
        status = try_row(s, &own);
    if (status == TW_ERR_UNSUPPORTED && is_choice && s->ops != &tw_ops_cpu) {
        tw_log(TW_LOG_INFO, "%s: on the CPU then", own.text);
        tw_runner_destroy(s->runner);
        s->runner = NULL;
        s->ops = &tw_ops_cpu;
        own = (struct tw_error){0};
        status = create(s, rows, &own);
    }
    if (status != TW_OK)
        return tw_error_set(err, status, "%s", own.text);
    if (tw_runner_weights(s->runner))
        tw_log(TW_LOG_DEBUG, "weights: %s", tw_runner_weights(s->runner));
    return TW_OK;
}
