/* An oracle's answers beside what a run saw. */
#include <config.h>

#include "run/compare.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/parity.h"
#include "base/file.h"
#include "base/memory.h"
#include "load/safetensors.h"

/* DESIGN's bounds for the cpu backend. */
#define NLL_BOUND       1e-4
#define LOGITS_BOUND    1e-3
#define TOTAL_BOUND     1e-5
#define IDENTICAL_SHARE 0.9999
#define L1_BOUND        1e-4

struct tw_oracle {
    struct tw_tensors tensors;
    const char *path;
    int64_t seqs, length; /* S, T */
    int64_t layers, width, vocab;
    const int32_t *ids;
    /* Expected; NULL: the oracle does not say. */
    const float *want_nll, *want_l1, *want_logits;
    const uint32_t *want_nnz;
    const int32_t *want_fire;
    /* Observed, by the oracle's row numbers. */
    float *nll, *l1, *logits;   /* [S*T], [L][S*T], [S][V] */
    uint32_t *nnz;              /* [L][S*T] */
    uint64_t *fire, *fire_want; /* [L][F] */
    bool has_loss;
};

static const struct tw_tensor *find(const struct tw_oracle *o, const char *name,
                                    enum tw_dtype dtype)
{
    const struct tw_tensor *t = tw_tensors_find(&o->tensors, name);
    return t && t->dtype == dtype && t->dims == 2 ? t : NULL;
}

enum tw_status tw_oracle_open(const char *path, struct tw_oracle **oracle,
                              struct tw_error *err)
{
    struct tw_oracle *o = tw_calloc(1, sizeof *o);
    if (!o)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status = tw_tensors_open_file(path, &o->tensors, err);
    const struct tw_tensor *ids =
        status == TW_OK ? find(o, "input_ids", TW_I32) : NULL;
    if (status == TW_OK && (!ids || ids->elements == 0))
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "%s: no tensor 'input_ids' of type I32, shape "
                              "[S, T]",
                              path);
    if (status != TW_OK) {
        tw_oracle_close(o);
        return status;
    }
    o->path = tw_path_base(path);
    o->ids = ids->data;
    o->seqs = ids->shape[0];
    o->length = ids->shape[1];
    *oracle = o;
    return TW_OK;
}

void tw_oracle_close(struct tw_oracle *o)
{
    if (!o)
        return;
    void *owned[] = {o->nll, o->l1, o->logits, o->nnz, o->fire, o->fire_want};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        tw_free(owned[i]);
    tw_tensors_close(&o->tensors);
    tw_free(o);
}

bool tw_oracle_has_loss(const struct tw_oracle *o)
{
    return tw_tensors_find(&o->tensors, "nll") != NULL;
}

const int32_t *tw_oracle_ids(const struct tw_oracle *o, int64_t *rows,
                             int64_t *cols)
{
    *rows = o->seqs;
    *cols = o->length;
    return o->ids;
}

/* An answer of the oracle: absent is fine, another shape is not. */
static enum tw_status answer(const struct tw_oracle *o, const char *name,
                             enum tw_dtype dtype, int64_t rows, int64_t cols,
                             const void **data, struct tw_error *err)
{
    const struct tw_tensor *t = tw_tensors_find(&o->tensors, name);
    *data = NULL;
    if (!t)
        return TW_OK;
    if (t->dtype != dtype || t->dims != 2 || t->shape[0] != rows ||
        t->shape[1] != cols)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "%s: tensor '%s' is not %s [%lld, %lld], as this "
                            "model needs",
                            o->path, name, tw_dtype_name(dtype),
                            (long long)rows, (long long)cols);
    *data = t->data;
    return TW_OK;
}

static enum tw_status read_answers(struct tw_oracle *o, struct tw_error *err)
{
    int64_t cells = o->seqs * o->length;
    const struct {
        const char *name;
        enum tw_dtype dtype;
        int64_t rows, cols;
        const void **data;
    } answers[] = {
        {"nll", TW_F32, o->seqs, o->length - 1, (const void **)&o->want_nll},
        {"nnz", TW_I32, o->layers, cells, (const void **)&o->want_nnz},
        {"l1", TW_F32, o->layers, cells, (const void **)&o->want_l1},
        {"fire", TW_I32, o->layers, o->width, (const void **)&o->want_fire},
        {"logits_last", TW_F32, o->seqs, o->vocab,
         (const void **)&o->want_logits},
    };
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (status == TW_OK)
            status =
                answer(o, answers[i].name, answers[i].dtype, answers[i].rows,
                       answers[i].cols, answers[i].data, err);
    if (status == TW_OK && !o->want_nll && !o->want_nnz && !o->want_l1 &&
        !o->want_fire && !o->want_logits)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "%s: holds no answers: none of nll, nnz, l1, "
                              "fire, logits_last",
                              o->path);
    return status;
}

enum tw_status tw_oracle_prepare(struct tw_oracle *o, int64_t layers,
                                 int64_t width, int64_t vocab,
                                 struct tw_error *err)
{
    o->layers = layers;
    o->width = width;
    o->vocab = vocab;
    enum tw_status status = read_answers(o, err);
    if (status != TW_OK)
        return status;
    size_t cells = (size_t)(o->seqs * o->length), l = (size_t)layers;
    size_t logits = (size_t)(o->seqs * vocab), neurons = l * (size_t)width;
    o->nll = tw_calloc(cells, sizeof *o->nll);
    o->l1 = tw_calloc(l * cells, sizeof *o->l1);
    o->nnz = tw_calloc(l * cells, sizeof *o->nnz);
    o->fire = tw_calloc(neurons, sizeof *o->fire);
    o->fire_want = tw_calloc(neurons, sizeof *o->fire_want);
    o->logits = tw_calloc(logits, sizeof *o->logits);
    if (!o->nll || !o->l1 || !o->nnz || !o->fire || !o->fire_want || !o->logits)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    for (size_t i = 0; o->want_fire && i < neurons; i++)
        o->fire_want[i] = (uint64_t)o->want_fire[i];
    return TW_OK;
}

/* A sequence's rows start here in the oracle's numbering. */
static int64_t first_cell(const struct tw_oracle *o,
                          const struct tw_batch *batch, int64_t seq)
{
    return batch->document[seq] * o->length + batch->start[seq];
}

bool tw_oracle_has_logits(const struct tw_oracle *o)
{
    return o->want_logits != NULL;
}

void tw_oracle_add(struct tw_oracle *o, const struct tw_batch *batch,
                   const struct tw_layer_obs *obs,
                   const struct tw_head_obs *head, const float *logits)
{
    size_t cells = (size_t)(o->seqs * o->length);
    o->has_loss |= head != NULL;
    for (int64_t s = 0; s < batch->seqs; s++) {
        size_t to = (size_t)first_cell(o, batch, s);
        size_t from = (size_t)batch->offset[s];
        size_t n = (size_t)(batch->offset[s + 1] - batch->offset[s]);
        assert(to + n <= cells); /* the job refused all else */
        if (head)
            memcpy(o->nll + to, head->nll + from, n * sizeof *o->nll);
        for (int64_t l = 0; l < o->layers; l++) {
            memcpy(o->nnz + (size_t)l * cells + to, obs[l].nnz + from,
                   n * sizeof *o->nnz);
            memcpy(o->l1 + (size_t)l * cells + to, obs[l].l1 + from,
                   n * sizeof *o->l1);
        }
        if (logits)
            memcpy(o->logits + (size_t)(batch->document[s] * o->vocab),
                   logits + (size_t)(s * o->vocab),
                   (size_t)o->vocab * sizeof *o->logits);
    }
    for (int64_t l = 0; l < o->layers; l++)
        for (int64_t n = 0; n < o->width; n++)
            o->fire[l * o->width + n] += obs[l].fired[n];
}

/* What the bounds look at. */
struct worst {
    int64_t cells, identical, difference, fired_cells, fired_identical,
        fired_difference;
    double total, l1, nll, mean_nll, logits;
};

/* A row of parity_; what the oracle does not say is NULL, not 0. */
static enum tw_status put(const struct tw_oracle *o, const struct worst *w,
                          int64_t ord, int64_t layer, struct tw_store *store,
                          int64_t run, struct tw_error *err)
{
    bool has_nnz = o->want_nnz != NULL, has_fire = o->want_fire != NULL;
    struct tw_store_parity row = {
        .ord = ord,
        .layer = layer,
        .cells = has_nnz ? w->cells : TW_NULL,
        .identical = has_nnz ? w->identical : TW_NULL,
        .max_difference = has_nnz ? w->difference : TW_NULL,
        .total_difference = has_nnz ? w->total : NAN,
        .fired_cells = has_fire ? w->fired_cells : TW_NULL,
        .fired_identical = has_fire ? w->fired_identical : TW_NULL,
        .fired_max_difference = has_fire ? w->fired_difference : TW_NULL,
        .l1_max_relative = o->want_l1 ? w->l1 : NAN,
        .nll_max_difference = w->nll,
        .mean_nll_difference = w->mean_nll,
        .logits_max_difference = w->logits};
    return tw_store_put_parity(store, run, &row, err);
}

static enum tw_status compare_layer(struct tw_oracle *o, int64_t l,
                                    struct tw_store *store, int64_t run,
                                    struct worst *w, struct tw_error *err)
{
    int64_t cells = o->seqs * o->length;
    const struct tw_parity_arrays a = {o->nnz + l * cells, o->l1 + l * cells,
                                       o->fire + l * o->width};
    const struct tw_parity_arrays b = {
        o->want_nnz ? o->want_nnz + l * cells : NULL,
        o->want_l1 ? o->want_l1 + l * cells : NULL,
        o->want_fire ? o->fire_want + l * o->width : NULL};
    struct tw_parity_layer p;
    tw_parity_layer(&a, &b, cells, o->width, &p);
    w->cells += p.cells;
    w->identical += p.identical;
    w->fired_cells += p.fired_cells;
    w->fired_identical += p.fired_identical;
    w->difference =
        p.max_difference > w->difference ? p.max_difference : w->difference;
    w->fired_difference = p.fired_max_difference > w->fired_difference
                              ? p.fired_max_difference
                              : w->fired_difference;
    w->total = fmax(w->total, p.total_difference);
    w->l1 = fmax(w->l1, p.l1_max_relative);
    struct worst one = {.cells = p.cells,
                        .identical = p.identical,
                        .difference = p.max_difference,
                        .total = p.total_difference,
                        .fired_cells = p.fired_cells,
                        .fired_identical = p.fired_identical,
                        .fired_difference = p.fired_max_difference,
                        .l1 = p.l1_max_relative,
                        .nll = NAN,
                        .mean_nll = NAN,
                        .logits = NAN};
    return put(o, &one, l, l, store, run, err);
}

static void compare_head(struct tw_oracle *o, struct worst *w)
{
    w->nll = w->mean_nll = w->logits = NAN;
    if (o->want_nll && o->has_loss) {
        double sum = 0, want = 0;
        w->nll = 0;
        for (int64_t s = 0; s < o->seqs; s++) {
            const float *a = o->nll + s * o->length;
            const float *b = o->want_nll + s * (o->length - 1);
            w->nll =
                fmax(w->nll, tw_parity_max_difference(a, b, o->length - 1));
            for (int64_t t = 0; t < o->length - 1; t++) {
                sum += a[t];
                want += b[t];
            }
        }
        w->mean_nll = fabs(sum - want) / (double)(o->seqs * (o->length - 1));
    }
    if (o->want_logits)
        w->logits = tw_parity_max_difference(o->logits, o->want_logits,
                                             o->seqs * o->vocab);
}

/* A sentence of what was compared; the rest is left out. */
static void describe(const struct tw_oracle *o, const struct worst *w,
                     char *line, size_t bytes)
{
    char counts[120] = "", firings[80] = "", l1[40] = "", loss[80] = "",
         logits[40] = "";
    if (o->want_nnz)
        snprintf(counts, sizeof counts,
                 ", %lld of %lld counts identical (worst %lld), layer totals "
                 "%.1e",
                 (long long)w->identical, (long long)w->cells,
                 (long long)w->difference, w->total);
    if (o->want_fire)
        snprintf(firings, sizeof firings, ", firings %lld of %lld",
                 (long long)w->fired_identical, (long long)w->fired_cells);
    if (o->want_l1)
        snprintf(l1, sizeof l1, ", l1 %.1e", w->l1);
    if (!isnan(w->nll))
        snprintf(loss, sizeof loss, ", loss %.1e a token and %.1e in the mean",
                 w->nll, w->mean_nll);
    if (!isnan(w->logits))
        snprintf(logits, sizeof logits, ", logits %.1e", w->logits);
    snprintf(line, bytes, "%lld rows%s%s%s%s%s",
             (long long)(o->seqs * o->length), counts, firings, l1, loss,
             logits);
}

static bool is_inside(const struct worst *w, double tolerance)
{
    double nll = tolerance < 0 ? NLL_BOUND : tolerance;
    double logits = tolerance < 0 ? LOGITS_BOUND : tolerance;
    return !(w->nll > nll) && !(w->logits > logits) &&
           !(w->total > TOTAL_BOUND) && !(w->l1 > L1_BOUND) &&
           w->difference <= 1 && w->fired_difference <= 1 &&
           (double)w->identical >= IDENTICAL_SHARE * (double)w->cells &&
           (double)w->fired_identical >=
               IDENTICAL_SHARE * (double)w->fired_cells;
}

enum tw_status tw_oracle_compare(struct tw_oracle *o, struct tw_store *store,
                                 int64_t run, double tolerance, bool *is_within,
                                 char *line, size_t line_bytes,
                                 struct tw_error *err)
{
    struct worst w = {0};
    enum tw_status status = TW_OK;
    for (int64_t l = 0; l < o->layers && status == TW_OK; l++)
        status = compare_layer(o, l, store, run, &w, err);
    compare_head(o, &w);
    if (status == TW_OK)
        status = put(o, &w, o->layers, TW_NULL, store, run, err);
    if (status != TW_OK)
        return status;
    describe(o, &w, line, line_bytes);
    *is_within = is_inside(&w, tolerance);
    return TW_OK;
}
