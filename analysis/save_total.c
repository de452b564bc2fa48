/* The rows over all layers (position_, token_), document_, run_'s totals, and
 * the save that writes everything. */
#include <config.h>

#include "analysis/profile_internal.h"
#include "analysis/store_profile.h"

#define PUT(save, table, ...)                                               \
    tw_store_put((save)->store, table, (int64_t[]){(save)->run, __VA_ARGS__}, \
                 (save)->err)

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

static enum tw_status save_position(const struct twp_save *save, int def,
                                    int64_t position)
{
    struct twp_cell all = {0};
    uint64_t max_sum = 0;
    for (int l = 0; l < save->p->config.layers; l++)
        merge(&all, &max_sum, &twp_probe(save->p, def, l)->position[position]);
    return PUT(save, TW_TABLE_POSITION, def, position,
               save->p->position_count[position], (int64_t)all.sum,
               (int64_t)(uint32_t)~all.unmin, all.max, (int64_t)max_sum);
}

static enum tw_status save_token(const struct twp_save *save, int def,
                                 int64_t id)
{
    const struct twp_token *token = &save->p->token[id];
    struct twp_cell all = {0};
    uint64_t max_sum = 0;
    for (int l = 0; l < save->p->config.layers; l++)
        merge(&all, &max_sum, &twp_probe(save->p, def, l)->token[id]);
    return PUT(save, TW_TABLE_TOKEN, def, id, token->count,
               token->in_sequences, (int64_t)all.sum, token->count_even,
               save->p->sum_even[def * save->p->config.vocab + id],
               (int64_t)(uint32_t)~all.unmin, all.max);
}

static enum tw_status save_definition(const struct twp_save *save, int def)
{
    const struct tw_profile *p = save->p;
    enum tw_status status = TW_OK;
    for (int l = 0; l < p->config.layers && !status; l++)
        status = twp_save_probe(save, def, l);
    for (int64_t i = 0; i < p->positions && !status; i++)
        if (p->position_count[i])
            status = save_position(save, def, i);
    for (int64_t t = 0; t < p->config.vocab && !status; t++)
        if (p->token[t].count)
            status = save_token(save, def, t);
    return status;
}

static enum tw_status save_documents(const struct twp_save *save)
{
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < save->p->documents && !status; i++)
        status = PUT(save, TW_TABLE_DOCUMENT, save->p->document[i].document,
                     save->p->document[i].rows,
                     save->p->document[i].sequences);
    return status;
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
        status = save_documents(save);
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
