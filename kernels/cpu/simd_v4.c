/* The vector kernels for AVX-512 (x86-64-v4). */
#include <config.h>

#if defined(__x86_64__)
#define TWP_VW 16
#define TWP_TARGET                                                             \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,"  \
                          "bmi,bmi2,popcnt")))

#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_count.h"
#include "kernels/cpu/simd_pack.h"
#include "kernels/cpu/simd_product.h"
#include "kernels/cpu/simd_sparse.h"
#include "kernels/cpu/simd_table.h"

const struct twp_simd twp_simd_v4 = TWP_SIMD_TABLE("v4");
#else
typedef int tw_not_x86; /* an empty unit is not C */
#endif
