/* The table of one instruction set's kernels: the bodies that the including
 * file has compiled for its TWP_TARGET. */
#ifndef TW_KERNELS_CPU_SIMD_TABLE_H
#define TW_KERNELS_CPU_SIMD_TABLE_H

#define TWP_SIMD_TABLE(name_)                                               \
    {                                                                       \
        .name = name_, .mr = MR, .product = product, .activate = activate,  \
        .pack = pack, .sparse = sparse, .order = order, .unorder = unorder, \
        .interleave = interleave, .give = give, .above = above,             \
        .bits = bits_of, .mask = mask, .tally = tally, .lanes = lanes,      \
        .multiply = multiply,                                               \
    }

#endif
