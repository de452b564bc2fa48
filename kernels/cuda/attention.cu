/* Causal attention over the sequences of a batch, in tiles with a running maximum
 * and sum (FlashAttention, Dao and others 2022; FlashAttention-2, Dao 2023):
 *     s = scale q k^T (soft cap, alibi),  y = softmax(s) v
 * q, y [rows][heads][head_dim], k, v [rows][kv_heads][head_dim] of 16 bits.
 * Over a sequence of T rows 2 T^2 head_dim FLOP a head, on mma.sync; K and V of
 * a head are read once for every 128 queries, from the L2: the blocks of one
 * sequence and head follow each other.
 *
 * A block takes 128 queries of one head, a warp 32 of them (16 where heads are
 * wider than 128), so that every fragment of K and V serves two products. K and
 * V come in tiles of 64 keys (32) through two stages of cp.async; scores and
 * weights stay in registers, the accumulators of one product being the operand
 * of the next; maxima and sums are fp32. The scale stands in exp2's argument.
 *
 * Tiles of keys start at the sequence's first row, whatever the queries, and
 * what a query doesn't see is an exact no-op (its weight is 0, the factor 1):
 * so a row's result depends on its sequence up to it and its place there alone,
 * as long as v is finite (0 Inf is NaN in the rows before it in its tile; such a
 * run fails). A tile that a warp's queries don't see is skipped.
 *
 * On Hopper's path attention_wgmma.cu takes what it can. */
#include "kernels/cuda/attention.cuh"

namespace {

using namespace attention;

/* By head size, the least that holds it. */
template <enum tw_dtype T, bool IS_BENT>
enum tw_status by_size(const struct twp_device *device, const params &p, cudaStream_t stream,
                       struct tw_error *err)
{
    using form = enum tw_status (*)(const struct twp_device *, const params &, cudaStream_t,
                                    struct tw_error *);
    static const struct {
        int32_t head_dim;
        form run;
    } forms[] = {{32, run<T, Shape<32, 2, 64, true, 2>, IS_BENT>},
                 {64, run<T, Shape<64, 2, 64, true, 2>, IS_BENT>},
                 {96, run<T, Shape<96, 2, 64, false, 2>, IS_BENT>},
                 {128, run<T, Shape<128, 2, 32, false, 2>, IS_BENT>},
                 {192, run<T, Shape<192, 1, 32, true, 1>, IS_BENT>},
                 {256, run<T, Shape<256, 1, 32, true, 1>, IS_BENT>}};
    for (const auto &form : forms)
        if (p.head_dim <= form.head_dim)
            return form.run(device, p, stream, err);
    return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: attention heads of %d, more than 256",
                        p.head_dim);
}

} // namespace

extern "C" enum tw_status tw_launch_attention(const struct twp_device *device,
                                              const struct twp_attention_args *args,
                                              struct CUstream_st *stream, struct tw_error *err)
{
    const struct twp_device_batch *batch = args->batch;
    bool is_all = args->window <= 0 || args->window > INT32_MAX;
    bool is_bent = args->soft_cap > 0 || args->alibi || !(args->scale > 0);
    params p = {static_cast<uint16_t *>(args->y),
                static_cast<const uint16_t *>(args->q),
                static_cast<const uint16_t *>(args->k),
                static_cast<const uint16_t *>(args->v),
                args->alibi,
                batch->offset,
                batch->tile_seq,
                batch->tile_place,
                batch->tiles,
                args->heads,
                args->kv_heads,
                args->head_dim,
                is_all ? INT32_MAX : (int32_t)args->window,
                args->scale,
                args->soft_cap,
                args->soft_cap > 0 ? 2 * LOG2_E / args->soft_cap : 0.0f,
                args->alibi_bf16};
    if (args->head_dim % 8 != 0)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "cuda: attention heads of %d, not a multiple of 8", args->head_dim);
    if ((int64_t)batch->tiles * args->heads > INT32_MAX)
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: attention of too many tiles");
    if (twp_attention_wgmma_takes(device, args))
        return twp_launch_attention_wgmma(device, args, stream, err);
    if (args->type == TW_F16)
        return is_bent ? by_size<TW_F16, true>(device, p, stream, err)
                       : by_size<TW_F16, false>(device, p, stream, err);
    return is_bent ? by_size<TW_BF16, true>(device, p, stream, err)
                   : by_size<TW_BF16, false>(device, p, stream, err);
}
