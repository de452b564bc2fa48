/* Which vector kernels this processor runs. */
#include <config.h>

#include "kernels/cpu/simd.h"

#include <stdlib.h>
#include <string.h>

static bool is_asked_for(const char *name)
{
    const char *asked = getenv("TW_SIMD");
    return !asked || !*asked || strcmp(asked, name) == 0;
}

const struct twp_simd *twp_simd_find(void)
{
#if defined(__x86_64__)
    bool is_v3 = __builtin_cpu_supports("avx2") &&
                 __builtin_cpu_supports("fma") &&
                 __builtin_cpu_supports("bmi2");
    bool is_v4 = is_v3 && __builtin_cpu_supports("avx512f") &&
                 __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vl");
    if (is_v4 && is_asked_for("v4"))
        return &twp_simd_v4;
    if (is_v3 && is_asked_for("v3"))
        return &twp_simd_v3;
#endif
    return &twp_simd_base;
}
