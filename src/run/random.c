/* Random numbers for synthetic data. */
#include <config.h>

#include "run/random.h"

#include <assert.h>
#include <math.h>

uint64_t tw_random_bits(struct tw_random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double tw_random_uniform(struct tw_random *random)
{
    return ((double)(tw_random_bits(random) >> 11) + 0.5) * 0x1p-53;
}

double tw_random_normal(struct tw_random *random)
{
    double radius = sqrt(-2 * log(tw_random_uniform(random)));
    return radius * cos(6.283185307179586 * tw_random_uniform(random));
}

static double ratio(const double *a, int na, const double *b, int nb, double x)
{
    double top = 0, bottom = 0;
    for (int i = 0; i < na; i++)
        top = top * x + a[i];
    for (int i = 0; i < nb; i++)
        bottom = bottom * x + b[i];
    return top / (bottom * x + 1);
}

double tw_normal_quantile(double p)
{
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                               -2.759285104469687e+02, 1.383577518672690e+02,
                               -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                               -1.556989798598866e+02, 6.680131188771972e+01,
                               -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                               -2.400758277161838e+00, -2.549732539343734e+00,
                               4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01,
                               2.445134137142996e+00, 3.754408661907416e+00};
    assert(p > 0 && p < 1);
    if (p < 0.02425)
        return ratio(c, 6, d, 4, sqrt(-2 * log(p)));
    if (p > 1 - 0.02425)
        return -ratio(c, 6, d, 4, sqrt(-2 * log(1 - p)));
    double q = p - 0.5;
    return q * ratio(a, 6, b, 5, q * q);
}
