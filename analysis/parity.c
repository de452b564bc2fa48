/* Comparison of observed arrays with an oracle's. */
#include <config.h>

#include "analysis/parity.h"

#include <float.h>
#include <math.h>

struct counts {
    int64_t cells, identical, max_difference;
    double sum_a, sum_b;
};

static void compare(struct counts *c, uint64_t a, uint64_t b)
{
    int64_t difference = (int64_t)(a > b ? a - b : b - a);
    c->cells++;
    c->identical += difference == 0;
    if (difference > c->max_difference)
        c->max_difference = difference;
    c->sum_a += (double)a;
    c->sum_b += (double)b;
}

static double max_relative(const float *a, const float *b, int64_t rows)
{
    double worst = 0;
    for (int64_t i = 0; i < rows; i++) {
        double base = fmax(fabs((double)b[i]), (double)FLT_MIN);
        double relative = fabs((double)a[i] - (double)b[i]) / base;
        if (!(relative <= worst)) /* NaN too */
            worst = isnan(relative) ? INFINITY : relative;
    }
    return worst;
}

void tw_parity_layer(const struct tw_parity_arrays *a,
                     const struct tw_parity_arrays *b, int64_t rows,
                     int64_t width, struct tw_parity_layer *layer)
{
    struct counts nnz = {0}, fired = {0};
    if (a->nnz && b->nnz)
        for (int64_t i = 0; i < rows; i++)
            compare(&nnz, a->nnz[i], b->nnz[i]);
    if (a->fired && b->fired)
        for (int64_t i = 0; i < width; i++)
            compare(&fired, a->fired[i], b->fired[i]);
    *layer = (struct tw_parity_layer){
        .cells = nnz.cells,
        .identical = nnz.identical,
        .max_difference = nnz.max_difference,
        .total_difference = nnz.cells ? fabs(nnz.sum_a - nnz.sum_b) /
                                            fmax(1, nnz.sum_b)
                                      : NAN,
        .fired_cells = fired.cells,
        .fired_identical = fired.identical,
        .fired_max_difference = fired.max_difference,
        .l1_max_relative = a->l1 && b->l1 ? max_relative(a->l1, b->l1, rows)
                                          : NAN};
}

double tw_parity_max_difference(const float *a, const float *b, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(a[i]) && isnan(b[i]))
            continue;
        double difference = fabs((double)a[i] - (double)b[i]);
        if (!(difference <= worst))
            worst = isnan(difference) ? INFINITY : difference;
    }
    return worst;
}

/* In the order of the array, in double: a comparison, not a statistic. */
static double mean_of(const float *values, int64_t count)
{
    double sum = 0;
    int64_t used = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(values[i]))
            continue;
        sum += (double)values[i];
        used++;
    }
    return used ? sum / (double)used : NAN;
}

double tw_parity_mean_difference(const float *a, const float *b,
                                 int64_t count)
{
    return fabs(mean_of(a, count) - mean_of(b, count));
}
