/* The vector kernels for any processor: four-wide vectors of the compiler. */
#include <config.h>

#define TWP_VW 4
#define TWP_TARGET

#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_count.h"
#include "kernels/cpu/simd_pack.h"
#include "kernels/cpu/simd_product.h"
#include "kernels/cpu/simd_sparse.h"
#include "kernels/cpu/simd_table.h"

const struct twp_simd twp_simd_base = TWP_SIMD_TABLE("base");
