/* The rows over all layers (position_, token_), document_, run_'s totals, and
 * the save that writes everything. */
#include <config.h>

#include <string.h>

#include "analysis/profile_internal.h"
#include "analysis/store_profile.h"

/* Cells of all layers as one; *max_sum: the largest layer's sum. The sums fit:
 * they are parts of nnz_total. */
static void merge(struct twp_cell *all, uint64_t *max_sum,
                  const struct twp_cell *cell)
{
    all->sum += cell->sum;
    all->unmin = all->unmin > cell->unmin ? all->unmin : cell->unmin;
    all->max = all->max > cell->max ? all->max : cell->max;
    *max_sum = *max_sum > cell->sum ? *max_sum : cell->sum;
}

/* Rows of one definition over all layers, or documents. */
struct rows {
    const struct twp_save *save;
    int def;
    int64_t at; /* the next row's position, token or document */
};

static bool next_position(void *arg, int64_t *row)
{
    struct rows *r = arg;
    const struct tw_profile *p = r->save->p;
    struct twp_cell all = {0};
    uint64_t max_sum = 0;
    while (r->at < p->positions && !p->position_count[r->at])
        r->at++;
    if (r->at == p->positions)
        return false;
    for (int l = 0; l < p->config.layers; l++)
        merge(&all, &max_sum, &twp_probe(p, r->def, l)->position[r->at]);
    TWP_FILL(row, r->save->run, r->def, r->at, p->position_count[r->at],
             (int64_t)all.sum, (int64_t)(uint32_t)~all.unmin, all.max,
             (int64_t)max_sum);
    r->at++;
    return true;
}

static bool next_token(void *arg, int64_t *row)
{
    struct rows *r = arg;
    const struct tw_profile *p = r->save->p;
    struct twp_cell all = {0};
    uint64_t max_sum = 0;
    while (r->at < p->config.vocab && !p->token[r->at].count)
        r->at++;
    if (r->at == p->config.vocab)
        return false;
    const struct twp_token *token = &p->token[r->at];
    for (int l = 0; l < p->config.layers; l++)
        merge(&all, &max_sum, &twp_probe(p, r->def, l)->token[r->at]);
    TWP_FILL(row, r->save->run, r->def, r->at, token->count,
             token->in_sequences, (int64_t)all.sum, token->count_even,
             p->sum_even[r->def * p->config.vocab + r->at],
             (int64_t)(uint32_t)~all.unmin, all.max);
    r->at++;
    return true;
}

static bool next_document(void *arg, int64_t *row)
{
    struct rows *r = arg;
    const struct tw_profile *p = r->save->p;
    if (r->at == (int64_t)p->documents)
        return false;
    const struct twp_document *d = &p->document[r->at++];
    TWP_FILL(row, r->save->run, d->document, d->rows, d->sequences);
    return true;
}

static enum tw_status put(const struct twp_save *save, enum tw_table table,
                          tw_store_next_fn *next, int def)
{
    struct rows rows = {save, def, 0};
    return tw_store_put_rows(save->store, table, next, &rows, save->err);
}

static enum tw_status save_definition(const struct twp_save *save, int def)
{
    enum tw_status status = TW_OK;
    for (int l = 0; l < save->p->config.layers && !status; l++)
        status = twp_save_probe(save, def, l);
    if (!status)
        status = put(save, TW_TABLE_POSITION, next_position, def);
    return status ? status : put(save, TW_TABLE_TOKEN, next_token, def);
}

static enum tw_status save_run(const struct twp_save *save)
{
    struct tw_profile_totals t;
    tw_profile_totals(save->p, &t);
    int has_loss = save->p->config.with_loss;
    const struct {
        const char *column;
        int64_t value;
    } row[] = {
        {"tokens", t.tokens},
        {"skipped", t.skipped},
        {"sequences", t.sequences},
        {"documents", t.documents},
        {"predicted", has_loss ? t.predicted : TW_NULL},
        {"sum_nll", has_loss ? t.sum_nll : TW_NULL},
        {"overflow_rows", t.overflow_rows},
    };
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < sizeof row / sizeof row[0] && !status; i++)
        status = tw_store_set_int(save->store, save->run, row[i].column,
                                  row[i].value, save->err);
    return status;
}

enum tw_status twp_save_all(const struct twp_save *save)
{
    enum tw_status status =
        tw_store_run_clear(save->store, save->run, save->err);
    for (int def = 0; def < save->p->config.probes && !status; def++)
        status = save_definition(save, def);
    for (int l = 0; l < save->p->config.layers && !status; l++)
        status = twp_save_layer(save, l);
    if (!status)
        status = put(save, TW_TABLE_DOCUMENT, next_document, 0);
    if (!status)
        status = save_run(save);
    return status;
}

enum tw_status tw_profile_save(const struct tw_profile *p,
                               struct tw_store *store, int64_t run,
                               struct tw_error *err)
{
    struct twp_save save = {p, store, run, NULL, err};
    return twp_save_all(&save);
}
