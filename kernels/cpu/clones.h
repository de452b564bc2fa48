/* TWP_CLONES before a function compiles it for AVX-512 and for the base
 * instruction set, and the loader picks: one binary, every processor. No clone
 * contracts a * b + c (-std=c11), so both give the same bits. gcc 12 splits
 * 64-byte vectors better for SSE2 than for AVX2, which therefore has no clone;
 * and it breaks on clones of less than the user's own -march. */
#ifndef TW_KERNELS_CPU_CLONES_H
#define TW_KERNELS_CPU_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__AVX512F__)
#define TWP_CLONES __attribute__((target_clones("arch=x86-64-v4", "default")))
#else
#define TWP_CLONES
#endif

#endif
