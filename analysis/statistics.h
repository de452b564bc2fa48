/* Statistics on plain arrays of exact integers: no state, no database. Every
 * function says its definition; each is tested on rows computed by hand.
 *
 *     int64_t count[4] = {0, 2, 1, 1};              // the values 1 1 2 3
 *     tw_histogram_quantile(count, 4, 500);         // median: 1.5
 *     tw_histogram_std(count, 4);                   // population: 0.829...
 *
 * Results are doubles made once from integers, so they depend on the sums
 * alone, never on an order. NaN says "not measured"; the store writes NULL. */
#ifndef TW_ANALYSIS_STATISTICS_H
#define TW_ANALYSIS_STATISTICS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The values a histogram holds: sum of count[0 .. bins-1]. count[v] >= 0 is
 * how often the value v was seen; the total must fit int64_t. */
int64_t tw_histogram_total(const int64_t *count, int64_t bins);

/* Smallest and largest value seen; -1 where there is none. */
int64_t tw_histogram_min(const int64_t *count, int64_t bins);
int64_t tw_histogram_max(const int64_t *count, int64_t bins);

/* Quantile of type 7 (Hyndman and Fan; R's and NumPy's default): with n values
 * in order x[0 .. n-1] and h = (n-1) * permille / 1000, the value
 * x[floor h] + (h - floor h) * (x[floor h + 1] - x[floor h]). permille: 0 ..
 * 1000, an integer, so that h is exact. NaN if there is no value. */
double tw_histogram_quantile(const int64_t *count, int64_t bins, int permille);

/* Population standard deviation, sqrt(mean of (v - mean)^2), from exact
 * 128-bit sums. NaN if there is no value. */
double tw_histogram_std(const int64_t *count, int64_t bins);

/* sum / count; NaN if count is 0. */
double tw_ratio(int64_t sum, int64_t count);

/* Delete-one jackknife standard error of the ratio sum(sum) / sum(count) over
 * the blocks with count > 0. With k of them and R_i the ratio without block i:
 * sqrt((k-1)/k * sum_i (R_i - mean R)^2). NaN with fewer than two. The totals
 * must fit int64_t. */
double tw_jackknife_ratio_se(const int64_t *sum, const int64_t *count,
                             int blocks);

/* Points of a dead curve at most: 2^0 .. 2^62 and the end. */
#define TW_DEAD_POINTS 64

/* How many of `neurons` neurons had not fired when tokens_seen rows had been
 * seen, at tokens_seen = 1, 2, 4, ... < total and at total. first[i]: rows
 * before the i-th neuron's first firing (clock from 0: it has fired once
 * tokens_seen > first), negative or beyond total: never; any order. Writes up
 * to TW_DEAD_POINTS values to tokens_seen and dead; returns how many, 0 if
 * total is 0. */
int tw_dead_curve(const int64_t *first, int64_t neurons, int64_t total,
                  int64_t *tokens_seen, int64_t *dead);

#ifdef __cplusplus
}
#endif
#endif
