/* neuron_tokens: for each neuron and token how often the one fired on the
 * other, from the active sets. A layer's firings become keys (neuron, token)
 * that are sorted and counted; a layer with many of them is gone through once
 * for each range of neurons that fits. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/batch.h"
#include "base/memory.h"
#include "db/vtab.h"
#include "db/vtab_plan.h"

#define KEYS_AT_ONCE ((size_t)1 << 24)

static const char schema[] =
    "CREATE TABLE x(run TEXT, layer INTEGER, expert INTEGER, neuron INTEGER,"
    " token_id INTEGER, token TEXT, fired INTEGER, count INTEGER, rate REAL)";
static const enum twp_role roles[] = {
    TWP_RUN,   TWP_LAYER, TWP_EXPERT, TWP_NEURON, TWP_TOKEN,
    TWP_PIECE, TWP_FIRED, TWP_COUNT,  TWP_RATE};
enum { COLUMNS = sizeof roles / sizeof *roles };

struct vtab {
    sqlite3_vtab base;
    sqlite3 *db;
};

struct cursor {
    sqlite3_vtab_cursor base;
    struct twp_plan plan;
    struct twp_ledger_run *runs;
    int n_runs, run;
    int64_t layer;
    int64_t next_neuron;  /* where the layer's next pass begins */
    uint64_t *key;        /* neuron << 32 | token, sorted */
    size_t keys, keys_room, at, fired; /* current: key[at .. at + fired) */
    sqlite3_stmt *token;  /* its piece and count */
    int64_t count;        /* of the current token */
    const char *piece;    /* owned by `token` */
    bool is_end;
};

static sqlite3 *db_of(const struct cursor *c)
{
    return ((const struct vtab *)c->base.pVtab)->db;
}

static const struct twp_ledger_run *run_of(const struct cursor *c)
{
    return &c->runs[c->run];
}

static void drop_all(struct cursor *c)
{
    sqlite3_finalize(c->token);
    twp_ledger_runs_free(c->runs, c->n_runs);
    twp_plan_fini(&c->plan);
    tw_free(c->key);
    sqlite3_vtab_cursor base = c->base;
    memset(c, 0, sizeof *c);
    c->base = base;
}

/* --- One pass over a layer --- */

/* Counted rows' firings of neurons in [low, *high); where they are too many,
 * *high comes down to what fits and the keys beyond it are dropped. */
static enum tw_status take_sets(struct cursor *c, const struct twp_rows *rows,
                                const struct twp_sets *sets, int64_t low,
                                int64_t *high, struct tw_error *err)
{
    for (uint32_t r = 0; sets->neuron && r < rows->rows; r++) {
        uint32_t token = rows->token.value[r];
        if (rows->row_class.value[r] & TW_ROW_SKIPPED ||
            !twp_in_range(c->plan.range[TWP_TOKEN], token))
            continue;
        size_t most = sets->start[r + 1] - sets->start[r];
        if (tw_grow((void **)&c->key, &c->keys_room, c->keys + most,
                    sizeof *c->key) != 0)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
        for (uint32_t i = sets->start[r]; i < sets->start[r + 1]; i++)
            if (sets->neuron[i] >= low && sets->neuron[i] < *high)
                c->key[c->keys++] = (uint64_t)sets->neuron[i] << 32 | token;
    }
    while (c->keys > KEYS_AT_ONCE && *high - low > 1) {
        size_t kept = 0;
        *high = low + (*high - low) / 2;
        for (size_t i = 0; i < c->keys; i++)
            if ((int64_t)(c->key[i] >> 32) < *high)
                c->key[kept++] = c->key[i];
        c->keys = kept;
    }
    return TW_OK;
}

static enum tw_status read_block(struct cursor *c, int64_t block, int64_t low,
                                 int64_t *high, struct tw_error *err)
{
    struct twp_rows rows = {0};
    struct twp_sets sets = {0};
    enum tw_status status =
        twp_rows_read(db_of(c), run_of(c), block, false, &rows, err);
    if (status == TW_OK)
        status = twp_sets_read(db_of(c), run_of(c), block, (int)c->layer,
                               rows.rows, &sets, err);
    if (status == TW_OK)
        status = take_sets(c, &rows, &sets, low, high, err);
    twp_sets_fini(&sets);
    twp_rows_fini(&rows);
    return status;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static enum tw_status read_layer(struct cursor *c, struct tw_error *err)
{
    static const struct twp_range all = {0, INT64_MAX};
    sqlite3_stmt *blocks = NULL;
    struct twp_range neurons = c->plan.range[TWP_NEURON];
    int64_t low = c->next_neuron > neurons.low ? c->next_neuron : neurons.low;
    int64_t high = neurons.high < run_of(c)->width ? neurons.high + 1
                                                   : run_of(c)->width;
    int code = SQLITE_DONE;
    c->keys = c->at = c->fired = 0;
    enum tw_status status =
        twp_ledger_blocks(db_of(c), run_of(c)->id, all, all, &blocks, err);
    while (status == TW_OK && low < high &&
           (code = sqlite3_step(blocks)) == SQLITE_ROW)
        status = read_block(c, sqlite3_column_int64(blocks, 0), low, &high,
                            err);
    if (status == TW_OK && code != SQLITE_DONE)
        status = twp_read_failed(db_of(c), err);
    sqlite3_finalize(blocks);
    if (status == TW_OK && c->keys > 0)
        qsort(c->key, c->keys, sizeof *c->key, ascending);
    c->next_neuron = low < high ? high : run_of(c)->width;
    return status;
}

/* --- Moving on --- */

static enum tw_status look_up(struct cursor *c, struct tw_error *err)
{
    if (!c->token &&
        sqlite3_prepare_v2(db_of(c),
                           "SELECT t.count, p.token FROM token_ t JOIN run_ r"
                           " USING (run_id) LEFT JOIN piece_ p ON"
                           " p.tokenizer_id = r.tokenizer_id AND p.token_id ="
                           " t.token_id WHERE t.run_id = ?1 AND t.def_ord = 0"
                           " AND t.token_id = ?2",
                           -1, &c->token, NULL) != SQLITE_OK)
        return twp_read_failed(db_of(c), err);
    sqlite3_reset(c->token);
    sqlite3_bind_int64(c->token, 1, run_of(c)->id);
    sqlite3_bind_int64(c->token, 2, (int64_t)(uint32_t)c->key[c->at]);
    c->count = 0;
    c->piece = NULL;
    int code = sqlite3_step(c->token);
    if (code == SQLITE_ROW) {
        c->count = sqlite3_column_int64(c->token, 0);
        c->piece = (const char *)sqlite3_column_text(c->token, 1);
    }
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? TW_OK
               : twp_read_failed(db_of(c), err);
}

static enum tw_status advance(struct cursor *c, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    c->at += c->fired;
    c->fired = 0;
    while (status == TW_OK && c->at >= c->keys) {
        if (c->run < 0 || c->next_neuron >= run_of(c)->width) {
            c->layer++;
            c->next_neuron = 0;
        }
        while (c->run < 0 || c->layer >= run_of(c)->layers ||
               c->layer > c->plan.range[TWP_LAYER].high) {
            c->is_end = ++c->run >= c->n_runs;
            if (c->is_end)
                return TW_OK;
            c->layer = c->plan.range[TWP_LAYER].low;
        }
        status = read_layer(c, err);
    }
    if (status != TW_OK)
        return status;
    while (c->at + c->fired < c->keys &&
           c->key[c->at + c->fired] == c->key[c->at])
        c->fired++;
    return look_up(c, err);
}

/* --- SQLite's side --- */

static int connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                   sqlite3_vtab **out, char **message)
{
    (void)aux, (void)argc, (void)argv, (void)message;
    int code = twp_vtab_make(db, schema, sizeof(struct vtab), out);
    if (code != SQLITE_OK)
        return code;
    struct vtab *vtab = (struct vtab *)*out;
    vtab->db = db;
    return SQLITE_OK;
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    (void)base;
    return twp_plan_choose(info, roles, COLUMNS);
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    (void)vtab;
    return twp_cursor_make(sizeof(struct cursor), out);
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    drop_all((struct cursor *)base);
    sqlite3_free(base);
    return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base)
{
    struct tw_error err = {0};
    return advance((struct cursor *)base, &err) == TW_OK
               ? SQLITE_OK
               : twp_vtab_fail(base->pVtab, &err);
}

static int filter(sqlite3_vtab_cursor *base, int used, const char *chosen,
                  int count, sqlite3_value **values)
{
    struct cursor *c = (struct cursor *)base;
    struct tw_error err = {0};
    (void)used;
    drop_all(c);
    c->run = -1;
    enum tw_status status =
        twp_plan_read(&c->plan, chosen, count, values, &err);
    c->is_end = c->plan.is_empty;
    if (status == TW_OK && !c->is_end)
        status = twp_ledger_runs(db_of(c), c->plan.run, &c->runs, &c->n_runs,
                                 &err);
    if (status != TW_OK)
        return twp_vtab_fail(base->pVtab, &err);
    return c->is_end ? SQLITE_OK : next(base);
}

static int eof(sqlite3_vtab_cursor *base)
{
    return ((struct cursor *)base)->is_end;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i)
{
    const struct cursor *c = (struct cursor *)base;
    const struct twp_ledger_run *run = run_of(c);
    int64_t neuron = (int64_t)(c->key[c->at] >> 32);
    switch (roles[i]) {
    case TWP_RUN:
        sqlite3_result_text(context, run->name, -1, SQLITE_TRANSIENT);
        break;
    case TWP_LAYER:
        sqlite3_result_int64(context, c->layer);
        break;
    case TWP_EXPERT:
        if (run->experts > 0)
            sqlite3_result_int64(context,
                                 neuron / (run->width / run->experts));
        break;
    case TWP_NEURON:
        sqlite3_result_int64(context, neuron);
        break;
    case TWP_TOKEN:
        sqlite3_result_int64(context, (int64_t)(uint32_t)c->key[c->at]);
        break;
    case TWP_PIECE:
        if (c->piece)
            sqlite3_result_text(context, c->piece, -1, SQLITE_TRANSIENT);
        break;
    case TWP_FIRED:
        sqlite3_result_int64(context, (int64_t)c->fired);
        break;
    case TWP_COUNT:
        if (c->count > 0)
            sqlite3_result_int64(context, c->count);
        break;
    default: /* TWP_RATE */
        if (c->count > 0)
            sqlite3_result_double(context,
                                  (double)c->fired / (double)c->count);
    }
    return SQLITE_OK;
}

/* Of the row's key alone: SQLite joins the branches of an OR by it. Run 7 bits,
 * layer 12, neuron 24, token 20. */
static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *id)
{
    const struct cursor *c = (struct cursor *)base;
    uint64_t key = c->key[c->at];
    *id = (sqlite3_int64)((uint64_t)run_of(c)->id << 56 |
                          (uint64_t)(c->layer & 0xfff) << 44 |
                          (key >> 32 & 0xffffff) << 20 | (key & 0xfffff));
    return SQLITE_OK;
}

static const sqlite3_module module = {.xConnect = connect,
                                      .xBestIndex = best_index,
                                      .xDisconnect = twp_vtab_disconnect,
                                      .xDestroy = twp_vtab_disconnect,
                                      .xOpen = open_cursor,
                                      .xClose = close_cursor,
                                      .xFilter = filter,
                                      .xNext = next,
                                      .xEof = eof,
                                      .xColumn = column,
                                      .xRowid = rowid};

int twp_vtab_pairs_register(sqlite3 *db)
{
    return sqlite3_create_module_v2(db, "neuron_tokens", &module, NULL, NULL);
}
