/* One feed-forward layer, TwELL against dense. */
#include <config.h>

#include "run/bench_ffn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "run/bench_internal.h"
#include "run/bench_rates.h"

#define SEQUENCE 512 /* rows of a sequence in the batch */

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory for the rows");
}

static bool is_recorded(const struct tw_bench_ffn_options *o)
{
    return strcmp(o->data, "uniform") != 0 && strcmp(o->data, "skewed") != 0;
}

static enum tw_status make_data(struct tw_bench_ffn_options *o,
                                struct tw_bench_data *data,
                                struct tw_error *err)
{
    if (!is_recorded(o)) {
        const struct tw_bench_shape shape = {.rows = o->rows,
                                             .d_model = o->d_model,
                                             .d_ff = o->d_ff,
                                             .is_plain = o->is_plain,
                                             .dtype = o->dtype,
                                             .threads = o->threads,
                                             .seed = o->seed};
        snprintf(o->data_name, sizeof o->data_name, "%s", o->data);
        return tw_bench_data_make(&shape, data, err);
    }
    const struct tw_bench_source source = {.model = o->data,
                                           .files = o->files,
                                           .n_files = o->n_files,
                                           .prompt = o->prompt,
                                           .ctx = o->ctx,
                                           .layer = o->layer,
                                           .rows = o->rows,
                                           .threads = o->threads};
    enum tw_status status = tw_bench_data_record(&source, data, o->data_name,
                                                 sizeof o->data_name, err);
    if (status != TW_OK)
        return status;
    if (data->rows < o->rows)
        tw_log(TW_LOG_WARNING, "the text has %lld rows of the %d wanted",
               (long long)data->rows, o->rows);
    o->n_nnz = 1;
    o->rows = (int)data->rows;
    o->d_model = (int)data->desc.d_model;
    o->d_ff = (int)data->desc.d_ff;
    o->is_plain = data->desc.gate.data == NULL;
    o->dtype = data->desc.up.dtype;
    return TW_OK;
}

static enum tw_status make_batch(struct twp_bench *b, struct tw_error *err)
{
    size_t m = (size_t)b->rows, seqs = (m + SEQUENCE - 1) / SEQUENCE;
    b->offset = tw_calloc(seqs + 1, sizeof *b->offset);
    b->numbers = tw_calloc(2 * seqs, sizeof *b->numbers);
    b->token = tw_calloc(m, sizeof *b->token);
    b->row_class = tw_calloc(m, 1);
    if (!b->offset || !b->numbers || !b->token || !b->row_class)
        return no_memory(err);
    for (size_t s = 0; s < seqs; s++) {
        size_t end = (s + 1) * SEQUENCE;
        b->numbers[s] = (int64_t)s;
        b->offset[s + 1] = (int64_t)(end < m ? end : m);
    }
    b->batch = (struct tw_batch){.rows = b->rows,
                                 .seqs = (int64_t)seqs,
                                 .offset = b->offset,
                                 .document = b->numbers,
                                 .start = b->numbers + seqs,
                                 .token = b->token,
                                 .row_class = b->row_class};
    return tw_layer_obs_init(&b->obs, b->rows, b->data->desc.d_ff, 1, 1, 0,
                             err);
}

/* So many copies of x that a full turn is at least twice the cache. */
static enum tw_status make_buffers(struct twp_bench *b, struct tw_error *err)
{
    int64_t cache = b->ops->bench->cache_bytes(b->ctx);
    int64_t wanted = cache > 0 ? 1 + 2 * cache / (2 * b->elements) : 1;
    b->inputs = (int)(wanted < TWP_INPUTS ? wanted : TWP_INPUTS);
    if (cache > 0 && b->inputs < 3)
        b->inputs = 3;
    enum tw_status status = b->ops->alloc(b->ctx, b->elements, &b->y, err);
    if (status == TW_OK)
        status = b->ops->alloc(b->ctx, b->elements, &b->dense_y, err);
    for (int i = 0; i < b->inputs && status == TW_OK; i++) {
        status = b->ops->alloc(b->ctx, b->elements, &b->x[i], err);
        if (status == TW_OK)
            status =
                b->ops->upload(b->ctx, b->x[i], b->data->x, b->elements, err);
    }
    return status;
}

static enum tw_status make_times(struct twp_bench *b, struct tw_error *err)
{
    size_t n = (size_t)b->repetitions;
    b->sorted = tw_calloc(n, sizeof *b->sorted);
    b->ratio = tw_calloc(n, sizeof *b->ratio);
    bool is_short = !b->sorted || !b->ratio;
    for (int f = 0; f < TWP_FORMS; f++) {
        b->ns[f] = tw_calloc(n, sizeof *b->ns[f]);
        is_short |= !b->ns[f];
    }
    return is_short ? no_memory(err) : TW_OK;
}

static enum tw_status open_backend(struct twp_bench *b,
                                   struct tw_bench_ffn_options *o,
                                   struct tw_error *err)
{
    struct tw_ops_config config = {.threads = o->threads,
                                   .device = o->device,
                                   .dtype = o->dtype,
                                   .keep_bytes = INT64_MAX / 4};
    enum tw_status status = tw_cuda_path_parse(o->path, &config.cuda_path, err);
    if (status == TW_OK)
        status = b->ops->init(&config, &b->ctx, err);
    if (status != TW_OK)
        return status;
    snprintf(o->device_name, sizeof o->device_name, "%s",
             b->ops->device(b->ctx));
    if (o->dtype == TW_F32 && strcmp(b->ops->compute_dtype, "float32") != 0)
        o->dtype = TW_BF16; /* what it was rounded to */
    bool is_paused = b->ops->bench->pause_ms > 0;
    b->repetitions = o->repetitions > 0 ? o->repetitions : is_paused ? 9 : 25;
    b->idle_watt = NAN;
    return TW_OK;
}

static enum tw_status plant(struct twp_bench *b, double nnz,
                            struct tw_error *err)
{
    const struct tw_bench_ffn_options *o = b->o;
    if (is_recorded(o))
        return TW_OK;
    double *rate = tw_alloc((size_t)o->d_ff, sizeof *rate);
    if (!rate)
        return no_memory(err);
    double reached = nnz;
    if (strcmp(o->data, "skewed") == 0)
        reached = tw_bench_rates_skewed(rate, o->d_ff, nnz, o->seed);
    else
        tw_bench_rates_uniform(rate, o->d_ff, nnz);
    if (reached < 0.999 * nnz)
        tw_log(TW_LOG_WARNING,
               "skewed: %.0f non-zeros wanted, %.0f with every live neuron on",
               nnz, reached);
    tw_bench_data_plant(b->data, rate);
    tw_free(rate);
    return TW_OK;
}

/* From the counts of one run of the sparse layer. */
static void count(const struct twp_bench *b, struct tw_bench_point *point)
{
    int64_t sum = 0;
    point->nnz_max = 0;
    for (int64_t i = 0; i < b->rows; i++) {
        sum += b->obs.nnz[i];
        if (b->obs.nnz[i] > point->nnz_max)
            point->nnz_max = b->obs.nnz[i];
    }
    point->rows = b->rows;
    point->routed = (int64_t)b->obs.dense_rows;
    point->nnz_mean = (double)sum / (double)b->rows;
    point->repetitions = b->repetitions;
    point->idle_watt = b->idle_watt;
    point->has_plan = b->is_there[TWP_FORM_AUTO];
    point->is_planned_dense = b->plan.path == TW_FFN_DENSE;
}

/* The baseline comes first: the others are compared with it. */
static enum tw_status compare(struct twp_bench *b, double rel_error[TWP_FORMS],
                              struct tw_bench_point *point,
                              struct tw_error *err)
{
    enum tw_status status =
        twp_form_compare(b, b->baseline, &rel_error[b->baseline], err);
    for (int f = 0; f < TWP_FORMS && status == TW_OK; f++) {
        if (f == b->baseline || !b->is_there[f])
            continue;
        status = twp_form_compare(b, f, &rel_error[f], err);
        if (f == TWP_FORM_TWELL)
            count(b, point);
    }
    return status;
}

/* Of the fastest dense form and of what profile would run. */
static enum tw_status add_energy(struct twp_bench *b,
                                 struct tw_bench_point *point,
                                 struct tw_error *err)
{
    const struct tw_bench_row *dense = tw_bench_dense(point);
    enum tw_status status = TW_OK;
    int form = -1;
    for (int i = 0; i < point->n_rows && status == TW_OK; i++) {
        struct tw_bench_row *row = &point->row[i];
        while (!b->is_there[++form])
            ;
        if (row == dense || form == TWP_FORM_TWELL || form == TWP_FORM_AUTO)
            status =
                twp_bench_energy(b, form, row->median, &row->mj_per_token, err);
    }
    return status;
}

static enum tw_status measure(struct twp_bench *b, double nnz,
                              struct tw_bench_point *point,
                              struct tw_error *err)
{
    double rel_error[TWP_FORMS];
    enum tw_status status = plant(b, nnz, err);
    if (status == TW_OK)
        status = twp_forms_load(b, err);
    if (status == TW_OK)
        status = compare(b, rel_error, point, err);
    if (status == TW_OK)
        status = twp_bench_time(b, err);
    if (status == TW_OK) {
        twp_bench_spread(b, point);
        for (int f = 0, i = 0; f < TWP_FORMS; f++)
            if (b->is_there[f])
                point->row[i++].rel_error = rel_error[f];
    }
    if (status == TW_OK && b->energy)
        status = add_energy(b, point, err);
    twp_forms_free(b);
    return status;
}

static void fini(struct twp_bench *b)
{
    if (b->ctx) {
        for (int i = 0; i < b->inputs; i++)
            b->ops->free(b->ctx, b->x[i]);
        b->ops->free(b->ctx, b->y);
        b->ops->free(b->ctx, b->dense_y);
        b->ops->fini(b->ctx);
    }
    tw_energy_close(b->energy);
    tw_layer_obs_fini(&b->obs);
    for (int f = 0; f < TWP_FORMS; f++)
        tw_free(b->ns[f]);
    void *owned[] = {b->offset,    b->numbers, b->token,
                     b->row_class, b->sorted,  b->ratio};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        tw_free(owned[i]);
}

static enum tw_status bench(struct twp_bench *b, struct tw_bench_ffn_options *o,
                            struct tw_bench_point *points, struct tw_error *err)
{
    b->rows = o->rows;
    b->elements = b->rows * o->d_model;
    enum tw_status status = open_backend(b, o, err);
    if (status == TW_OK)
        status = make_batch(b, err);
    if (status == TW_OK)
        status = make_buffers(b, err);
    if (status == TW_OK)
        status = make_times(b, err);
    if (status == TW_OK && o->has_energy)
        status = twp_energy_open(b->ops, b->ctx, &b->energy, &b->idle_watt,
                                 o->energy_cause, sizeof o->energy_cause, err);
    for (int i = 0; i < o->n_nnz && status == TW_OK; i++)
        status = measure(b, o->nnz[i], &points[i], err);
    return status;
}

enum tw_status tw_bench_ffn(struct tw_bench_ffn_options *options,
                            struct tw_bench_point *points, struct tw_error *err)
{
    struct tw_bench_data data = {.layer = -1};
    struct twp_bench b = {.o = options, .data = &data};
    enum tw_status status = tw_ops_find(options->backend, &b.ops, err);
    if (status == TW_OK && !b.ops->bench)
        status = tw_error_set(err, TW_ERR_UNSUPPORTED,
                              "backend '%s' can't be timed", b.ops->name);
    if (status == TW_OK)
        status = make_data(options, &data, err);
    if (status == TW_OK)
        status = bench(&b, options, points, err);
    fini(&b);
    tw_bench_data_fini(&data);
    return status;
}

const struct tw_bench_row *tw_bench_find(const struct tw_bench_point *point,
                                         const char *target, const char *name)
{
    for (int i = 0; i < point->n_rows; i++)
        if (strcmp(point->row[i].target, target) == 0 &&
            strcmp(point->row[i].name, name) == 0)
            return &point->row[i];
    return NULL;
}

const struct tw_bench_row *tw_bench_dense(const struct tw_bench_point *point)
{
    const struct tw_bench_row *best = NULL;
    for (int i = 0; i < point->n_rows; i++) {
        const struct tw_bench_row *row = &point->row[i];
        if (row->is_dense && strcmp(row->target, "ffn") == 0 &&
            (!best || row->median < best->median))
            best = row;
    }
    return best;
}

double tw_bench_break_even(const struct tw_bench_point *points, int n)
{
    for (int i = 0; i + 1 < n; i++) {
        const struct tw_bench_row *a =
            tw_bench_find(&points[i], "ffn", "twell");
        const struct tw_bench_row *b =
            tw_bench_find(&points[i + 1], "ffn", "twell");
        double low = log(a->speedup), high = log(b->speedup);
        double from = log(fmax(points[i].nnz_mean, 1));
        double to = log(fmax(points[i + 1].nnz_mean, 1));
        if (low >= 0 && high < 0)
            return exp(from + (to - from) * low / (low - high));
    }
    return NAN;
}
