/* Firing rates: uniform, or a trained layer's. */
#include <config.h>

#include "run/bench_rates.h"

#include <assert.h>
#include <math.h>

#include "run/bench_rates_table.h"
#include "run/random.h"

#define HALVINGS 100 /* of the scale's logarithm */

void tw_bench_rates_uniform(double *rate, int64_t n, double mean_nnz)
{
    for (int64_t i = 0; i < n; i++)
        rate[i] = mean_nnz / (double)n;
}

static double measured(int64_t i)
{
    return i < TWP_RATES_DEAD
               ? 0
               : (double)twp_fired[i - TWP_RATES_DEAD] / TWP_RATES_TOKENS;
}

/* The rate at quantile q of the measured ones, 0 < q < 1: neuron i of them
 * stands at (i + 1/2) / TWP_RATES. */
static double at_quantile(double q)
{
    double place = q * TWP_RATES - 0.5;
    if (place <= 0)
        return measured(0);
    if (place >= TWP_RATES - 1)
        return measured(TWP_RATES - 1);
    double low = floor(place), part = place - low;
    return measured((int64_t)low) * (1 - part) +
           measured((int64_t)low + 1) * part;
}

static double sum_scaled(const double *rate, int64_t n, double scale)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += rate[i] * scale < 1 ? rate[i] * scale : 1;
    return sum;
}

/* The scale at which the capped rates sum to mean_nnz. */
static double find_scale(const double *rate, int64_t n, double mean_nnz)
{
    double low = -60, high = 60; /* of its logarithm */
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (sum_scaled(rate, n, exp(middle)) < mean_nnz)
            low = middle;
        else
            high = middle;
    }
    return exp(high);
}

static void shuffle(double *rate, int64_t n, uint64_t seed)
{
    struct tw_random random = {seed};
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)(tw_random_bits(&random) % (uint64_t)(i + 1));
        double kept = rate[i];
        rate[i] = rate[j];
        rate[j] = kept;
    }
}

double tw_bench_rates_skewed(double *rate, int64_t n, double mean_nnz,
                             uint64_t seed)
{
    assert(n > 0);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        rate[i] = at_quantile(((double)i + 0.5) / (double)n);
    double scale = mean_nnz > 0 ? find_scale(rate, n, mean_nnz) : 0;
    for (int64_t i = 0; i < n; i++) {
        rate[i] = rate[i] * scale < 1 ? rate[i] * scale : 1;
        sum += rate[i];
    }
    shuffle(rate, n, seed);
    return sum;
}
