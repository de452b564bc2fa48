/* Reals derived at the end of a run, recomputed from the counts beside them by
 * the functions that made them. */
#include <config.h>

#include <math.h>
#include <stdio.h>

#include "analysis/statistics.h"
#include "base/memory.h"
#include "base/obs.h"
#include "run/fsck_internal.h"

enum { BLOCKS = 64, MAX_WIDTH = 1 << 22 };
/* exp and sqrt may differ in the last bits between machines. */
#define TOLERANCE 1e-12

/* What is derived of a layer, in layer_'s order. */
enum { SE, STD, P50, P90, P99, P999, REALS };
static const char *const names[REALS] = {
    "se_nnz = jackknife over blocks", "std_nnz = the histogram's",
    "p50_nnz = the histogram's",      "p90_nnz = the histogram's",
    "p99_nnz = the histogram's",      "p999_nnz = the histogram's"};

/* The first violation of one check. */
struct outcome {
    char cell[96], stored[32], expected[32];
    int64_t violations;
};

static void put_real(char text[32], double value)
{
    if (isnan(value))
        snprintf(text, 32, "NULL");
    else
        snprintf(text, 32, "%.17g", value);
}

static bool is_same(double a, double b)
{
    return isnan(a) || isnan(b) ? isnan(a) && isnan(b)
                                : fabs(a - b) <= TOLERANCE * fabs(b);
}

static void compare(struct outcome *outcome, const char *cell, double stored,
                    double expected)
{
    if (is_same(stored, expected) || outcome->violations++ > 0)
        return;
    snprintf(outcome->cell, sizeof outcome->cell, "%s", cell);
    put_real(outcome->stored, stored);
    put_real(outcome->expected, expected);
}

static double cell_real(const struct tw_query *query, int column)
{
    return tw_query_type(query, column) == TW_CELL_NULL
               ? NAN
               : tw_query_real(query, column);
}

/* Rows of (place, count, sum) into first and second, [size]; TW_ERR_FORMAT
 * where one lies outside or is too large. */
static enum tw_status read_counts(struct twp_fsck *f, const char *sql,
                                  int64_t def, int64_t layer, int64_t *first,
                                  int64_t *second, int64_t size,
                                  struct tw_error *err)
{
    struct tw_query *query;
    bool has_row = true;
    int64_t limit = INT64_MAX / size; /* so that no total overflows */
    enum tw_status status = twp_fsck_query(f, sql, &query, err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":def", def, err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":layer", layer, err);
    for (int64_t i = 0; i < size; i++) {
        first[i] = 0;
        if (second)
            second[i] = 0;
    }
    while (status == TW_OK) {
        status = tw_query_next(query, &has_row, err);
        if (status != TW_OK || !has_row)
            break;
        int64_t at = tw_query_int(query, 0), count = tw_query_int(query, 1);
        int64_t sum = second ? tw_query_int(query, 2) : 0;
        if (at < 0 || at >= size || count < 0 || count > limit ||
            sum < -limit || sum > limit) {
            status =
                tw_error_set(err, TW_ERR_FORMAT,
                             "definition %lld layer %lld: a count of %lld",
                             (long long)def, (long long)layer, (long long)at);
            break;
        }
        first[at] = count;
        if (second)
            second[at] = sum;
    }
    tw_query_close(query);
    return status;
}

static const char histogram[] =
    "SELECT nnz, tokens FROM hist_ WHERE run_id = :run AND def_ord = :def AND"
    " layer = :layer";
static const char block_nnz[] =
    "SELECT block, tokens, sum_nnz FROM block_ WHERE run_id = :run AND def_ord"
    " = :def AND layer = :layer";
static const char block_nll[] =
    "SELECT block, predicted, sum_nll FROM block_ WHERE run_id = :run AND"
    " def_ord = :def AND layer = :layer";

static enum tw_status check_layer(struct twp_fsck *f,
                                  const struct tw_query *query,
                                  struct outcome outcome[REALS],
                                  struct tw_error *err)
{
    static const int permille[] = {500, 900, 990, 999};
    int64_t def = tw_query_int(query, 0), layer = tw_query_int(query, 1);
    int64_t bins = tw_query_int(query, 2);
    int64_t tokens[BLOCKS], sums[BLOCKS];
    char cell[96];
    if (bins < 0 || bins > MAX_WIDTH)
        return tw_error_set(err, TW_ERR_FORMAT, "layer %lld of %lld neurons",
                            (long long)layer, (long long)bins);
    int64_t *hist = tw_alloc((size_t)++bins, sizeof *hist);
    if (!hist)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    snprintf(cell, sizeof cell, "definition %lld layer %lld", (long long)def,
             (long long)layer);
    enum tw_status status =
        read_counts(f, histogram, def, layer, hist, NULL, bins, err);
    if (status == TW_OK)
        status =
            read_counts(f, block_nnz, def, layer, tokens, sums, BLOCKS, err);
    if (status == TW_OK) {
        compare(&outcome[SE], cell, cell_real(query, 3 + SE),
                tw_jackknife_ratio_se(sums, tokens, BLOCKS));
        compare(&outcome[STD], cell, cell_real(query, 3 + STD),
                tw_histogram_std(hist, bins));
        for (int i = P50; i < REALS; i++)
            compare(&outcome[i], cell, cell_real(query, 3 + i),
                    tw_histogram_quantile(hist, bins, permille[i - P50]));
    }
    tw_free(hist);
    return status;
}

static enum tw_status check_layers(struct twp_fsck *f,
                                   struct outcome outcome[REALS],
                                   struct tw_error *err)
{
    struct tw_query *query;
    bool has_row = true;
    enum tw_status status = twp_fsck_query(
        f,
        "SELECT def_ord, layer, width, se_nnz, std_nnz, p50_nnz, p90_nnz,"
        " p99_nnz, p999_nnz FROM layer_ WHERE run_id = :run",
        &query, err);
    while (status == TW_OK) {
        status = tw_query_next(query, &has_row, err);
        if (status != TW_OK || !has_row)
            break;
        status = check_layer(f, query, outcome, err);
    }
    tw_query_close(query);
    return status;
}

static enum tw_status say(struct twp_fsck *f, const char *name,
                          const struct outcome *outcome, const char *fault,
                          const char *why, struct tw_error *err)
{
    struct tw_fsck_finding finding = {.check = name, .why = why};
    if (why) {
        finding.result = TW_FSCK_NOT_CHECKED;
    } else if (fault) {
        finding.result = TW_FSCK_VIOLATED;
        finding.cell = fault;
        finding.violations = 1;
    } else if (outcome->violations > 0) {
        finding.result = TW_FSCK_VIOLATED;
        finding.cell = outcome->cell;
        finding.stored = outcome->stored;
        finding.expected = outcome->expected;
        finding.violations = outcome->violations;
    }
    return twp_fsck_say(f, finding, err);
}

static enum tw_status check_loss(struct twp_fsck *f, struct outcome outcome[2],
                                 struct tw_error *err)
{
    int64_t predicted[BLOCKS], sums[BLOCKS];
    struct tw_query *query;
    bool has_row = false;
    enum tw_status status = twp_fsck_query(
        f, "SELECT se_nll, perplexity, mean_nll FROM run_ WHERE run_id = :run",
        &query, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    if (status == TW_OK)
        status = read_counts(f, block_nll, 0, 0, predicted, sums, BLOCKS, err);
    if (status == TW_OK && has_row) {
        compare(&outcome[0], "run", cell_real(query, 0),
                tw_jackknife_ratio_se(sums, predicted, BLOCKS) / TW_NLL_SCALE);
        compare(&outcome[1], "run", cell_real(query, 1),
                exp(cell_real(query, 2)));
    }
    tw_query_close(query);
    return status;
}

static enum tw_status say_all(struct twp_fsck *f, const char *const *check,
                              const struct outcome *outcome, int count,
                              const char *fault, const char *why,
                              struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (int i = 0; i < count && status == TW_OK; i++)
        status = say(f, check[i], &outcome[i], fault, why, err);
    return status;
}

/* One group of checks that are made in one pass. */
static enum tw_status check_group(struct twp_fsck *f, unsigned needs,
                                  const char *const *check, int count,
                                  enum tw_status (*pass)(struct twp_fsck *,
                                                         struct outcome *,
                                                         struct tw_error *),
                                  struct tw_error *err)
{
    struct outcome outcome[REALS] = {0};
    struct tw_error found = {0};
    char *why = NULL, *fault = NULL;
    enum tw_status status = twp_fsck_why_not(f, needs, &why, &found);
    if (status == TW_OK && !why)
        status = pass(f, outcome, &found);
    if (status != TW_OK)
        status = twp_fsck_judge(status, &found, &fault, err);
    if (status == TW_OK)
        status = say_all(f, check, outcome, count, fault, why, err);
    tw_free(why);
    tw_free(fault);
    return status;
}

enum tw_status twp_fsck_derived(struct twp_fsck *f, struct tw_error *err)
{
    static const char *const loss[] = {"se_nll = jackknife over blocks",
                                       "perplexity = exp(mean_nll)"};
    unsigned ended = TW_FSCK_BIT(TW_FSCK_COUNTS) | TW_FSCK_BIT(TW_FSCK_ENDED);
    enum tw_status status =
        check_group(f, ended, names, REALS, check_layers, err);
    return status == TW_OK ? check_group(f, ended | TW_FSCK_BIT(TW_FSCK_LOSS),
                                         loss, 2, check_loss, err)
                           : status;
}
