/* The cpu backend as `bench` sees it: three big BLAS calls on all threads
 * (dense_baseline.h), the monotonic clock. */
#include <config.h>

#include "kernels/bench.h"

#include <math.h>
#include <time.h>

#include "base/memory.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/dense_baseline.h"

struct tw_bench_dense {
    struct tw_dense_ffn *ffn;
    int64_t rows;
};

static void dense_destroy(void *ctx, struct tw_bench_dense *dense)
{
    (void)ctx;
    tw_dense_ffn_destroy(dense->ffn);
    tw_free(dense);
}

static enum tw_status dense_create(void *ctx, const struct tw_ffn_desc *desc,
                                   int64_t rows, struct tw_bench_dense **dense,
                                   struct tw_error *err)
{
    const struct twp_cpu *cpu = ctx;
    struct tw_bench_dense *made = tw_calloc(1, sizeof *made);
    if (!made)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    made->rows = rows;
    enum tw_status status =
        tw_dense_ffn_create(desc, cpu->workers, rows, &made->ffn, err);
    if (status == TW_OK)
        *dense = made;
    else
        dense_destroy(ctx, made);
    return status;
}

static enum tw_status dense_run(void *ctx, struct tw_bench_dense *dense,
                                void *y, const void *x, const void *residual,
                                struct tw_error *err)
{
    (void)ctx, (void)err;
    tw_dense_ffn_run(dense->ffn, y, x, residual, dense->rows);
    return TW_OK;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static enum tw_status clock_start(void *ctx, struct tw_error *err)
{
    (void)err;
    ((struct twp_cpu *)ctx)->clock_ns = now_ns();
    return TW_OK;
}

static enum tw_status clock_stop(void *ctx, int64_t *ns, struct tw_error *err)
{
    (void)err;
    *ns = now_ns() - ((struct twp_cpu *)ctx)->clock_ns;
    return TW_OK;
}

static enum tw_status poison(void *ctx, void *buffer, int64_t elements,
                             struct tw_error *err)
{
    (void)ctx, (void)err;
    for (int64_t i = 0; i < elements; i++)
        ((float *)buffer)[i] = NAN;
    return TW_OK;
}

static enum tw_status distance(void *ctx, const void *a, const void *b,
                               int64_t elements, double *out,
                               struct tw_error *err)
{
    (void)ctx, (void)err;
    const float *p = a, *q = b;
    double far = 0, size = 0;
    for (int64_t i = 0; i < elements; i++) {
        double d = (double)p[i] - q[i];
        far += d * d;
        size += (double)q[i] * q[i];
    }
    *out = size > 0 ? sqrt(far / size) : sqrt(far);
    return TW_OK;
}

static int64_t cache_bytes(void *ctx)
{
    (void)ctx;
    return 0;
}

static const char *path(void *ctx)
{
    (void)ctx;
    return "cpu";
}

static void bus_id(void *ctx, char id[TW_BENCH_ID])
{
    (void)ctx;
    id[0] = '\0';
}

/* The pause: OpenBLAS's threads spin for 2^26 cycles after a call before they
 * sleep; on as many cores as threads they would take one from whoever runs next
 * (without it 2.7x reads as 1.4x at times). What was asleep takes milliseconds
 * to wake, hence the untimed run. */
const struct tw_bench_ops twp_bench_cpu = {
    .library = "cblas",
    .pause_ms = 60,
    .dense_create = dense_create,
    .dense_destroy = dense_destroy,
    .dense_run = dense_run,
    .clock_start = clock_start,
    .clock_stop = clock_stop,
    .poison = poison,
    .distance = distance,
    .cache_bytes = cache_bytes,
    .path = path,
    .bus_id = bus_id,
};
