/* The choice between a layer's ways of computing, by cost. */
#include <config.h>

#include "kernels/ffn_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static int by_count(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Of the rows that stay, whose non-zeros sum to `entries`. */
static double sparse_cost(const struct twp_ffn_costs *c, int64_t rows,
                          double entries, uint32_t longest)
{
    double all = c->row * (double)rows + c->entry * entries;
    double one = c->chain * longest;
    return all > one ? all : one;
}

static double whole_cost(const struct twp_ffn_costs *c, int64_t rows,
                         int64_t routed, double entries, uint32_t longest)
{
    double cost = c->pack * (double)rows;
    cost += sparse_cost(c, rows - routed, entries, longest);
    if (routed > 0)
        cost +=
            c->any * (double)rows / TW_PLAN_ROWS + c->routed * (double)routed;
    return cost;
}

double twp_ffn_plan_cost(const struct twp_ffn_costs *c,
                         const uint32_t *ascending, int64_t rows,
                         int64_t routed)
{
    double entries = 0;
    int64_t kept = rows - routed;
    for (int64_t i = 0; i < kept; i++)
        entries += ascending[i];
    return whole_cost(c, rows, routed, entries,
                      kept > 0 ? ascending[kept - 1] : 0);
}

/* Rows longer than all that were seen are routed only where one of them would
 * outlast all others. */
static int64_t open_limit(const struct twp_ffn_costs *c, int64_t rows,
                          double entries, uint32_t longest)
{
    if (c->chain <= 0)
        return TW_NO_ROW_LIMIT;
    double limit = (c->row * (double)rows + c->entry * entries) / c->chain;
    if (limit < 2.0 * longest)
        limit = 2.0 * longest;
    return limit < TW_NO_ROW_LIMIT ? (int64_t)limit : TW_NO_ROW_LIMIT;
}

enum tw_status twp_ffn_plan_choose(const struct twp_ffn_costs *c,
                                   const struct tw_ffn_seen *seen,
                                   struct tw_ffn_plan *plan,
                                   struct tw_error *err)
{
    int64_t rows = seen->rows;
    uint32_t *sorted = tw_alloc((size_t)(rows > 0 ? rows : 1), sizeof *sorted);
    if (!sorted)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a plan");
    memcpy(sorted, seen->nnz, (size_t)rows * sizeof *sorted);
    qsort(sorted, (size_t)rows, sizeof *sorted, by_count);
    double entries = 0, best = c->dense * (double)rows;
    *plan = (struct tw_ffn_plan){TW_FFN_DENSE, TW_NO_ROW_LIMIT};
    for (int64_t kept = 0; kept <= rows - seen->overflow_rows; kept++) {
        uint32_t longest = kept > 0 ? sorted[kept - 1] : 0;
        entries += longest;
        bool is_cut = kept < rows && sorted[kept] == longest && kept > 0 &&
                      kept < rows - seen->overflow_rows;
        double cost = whole_cost(c, rows, rows - kept, entries, longest);
        if (is_cut || cost >= best) // equal rows go the same way
            continue;
        best = cost;
        plan->path = TW_FFN_TWELL;
        plan->row_limit = kept < rows - seen->overflow_rows
                              ? (longest + (int64_t)sorted[kept]) / 2
                              : open_limit(c, kept, entries, longest);
    }
    tw_free(sorted);
    return TW_OK;
}

enum tw_status twp_ffn_plan_check(const struct tw_ffn_plan *plan,
                                  enum tw_ffn_path loaded, struct tw_error *err)
{
    if (plan->row_limit < 0 || plan->row_limit > TW_NO_ROW_LIMIT)
        return tw_error_set(err, TW_ERR_FORMAT, "plan: row_limit %lld",
                            (long long)plan->row_limit);
    if (plan->path == TW_FFN_TWELL && loaded == TW_FFN_DENSE)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "plan: 'twell' for a layer whose activation "
                            "leaves no zeros");
    return TW_OK;
}
