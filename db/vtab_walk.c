/* token_activity, active_neurons, watched: the cursor decodes a layer of a
 * block when it comes to it and skips what no row can match. What it decoded
 * last stays for the next search: a join looks for one row of a sequence after
 * another. */
#include <config.h>

#include <string.h>

#include "base/batch.h"
#include "base/memory.h"
#include "db/vtab_walk.h"

static bool reads(const struct twp_walk *c, enum twp_role role)
{
    const struct twp_table *table = twp_walk_vtab(c)->table;
    for (int i = 0; i < table->columns; i++)
        if (table->role[i] == role)
            return c->used >> i & 1;
    return false;
}

/* --- Letting go, from the inside out --- */

static void drop_column(struct twp_walk *c)
{
    tw_free(c->nnz.value);
    tw_free(c->l1.value);
    c->nnz.value = c->l1.value = NULL;
    twp_sets_fini(&c->sets);
    for (int i = 0; i < 4; i++) {
        tw_free(c->watch[i].value);
        c->watch[i] = (struct tw_section){0};
    }
    c->has_column = c->is_decoded = false;
}

void twp_walk_fini(struct twp_walk *c)
{
    drop_column(c);
    twp_rows_fini(&c->rows);
    sqlite3_finalize(c->blocks);
    c->blocks = NULL;
    twp_ledger_runs_free(c->runs, c->n_runs);
    c->runs = NULL;
    c->n_runs = 0;
    twp_plan_fini(&c->plan);
}

/* --- One layer of one block --- */

static enum tw_status read_rows_column(struct twp_walk *c, bool *is_there,
                                       struct tw_error *err)
{
    sqlite3 *db = twp_walk_vtab(c)->db;
    enum tw_status status =
        twp_column_read(db, c->rows.block, TW_LEDGER_NNZ, c->def, (int)c->layer,
                        4, c->rows.rows, &c->nnz, err);
    *is_there = status == TW_OK && c->nnz.value != NULL;
    if (*is_there && reads(c, TWP_L1))
        status = twp_column_read(db, c->rows.block, TW_LEDGER_L1, 0,
                                 (int)c->layer, 2, c->rows.rows, &c->l1, err);
    return status;
}

static enum tw_status read_watch_column(struct twp_walk *c, bool *is_there,
                                        struct tw_error *err)
{
    uint32_t width = (uint32_t)twp_walk_run(c)->width;
    struct tw_section s[4] = {{4, width, NULL},
                              {4, width, NULL},
                              {4, TW_LEDGER_LIMIT, NULL},
                              {4, TW_LEDGER_LIMIT, NULL}};
    enum tw_status status =
        twp_blob_read(twp_walk_vtab(c)->db, c->rows.block, TW_LEDGER_WATCH, 0,
                      (int)c->layer, s, 4, is_there, err);
    if (status != TW_OK || !*is_there)
        return status;
    memcpy(c->watch, s, sizeof s);
    uint64_t total = 0;
    bool is_sound = s[0].count == s[1].count && s[2].count == s[3].count;
    for (uint32_t i = 0; is_sound && i < s[1].count; i++)
        total += s[1].value[i];
    return is_sound && total == s[2].count
               ? TW_OK
               : tw_error_set(err, TW_ERR_FORMAT,
                              "ledger block %lld is damaged",
                              (long long)c->rows.block);
}

/* The rows of the block that the plan's sequence and position leave. */
static void choose_rows(struct twp_walk *c)
{
    struct twp_range wanted = c->plan.range[TWP_SEQUENCE];
    struct twp_range at = c->plan.range[TWP_POSITION];
    uint32_t from = 0, seq = 0;
    c->end = c->rows.rows;
    if (wanted.low == wanted.high) {
        while (seq < c->rows.seqs && c->rows.sequence[seq] != wanted.low)
            seq++;
        from = c->rows.first[seq];
        c->end = seq < c->rows.seqs ? c->rows.first[seq + 1] : from;
        if (at.high < (int64_t)(c->end - from))
            c->end = from + (uint32_t)(at.high < 0 ? 0 : at.high + 1);
        if (at.low > 0)
            from += at.low < (int64_t)(c->end - from) ? (uint32_t)at.low
                                                      : c->end - from;
    }
    c->row = from - 1; /* before the first; wraps */
}

static enum tw_status decode_column(struct twp_walk *c, struct tw_error *err)
{
    bool is_there = false;
    enum tw_status status = TW_OK;
    enum twp_grain grain = twp_walk_vtab(c)->table->grain;
    drop_column(c);
    if (grain == TWP_GRAIN_ROW) {
        status = read_rows_column(c, &is_there, err);
    } else if (grain == TWP_GRAIN_WATCH) {
        status = read_watch_column(c, &is_there, err);
    } else {
        status =
            twp_sets_read(twp_walk_vtab(c)->db, twp_walk_run(c), c->rows.block,
                          (int)c->layer, c->rows.rows, &c->sets, err);
        is_there = c->sets.neuron != NULL;
    }
    c->is_decoded = status == TW_OK && is_there;
    c->decoded_layer = c->layer;
    c->decoded_def = c->def;
    return status;
}

static enum tw_status read_column(struct twp_walk *c, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (!c->is_decoded || c->decoded_layer != c->layer ||
        c->decoded_def != c->def)
        status = decode_column(c, err);
    c->has_column = c->is_decoded;
    choose_rows(c);
    c->is_fresh = true;
    c->entry = c->of = UINT32_MAX; /* before the first; WATCH: of all */
    c->left = 0;
    return status;
}

/* --- Moving on, from the inside out --- */

static bool row_matches(const struct twp_walk *c)
{
    uint32_t seq = c->rows.seq[c->row];
    const struct twp_range *range = c->plan.range;
    return twp_in_range(range[TWP_TOKEN], c->rows.token.value[c->row]) &&
           twp_in_range(range[TWP_POSITION], twp_walk_position(c)) &&
           twp_in_range(range[TWP_SEQUENCE], c->rows.sequence[seq]) &&
           twp_in_range(range[TWP_DOCUMENT], c->rows.document[seq]);
}

static bool next_row(struct twp_walk *c)
{
    while (++c->row < c->end)
        if (row_matches(c))
            return true;
    return false;
}

static bool next_in_set(struct twp_walk *c)
{
    for (;;) {
        if (c->is_fresh || c->entry + 1 >= c->sets.start[c->row + 1]) {
            if (!next_row(c))
                return false;
            c->is_fresh = false;
            c->entry = c->sets.start[c->row] - 1; /* wraps before entry 0 */
        }
        while (c->entry + 1 < c->sets.start[c->row + 1]) {
            uint32_t neuron = c->sets.neuron[++c->entry];
            if (twp_in_range(c->plan.range[TWP_NEURON], neuron))
                return true;
        }
    }
}

/* Firings stand neuron by neuron, rows as steps. */
static bool next_firing(struct twp_walk *c)
{
    for (;;) {
        while (c->left == 0) {
            if (++c->of >= c->watch[0].count)
                return false;
            c->left = c->watch[1].value[c->of];
            c->row = UINT32_MAX;
        }
        c->left--;
        uint64_t row =
            (uint64_t)(uint32_t)(c->row + 1) + c->watch[2].value[++c->entry];
        if (row >= c->rows.rows) { /* damaged: no further row of this neuron */
            c->entry += c->left;
            c->left = 0;
            continue;
        }
        c->row = (uint32_t)row;
        if (twp_in_range(c->plan.range[TWP_NEURON], c->watch[0].value[c->of]) &&
            row_matches(c))
            return true;
    }
}

static bool next_cell(struct twp_walk *c)
{
    switch (twp_walk_vtab(c)->table->grain) {
    case TWP_GRAIN_ROW:
        return next_row(c);
    case TWP_GRAIN_SET:
        return next_in_set(c);
    default:
        return next_firing(c);
    }
}

/* The next definition or layer of the block; false: none is left. */
static bool next_layer(struct twp_walk *c)
{
    const struct twp_ledger_run *run = twp_walk_run(c);
    int defs =
        twp_walk_vtab(c)->table->grain == TWP_GRAIN_ROW ? run->actives : 1;
    for (;;) {
        if (++c->def >= defs) {
            c->def = 0;
            c->layer++;
        }
        if (c->layer >= run->layers ||
            c->layer > c->plan.range[TWP_LAYER].high || defs == 0)
            return false;
        if (!c->plan.active ||
            twp_walk_vtab(c)->table->grain != TWP_GRAIN_ROW ||
            strcmp(c->plan.active, run->active[c->def]) == 0)
            return true;
    }
}

static enum tw_status open_run(struct twp_walk *c, struct tw_error *err)
{
    sqlite3_finalize(c->blocks);
    c->blocks = NULL;
    return twp_ledger_blocks(twp_walk_vtab(c)->db, twp_walk_run(c)->id,
                             c->plan.range[TWP_SEQUENCE],
                             c->plan.range[TWP_DOCUMENT], &c->blocks, err);
}

static void begin_block(struct twp_walk *c)
{
    c->layer = c->plan.range[TWP_LAYER].low;
    c->def = -1;
}

/* The next block of this run or a later one; is_end: none is left, and what is
 * decoded of the last one stays. */
static enum tw_status next_block(struct twp_walk *c, struct tw_error *err)
{
    c->has_column = false;
    for (;;) {
        int code = c->blocks ? sqlite3_step(c->blocks) : SQLITE_DONE;
        if (code == SQLITE_ROW)
            break;
        if (code != SQLITE_DONE)
            return twp_read_failed(twp_walk_vtab(c)->db, err);
        c->is_end = ++c->run >= c->n_runs;
        enum tw_status status = c->is_end ? TW_OK : open_run(c, err);
        if (status != TW_OK || c->is_end)
            return status;
    }
    begin_block(c);
    drop_column(c);
    twp_rows_fini(&c->rows);
    bool wants_nll = reads(c, TWP_NLL_SELF) || reads(c, TWP_NLL_NEXT);
    return twp_rows_read(twp_walk_vtab(c)->db, twp_walk_run(c),
                         sqlite3_column_int64(c->blocks, 0), wants_nll,
                         &c->rows, err);
}

enum tw_status twp_walk_next(struct twp_walk *c, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    while (status == TW_OK && !c->is_end) {
        if (c->has_column && next_cell(c))
            return TW_OK;
        if (c->rows.rows > 0 && next_layer(c))
            status = read_column(c, err);
        else
            status = next_block(c, err);
    }
    return status;
}

/* --- A search --- */

/* Is all that the plan wants in the cursor's block? A sequence is of one. */
static bool is_here(const struct twp_walk *c, const struct twp_plan *plan,
                    uint32_t used)
{
    struct twp_range wanted = plan->range[TWP_SEQUENCE];
    if (c->rows.rows == 0 || c->n_runs != 1 || used != c->used || !plan->run ||
        !c->plan.run || strcmp(plan->run, c->plan.run) != 0 ||
        wanted.low != wanted.high)
        return false;
    for (uint32_t seq = 0; seq < c->rows.seqs; seq++)
        if (c->rows.sequence[seq] == wanted.low)
            return true;
    return false;
}

/* The plan becomes the cursor's, which searches its block alone. */
static void search_here(struct twp_walk *c, const struct twp_plan *plan)
{
    twp_plan_fini(&c->plan);
    c->plan = *plan;
    sqlite3_finalize(c->blocks);
    c->blocks = NULL;
    c->has_column = false;
    c->run = 0;
    begin_block(c);
}

enum tw_status twp_walk_start(struct twp_walk *c, const struct twp_plan *plan,
                              uint32_t used, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (!plan->is_empty && is_here(c, plan, used)) {
        search_here(c, plan);
    } else {
        twp_walk_fini(c);
        c->plan = *plan;
        c->used = used;
        c->run = -1;
        if (!plan->is_empty)
            status = twp_ledger_runs(twp_walk_vtab(c)->db, c->plan.run,
                                     &c->runs, &c->n_runs, err);
    }
    c->is_end = plan->is_empty;
    return status == TW_OK ? twp_walk_next(c, err) : status;
}
