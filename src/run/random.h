/* Reproducible random numbers for synthetic models and data: splitmix64 and
 * Box-Muller. Not for secrets. */
#ifndef TW_RUN_RANDOM_H
#define TW_RUN_RANDOM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tw_random {
    uint64_t state; /* the seed */
};

uint64_t tw_random_bits(struct tw_random *random);
/* Uniform in (0, 1). */
double tw_random_uniform(struct tw_random *random);
/* Standard normal. */
double tw_random_normal(struct tw_random *random);
/* The normal distribution's quantile, 0 < p < 1: Acklam's rational
 * approximation, relative error below 1.2e-9. */
double tw_normal_quantile(double p);

#ifdef __cplusplus
}
#endif
#endif
