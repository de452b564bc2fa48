/* Firing rates of a layer's neurons, as `bench` plants them.
 *
 *     tw_bench_rates_skewed(rate, 5632, 29, seed);   // sum of rate: 29
 */
#ifndef TW_RUN_BENCH_RATES_H
#define TW_RUN_BENCH_RATES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* rate[n] = mean_nnz / n for each: every neuron equally likely. */
void tw_bench_rates_uniform(double *rate, int64_t n, double mean_nnz);

/* A trained layer's rates (bench_rates_table.h): interpolated by quantile to n
 * neurons, scaled until they sum to mean_nnz, each at most 1, shuffled. About
 * half the neurons never fire, so a larger mean can't be had: then all others
 * always fire. Returns the sum. */
double tw_bench_rates_skewed(double *rate, int64_t n, double mean_nnz,
                             uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
