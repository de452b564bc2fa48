/* examples: each neuron's strongest contexts, a layer's BLOB decoded at a time.
 * They are kept by document and row; sequence and position follow from the
 * context's length and the documents before. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "db/vtab.h"
#include "db/vtab_plan.h"

static const char schema[] =
    "CREATE TABLE x(run TEXT, layer INTEGER, expert INTEGER, neuron INTEGER,"
    " rank INTEGER, sequence INTEGER, position INTEGER, value REAL,"
    " document INTEGER)";
static const enum twp_role roles[] = {TWP_RUN,      TWP_LAYER, TWP_EXPERT,
                                      TWP_NEURON,   TWP_COUNT, TWP_SEQUENCE,
                                      TWP_POSITION, TWP_VALUE, TWP_DOCUMENT};
enum { COLUMNS = sizeof roles / sizeof *roles };
enum { COUNTS, VALUES, DOCUMENTS, ROWS, SECTIONS };

struct vtab {
    sqlite3_vtab base;
    sqlite3 *db;
};

/* The documents of a run, ascending, with the sequences before each. */
struct documents {
    int64_t *number, *before;
    size_t count, numbers_room, befores_room;
};

struct cursor {
    sqlite3_vtab_cursor base;
    struct twp_plan plan;
    struct twp_ledger_run *runs;
    int n_runs, run;
    struct documents documents; /* of the current run, if asked for */
    sqlite3_stmt *layers;       /* its BLOBs */
    int64_t layer;
    struct tw_section s[SECTIONS];
    int64_t neuron;
    uint32_t rank, at; /* current context: its rank from 1, its place */
    bool is_used;      /* the query reads sequences */
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

static void drop_layer(struct cursor *c)
{
    for (int i = 0; i < SECTIONS; i++)
        tw_free(c->s[i].value);
    memset(c->s, 0, sizeof c->s);
}

static void drop_run(struct cursor *c)
{
    drop_layer(c);
    sqlite3_finalize(c->layers);
    c->layers = NULL;
    tw_free(c->documents.number);
    tw_free(c->documents.before);
    c->documents = (struct documents){0};
}

static void drop_all(struct cursor *c)
{
    drop_run(c);
    twp_ledger_runs_free(c->runs, c->n_runs);
    twp_plan_fini(&c->plan);
    sqlite3_vtab_cursor base = c->base;
    memset(c, 0, sizeof *c);
    c->base = base;
}

/* --- A run --- */

static enum tw_status read_documents(struct cursor *c, struct tw_error *err)
{
    struct documents *d = &c->documents;
    sqlite3_stmt *stmt = NULL;
    enum tw_status status = TW_OK;
    int64_t before = 0;
    int code;
    if (sqlite3_prepare_v2(db_of(c),
                           "SELECT document, sequences FROM document_ WHERE"
                           " run_id = ?1 ORDER BY document",
                           -1, &stmt, NULL) != SQLITE_OK)
        return twp_read_failed(db_of(c), err);
    sqlite3_bind_int64(stmt, 1, run_of(c)->id);
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (tw_grow((void **)&d->number, &d->numbers_room, d->count + 1,
                    sizeof *d->number) != 0 ||
            tw_grow((void **)&d->before, &d->befores_room, d->count + 1,
                    sizeof *d->before) != 0) {
            status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
            break;
        }
        d->number[d->count] = sqlite3_column_int64(stmt, 0);
        d->before[d->count++] = before;
        before += sqlite3_column_int64(stmt, 1) & INT32_MAX;
    }
    if (status == TW_OK && code != SQLITE_DONE)
        status = twp_read_failed(db_of(c), err);
    sqlite3_finalize(stmt);
    return status;
}

static enum tw_status open_run(struct cursor *c, struct tw_error *err)
{
    if (sqlite3_prepare_v2(db_of(c),
                           "SELECT layer, data FROM example_ WHERE run_id = ?1"
                           " AND layer BETWEEN ?2 AND ?3 ORDER BY layer",
                           -1, &c->layers, NULL) != SQLITE_OK)
        return twp_read_failed(db_of(c), err);
    sqlite3_bind_int64(c->layers, 1, run_of(c)->id);
    sqlite3_bind_int64(c->layers, 2, c->plan.range[TWP_LAYER].low);
    sqlite3_bind_int64(c->layers, 3, c->plan.range[TWP_LAYER].high);
    return c->is_used ? read_documents(c, err) : TW_OK;
}

/* --- A layer --- */

static enum tw_status read_layer(struct cursor *c, struct tw_error *err)
{
    uint64_t total = 0;
    struct tw_section s[SECTIONS] = {{2, (uint32_t)run_of(c)->width, NULL},
                                     {4, TW_LEDGER_LIMIT, NULL},
                                     {4, TW_LEDGER_LIMIT, NULL},
                                     {4, TW_LEDGER_LIMIT, NULL}};
    c->layer = sqlite3_column_int64(c->layers, 0);
    enum tw_status status = tw_ledger_unpack(
        sqlite3_column_blob(c->layers, 1),
        (size_t)sqlite3_column_bytes(c->layers, 1), s, SECTIONS, err);
    if (status != TW_OK)
        return status;
    memcpy(c->s, s, sizeof s);
    for (uint32_t n = 0; n < s[COUNTS].count; n++)
        total += s[COUNTS].value[n];
    c->neuron = -1;
    c->rank = c->at = 0;
    if (s[COUNTS].count != run_of(c)->width || total != s[VALUES].count ||
        total != s[DOCUMENTS].count || total != s[ROWS].count)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "the examples of layer %lld are damaged",
                            (long long)c->layer);
    return TW_OK;
}

/* The next context of the layer that is wanted; false: none is left. `at`
 * stands on the current context, whose rank is not 0. */
static bool next_context(struct cursor *c)
{
    struct twp_range wanted = c->plan.range[TWP_NEURON];
    if (!c->s[COUNTS].value)
        return false;
    if (c->rank > 0)
        c->at++;
    if (c->neuron >= 0 && c->rank < c->s[COUNTS].value[c->neuron]) {
        c->rank++;
        return true;
    }
    while (++c->neuron < (int64_t)c->s[COUNTS].count) {
        uint32_t count = c->s[COUNTS].value[c->neuron];
        c->rank = count > 0;
        if (count > 0 && twp_in_range(wanted, c->neuron))
            return true;
        c->at += count;
        c->rank = 0;
    }
    return false;
}

static enum tw_status advance(struct cursor *c, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    while (status == TW_OK && !next_context(c)) {
        drop_layer(c);
        int code = c->layers ? sqlite3_step(c->layers) : SQLITE_DONE;
        if (code == SQLITE_ROW) {
            status = read_layer(c, err);
        } else if (code != SQLITE_DONE) {
            status = twp_read_failed(db_of(c), err);
        } else {
            drop_run(c);
            c->is_end = ++c->run >= c->n_runs;
            if (c->is_end)
                return TW_OK;
            status = open_run(c, err);
        }
    }
    return status;
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
    enum { SEQUENCE = 5 };
    struct cursor *c = (struct cursor *)base;
    struct tw_error err = {0};
    drop_all(c);
    c->run = -1;
    c->is_used = used >> SEQUENCE & 1;
    enum tw_status status =
        twp_plan_read(&c->plan, chosen, count, values, &err);
    c->is_end = c->plan.is_empty;
    if (status == TW_OK && !c->is_end)
        status =
            twp_ledger_runs(db_of(c), c->plan.run, &c->runs, &c->n_runs, &err);
    if (status != TW_OK)
        return twp_vtab_fail(base->pVtab, &err);
    return c->is_end ? SQLITE_OK : next(base);
}

static int eof(sqlite3_vtab_cursor *base)
{
    return ((struct cursor *)base)->is_end;
}

/* NULL where the document is none of the run's. */
static void give_sequence(const struct cursor *c, sqlite3_context *context)
{
    int64_t document = c->s[DOCUMENTS].value[c->at];
    size_t low = 0, high = c->documents.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->documents.number[middle] < document)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < c->documents.count && c->documents.number[low] == document)
        sqlite3_result_int64(context,
                             c->documents.before[low] +
                                 c->s[ROWS].value[c->at] / run_of(c)->ctx);
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i)
{
    const struct cursor *c = (struct cursor *)base;
    const struct twp_ledger_run *run = run_of(c);
    float value;
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
                                 c->neuron / (run->width / run->experts));
        break;
    case TWP_NEURON:
        sqlite3_result_int64(context, c->neuron);
        break;
    case TWP_COUNT: /* the rank */
        sqlite3_result_int64(context, c->rank);
        break;
    case TWP_SEQUENCE:
        give_sequence(c, context);
        break;
    case TWP_POSITION:
        sqlite3_result_int64(context, c->s[ROWS].value[c->at] % run->ctx);
        break;
    case TWP_DOCUMENT:
        sqlite3_result_int64(context, c->s[DOCUMENTS].value[c->at]);
        break;
    default: /* TWP_VALUE */
        memcpy(&value, &c->s[VALUES].value[c->at], sizeof value);
        sqlite3_result_double(context, (double)value);
    }
    return SQLITE_OK;
}

/* Of the row's key alone. Run 11 bits, layer 12, place in the layer 40. */
static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *id)
{
    const struct cursor *c = (struct cursor *)base;
    *id = (sqlite3_int64)((uint64_t)(run_of(c)->id & 0x7ff) << 52 |
                          (uint64_t)(c->layer & 0xfff) << 40 | c->at);
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

int twp_vtab_examples_register(sqlite3 *db)
{
    return sqlite3_create_module_v2(db, "examples", &module, NULL, NULL);
}
