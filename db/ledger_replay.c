/* A ledger read back as the batches it was made from, a block a batch, so that
 * what was counted can be counted again. Blocks come from strangers: what the
 * accumulators take for granted is checked here. */
#include <config.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "db/ledger.h"
#include "db/ledger_read.h"
#include "db/store_internal.h"

/* A block ends with the sequence that reaches TW_LEDGER_ROWS: a longer one than
 * this is no program's, and each row takes memory in every layer. */
enum { MAX_ROWS = 1 << 22 };

struct replay {
    struct tw_store *store;
    const struct twp_ledger_run *run;
    struct tw_ledger_block block; /* what the callback gets */
    struct twp_rows rows;
    struct tw_section sequence[3]; /* steps, starts, lengths */
    struct tw_layer_obs *obs;      /* [layers] */
    float *nll;
    int64_t *offset, *start;
};

static enum tw_status damaged(const struct replay *r, const char *what,
                              struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_FORMAT, "ledger block %lld: %s",
                        (long long)r->rows.block, what);
}

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

static void drop_block(struct replay *r)
{
    for (int64_t l = 0; r->obs && l < r->run->layers; l++)
        tw_layer_obs_fini(&r->obs[l]);
    tw_free(r->obs);
    tw_free(r->nll);
    tw_free(r->offset);
    tw_free(r->start);
    for (int i = 0; i < 3; i++)
        tw_free(r->sequence[i].value);
    twp_rows_fini(&r->rows);
    r->obs = NULL;
    r->nll = NULL;
    r->offset = r->start = NULL;
    memset(r->sequence, 0, sizeof r->sequence);
}

/* --- Sequences, tokens, losses --- */

/* Ascending, none twice, as the accumulators want them. */
static enum tw_status read_places(struct replay *r, struct tw_error *err)
{
    size_t seqs = r->rows.seqs;
    bool is_there = false;
    for (int i = 0; i < 3; i++)
        r->sequence[i] = (struct tw_section){4, r->rows.seqs, NULL};
    enum tw_status status =
        twp_blob_read(r->store->db, r->rows.block, TW_LEDGER_SEQUENCES, 0, -1,
                      r->sequence, 3, &is_there, err);
    if (status != TW_OK || !is_there) {
        memset(r->sequence, 0, sizeof r->sequence);
        return status == TW_OK ? damaged(r, "no sequences", err) : status;
    }
    r->offset = tw_alloc(seqs + 1, sizeof *r->offset);
    r->start = tw_alloc(seqs, sizeof *r->start);
    if (!r->offset || !r->start)
        return no_memory(err);
    for (size_t i = 0; i <= seqs; i++)
        r->offset[i] = r->rows.first[i];
    for (size_t i = 0; i < seqs; i++) {
        int64_t document = r->rows.document[i];
        r->start[i] = r->sequence[1].value[i];
        bool follows =
            i == 0 || document > r->rows.document[i - 1] ||
            r->start[i] >= r->start[i - 1] + r->sequence[2].value[i - 1];
        if (document < 0 || document > INT64_MAX / 2 || !follows ||
            r->offset[i + 1] == r->offset[i])
            return damaged(r, "sequences do not ascend", err);
    }
    return TW_OK;
}

static enum tw_status read_rows(struct replay *r, int64_t block,
                                struct tw_error *err)
{
    enum tw_status status =
        twp_rows_read(r->store->db, r->run, block, true, &r->rows, err);
    if (status == TW_OK && r->rows.rows > MAX_ROWS)
        status = damaged(r, "too many rows", err);
    if (status == TW_OK)
        status = read_places(r, err);
    if (status != TW_OK)
        return status;
    for (uint32_t i = 0; i < r->rows.rows; i++)
        if ((r->rows.row_class.value[i] & TW_ROW_CLASS_MASK) >=
                TW_ROW_CLASSES ||
            r->rows.token.value[i] > INT32_MAX)
            return damaged(r, "a row's class or token", err);
    if (r->rows.nll.value) {
        r->nll = tw_alloc(r->rows.rows, sizeof *r->nll);
        if (!r->nll)
            return no_memory(err);
        memcpy(r->nll, r->rows.nll.value, r->rows.rows * sizeof *r->nll);
    }
    return TW_OK;
}

static bool is_skipped(const struct replay *r, uint32_t row)
{
    return r->rows.row_class.value[row] & TW_ROW_SKIPPED;
}

/* --- One layer --- */

static void add_firing(struct tw_layer_obs *obs, uint32_t neuron, uint32_t row)
{
    if (obs->fired[neuron]++ == 0)
        obs->first[neuron] = row;
    obs->last[neuron] = row;
}

static enum tw_status read_counts(struct replay *r, int layer,
                                  struct tw_layer_obs *obs,
                                  struct tw_error *err)
{
    uint32_t rows = r->rows.rows;
    enum tw_status status = TW_OK;
    for (int def = 0; def < r->run->actives && status == TW_OK; def++) {
        struct tw_section nnz = {0};
        status = twp_column_read(r->store->db, r->rows.block, TW_LEDGER_NNZ,
                                 def, layer, 4, rows, &nnz, err);
        for (uint32_t i = 0; nnz.value && status == TW_OK && i < rows; i++)
            if (nnz.value[i] > r->run->width)
                status = damaged(r, "more non-zeros than neurons", err);
        if (status == TW_OK && nnz.value)
            memcpy(obs->nnz + (size_t)def * rows, nnz.value,
                   rows * sizeof *nnz.value);
        r->block.has_nnz &= nnz.value != NULL;
        tw_free(nnz.value);
    }
    return status;
}

static enum tw_status read_l1(struct replay *r, int layer,
                              struct tw_layer_obs *obs, struct tw_error *err)
{
    struct tw_section l1 = {0};
    enum tw_status status =
        twp_column_read(r->store->db, r->rows.block, TW_LEDGER_L1, 0, layer, 2,
                        r->rows.rows, &l1, err);
    for (uint32_t i = 0; l1.value && i < r->rows.rows; i++)
        obs->l1[i] = tw_ledger_widen(l1.value[i]);
    r->block.has_l1 &= l1.value != NULL;
    tw_free(l1.value);
    return status;
}

static enum tw_status read_set(struct replay *r, int layer,
                               struct tw_layer_obs *obs, struct tw_error *err)
{
    struct twp_sets sets = {0};
    enum tw_status status = twp_sets_read(r->store->db, r->run, r->rows.block,
                                          layer, r->rows.rows, &sets, err);
    for (uint32_t i = 0; sets.neuron && i < r->rows.rows; i++)
        for (uint32_t k = sets.start[i]; k < sets.start[i + 1]; k++)
            if (!is_skipped(r, i))
                add_firing(obs, sets.neuron[k], i);
    r->block.has_sets &= sets.neuron != NULL;
    twp_sets_fini(&sets);
    return status;
}

/* Firings of one watched neuron: *at is its first step. Where sets have told
 * already, they must agree. */
static enum tw_status take_watch(struct replay *r, struct tw_layer_obs *obs,
                                 uint32_t neuron, const uint32_t *step,
                                 uint32_t firings, bool *is_watched,
                                 struct tw_error *err)
{
    uint64_t row = 0, counted = 0;
    if (neuron >= r->run->width || *is_watched)
        return damaged(r, "a watched neuron", err);
    *is_watched = true;
    for (uint32_t i = 0; i < firings; i++, row++) {
        row += step[i];
        if (row >= r->rows.rows)
            return damaged(r, "a watched neuron's row", err);
        if (is_skipped(r, (uint32_t)row))
            continue;
        counted++;
        if (!r->block.has_sets)
            add_firing(obs, neuron, (uint32_t)row);
    }
    return counted == obs->fired[neuron]
               ? TW_OK
               : damaged(r, "watched firings differ from the active sets", err);
}

static enum tw_status read_watch(struct replay *r, int layer,
                                 struct tw_layer_obs *obs, struct tw_error *err)
{
    uint32_t width = (uint32_t)r->run->width;
    struct tw_section s[4] = {{4, width, NULL},
                              {4, width, NULL},
                              {4, TW_LEDGER_LIMIT, NULL},
                              {4, TW_LEDGER_LIMIT, NULL}};
    bool is_there = false;
    uint64_t at = 0;
    enum tw_status status =
        twp_blob_read(r->store->db, r->rows.block, TW_LEDGER_WATCH, 0, layer, s,
                      4, &is_there, err);
    if (status != TW_OK || !is_there)
        return status;
    bool *watched = tw_calloc(width, sizeof *watched);
    if (!watched)
        status = no_memory(err);
    if (status == TW_OK && s[0].count != s[1].count)
        status = damaged(r, "watched neurons", err);
    for (uint32_t i = 0; status == TW_OK && i < s[0].count; i++) {
        uint32_t firings = s[1].value[i];
        if (at + firings > s[2].count)
            status = damaged(r, "watched firings", err);
        else
            status = take_watch(
                r, obs, s[0].value[i], s[2].value + at, firings,
                &watched[s[0].value[i] < width ? s[0].value[i] : 0], err);
        at += firings;
    }
    for (uint32_t n = 0; watched && status == TW_OK && n < width; n++)
        r->block.watched[(size_t)layer * width + n] |= watched[n];
    tw_free(watched);
    for (int i = 0; i < 4; i++)
        tw_free(s[i].value);
    return status;
}

static enum tw_status read_layer(struct replay *r, int layer,
                                 struct tw_error *err)
{
    struct tw_layer_obs *obs = &r->obs[layer];
    enum tw_status status = tw_layer_obs_init(obs, r->rows.rows, r->run->width,
                                              r->run->actives, 1, false, err);
    if (status != TW_OK)
        return status;
    tw_layer_obs_reset(obs, r->rows.rows);
    for (uint32_t i = 0; i < r->rows.rows; i++)
        obs->seen[0] += !is_skipped(r, i);
    status = read_counts(r, layer, obs, err);
    if (status == TW_OK)
        status = read_l1(r, layer, obs, err);
    if (status == TW_OK)
        status = read_set(r, layer, obs, err);
    return status == TW_OK ? read_watch(r, layer, obs, err) : status;
}

/* --- All blocks --- */

static enum tw_status replay_block(struct replay *r, int64_t block,
                                   tw_ledger_fn *fn, void *arg,
                                   struct tw_error *err)
{
    struct tw_batch batch;
    struct tw_head_obs head;
    uint8_t *classes = NULL;
    enum tw_status status = read_rows(r, block, err);
    if (status == TW_OK) {
        r->obs = tw_calloc((size_t)r->run->layers, sizeof *r->obs);
        classes = tw_alloc(r->rows.rows, 1);
        if (!r->obs || !classes)
            status = no_memory(err);
    }
    for (int l = 0; l < r->run->layers && status == TW_OK; l++)
        status = read_layer(r, l, err);
    if (status == TW_OK) {
        for (uint32_t i = 0; i < r->rows.rows; i++)
            classes[i] = (uint8_t)r->rows.row_class.value[i];
        batch = (struct tw_batch){.rows = r->rows.rows,
                                  .seqs = r->rows.seqs,
                                  .offset = r->offset,
                                  .document = r->rows.document,
                                  .start = r->start,
                                  .token = (int32_t *)r->rows.token.value,
                                  .row_class = classes};
        head = (struct tw_head_obs){r->nll};
        r->block.batch = &batch;
        r->block.obs = r->obs;
        r->block.head = &head;
        status = fn(arg, &r->block, err);
    }
    tw_free(classes);
    drop_block(r);
    return status;
}

static enum tw_status replay_run(struct replay *r, tw_ledger_fn *fn, void *arg,
                                 struct tw_error *err)
{
    static const struct twp_range all = {INT64_MIN, INT64_MAX};
    sqlite3_stmt *blocks = NULL;
    int code = SQLITE_DONE;
    r->block.watched = tw_calloc((size_t)r->run->layers, (size_t)r->run->width);
    if (!r->block.watched)
        return no_memory(err);
    enum tw_status status =
        twp_ledger_blocks(r->store->db, r->run->id, all, all, &blocks, err);
    while (status == TW_OK && (code = sqlite3_step(blocks)) == SQLITE_ROW) {
        r->block.has_nnz = r->block.has_l1 = r->block.has_sets = true;
        status = replay_block(r, sqlite3_column_int64(blocks, 0), fn, arg, err);
    }
    if (status == TW_OK && code != SQLITE_DONE)
        status = twp_read_failed(r->store->db, err);
    sqlite3_finalize(blocks);
    tw_free(r->block.watched);
    return status;
}

enum tw_status tw_ledger_replay(struct tw_store *store, const char *name,
                                tw_ledger_fn *fn, void *arg,
                                struct tw_error *err)
{
    struct twp_ledger_run *runs;
    int count;
    enum tw_status status =
        twp_ledger_runs(store->db, name, &runs, &count, err);
    for (int i = 0; i < count && status == TW_OK; i++) {
        struct replay r = {.store = store, .run = &runs[i]};
        status = replay_run(&r, fn, arg, err);
    }
    twp_ledger_runs_free(runs, count);
    return status;
}
