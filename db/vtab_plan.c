/* WHERE clauses into ranges. The choice travels as text, two letters a
 * constraint: its role ('a' + role) and its kind ('=', '<', '>'). */
#include <config.h>

#include "db/vtab_plan.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

/* How many times fewer rows an equality leaves; guesses, for the order. */
static const double saved[TWP_FILTERS] = {
    [TWP_RUN] = 4,        [TWP_ACTIVE] = 2, [TWP_SEQUENCE] = 1000,
    [TWP_DOCUMENT] = 1000, [TWP_POSITION] = 20, [TWP_LAYER] = 28,
    [TWP_NEURON] = 100,   [TWP_TOKEN] = 50};

static char kind_of(unsigned char op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return '=';
    case SQLITE_INDEX_CONSTRAINT_GT:
    case SQLITE_INDEX_CONSTRAINT_GE:
        return '>';
    case SQLITE_INDEX_CONSTRAINT_LT:
    case SQLITE_INDEX_CONSTRAINT_LE:
        return '<';
    default:
        return 0;
    }
}

int twp_plan_choose(sqlite3_index_info *info, const enum twp_role *role,
                    int columns)
{
    char *chosen = sqlite3_malloc(2 * info->nConstraint + 1);
    int at = 0;
    double cost = 1e9;
    if (!chosen)
        return SQLITE_NOMEM;
    for (int i = 0; i < info->nConstraint; i++) {
        int column = info->aConstraint[i].iColumn;
        char kind = kind_of(info->aConstraint[i].op);
        if (!info->aConstraint[i].usable || !kind || column < 0 ||
            column >= columns || role[column] >= TWP_FILTERS ||
            (role[column] <= TWP_ACTIVE && kind != '='))
            continue;
        chosen[at++] = (char)('a' + role[column]);
        chosen[at++] = kind;
        info->aConstraintUsage[i].argvIndex = at / 2;
        cost /= kind == '=' ? saved[role[column]] : 2;
    }
    chosen[at] = '\0';
    info->idxStr = chosen;
    info->needToFreeIdxStr = 1;
    info->idxNum = (int)(info->colUsed & 0x7fffffff);
    info->estimatedCost = cost;
    info->estimatedRows = cost < 1 ? 1 : (sqlite3_int64)cost;
    return SQLITE_OK;
}

/* A bound as whole numbers: *low rounded down, *high up. False: no number. */
static bool bounds_of(sqlite3_value *value, int64_t *low, int64_t *high)
{
    int type = sqlite3_value_numeric_type(value);
    if (type == SQLITE_INTEGER) {
        *low = *high = sqlite3_value_int64(value);
        return true;
    }
    double real = sqlite3_value_double(value);
    if (type != SQLITE_FLOAT || !(fabs(real) < 9e18))
        return false;
    *low = (int64_t)floor(real);
    *high = (int64_t)ceil(real);
    return true;
}

static void narrow(struct twp_plan *plan, enum twp_role role, char kind,
                   sqlite3_value *value)
{
    struct twp_range *range = &plan->range[role];
    int64_t low, high;
    if (sqlite3_value_type(value) == SQLITE_NULL)
        plan->is_empty = true; /* no comparison with NULL is true */
    if (!bounds_of(value, &low, &high))
        return;
    if (kind != '<' && low > range->low)
        range->low = low;
    if (kind != '>' && high < range->high)
        range->high = high;
    plan->is_empty |= range->low > range->high;
}

/* Two different names can't both be equal. */
static bool take_name(struct twp_plan *plan, char **name, sqlite3_value *value)
{
    const char *text = (const char *)sqlite3_value_text(value);
    if (!text || (*name && strcmp(*name, text) != 0)) {
        plan->is_empty = true;
        return true;
    }
    if (!*name)
        *name = tw_strdup(text);
    return *name != NULL;
}

enum tw_status twp_plan_read(struct twp_plan *plan, const char *chosen,
                             int count, sqlite3_value **values,
                             struct tw_error *err)
{
    *plan = (struct twp_plan){0};
    for (int i = 0; i < TWP_FILTERS; i++)
        plan->range[i] = (struct twp_range){0, INT64_MAX};
    for (int i = 0; i < count; i++) {
        enum twp_role role = (enum twp_role)(chosen[2 * i] - 'a');
        bool is_taken = true;
        if (role == TWP_RUN)
            is_taken = take_name(plan, &plan->run, values[i]);
        else if (role == TWP_ACTIVE)
            is_taken = take_name(plan, &plan->active, values[i]);
        else
            narrow(plan, role, chosen[2 * i + 1], values[i]);
        if (!is_taken)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    return TW_OK;
}

void twp_plan_fini(struct twp_plan *plan)
{
    tw_free(plan->run);
    tw_free(plan->active);
    *plan = (struct twp_plan){0};
}

static void *zeroed(int bytes)
{
    void *memory = sqlite3_malloc(bytes);
    return memory ? memset(memory, 0, (size_t)bytes) : NULL;
}

int twp_vtab_make(sqlite3 *db, const char *schema, int bytes,
                  sqlite3_vtab **out)
{
    int code = sqlite3_declare_vtab(db, schema);
    if (code != SQLITE_OK)
        return code;
    *out = zeroed(bytes);
    return *out ? SQLITE_OK : SQLITE_NOMEM;
}

int twp_vtab_disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

int twp_cursor_make(int bytes, sqlite3_vtab_cursor **out)
{
    *out = zeroed(bytes);
    return *out ? SQLITE_OK : SQLITE_NOMEM;
}

int twp_vtab_fail(sqlite3_vtab *vtab, const struct tw_error *err)
{
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = sqlite3_mprintf("%s", err->text);
    return err->status == TW_ERR_NOMEM    ? SQLITE_NOMEM
           : err->status == TW_ERR_FORMAT ? SQLITE_CORRUPT
                                          : SQLITE_ERROR;
}
