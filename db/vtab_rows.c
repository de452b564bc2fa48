/* token_activity, active_neurons, watched: their columns and SQLite's side; the
 * cursor is vtab_walk.c's. */
#include <config.h>

#include <math.h>
#include <string.h>

#include "base/batch.h"
#include "db/vtab.h"
#include "db/vtab_walk.h"

static const struct twp_table tables[] = {
    {"token_activity",
     "CREATE TABLE x(run TEXT, active TEXT, sequence INTEGER, document INTEGER,"
     " position INTEGER, layer INTEGER, token_id INTEGER, class TEXT,"
     " nnz INTEGER, l1 REAL, nll_self REAL, nll_next REAL, skipped INTEGER)",
     TWP_GRAIN_ROW,
     13,
     {TWP_RUN, TWP_ACTIVE, TWP_SEQUENCE, TWP_DOCUMENT, TWP_POSITION, TWP_LAYER,
      TWP_TOKEN, TWP_CLASS, TWP_NNZ, TWP_L1, TWP_NLL_SELF, TWP_NLL_NEXT,
      TWP_SKIPPED}},
    {"active_neurons",
     "CREATE TABLE x(run TEXT, sequence INTEGER, position INTEGER,"
     " layer INTEGER, expert INTEGER, neuron INTEGER, value REAL,"
     " document INTEGER, token_id INTEGER)",
     TWP_GRAIN_SET,
     9,
     {TWP_RUN, TWP_SEQUENCE, TWP_POSITION, TWP_LAYER, TWP_EXPERT, TWP_NEURON,
      TWP_VALUE, TWP_DOCUMENT, TWP_TOKEN}},
    {"watched",
     "CREATE TABLE x(run TEXT, sequence INTEGER, document INTEGER,"
     " position INTEGER, layer INTEGER, expert INTEGER, neuron INTEGER,"
     " token_id INTEGER, value REAL)",
     TWP_GRAIN_WATCH,
     9,
     {TWP_RUN, TWP_SEQUENCE, TWP_DOCUMENT, TWP_POSITION, TWP_LAYER, TWP_EXPERT,
      TWP_NEURON, TWP_TOKEN, TWP_VALUE}},
};

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

static void give_value(const struct twp_walk *c, sqlite3_context *context)
{
    if (twp_walk_vtab(c)->table->grain == TWP_GRAIN_WATCH)
        give_float(context, &c->watch[3], c->entry);
    else
        sqlite3_result_double(context,
                              (double)tw_ledger_widen(c->sets.value[c->entry]));
}

static uint32_t neuron_of(const struct twp_walk *c)
{
    return twp_walk_vtab(c)->table->grain == TWP_GRAIN_WATCH
               ? c->watch[0].value[c->of]
               : c->sets.neuron[c->entry];
}

static void give_expert(const struct twp_walk *c, sqlite3_context *context)
{
    const struct twp_ledger_run *run = twp_walk_run(c);
    if (run->experts > 0)
        sqlite3_result_int64(context,
                             neuron_of(c) / (run->width / run->experts));
}

static void give_class(const struct twp_walk *c, sqlite3_context *context)
{
    static const char *const names[TW_ROW_CLASSES] = {"text", "bos", "special",
                                                      "prompt", "generated"};
    uint32_t class = c->rows.row_class.value[c->row] & TW_ROW_CLASS_MASK;
    if (class < TW_ROW_CLASSES)
        sqlite3_result_text(context, names[class], -1, SQLITE_STATIC);
}

static void give(const struct twp_walk *c, sqlite3_context *context,
                 enum twp_role role)
{
    uint32_t row = c->row, seq = c->rows.seq[row];
    switch (role) {
    case TWP_RUN:
        sqlite3_result_text(context, twp_walk_run(c)->name, -1,
                            SQLITE_TRANSIENT);
        break;
    case TWP_ACTIVE:
        sqlite3_result_text(context, twp_walk_run(c)->active[c->def], -1,
                            SQLITE_TRANSIENT);
        break;
    case TWP_SEQUENCE:
        sqlite3_result_int64(context, c->rows.sequence[seq]);
        break;
    case TWP_DOCUMENT:
        sqlite3_result_int64(context, c->rows.document[seq]);
        break;
    case TWP_POSITION:
        sqlite3_result_int64(context, twp_walk_position(c));
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
        sqlite3_result_int(
            context, (c->rows.row_class.value[row] & TW_ROW_SKIPPED) != 0);
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
    const struct twp_table *table = aux;
    (void)argc, (void)argv, (void)message;
    int code =
        twp_vtab_make(db, table->schema, sizeof(struct twp_rows_vtab), out);
    if (code != SQLITE_OK)
        return code;
    struct twp_rows_vtab *vtab = (struct twp_rows_vtab *)*out;
    vtab->db = db;
    vtab->table = table;
    return SQLITE_OK;
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct twp_table *table = ((struct twp_rows_vtab *)base)->table;
    return twp_plan_choose(info, table->role, table->columns);
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    (void)vtab;
    return twp_cursor_make(sizeof(struct twp_walk), out);
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    struct twp_walk *c = (struct twp_walk *)base;
    twp_walk_fini(c);
    sqlite3_free(c);
    return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int used, const char *chosen,
                  int count, sqlite3_value **values)
{
    struct twp_plan plan;
    struct tw_error err = {0};
    enum tw_status status = twp_plan_read(&plan, chosen, count, values, &err);
    if (status == TW_OK)
        status = twp_walk_start((struct twp_walk *)base, &plan, (uint32_t)used,
                                &err);
    else
        twp_plan_fini(&plan);
    return status == TW_OK ? SQLITE_OK : twp_vtab_fail(base->pVtab, &err);
}

static int next(sqlite3_vtab_cursor *base)
{
    struct tw_error err = {0};
    enum tw_status status = twp_walk_next((struct twp_walk *)base, &err);
    return status == TW_OK ? SQLITE_OK : twp_vtab_fail(base->pVtab, &err);
}

static int eof(sqlite3_vtab_cursor *base)
{
    return ((struct twp_walk *)base)->is_end;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i)
{
    const struct twp_walk *c = (struct twp_walk *)base;
    give(c, context, twp_walk_vtab(c)->table->role[i]);
    return SQLITE_OK;
}

/* Of the row's place alone: SQLite joins the branches of an OR by it. Block 19
 * bits, layer 12, place in the column 32. */
static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *id)
{
    const struct twp_walk *c = (struct twp_walk *)base;
    bool is_row = twp_walk_vtab(c)->table->grain == TWP_GRAIN_ROW;
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
