/* SQL functions for the views:
 *
 *     sparsity(nnz, width)            1 - nnz / width
 *     gini(x)                         inequality of non-negative numbers, 0..1
 *     hist_quantile(value, count, q)  quantile of a histogram's rows, type 7
 *     pearson(x, y)                   correlation of pairs without NULL
 *     pearson_at(x, y, z)             the same, z standard errors away by
 *                                     Fisher's z: -1.96 and 1.96 bound 95 %
 *     token_text(run, token_id)       the token's printable piece
 *     combined_se(a, b)               standard error of a difference
 */
#include <config.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "db/vtab.h"

static void sparsity(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    double width = sqlite3_value_double(argv[1]);
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL || !(width > 0))
        return;
    sqlite3_result_double(context, 1 - sqlite3_value_double(argv[0]) / width);
}

/* Of two independent estimates: sqrt(a^2 + b^2). */
static void combined_se(sqlite3_context *context, int argc,
                        sqlite3_value **argv)
{
    (void)argc;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
        sqlite3_value_type(argv[1]) == SQLITE_NULL)
        return;
    sqlite3_result_double(context, hypot(sqlite3_value_double(argv[0]),
                                         sqlite3_value_double(argv[1])));
}

static void token_text(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    sqlite3_stmt *stmt = NULL;
    (void)argc;
    if (sqlite3_prepare_v2(sqlite3_context_db_handle(context),
                           "SELECT p.token FROM run_ r JOIN piece_ p USING"
                           " (tokenizer_id) WHERE r.run = ?1 AND p.token_id ="
                           " ?2",
                           -1, &stmt, NULL) != SQLITE_OK) {
        sqlite3_result_error(context, "token_text: not a twellscope database",
                             -1);
        return;
    }
    sqlite3_bind_value(stmt, 1, argv[0]);
    sqlite3_bind_value(stmt, 2, argv[1]);
    if (sqlite3_step(stmt) == SQLITE_ROW)
        sqlite3_result_value(context, sqlite3_column_value(stmt, 0));
    sqlite3_finalize(stmt);
}

/* --- Aggregates over weighted numbers --- */

struct point {
    double value, weight;
};
struct points {
    struct point *point;
    size_t count, room;
    double q;
    bool is_failed;
};

static struct points *points_of(sqlite3_context *context)
{
    struct points *p = sqlite3_aggregate_context(context, sizeof *p);
    if (!p)
        sqlite3_result_error_nomem(context);
    return p;
}

static void add(sqlite3_context *context, sqlite3_value *value, double weight)
{
    struct points *p = points_of(context);
    if (!p || p->is_failed || sqlite3_value_type(value) == SQLITE_NULL)
        return;
    if (tw_grow((void **)&p->point, &p->room, p->count + 1, sizeof *p->point) !=
        0) {
        p->is_failed = true;
        sqlite3_result_error_nomem(context);
        return;
    }
    p->point[p->count++] = (struct point){sqlite3_value_double(value), weight};
}

static int ascending(const void *a, const void *b)
{
    double x = ((const struct point *)a)->value;
    double y = ((const struct point *)b)->value;
    return x < y ? -1 : x > y;
}

static void gini_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    add(context, argv[0], 1);
}

/* sum_i (2 i - n - 1) x_i / (n sum x), x ascending, i from 1. */
static void gini_final(sqlite3_context *context)
{
    struct points *p = points_of(context);
    double total = 0, lean = 0;
    if (!p)
        return;
    if (p->count > 0)
        qsort(p->point, p->count, sizeof *p->point, ascending);
    for (size_t i = 0; i < p->count; i++) {
        total += p->point[i].value;
        lean += (2.0 * (double)i + 1 - (double)p->count) * p->point[i].value;
    }
    if (total > 0 && p->point[0].value >= 0)
        sqlite3_result_double(context, lean / ((double)p->count * total));
    tw_free(p->point);
    p->point = NULL;
}

static void quantile_step(sqlite3_context *context, int argc,
                          sqlite3_value **argv)
{
    double weight = sqlite3_value_double(argv[1]);
    struct points *p = points_of(context);
    (void)argc;
    if (p)
        p->q = sqlite3_value_double(argv[2]);
    if (weight > 0)
        add(context, argv[0], weight);
}

/* The value at place `at` (from 0) of the sorted, repeated numbers. */
static double value_at(const struct points *p, double at)
{
    double below = 0;
    for (size_t i = 0; i < p->count; i++) {
        below += p->point[i].weight;
        if (at < below)
            return p->point[i].value;
    }
    return p->point[p->count - 1].value;
}

static void quantile_final(sqlite3_context *context)
{
    struct points *p = points_of(context);
    double total = 0;
    if (!p)
        return;
    if (p->count > 0 && p->q >= 0 && p->q <= 1) {
        qsort(p->point, p->count, sizeof *p->point, ascending);
        for (size_t i = 0; i < p->count; i++)
            total += p->point[i].weight;
        double at = p->q * (total - 1), low = floor(at);
        double a = value_at(p, low), b = value_at(p, low + 1);
        sqlite3_result_double(context, a + (at - low) * (b - a));
    }
    tw_free(p->point);
    p->point = NULL;
}

/* --- Correlation --- */

struct pairs {
    double n, mean_x, mean_y, xx, yy, xy; /* sums about the means */
    double z;
};

static void pearson_step(sqlite3_context *context, int argc,
                         sqlite3_value **argv)
{
    struct pairs *p = sqlite3_aggregate_context(context, sizeof *p);
    if (!p) {
        sqlite3_result_error_nomem(context);
        return;
    }
    if (argc > 2)
        p->z = sqlite3_value_double(argv[2]);
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
        sqlite3_value_type(argv[1]) == SQLITE_NULL)
        return;
    double x = sqlite3_value_double(argv[0]) - p->mean_x;
    double y = sqlite3_value_double(argv[1]) - p->mean_y;
    p->n++;
    p->mean_x += x / p->n;
    p->mean_y += y / p->n;
    double kept = (p->n - 1) / p->n;
    p->xx += kept * x * x;
    p->yy += kept * y * y;
    p->xy += kept * x * y;
}

/* NaN, which SQL gets as NULL: too few pairs, or one side constant. */
static double pearson_of(const struct pairs *p)
{
    if (!p || p->n < 2 || !(p->xx > 0) || !(p->yy > 0))
        return NAN;
    return fmax(-1, fmin(1, p->xy / sqrt(p->xx) / sqrt(p->yy)));
}

static void pearson_final(sqlite3_context *context)
{
    const struct pairs *p = sqlite3_aggregate_context(context, 0);
    sqlite3_result_double(context, pearson_of(p));
}

static void pearson_at_final(sqlite3_context *context)
{
    const struct pairs *p = sqlite3_aggregate_context(context, 0);
    double r = pearson_of(p);
    if (p && p->n > 3)
        sqlite3_result_double(context, tanh(atanh(r) + p->z / sqrt(p->n - 3)));
}

int twp_functions_register(sqlite3 *db)
{
    static const struct {
        const char *name;
        int argc, flags;
        void (*function)(sqlite3_context *, int, sqlite3_value **);
        void (*step)(sqlite3_context *, int, sqlite3_value **);
        void (*final)(sqlite3_context *);
    } functions[] = {
        {"sparsity", 2, SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, sparsity, NULL,
         NULL},
        {"combined_se", 2, SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, combined_se,
         NULL, NULL},
        {"token_text", 2, 0, token_text, NULL, NULL},
        {"gini", 1, SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL, gini_step,
         gini_final},
        {"pearson", 2, SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL,
         pearson_step, pearson_final},
        {"pearson_at", 3, SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL,
         pearson_step, pearson_at_final},
        {"hist_quantile", 3, SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL,
         quantile_step, quantile_final},
    };
    int code = SQLITE_OK;
    for (size_t i = 0;
         i < sizeof functions / sizeof *functions && code == SQLITE_OK; i++)
        code = sqlite3_create_function_v2(
            db, functions[i].name, functions[i].argc,
            SQLITE_UTF8 | functions[i].flags, NULL, functions[i].function,
            functions[i].step, functions[i].final, NULL);
    return code;
}

int twp_vtab_register(sqlite3 *db)
{
    int code = twp_vtab_rows_register(db);
    if (code == SQLITE_OK)
        code = twp_vtab_pairs_register(db);
    if (code == SQLITE_OK)
        code = twp_vtab_examples_register(db);
    return code == SQLITE_OK ? twp_functions_register(db) : code;
}
