/* Running softmax of one query row, sixteen keys at a time. The order of its
 * sums depends on the keys' places alone. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/vmath.h"

TWP_INLINE void lane_numbers(twp_i16 *lane)
{
    *lane = (twp_i16){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

/* Soft cap, ALiBi and the mask on keys [begin, end); their maximum. */
TWP_INLINE float bend_scores(float *score, int32_t begin, int32_t end,
                             int32_t from, int32_t to, float soft_cap,
                             float slope, float distance)
{
    twp_v16 zero = {0}, hidden = zero - INFINITY, largest = hidden;
    twp_i16 lane;
    lane_numbers(&lane);
    for (int32_t i = begin; i < end; i += TWP_LANES) {
        twp_v16 s;
        twp_i16 key = lane + i;
        twp_load(&s, score + i);
        if (soft_cap > 0) {
            s = s / soft_cap;
            twp_tanh(&s);
            s = s * soft_cap;
        }
        if (slope != 0)
            s += slope * (__builtin_convertvector(key, twp_v16) + distance);
        /* By sign bits: gcc 12 takes integer comparisons apart. */
        twp_i16 is_hidden = ((key - from) | (to - 1 - key)) >> 31;
        twp_select(&s, &is_hidden, &hidden, &s);
        twp_max(&largest, &s);
        twp_store(score + i, &s);
    }
    return twp_max_lanes(&largest);
}

TWP_INLINE float exp_scores(float *score, int32_t begin, int32_t end, float max)
{
    twp_v16 sum = {0};
    for (int32_t i = begin; i < end; i += TWP_LANES) {
        twp_v16 s;
        twp_load(&s, score + i);
        s -= max;
        twp_exp(&s);
        sum += s;
        twp_store(score + i, &s);
    }
    return twp_sum_lanes(&sum);
}

TWP_INLINE float exp_one(float x)
{
    twp_v16 v = {0};
    v += x;
    twp_exp(&v);
    return v[0];
}

/* distance: the first key's position less the row's own. */
TWP_CLONES
float twp_softmax_row(struct twp_softmax *state, float *score, int64_t keys,
                      int64_t from, int64_t to, float soft_cap, float slope,
                      int64_t distance)
{
    assert(keys % TWP_LANES == 0 && keys <= INT32_MAX);
    if (from < 0)
        from = 0;
    if (to > keys)
        to = keys;
    if (from >= to) {
        memset(score, 0, (size_t)keys * sizeof *score);
        return 1.0f;
    }
    int32_t begin = (int32_t)from / TWP_LANES * TWP_LANES;
    int32_t end = ((int32_t)to + TWP_LANES - 1) / TWP_LANES * TWP_LANES;
    float max = bend_scores(score, begin, end, (int32_t)from, (int32_t)to,
                            soft_cap, slope, (float)distance);
    if (state->max > max)
        max = state->max;
    float factor = state->max == max ? 1.0f : exp_one(state->max - max);
    memset(score, 0, (size_t)begin * sizeof *score);
    state->sum = state->sum * factor + exp_scores(score, begin, end, max);
    memset(score + end, 0, (size_t)(keys - end) * sizeof *score);
    state->max = max;
    return factor;
}
