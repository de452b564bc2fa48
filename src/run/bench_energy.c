/* Energy of repeated work by the device's counter. The counter moves in steps
 * of tens of milliseconds, so work runs before the first reading too: what the
 * two readings lag behind is then the same power, and cancels on average. */
#include <config.h>

#include "run/bench_internal.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#define LEAD_NS   300000000  /* of work before the first reading */
#define WORK_NS   1200000000 /* between the readings */
#define REST_MS   500        /* before the idle power is read */
#define IDLE_MS   1000
#define NS_PER_MS 1000000L

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_ms(long ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * NS_PER_MS};
    nanosleep(&pause, NULL);
}

/* Watts of the device with its context open and nothing to do. */
static enum tw_status measure_idle(const struct tw_energy *energy, double *watt,
                                   struct tw_error *err)
{
    uint64_t before, after;
    sleep_ms(REST_MS);
    double begin = seconds_now();
    enum tw_status status = tw_energy_read(energy, &before, err);
    sleep_ms(IDLE_MS);
    if (status == TW_OK)
        status = tw_energy_read(energy, &after, err);
    if (status == TW_OK)
        *watt = 1e-3 * (double)(after - before) / (seconds_now() - begin);
    return status;
}

enum tw_status twp_energy_open(const struct tw_ops *ops, void *ctx,
                               struct tw_energy **energy, double *idle_watt,
                               char *cause, size_t cause_size,
                               struct tw_error *err)
{
    struct tw_error why = {0};
    char id[TW_BENCH_ID] = "";
    cause[0] = '\0';
    *idle_watt = NAN;
    if (ops->bench)
        ops->bench->bus_id(ctx, id);
    if (!id[0])
        return TW_OK;
    enum tw_status status = tw_energy_open(NULL, id, energy, &why);
    if (status == TW_OK)
        return measure_idle(*energy, idle_watt, err);
    snprintf(cause, cause_size, "%s", why.text);
    return status == TW_ERR_NOMEM ? tw_error_set(err, status, "%s", why.text)
                                  : TW_OK;
}

enum tw_status twp_energy_measure(const struct tw_energy *energy, int64_t ns,
                                  twp_work *work, void *arg, double *mj,
                                  struct tw_error *err)
{
    int64_t times = WORK_NS / ns + 1;
    uint64_t before, after;
    enum tw_status status = work(arg, LEAD_NS / ns + 1, err);
    if (status == TW_OK)
        status = tw_energy_read(energy, &before, err);
    if (status == TW_OK)
        status = work(arg, times, err);
    if (status == TW_OK)
        status = tw_energy_read(energy, &after, err);
    if (status == TW_OK)
        *mj = (double)(after - before) / (double)times;
    return status;
}

struct form_work {
    struct twp_bench *b;
    int form;
};

static enum tw_status run_form(void *arg, int64_t times, struct tw_error *err)
{
    const struct form_work *work = arg;
    int64_t ns;
    return twp_form_run(work->b, work->form, times, &ns, err);
}

enum tw_status twp_bench_energy(struct twp_bench *b, int form,
                                int64_t median_ns, double *mj,
                                struct tw_error *err)
{
    struct form_work work = {b, form};
    enum tw_status status =
        twp_energy_measure(b->energy, median_ns, run_form, &work, mj, err);
    *mj /= (double)b->rows;
    return status;
}
