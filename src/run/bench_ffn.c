/* One feed-forward layer, TwELL against dense, on planted sparsity. */
#include <config.h>

#include "run/bench_ffn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/memory.h"
#include "kernels/cpu/dense_baseline.h"
#include "kernels/ops.h"
#include "run/random.h"

#define SEQUENCE 512 /* rows of a sequence in the synthetic batch */

/* All that one measurement needs; every pointer is owned. */
struct bench {
    const struct tw_bench_ffn_options *o;
    const struct tw_ops *ops;
    void *ctx;
    struct tw_ffn_desc desc;
    void *gate, *up, *down;         /* stored weights */
    float *host, *host_y, *dense_y; /* [rows][d_model] */
    void *x, *y;                    /* the backend's buffers */
    struct tw_ffn *ffn;
    struct tw_dense_ffn *dense;
    struct tw_layer_obs obs;
    int64_t *offset, *document, *start;
    int32_t *token;
    uint8_t *row_class;
    struct tw_batch batch;
    int64_t *dense_ns, *twell_ns; /* [repetitions] */
    double *ratio;                /* [repetitions] */
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void store(void *matrix, enum tw_dtype dtype, size_t i, double value)
{
    float wide = (float)value;
    uint32_t bits;
    memcpy(&bits, &wide, sizeof bits);
    if (dtype == TW_F32)
        ((float *)matrix)[i] = wide;
    else /* bf16, rounded to nearest even */
        ((uint16_t *)matrix)[i] =
            (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Normal weights of unit gain; `last` is the weight of the constant input. */
static void fill(void *matrix, enum tw_dtype dtype, int64_t rows, int64_t cols,
                 const double *last, struct tw_random *random)
{
    double scale = 1 / sqrt((double)cols);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            store(matrix, dtype, (size_t)(r * cols + c),
                  last && c == cols - 1 ? *last
                                        : scale * tw_random_normal(random));
}

static enum tw_status allocate(struct bench *b, struct tw_error *err)
{
    const struct tw_bench_ffn_options *o = b->o;
    size_t m = (size_t)o->rows, k = (size_t)o->d_model, n = (size_t)o->d_ff;
    size_t item = tw_dtype_size(o->dtype);
    size_t seqs = (m + SEQUENCE - 1) / SEQUENCE;
    b->gate = o->is_plain ? NULL : tw_alloc_aligned(n * k, item);
    b->up = tw_alloc_aligned(n * k, item);
    b->down = tw_alloc_aligned(n * k, item);
    b->host = tw_alloc_aligned(m * k, sizeof(float));
    b->host_y = tw_alloc_aligned(m * k, sizeof(float));
    b->dense_y = tw_alloc_aligned(m * k, sizeof(float));
    b->offset = tw_calloc(seqs + 1, sizeof *b->offset);
    b->document = tw_calloc(seqs, sizeof *b->document);
    b->start = tw_calloc(seqs, sizeof *b->start);
    b->token = tw_calloc(m, sizeof *b->token);
    b->row_class = tw_calloc(m, 1);
    b->dense_ns = tw_calloc((size_t)o->repetitions, sizeof *b->dense_ns);
    b->twell_ns = tw_calloc((size_t)o->repetitions, sizeof *b->twell_ns);
    b->ratio = tw_calloc((size_t)o->repetitions, sizeof *b->ratio);
    if ((!o->is_plain && !b->gate) || !b->up || !b->down || !b->host ||
        !b->host_y || !b->dense_y || !b->offset || !b->document || !b->start ||
        !b->token || !b->row_class || !b->dense_ns || !b->twell_ns || !b->ratio)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for the layer");
    for (size_t s = 0; s < seqs; s++) {
        b->document[s] = (int64_t)s;
        b->offset[s + 1] =
            (int64_t)((s + 1) * SEQUENCE < m ? (s + 1) * SEQUENCE : m);
    }
    b->batch = (struct tw_batch){.rows = o->rows,
                                 .seqs = (int64_t)seqs,
                                 .offset = b->offset,
                                 .document = b->document,
                                 .start = b->start,
                                 .token = b->token,
                                 .row_class = b->row_class};
    return TW_OK;
}

static void describe(struct bench *b)
{
    const struct tw_bench_ffn_options *o = b->o;
    b->desc =
        (struct tw_ffn_desc){.d_model = o->d_model,
                             .d_ff = o->d_ff,
                             .activation = {.act = TW_ACT_RELU, .name = "relu"},
                             .up = {b->up, o->dtype, o->d_ff, o->d_model},
                             .down = {b->down, o->dtype, o->d_model, o->d_ff},
                             .path = TW_FFN_TWELL};
    if (!o->is_plain)
        b->desc.gate =
            (struct tw_matrix){b->gate, o->dtype, o->d_ff, o->d_model};
}

/* Weights and rows whose gates are positive with probability nnz / d_ff. */
static void plant(struct bench *b, double nnz)
{
    const struct tw_bench_ffn_options *o = b->o;
    struct tw_random random = {o->seed};
    double p = nnz / (double)o->d_ff;
    p = p < 1e-9 ? 1e-9 : p > 1 - 1e-9 ? 1 - 1e-9 : p;
    double last = tw_normal_quantile(p);
    if (b->gate)
        fill(b->gate, o->dtype, o->d_ff, o->d_model, &last, &random);
    fill(b->up, o->dtype, o->d_ff, o->d_model, b->gate ? NULL : &last, &random);
    fill(b->down, o->dtype, o->d_model, o->d_ff, NULL, &random);
    for (int64_t i = 0; i < o->rows * o->d_model; i++)
        b->host[i] =
            (i + 1) % o->d_model == 0 ? 1.0f : (float)tw_random_normal(&random);
}

static enum tw_status run_twell(struct bench *b, struct tw_error *err)
{
    static const struct tw_active hidden = {.kind = TW_ACTIVE_HIDDEN,
                                            .name = "hidden"};
    const struct tw_probes probes = {1, &hidden};
    tw_layer_obs_reset(&b->obs, b->o->rows);
    enum tw_status status = b->ops->start(b->ctx, &b->batch, err);
    if (status == TW_OK)
        status = b->ops->ffn(b->ctx, b->y, b->x, b->x, b->ffn, &probes, &b->obs,
                             err);
    return status == TW_OK ? b->ops->finish(b->ctx, err) : status;
}

static enum tw_status load(struct bench *b, struct tw_error *err)
{
    int64_t elements = b->o->rows * b->o->d_model;
    enum tw_status status = b->ops->ffn_load(b->ctx, &b->desc, &b->ffn, err);
    if (status == TW_OK)
        status = tw_dense_ffn_create(&b->desc, b->o->threads, b->o->rows,
                                     &b->dense, err);
    if (status == TW_OK)
        status = b->ops->upload(b->ctx, b->x, b->host, elements, err);
    if (status == TW_OK)
        status = run_twell(b, err); /* warm-up: weights are packed here */
    if (status == TW_OK)
        tw_dense_ffn_run(b->dense, b->dense_y, b->host, b->host, b->o->rows);
    return status;
}

/* OpenBLAS's threads spin for 2^26 cycles after a call before they sleep; on as
 * many cores as threads they would take one from whoever runs next (without the
 * pause 2.7x reads as 1.4x at times). What was asleep takes milliseconds to
 * wake, so each timed run follows an untimed one of its own kind. */
static void settle(void)
{
    const struct timespec pause = {.tv_nsec = 60 * 1000 * 1000};
    nanosleep(&pause, NULL);
}

static int64_t time_dense(struct bench *b)
{
    int64_t begin = now_ns();
    tw_dense_ffn_run(b->dense, b->dense_y, b->host, b->host, b->o->rows);
    return now_ns() - begin;
}

static enum tw_status time_both(struct bench *b, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (int r = 0; r < b->o->repetitions && status == TW_OK; r++) {
        settle();
        time_dense(b);
        b->dense_ns[r] = time_dense(b);
        settle();
        status = run_twell(b, err);
        int64_t begin = now_ns();
        if (status == TW_OK)
            status = run_twell(b, err);
        b->twell_ns[r] = now_ns() - begin;
    }
    return status;
}

static int by_ratio(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of dense / twell over the pairs, as they were run. */
static double paired_speedup(struct bench *b)
{
    int n = b->o->repetitions;
    for (int i = 0; i < n; i++)
        b->ratio[i] = (double)b->dense_ns[i] / (double)b->twell_ns[i];
    qsort(b->ratio, (size_t)n, sizeof *b->ratio, by_ratio);
    return n % 2 ? b->ratio[n / 2]
                 : (b->ratio[n / 2 - 1] + b->ratio[n / 2]) / 2;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void spread(int64_t *ns, int n, int64_t *median, int64_t *min,
                   int64_t *mad)
{
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    *median = ns[n / 2];
    *min = ns[0];
    for (int i = 0; i < n; i++)
        ns[i] = ns[i] > *median ? ns[i] - *median : *median - ns[i];
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    *mad = ns[n / 2];
}

static enum tw_status report(struct bench *b, struct tw_bench_ffn_result *r,
                             struct tw_error *err)
{
    int64_t elements = b->o->rows * b->o->d_model, sum = 0;
    enum tw_status status =
        b->ops->download(b->ctx, b->host_y, b->y, elements, err);
    if (status != TW_OK)
        return status;
    double difference = 0, size = 0;
    for (int64_t i = 0; i < elements; i++) {
        double d = (double)b->host_y[i] - b->dense_y[i];
        double s = (double)b->dense_y[i] - b->host[i];
        difference += d * d;
        size += s * s;
    }
    *r = (struct tw_bench_ffn_result){
        .dense_rows = (int64_t)b->obs.dense_rows,
        .rel_error = size > 0 ? sqrt(difference / size) : sqrt(difference)};
    for (int64_t i = 0; i < b->o->rows; i++) {
        sum += b->obs.nnz[i];
        if (b->obs.nnz[i] > r->nnz_max)
            r->nnz_max = b->obs.nnz[i];
    }
    r->nnz_mean = (double)sum / (double)b->o->rows;
    r->speedup = paired_speedup(b);
    spread(b->dense_ns, b->o->repetitions, &r->dense_median, &r->dense_min,
           &r->dense_mad);
    spread(b->twell_ns, b->o->repetitions, &r->twell_median, &r->twell_min,
           &r->twell_mad);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    r->peak_bytes = (int64_t)usage.ru_maxrss * 1024;
    return TW_OK;
}

static enum tw_status measure(struct bench *b, double nnz,
                              struct tw_bench_ffn_result *result,
                              struct tw_error *err)
{
    plant(b, nnz);
    enum tw_status status = load(b, err);
    if (status == TW_OK)
        status = time_both(b, err);
    if (status == TW_OK)
        status = report(b, result, err);
    tw_dense_ffn_destroy(b->dense);
    if (b->ffn)
        b->ops->ffn_free(b->ctx, b->ffn);
    b->dense = NULL;
    b->ffn = NULL;
    return status;
}

static void fini(struct bench *b)
{
    if (b->ctx) {
        b->ops->free(b->ctx, b->x);
        b->ops->free(b->ctx, b->y);
        b->ops->fini(b->ctx);
    }
    tw_layer_obs_fini(&b->obs);
    void *owned[] = {b->gate,     b->up,      b->down,      b->host,
                     b->host_y,   b->dense_y, b->offset,    b->document,
                     b->start,    b->token,   b->row_class, b->dense_ns,
                     b->twell_ns, b->ratio};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        tw_free(owned[i]);
}

enum tw_status tw_bench_ffn(struct tw_bench_ffn_options *options,
                            struct tw_bench_ffn_result *results,
                            struct tw_error *err)
{
    struct bench b = {.o = options};
    int64_t elements = options->rows * options->d_model;
    enum tw_status status = tw_ops_find(options->backend, &b.ops, err);
    if (status == TW_OK)
        status = allocate(&b, err);
    if (status == TW_OK) {
        struct tw_ops_config config = {.threads = options->threads,
                                       .keep_bytes = INT64_MAX / 4};
        describe(&b);
        status = b.ops->init(&config, &b.ctx, err);
    }
    if (status == TW_OK)
        snprintf(options->device, sizeof options->device, "%s",
                 b.ops->device(b.ctx));
    if (status == TW_OK)
        status = b.ops->alloc(b.ctx, elements, &b.x, err);
    if (status == TW_OK)
        status = b.ops->alloc(b.ctx, elements, &b.y, err);
    if (status == TW_OK)
        status = tw_layer_obs_init(&b.obs, options->rows, options->d_ff, 1, 1,
                                   0, err);
    for (int i = 0; i < options->n_nnz && status == TW_OK; i++)
        status = measure(&b, options->nnz[i], &results[i], err);
    fini(&b);
    return status;
}

double tw_bench_break_even(const struct tw_bench_ffn_result *results, int n)
{
    for (int i = 0; i + 1 < n; i++) {
        const struct tw_bench_ffn_result *a = &results[i], *b = &results[i + 1];
        double low = log(a->speedup);
        double high = log(b->speedup);
        if (low >= 0 && high < 0)
            return exp(log(a->nnz_mean) +
                       (log(b->nnz_mean) - log(a->nnz_mean)) * low /
                           (low - high));
    }
    return NAN;
}
