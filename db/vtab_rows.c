/* token_activity, active_neurons, watched: one cursor over runs, blocks,
 * layers, definitions and rows, which decodes a layer of a block when it comes
 * to it and skips what no row can match. */
#include <config.h>

#include <math.h>
#include <string.h>

#include "base/batch.h"
#include "base/memory.h"
#include "db/vtab.h"
#include "db/vtab_plan.h"

enum { MAX_COLUMNS = 14 };

/* What a row of the table is. */
enum grain { GRAIN_ROW, GRAIN_SET, GRAIN_WATCH };

struct table {
    const char *name, *schema;
    enum grain grain;
    int columns;
    enum twp_role role[MAX_COLUMNS];
};

static const struct table tables[] = {
    {"token_activity",
     "CREATE TABLE x(run TEXT, active TEXT, sequence INTEGER, document INTEGER,"
     " position INTEGER, layer INTEGER, token_id INTEGER, class TEXT,"
     " nnz INTEGER, l1 REAL, nll_self REAL, nll_next REAL, skipped INTEGER)",
     GRAIN_ROW,
     13,
     {TWP_RUN, TWP_ACTIVE, TWP_SEQUENCE, TWP_DOCUMENT, TWP_POSITION, TWP_LAYER,
      TWP_TOKEN, TWP_CLASS, TWP_NNZ, TWP_L1, TWP_NLL_SELF, TWP_NLL_NEXT,
      TWP_SKIPPED}},
    {"active_neurons",
     "CREATE TABLE x(run TEXT, sequence INTEGER, position INTEGER,"
     " layer INTEGER, expert INTEGER, neuron INTEGER, value REAL,"
     " document INTEGER, token_id INTEGER)",
     GRAIN_SET,
     9,
     {TWP_RUN, TWP_SEQUENCE, TWP_POSITION, TWP_LAYER, TWP_EXPERT, TWP_NEURON,
      TWP_VALUE, TWP_DOCUMENT, TWP_TOKEN}},
    {"watched",
     "CREATE TABLE x(run TEXT, sequence INTEGER, document INTEGER,"
     " position INTEGER, layer INTEGER, expert INTEGER, neuron INTEGER,"
     " token_id INTEGER, value REAL)",
     GRAIN_WATCH,
     9,
     {TWP_RUN, TWP_SEQUENCE, TWP_DOCUMENT, TWP_POSITION, TWP_LAYER, TWP_EXPERT,
      TWP_NEURON, TWP_TOKEN, TWP_VALUE}},
};

struct vtab {
    sqlite3_vtab base;
    sqlite3 *db;
    const struct table *table;
};

struct cursor {
    sqlite3_vtab_cursor base;
    struct twp_plan plan;
    uint32_t used; /* columns that the query reads */
    struct twp_ledger_run *runs;
    int n_runs;
    sqlite3_stmt *blocks; /* of the current run */
    struct twp_rows rows; /* of the current block */
    int64_t layer;
    int run, def;         /* current ones */
    struct tw_section nnz, l1;  /* GRAIN_ROW: of layer and definition */
    struct twp_sets sets;       /* GRAIN_SET */
    struct tw_section watch[4]; /* GRAIN_WATCH */
    uint32_t row;   /* current row of the block */
    uint32_t entry; /* SET: current entry; WATCH: current firing */
    uint32_t of, left; /* WATCH: current neuron's place, its firings left */
    bool has_column;   /* a layer is decoded */
    bool is_end;
};

static const struct vtab *vtab_of(const struct cursor *c)
{
    return (const struct vtab *)c->base.pVtab;
}

static const struct twp_ledger_run *run_of(const struct cursor *c)
{
    return &c->runs[c->run];
}

static bool reads(const struct cursor *c, enum twp_role role)
{
    const struct table *table = vtab_of(c)->table;
    for (int i = 0; i < table->columns; i++)
        if (table->role[i] == role)
            return c->used >> i & 1;
    return false;
}

/* --- Letting go, from the inside out --- */

static void drop_column(struct cursor *c)
{
    tw_free(c->nnz.value);
    tw_free(c->l1.value);
    c->nnz.value = c->l1.value = NULL;
    twp_sets_fini(&c->sets);
    for (int i = 0; i < 4; i++) {
        tw_free(c->watch[i].value);
        c->watch[i] = (struct tw_section){0};
    }
    c->has_column = false;
}

static void drop_all(struct cursor *c)
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

static enum tw_status read_rows_column(struct cursor *c, bool *is_there,
                                       struct tw_error *err)
{
    sqlite3 *db = vtab_of(c)->db;
    enum tw_status status =
        twp_column_read(db, c->rows.block, TW_LEDGER_NNZ, c->def,
                        (int)c->layer, 4, c->rows.rows, &c->nnz, err);
    *is_there = status == TW_OK && c->nnz.value != NULL;
    if (*is_there && reads(c, TWP_L1))
        status = twp_column_read(db, c->rows.block, TW_LEDGER_L1, 0,
                                 (int)c->layer, 2, c->rows.rows, &c->l1, err);
    return status;
}

static enum tw_status read_watch_column(struct cursor *c, bool *is_there,
                                        struct tw_error *err)
{
    uint32_t width = (uint32_t)run_of(c)->width;
    struct tw_section s[4] = {{4, width, NULL},
                              {4, width, NULL},
                              {4, TW_LEDGER_LIMIT, NULL},
                              {4, TW_LEDGER_LIMIT, NULL}};
    enum tw_status status =
        twp_blob_read(vtab_of(c)->db, c->rows.block, TW_LEDGER_WATCH, 0,
                      (int)c->layer, s, 4, is_there, err);
    if (status != TW_OK || !*is_there)
        return status;
    memcpy(c->watch, s, sizeof s);
    uint64_t total = 0;
    bool is_sound = s[0].count == s[1].count && s[2].count == s[3].count;
    for (uint32_t i = 0; is_sound && i < s[1].count; i++)
        total += s[1].value[i];
    c->of = UINT32_MAX;
    c->left = c->entry = 0;
    return is_sound && total == s[2].count
               ? TW_OK
               : tw_error_set(err, TW_ERR_FORMAT,
                              "ledger block %lld is damaged",
                              (long long)c->rows.block);
}

static enum tw_status read_column(struct cursor *c, struct tw_error *err)
{
    bool is_there = false;
    enum tw_status status = TW_OK;
    enum grain grain = vtab_of(c)->table->grain;
    drop_column(c);
    if (grain == GRAIN_ROW) {
        status = read_rows_column(c, &is_there, err);
    } else if (grain == GRAIN_WATCH) {
        status = read_watch_column(c, &is_there, err);
    } else {
        status = twp_sets_read(vtab_of(c)->db, run_of(c), c->rows.block,
                               (int)c->layer, c->rows.rows, &c->sets, err);
        is_there = c->sets.neuron != NULL;
    }
    c->has_column = status == TW_OK && is_there;
    c->row = UINT32_MAX; /* before the first */
    c->entry = UINT32_MAX;
    return status;
}

/* --- Moving on, from the inside out --- */

static int64_t position_of(const struct cursor *c)
{
    return c->row - c->rows.first[c->rows.seq[c->row]];
}

static bool row_matches(const struct cursor *c)
{
    uint32_t seq = c->rows.seq[c->row];
    const struct twp_range *range = c->plan.range;
    return twp_in_range(range[TWP_TOKEN], c->rows.token.value[c->row]) &&
           twp_in_range(range[TWP_POSITION], position_of(c)) &&
           twp_in_range(range[TWP_SEQUENCE], c->rows.sequence[seq]) &&
           twp_in_range(range[TWP_DOCUMENT], c->rows.document[seq]);
}

static bool next_row(struct cursor *c)
{
    while (++c->row < c->rows.rows)
        if (row_matches(c))
            return true;
    return false;
}

static bool next_in_set(struct cursor *c)
{
    for (;;) {
        if (c->row == UINT32_MAX || c->entry + 1 >= c->sets.start[c->row + 1]) {
            if (!next_row(c))
                return false;
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
static bool next_firing(struct cursor *c)
{
    for (;;) {
        while (c->left == 0) {
            if (++c->of >= c->watch[0].count)
                return false;
            c->left = c->watch[1].value[c->of];
            c->row = UINT32_MAX;
        }
        c->left--;
        uint64_t row = (uint64_t)(uint32_t)(c->row + 1) +
                       c->watch[2].value[++c->entry];
        if (row >= c->rows.rows) { /* damaged: no further row of this neuron */
            c->entry += c->left;
            c->left = 0;
            continue;
        }
        c->row = (uint32_t)row;
        if (twp_in_range(c->plan.range[TWP_NEURON],
                         c->watch[0].value[c->of]) &&
            row_matches(c))
            return true;
    }
}

static bool next_cell(struct cursor *c)
{
    switch (vtab_of(c)->table->grain) {
    case GRAIN_ROW:
        return next_row(c);
    case GRAIN_SET:
        return next_in_set(c);
    default:
        return next_firing(c);
    }
}

/* The next definition or layer of the block; false: none is left. */
static bool next_layer(struct cursor *c)
{
    const struct twp_ledger_run *run = run_of(c);
    int defs = vtab_of(c)->table->grain == GRAIN_ROW ? run->actives : 1;
    for (;;) {
        if (++c->def >= defs) {
            c->def = 0;
            c->layer++;
        }
        if (c->layer >= run->layers ||
            c->layer > c->plan.range[TWP_LAYER].high || defs == 0)
            return false;
        if (!c->plan.active || vtab_of(c)->table->grain != GRAIN_ROW ||
            strcmp(c->plan.active, run->active[c->def]) == 0)
            return true;
    }
}

static enum tw_status open_run(struct cursor *c, struct tw_error *err)
{
    sqlite3_finalize(c->blocks);
    c->blocks = NULL;
    return twp_ledger_blocks(vtab_of(c)->db, run_of(c)->id,
                             c->plan.range[TWP_SEQUENCE],
                             c->plan.range[TWP_DOCUMENT], &c->blocks, err);
}

/* The next block of this run or a later one; is_end: none is left. */
static enum tw_status next_block(struct cursor *c, struct tw_error *err)
{
    drop_column(c);
    twp_rows_fini(&c->rows);
    for (;;) {
        int code = c->blocks ? sqlite3_step(c->blocks) : SQLITE_DONE;
        if (code == SQLITE_ROW)
            break;
        if (code != SQLITE_DONE)
            return twp_read_failed(vtab_of(c)->db, err);
        c->is_end = ++c->run >= c->n_runs;
        enum tw_status status = c->is_end ? TW_OK : open_run(c, err);
        if (status != TW_OK || c->is_end)
            return status;
    }
    c->layer = c->plan.range[TWP_LAYER].low;
    c->def = -1;
    bool wants_nll = reads(c, TWP_NLL_SELF) || reads(c, TWP_NLL_NEXT);
    return twp_rows_read(vtab_of(c)->db, run_of(c),
                         sqlite3_column_int64(c->blocks, 0), wants_nll,
                         &c->rows, err);
}

static enum tw_status advance(struct cursor *c, struct tw_error *err)
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

/* --- Cells --- */

static void give_float(sqlite3_context *context, const struct tw_section *bits,
                       uint32_t row)
{
    float value = NAN;
    if (bits->value)
        memcpy(&value, &bits->value[row], sizeof value);
    if (isnan(value))
        sqlite3_result_null(context);
    else
        sqlite3_result_double(context, (double)value);
}

static void give_value(const struct cursor *c, sqlite3_context *context)
{
    if (vtab_of(c)->table->grain == GRAIN_WATCH)
        give_float(context, &c->watch[3], c->entry);
    else
        sqlite3_result_double(
            context, (double)tw_ledger_widen(c->sets.value[c->entry]));
}

static uint32_t neuron_of(const struct cursor *c)
{
    return vtab_of(c)->table->grain == GRAIN_WATCH
               ? c->watch[0].value[c->of]
               : c->sets.neuron[c->entry];
}

static void give_expert(const struct cursor *c, sqlite3_context *context)
{
    const struct twp_ledger_run *run = run_of(c);
    if (run->experts > 0)
        sqlite3_result_int64(context,
                             neuron_of(c) / (run->width / run->experts));
}

static void give_class(const struct cursor *c, sqlite3_context *context)
{
    static const char *const names[TW_ROW_CLASSES] = {
        "text", "bos", "special", "prompt", "generated"};
    uint32_t class = c->rows.row_class.value[c->row] & TW_ROW_CLASS_MASK;
    if (class < TW_ROW_CLASSES)
        sqlite3_result_text(context, names[class], -1, SQLITE_STATIC);
}

static void give(const struct cursor *c, sqlite3_context *context,
                 enum twp_role role)
{
    uint32_t row = c->row, seq = c->rows.seq[row];
    switch (role) {
    case TWP_RUN:
        sqlite3_result_text(context, run_of(c)->name, -1, SQLITE_TRANSIENT);
        break;
    case TWP_ACTIVE:
        sqlite3_result_text(context, run_of(c)->active[c->def], -1,
                            SQLITE_TRANSIENT);
        break;
    case TWP_SEQUENCE:
        sqlite3_result_int64(context, c->rows.sequence[seq]);
        break;
    case TWP_DOCUMENT:
        sqlite3_result_int64(context, c->rows.document[seq]);
        break;
    case TWP_POSITION:
        sqlite3_result_int64(context, position_of(c));
        break;
    case TWP_LAYER:
        sqlite3_result_int64(context, c->layer);
        break;
    case TWP_NEURON:
        sqlite3_result_int64(context, neuron_of(c));
        break;
    case TWP_TOKEN:
        sqlite3_result_int64(context, c->rows.token.value[row]);
        break;
    case TWP_CLASS:
        give_class(c, context);
        break;
    case TWP_NNZ:
        sqlite3_result_int64(context, c->nnz.value[row]);
        break;
    case TWP_L1:
        if (c->l1.value)
            sqlite3_result_double(context,
                                  (double)tw_ledger_widen(c->l1.value[row]));
        break;
    case TWP_NLL_SELF: /* the loss of the row before, in the same sequence */
        if (row > c->rows.first[seq])
            give_float(context, &c->rows.nll, row - 1);
        break;
    case TWP_NLL_NEXT:
        give_float(context, &c->rows.nll, row);
        break;
    case TWP_SKIPPED:
        sqlite3_result_int(context, (c->rows.row_class.value[row] &
                                     TW_ROW_SKIPPED) != 0);
        break;
    case TWP_EXPERT:
        give_expert(c, context);
        break;
    case TWP_VALUE:
        give_value(c, context);
        break;
    default:
        break;
    }
}

/* --- SQLite's side --- */

static int connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                   sqlite3_vtab **out, char **message)
{
    const struct table *table = aux;
    (void)argc, (void)argv, (void)message;
    int code = twp_vtab_make(db, table->schema, sizeof(struct vtab), out);
    if (code != SQLITE_OK)
        return code;
    struct vtab *vtab = (struct vtab *)*out;
    vtab->db = db;
    vtab->table = table;
    return SQLITE_OK;
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct table *table = ((struct vtab *)base)->table;
    return twp_plan_choose(info, table->role, table->columns);
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    (void)vtab;
    return twp_cursor_make(sizeof(struct cursor), out);
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    struct cursor *c = (struct cursor *)base;
    drop_all(c);
    sqlite3_free(c);
    return SQLITE_OK;
}

static int step(struct cursor *c)
{
    struct tw_error err = {0};
    return advance(c, &err) == TW_OK ? SQLITE_OK
                                     : twp_vtab_fail(c->base.pVtab, &err);
}

static int filter(sqlite3_vtab_cursor *base, int used, const char *chosen,
                  int count, sqlite3_value **values)
{
    struct cursor *c = (struct cursor *)base;
    struct tw_error err = {0};
    drop_all(c);
    c->used = (uint32_t)used;
    c->run = -1;
    enum tw_status status =
        twp_plan_read(&c->plan, chosen, count, values, &err);
    c->is_end = c->plan.is_empty;
    if (status == TW_OK && !c->is_end)
        status = twp_ledger_runs(vtab_of(c)->db, c->plan.run, &c->runs,
                                 &c->n_runs, &err);
    return status == TW_OK ? step(c) : twp_vtab_fail(base->pVtab, &err);
}

static int next(sqlite3_vtab_cursor *base)
{
    return step((struct cursor *)base);
}

static int eof(sqlite3_vtab_cursor *base)
{
    return ((struct cursor *)base)->is_end;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i)
{
    const struct cursor *c = (struct cursor *)base;
    give(c, context, vtab_of(c)->table->role[i]);
    return SQLITE_OK;
}

/* Of the row's place alone: SQLite joins the branches of an OR by it. Block 19
 * bits, layer 12, place in the column 32. */
static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *id)
{
    const struct cursor *c = (struct cursor *)base;
    bool is_row = vtab_of(c)->table->grain == GRAIN_ROW;
    uint32_t place = is_row ? c->row * 16 + (uint32_t)c->def : c->entry;
    *id = (sqlite3_int64)((uint64_t)c->rows.block << 44 |
                          (uint64_t)(c->layer & 0xfff) << 32 | place);
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

int twp_vtab_rows_register(sqlite3 *db)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && code == SQLITE_OK;
         i++)
        code = sqlite3_create_module_v2(db, tables[i].name, &module,
                                        (void *)&tables[i], NULL);
    return code;
}
