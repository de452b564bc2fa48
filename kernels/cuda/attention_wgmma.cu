/* Causal attention on Hopper: the formula, shapes and rules of attention.cu, by TMA
 * and WGMMA, for heads of 64, 96 and 128 with neither soft cap nor alibi. 4 d FLOP
 * and one exponential a score that is multiplied: at d = 64 the tensor cores and the
 * exponentials of a multiprocessor take equally long (4,096 FLOP and 16 exponentials
 * a clock), so both must be busy at once. K and V are read from the L2 once for every
 * 128 queries: a byte for 128 FLOP.
 *
 * A warpgroup has 64 queries and walks down the tiles of keys. Scores, weights, which
 * are the left side of the next product, and Q's fragments are registers. Heads of 64:
 * tiles of 128 keys, one product after the other, two blocks of two warpgroups on a
 * multiprocessor, 128 registers a thread; the four warpgroups overlap by themselves,
 * and a block's beginning and end with the other block's middle; the first thread
 * loads. Wider heads: a warpgroup issues the scores of the next tile and the outputs of
 * this one's weights, and weighs the scores while the outputs are still being added
 * (FlashAttention-3, Shah and others 2024); one block that stays and takes rows of
 * sequences and heads as it gets to them, a third warpgroup that loads and gives its
 * registers away, and turns at the tensor cores (named barriers); tiles of 64 keys for
 * heads of 96, of 128 for heads of 128.
 *
 * One H200, 32 heads of 64, causal, 65,536 rows in sequences of 512, 2,048 and 8,192:
 * 256, 424 and 519 TFLOP/s (2 T^2 d a head), the portable kernel 152, 202 and 223;
 * heads of 128: 336, 561, 678; of 96: 270, 448, 545. What lost at these lengths, heads
 * of 64: tiles of 64 keys, overlapped, 269, 404, 466 (Q kept in registers or not: the
 * same); one block of 128 keys with turns 262, 382, 450; three warpgroups 245, 417,
 * 525, with turns 231, 407, 520. Heads of 128: 64 keys with turns 365, 540, 599,
 * without 365, 541, 615; 96 keys 335, 544, 651; two blocks 354, 523, 589; three
 * warpgroups 352, 561, 664. Heads of 96: two blocks 244, 430, 551.
 *
 * A tile's pair of K and V is one stage with one barrier: V is the one of the tile
 * before, as both are multiplied together. A row's weights are 2^(c s - base); its base
 * moves only where a score is 2^8 above it, so that rescaling is rare, and a row's base
 * depends on its own scores alone. Tiles start at the sequence's first row, what a
 * query doesn't see is an exact no-op, and V's rows behind the sequence's end are
 * cleared: a row's bits are free of the batch.
 *
 * What the compiler does with it (cuobjdump -sass): a wait for barriers between two
 * groups of products serializes all (C7519), so a pair is taken before its first
 * product; the wait for the outputs moved up before the exponentials until the next
 * pair's barrier, a branch, stood between them; the group's number by a shuffle makes
 * addresses and descriptors uniform, 225 instructions a tile of 64 keys, not 265. */
#include "kernels/cuda/attention_wgmma.cuh"

namespace {

using namespace attention_wgmma;

template <enum tw_dtype T>
enum tw_status by_size(const struct twp_device *device, const struct twp_attention_args *args,
                       cudaStream_t stream, struct tw_error *err)
{
    switch (args->head_dim) {
    case 64:
        return run<T, Form<64, 2, 128, 3, 2, false, false, false>>(device, args, stream, err);
    case 96:
        return run<T, Form<96, 2, 64, 4, 1, true, true, true>>(device, args, stream, err);
    default:
        return run<T, Form<128, 2, 128, 2, 1, true, true, true>>(device, args, stream, err);
    }
}

} // namespace

extern "C" bool twp_attention_wgmma_takes(const struct twp_device *device,
                                          const struct twp_attention_args *args)
{
    return device->path == TW_CUDA_HOPPER && args->scale > 0 && args->soft_cap <= 0 &&
           !args->alibi && (args->head_dim == 64 || args->head_dim == 96 || args->head_dim == 128);
}

extern "C" enum tw_status twp_launch_attention_wgmma(const struct twp_device *device,
                                                     const struct twp_attention_args *args,
                                                     struct CUstream_st *stream,
                                                     struct tw_error *err)
{
    return args->type == TW_F16 ? by_size<TW_F16>(device, args, stream, err)
                                : by_size<TW_BF16>(device, args, stream, err);
}
