/* Late results: obs, losses and logits are computed into private memory while
 * the caller's are poisoned, and copied when the batch is collected. A batch
 * that changed in between ends the program. */
#include <config.h>

#include "tests/late_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/cpu/cpu_internal.h"

enum { FLIGHTS = 2, LAYERS = 64, POISON = 0xa5 };

struct late_layer {
    struct tw_layer_obs *user, own;
};

struct late_flight {
    struct tw_batch batch;
    uint64_t sum; /* of its arrays */
    struct late_layer layer[LAYERS];
    int layers;
    struct tw_head_obs head; /* copies of what is asked for, */
    struct tw_head want;
    int64_t vocab;
    float *nll, *logits; /* and ours */
};

enum late_place late_place;
int64_t late_rows;
struct late_calls late_calls;
static struct late_flight flight[FLIGHTS];
static int first, count;
static bool is_started;

static void require(bool is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "late backend: %s\n", what);
    abort();
}

static struct late_flight *newest(void)
{
    return &flight[(first + count) % FLIGHTS];
}

static enum tw_status short_of(enum late_place place, int64_t rows,
                               struct tw_error *err)
{
    if (late_place != place || rows <= late_rows)
        return TW_OK;
    return tw_error_set(err, TW_ERR_NOMEM, "late: no memory at %d", (int)place);
}

/* --- The batch --- */

static uint64_t add(uint64_t sum, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return sum;
}

static uint64_t sum_of(const struct tw_batch *b)
{
    size_t seqs = (size_t)b->seqs, rows = (size_t)b->rows;
    uint64_t sum = add(0, b->offset, (seqs + 1) * sizeof *b->offset);
    sum = add(sum, b->document, seqs * sizeof *b->document);
    sum = add(sum, b->start, seqs * sizeof *b->start);
    sum = add(sum, b->token, rows * sizeof *b->token);
    return add(sum, b->row_class, rows);
}

static enum tw_status start(void *ctx, const struct tw_batch *batch,
                            struct tw_error *err)
{
    require(!is_started && count < FLIGHTS, "a batch too many");
    enum tw_status status = short_of(LATE_START, batch->rows, err);
    if (status == TW_OK)
        status = tw_ops_cpu.start(ctx, batch, err);
    if (status != TW_OK)
        return status;
    is_started = true;
    *newest() = (struct late_flight){.batch = *batch, .sum = sum_of(batch)};
    return TW_OK;
}

/* --- One layer --- */

/* Calls fn for each array of two obs of one shape. */
typedef void each_fn(void *a, void *b, size_t bytes);

static void each_array(struct tw_layer_obs *a, struct tw_layer_obs *b,
                       each_fn *fn)
{
    size_t p = (size_t)a->probes, w = (size_t)a->width, r = (size_t)a->rows;
    fn(a->nnz, b->nnz, p * r * sizeof *a->nnz);
    fn(a->fired, b->fired, p * w * sizeof *a->fired);
    fn(a->first, b->first, p * w * sizeof *a->first);
    fn(a->last, b->last, p * w * sizeof *a->last);
    fn(a->seen, b->seen, (size_t)a->experts * sizeof *a->seen);
    fn(a->l1, b->l1, r * sizeof *a->l1);
    for (int i = 0; i < TW_TILE_WIDTHS; i++)
        fn(a->tiles[i], b->tiles[i], ((64u << i) + 1) * sizeof(uint64_t));
    if (a->magnitude) {
        fn(a->abs_sum, b->abs_sum, w * sizeof *a->abs_sum);
        fn(a->abs_max, b->abs_max, w * sizeof *a->abs_max);
        fn(a->magnitude, b->magnitude, TW_MAGNITUDE_BINS * sizeof(uint64_t));
    }
    if (a->set_start)
        fn(a->set_start, b->set_start, (r + 1) * sizeof *a->set_start);
}

static void copy_array(void *to, void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void poison_array(void *a, void *b, size_t bytes)
{
    (void)b;
    memset(a, POISON, bytes);
}

static enum tw_status make_own(const struct tw_layer_obs *user,
                               struct tw_layer_obs *own, struct tw_error *err)
{
    enum tw_status status =
        tw_layer_obs_init(own, user->rows, user->width, user->probes,
                          user->experts, user->magnitude != NULL, err);
    if (status == TW_OK && user->set_start)
        status = tw_layer_obs_want_sets(own, user->rows, err);
    if (status == TW_OK)
        tw_layer_obs_reset(own, user->rows);
    return status;
}

static enum tw_status ffn(void *ctx, void *y, const void *x,
                          const void *residual, struct tw_ffn *layer,
                          const struct tw_probes *probes,
                          struct tw_layer_obs *obs, struct tw_error *err)
{
    struct late_flight *f = newest();
    require(f->layers < LAYERS, "a layer too many");
    struct late_layer *late = &f->layer[f->layers];
    enum tw_status status =
        f->layers == 1 ? short_of(LATE_FFN, f->batch.rows, err) : TW_OK;
    if (status == TW_OK)
        status = make_own(obs, &late->own, err);
    if (status != TW_OK) {
        tw_layer_obs_fini(&late->own);
        return status;
    }
    f->layers++;
    late->user = obs;
    each_array(obs, obs, poison_array);
    obs->bad_row = obs->bad_neuron = 0;
    return tw_ops_cpu.ffn(ctx, y, x, residual, layer, probes, &late->own, err);
}

static enum tw_status deliver_sets(struct tw_layer_obs *to,
                                   const struct tw_layer_obs *from,
                                   struct tw_error *err)
{
    size_t entries = (size_t)from->set_start[from->rows];
    tw_free(to->set);
    tw_free(to->set_value);
    to->set = tw_alloc(entries + 1, sizeof *to->set);
    to->set_value = tw_alloc(entries + 1, sizeof *to->set_value);
    to->set_room = (int64_t)entries + 1;
    if (!to->set || !to->set_value)
        return tw_error_set(err, TW_ERR_NOMEM, "late: no memory for sets");
    if (entries) {
        memcpy(to->set, from->set, entries * sizeof *to->set);
        memcpy(to->set_value, from->set_value, entries * sizeof *to->set_value);
    }
    return TW_OK;
}

static enum tw_status deliver(struct tw_layer_obs *to,
                              struct tw_layer_obs *from, struct tw_error *err)
{
    each_array(to, from, copy_array);
    to->overflow_tiles = from->overflow_tiles;
    to->overflow_rows = from->overflow_rows;
    to->dense_rows = from->dense_rows;
    to->bad_row = from->bad_row;
    to->bad_neuron = from->bad_neuron;
    return to->set_start ? deliver_sets(to, from, err) : TW_OK;
}

/* --- The head --- */

static enum tw_status head_nll(void *ctx, const void *x,
                               const struct tw_weight *w,
                               const struct tw_head *head,
                               struct tw_head_obs *obs, struct tw_error *err)
{
    struct late_flight *f = newest();
    size_t rows = (size_t)f->batch.rows;
    size_t logits = (size_t)(head->logit_rows * w->matrix.rows);
    enum tw_status status = short_of(LATE_HEAD, f->batch.rows, err);
    if (status != TW_OK)
        return status;
    f->head = *obs;
    f->want = *head;
    f->vocab = w->matrix.rows;
    f->nll = tw_alloc(rows, sizeof *f->nll);
    f->logits = tw_alloc(logits + 1, sizeof *f->logits);
    if (!f->nll || !f->logits)
        return tw_error_set(err, TW_ERR_NOMEM, "late: no memory for a head");
    if (obs->nll)
        memset(obs->nll, POISON, rows * sizeof *obs->nll);
    struct tw_head own_head = *head;
    struct tw_head_obs own = {.nll = obs->nll ? f->nll : NULL};
    own_head.logits = f->logits;
    return tw_ops_cpu.head_nll(ctx, x, w, &own_head, &own, err);
}

/* --- Ends --- */

static void drop(struct late_flight *f)
{
    for (int l = 0; l < f->layers; l++)
        tw_layer_obs_fini(&f->layer[l].own);
    tw_free(f->nll);
    tw_free(f->logits);
    *f = (struct late_flight){0};
}

static enum tw_status submit(void *ctx, struct tw_error *err)
{
    struct late_flight *f = newest();
    require(is_started, "submit without start");
    is_started = false;
    enum tw_status status = tw_ops_cpu.finish(ctx, err);
    if (status == TW_OK)
        status = short_of(LATE_SUBMIT, f->batch.rows, err);
    if (status != TW_OK) {
        drop(f);
        return status;
    }
    count++;
    late_calls.submits++;
    late_calls.most = count > late_calls.most ? count : late_calls.most;
    return TW_OK;
}

static enum tw_status collect(void *ctx, struct tw_error *err)
{
    (void)ctx;
    struct late_flight *f = &flight[first];
    require(!is_started && count > 0, "collect of nothing");
    require(sum_of(&f->batch) == f->sum, "the batch has changed in flight");
    first = (first + 1) % FLIGHTS;
    count--;
    late_calls.collects++;
    enum tw_status status = short_of(LATE_COLLECT, f->batch.rows, err);
    for (int l = 0; l < f->layers && status == TW_OK; l++)
        status = deliver(f->layer[l].user, &f->layer[l].own, err);
    if (status == TW_OK && f->head.nll && f->nll)
        memcpy(f->head.nll, f->nll,
               (size_t)f->batch.rows * sizeof *f->head.nll);
    if (status == TW_OK && f->want.logit_rows > 0 && f->logits)
        memcpy(f->want.logits, f->logits,
               (size_t)(f->want.logit_rows * f->vocab) *
                   sizeof *f->want.logits);
    drop(f);
    return status;
}

static enum tw_status finish(void *ctx, struct tw_error *err)
{
    enum tw_status status = submit(ctx, err);
    return status == TW_OK ? collect(ctx, err) : status;
}

static enum tw_status alloc(void *ctx, int64_t elements, void **buffer,
                            struct tw_error *err)
{
    enum tw_status status = short_of(LATE_ALLOC, elements / 128, err);
    return status == TW_OK ? tw_ops_cpu.alloc(ctx, elements, buffer, err)
                           : status;
}

static void free_buffer(void *ctx, void *buffer)
{
    require(count == 0, "a buffer freed in flight");
    tw_ops_cpu.free(ctx, buffer);
}

static void trim(void *ctx)
{
    (void)ctx;
    require(count == 0 && !is_started, "trim in flight");
    late_calls.trims++;
}

static void fini(void *ctx)
{
    require(count == 0 && !is_started, "an end in flight");
    tw_ops_cpu.fini(ctx);
}

const struct tw_ops *late_ops(void)
{
    static struct tw_ops ops;
    ops = tw_ops_cpu;
    ops.start = start;
    ops.ffn = ffn;
    ops.head_nll = head_nll;
    ops.submit = submit;
    ops.collect = collect;
    ops.flights = FLIGHTS;
    ops.finish = finish;
    ops.alloc = alloc;
    ops.free = free_buffer;
    ops.trim = trim;
    ops.fini = fini;
    return &ops;
}
