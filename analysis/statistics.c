/* Statistics on arrays of exact integers; definitions stand in the header. */
#include <config.h>

#include "analysis/statistics.h"

#include <assert.h>
#include <math.h>

__extension__ typedef __int128 int128;

int64_t tw_histogram_total(const int64_t *count, int64_t bins)
{
    int64_t total = 0;
    for (int64_t v = 0; v < bins; v++)
        total += count[v];
    return total;
}

int64_t tw_histogram_min(const int64_t *count, int64_t bins)
{
    for (int64_t v = 0; v < bins; v++)
        if (count[v])
            return v;
    return -1;
}

int64_t tw_histogram_max(const int64_t *count, int64_t bins)
{
    for (int64_t v = bins - 1; v >= 0; v--)
        if (count[v])
            return v;
    return -1;
}

double tw_histogram_quantile(const int64_t *count, int64_t bins, int permille)
{
    assert(permille >= 0 && permille <= 1000);
    int64_t n = tw_histogram_total(count, bins);
    if (n == 0)
        return NAN;
    /* h = (n-1) * permille / 1000 in integers: rank + part / 1000. */
    int64_t whole = (n - 1) / 1000, rest = (n - 1) % 1000 * permille;
    int64_t rank = whole * permille + rest / 1000, part = rest % 1000;
    int64_t before = 0, low = -1;
    for (int64_t v = 0; v < bins; v++) {
        before += count[v];
        if (low < 0 && before > rank)
            low = v;
        if (low >= 0 && (part == 0 || before > rank + 1))
            return (double)low + (double)((v - low) * part) / 1000.0;
    }
    return (double)low;
}

double tw_histogram_std(const int64_t *count, int64_t bins)
{
    int128 n = tw_histogram_total(count, bins), sum = 0, squares = 0;
    if (n == 0)
        return NAN;
    for (int64_t v = 0; v < bins; v++)
        sum += (int128)v * count[v];
    /* About floor(mean): small terms, so nothing cancels. */
    int64_t centre = (int64_t)(sum / n);
    sum -= centre * n;
    for (int64_t v = 0; v < bins; v++)
        squares += (int128)(v - centre) * (v - centre) * count[v];
    double mean = (double)sum / (double)n;
    double variance = (double)squares / (double)n - mean * mean;
    return variance > 0 ? sqrt(variance) : 0;
}

double tw_ratio(int64_t sum, int64_t count)
{
    return count ? (double)sum / (double)count : NAN;
}

double tw_jackknife_ratio_se(const int64_t *sum, const int64_t *count,
                             int blocks)
{
    int64_t all_sum = 0, all_count = 0;
    int used = 0;
    for (int i = 0; i < blocks; i++) {
        if (count[i] == 0)
            continue;
        all_sum += sum[i];
        all_count += count[i];
        used++;
    }
    if (used < 2)
        return NAN;
    double mean = 0, squares = 0;
    for (int i = 0; i < blocks; i++)
        if (count[i])
            mean += tw_ratio(all_sum - sum[i], all_count - count[i]);
    mean /= used;
    for (int i = 0; i < blocks; i++) {
        if (count[i] == 0)
            continue;
        double d = tw_ratio(all_sum - sum[i], all_count - count[i]) - mean;
        squares += d * d;
    }
    return sqrt(squares * (used - 1) / used);
}

int tw_dead_curve(const int64_t *first, int64_t neurons, int64_t total,
                  int64_t *tokens_seen, int64_t *dead)
{
    /* born[k]: neurons with 2^(k-1) <= first < 2^k, those alive at 2^k. */
    int64_t born[TW_DEAD_POINTS] = {0}, alive = 0;
    int points = 0;
    for (int64_t i = 0; i < neurons; i++) {
        if (first[i] >= total)
            continue;
        if (first[i] > 0)
            born[64 - __builtin_clzll((unsigned long long)first[i])]++;
        else if (first[i] == 0)
            born[0]++;
    }
    for (int k = 0; k < 63 && ((int64_t)1 << k) < total; k++) {
        alive += born[k];
        tokens_seen[points] = (int64_t)1 << k;
        dead[points++] = neurons - alive;
    }
    if (total > 0) {
        alive += born[points];
        tokens_seen[points] = total;
        dead[points++] = neurons - alive;
    }
    return points;
}
