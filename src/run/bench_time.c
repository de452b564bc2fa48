/* Interleaved timing: every form once a repetition, in another order each time
 * (what runs after a memory-bound form finds a cooler, faster chip); medians,
 * least times, median distances from the median, ratios of neighbours. */
#include <config.h>

#include "run/bench_internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM_UPS 2 /* rounds that aren't kept, where no run has its own */

static enum tw_status time_one(struct twp_bench *b, int form, int64_t *ns,
                               struct tw_error *err)
{
    int pause_ms = b->ops->bench->pause_ms;
    enum tw_status status = TW_OK;
    if (pause_ms > 0) {
        const struct timespec pause = {.tv_nsec = pause_ms * 1000000L};
        nanosleep(&pause, NULL);
        status = twp_form_run(b, form, 1, ns, err);
    }
    return status == TW_OK ? twp_form_run(b, form, 1, ns, err) : status;
}

static int list_forms(const struct twp_bench *b, int order[TWP_FORMS])
{
    int n = 0;
    for (int f = 0; f < TWP_FORMS; f++)
        if (b->is_there[f])
            order[n++] = f;
    return n;
}

void twp_shuffle(int *order, int n, struct tw_random *random)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(tw_random_bits(random) % (uint64_t)(i + 1));
        int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

enum tw_status twp_bench_time(struct twp_bench *b, struct tw_error *err)
{
    struct tw_random random = {b->o->seed};
    int order[TWP_FORMS], n = list_forms(b, order);
    int first = b->ops->bench->pause_ms > 0 ? 0 : -WARM_UPS;
    enum tw_status status = TW_OK;
    for (int r = first; r < b->repetitions && status == TW_OK; r++) {
        twp_shuffle(order, n, &random);
        for (int i = 0; i < n && status == TW_OK; i++) {
            int64_t ns;
            status = time_one(b, order[i], &ns, err);
            b->ns[order[i]][r < 0 ? 0 : r] = ns;
        }
    }
    return status;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int by_ratio(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void twp_spread(int64_t *ns, int n, int64_t *median, int64_t *min, int64_t *mad)
{
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    *median = ns[n / 2];
    *min = ns[0];
    for (int i = 0; i < n; i++)
        ns[i] = ns[i] > *median ? ns[i] - *median : *median - ns[i];
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    *mad = ns[n / 2];
}

static int64_t median_of(struct twp_bench *b, int form)
{
    size_t n = (size_t)b->repetitions;
    memcpy(b->sorted, b->ns[form], n * sizeof *b->sorted);
    qsort(b->sorted, n, sizeof *b->sorted, by_size);
    return b->sorted[n / 2];
}

/* The fastest dense form of that target; -1: none. */
static int fastest_dense(struct twp_bench *b,
                         const struct tw_bench_point *point, const int *order,
                         const char *target)
{
    int64_t least = INT64_MAX;
    int best = -1;
    for (int i = 0; i < point->n_rows; i++) {
        const struct tw_bench_row *row = &point->row[i];
        if (!row->is_dense || strcmp(row->target, target) != 0)
            continue;
        int64_t median = median_of(b, order[i]);
        if (median < least) {
            least = median;
            best = order[i];
        }
    }
    return best;
}

double twp_median_ratio(const int64_t *a, const int64_t *b, double *ratio,
                        int n)
{
    for (int i = 0; i < n; i++)
        ratio[i] = (double)a[i] / (double)b[i];
    qsort(ratio, (size_t)n, sizeof *ratio, by_ratio);
    return n % 2 ? ratio[n / 2] : (ratio[n / 2 - 1] + ratio[n / 2]) / 2;
}

void twp_bench_spread(struct twp_bench *b, struct tw_bench_point *point)
{
    int order[TWP_FORMS];
    point->n_rows = list_forms(b, order);
    for (int i = 0; i < point->n_rows; i++)
        twp_form_describe(b, order[i], &point->row[i]);
    for (int i = 0; i < point->n_rows; i++) {
        struct tw_bench_row *row = &point->row[i];
        int dense = fastest_dense(b, point, order, row->target);
        row->speedup = twp_median_ratio(b->ns[dense], b->ns[order[i]], b->ratio,
                                        b->repetitions);
    }
    for (int i = 0; i < point->n_rows; i++) {
        struct tw_bench_row *row = &point->row[i];
        twp_spread(b->ns[order[i]], b->repetitions, &row->median, &row->min,
                   &row->mad);
    }
}
