/* The vector kernels for any processor: four-wide vectors of the compiler. */
#include <config.h>

#define TWP_VW 4
#define TWP_TARGET

#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_count.h"
#include "kernels/cpu/simd_pack.h"
#include "kernels/cpu/simd_product.h"
#include "kernels/cpu/simd_sparse.h"

const struct twp_simd twp_simd_base = {
    .name = "base",
    .mr = MR,
    .product = product,
    .activate = activate,
    .pack = pack,
    .sparse = sparse,
    .order = order,
    .unorder = unorder,
    .interleave = interleave,
    .give = give,
    .above = above,
    .bits = bits_of,
    .mask = mask,
    .tally = tally,
    .lanes = lanes,
    .multiply = multiply,
};
