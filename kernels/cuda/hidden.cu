/* The dense path's first half: h of whole rows, counted.
 *
 *   gated: h = act(x Wg^T + bg) * (x Wu^T + bu); plain: h = act(x Wu^T + bu);
 *   with an applied definition h = 0 where it isn't active
 *
 * Shapes: x [rows][k], weights [cols][k], h [rows][stride], bf16 or fp16; h is
 * rounded once, from fp32. A block's tile is 128 rows by 128 columns of both
 * products (B's tile is 128 rows of Wg above 128 of Wu, so that a gate value
 * and its up value stand in one thread), or 256 columns where plain. FLOPs
 * 2 rows k cols a product. Grid: as in pack.cu; 4 stages of 48 KiB.
 *
 * The multiplying warpgroups make h, in pairs of 16 bits, keep it in registers and go
 * on; beside the first steps of the next product they leave it in shared memory, 128
 * columns at a time, with the bits of the pattern and sums of |h|. The copy engine
 * takes it from there; the spare warps count bits beside the products. In bf16 h is 0
 * exactly where its fp32 value is, as both end at 2^-126 (the product of act(gate) and
 * up flushes what is below), so `hidden` is a part of the pattern, and mostly it is the
 * pattern, which the numbers of values that aren't 0 tell, and columns are counted once
 * for both. Thresholds, fp16 (where a small h rounds to 0) and applied definitions cost
 * two instructions a value and definition, at once.
 *
 * down adds a row's nnz from the parts' counts, where these tell it.
 *
 * K 2048, one H200, by turns with cuBLASLt's products and a kernel for act(g) u, M 16384
 * and 65536: gated N 5632 0.88 and 0.90 to 0.91 of them, counted 0.90 to 0.91 and 0.93;
 * plain N 8192 1.00 and 0.945, counted 1.02 and 0.96. Without h's way out 0.86 to 0.88
 * and 0.98. The board's power bounds it all, so that every instruction and every byte
 * costs; of counting, planes' columns are 1 % of the product, sums 0.3 %.
 *
 * Lost: three stages with 256 columns in shared memory (plain 1.05 and 0.98, counted 1.09
 * and 1.02: a block waited for its loads a fifth of its time, most of it while h went
 * out); h written out by the spare warps (gated 2 % slower) and held back until it was
 * counted; h left in shared memory before the next product starts (gated 0.8 %); counts of
 * parts by row, 2 bytes each (plain 1.2 %); accumulators overwritten by integer
 * instructions, 1.20 (act.cuh, as_float); bits of h by the set instruction of bf16 pairs,
 * which is slow; l1 summed by the spare warps (plain 24 % slower: a shuffle waits behind
 * the products' reads of shared memory) or by a product with ones (gated 0.6 % slower than
 * the additions); nnz by atomics and first and last read before they are changed (plain
 * 0.9 %); whole tiles in a half filled last round (plain, M 16384 1.4 %); a leading
 * warpgroup, cache policies of weights (evict last) and of h (streaming, 0.3 %), groups of
 * 16 or 32 row pairs: within the noise. */
#include "kernels/cuda/hidden.cuh"

namespace hidden {

/* Equal definitions have one plane, as have those that are equal here. */
static int plane_of(const Params &p, struct twp_def def, bool is_gated)
{
    if (def.kind == TW_ACTIVE_GATE || (def.kind == TW_ACTIVE_HIDDEN && !is_gated))
        return 0;
    int plane = 0;
    while (plane < p.planes &&
           (p.plane[plane].kind != def.kind || p.plane[plane].threshold != def.threshold))
        plane++;
    return plane;
}

/* FAST suffices where nothing but gate and hidden is counted and no fp32 h is
 * wanted. */
static enum tw_status plan_planes(Params &p, bool is_gated, bool *is_fast, struct tw_error *err)
{
    p.plane[0].kind = TW_ACTIVE_GATE;
    if (p.apply.kind == TW_ACTIVE_ABS || p.apply.kind == TW_ACTIVE_GATE_ABS)
        p.is_applied = true;
    else if (p.apply.kind != TW_ACTIVE_GATE && p.apply.kind != TW_ACTIVE_HIDDEN)
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: applying a share of a row");
    bool is_pattern = p.apply.kind == TW_ACTIVE_GATE ||
                      (p.apply.kind == TW_ACTIVE_HIDDEN && !is_gated);
    if (!is_pattern)
        p.plane[0] = p.apply;
    *is_fast = is_pattern && !p.wide_h;
    p.planes = 1;
    for (int def = 0; p.counts.is_on && def < p.counts.defs; def++) {
        int plane = plane_of(p, p.counts.def[def], is_gated);
        p.plane_of[def] = plane;
        if (plane < p.planes)
            continue;
        p.plane[p.planes++] = p.counts.def[def];
        *is_fast = *is_fast && p.counts.def[def].kind == TW_ACTIVE_HIDDEN;
    }
    return TW_OK;
}

enum tw_status launch_off(const struct twp_device *device, const Params &p, bool is_gated,
                          cudaStream_t stream, struct tw_error *err)
{
    return is_gated ? launch_family<true, OFF>(device, p, stream, err)
                    : launch_family<false, OFF>(device, p, stream, err);
}

/* What the planes follow from. */
static Params params_of(const struct twp_hidden_args *args)
{
    Params p = {};
    p.apply.kind = TW_ACTIVE_GATE;
    if (args->apply)
        p.apply = *args->apply;
    p.wide_h = args->wide_h;
    p.sums = args->parts;
    p.counts = args->counts;
    return p;
}

static bool leaves_nnz(const struct twp_device *device, const struct twp_hidden_args *args,
                       bool is_fast)
{
    return is_fast && args->parts.count && args->counts.is_on && args->type == TW_BF16 &&
           device->path != TW_CUDA_PORTABLE;
}

} // namespace hidden

extern "C" bool tw_hidden_leaves_nnz(const struct twp_device *device,
                                     const struct twp_hidden_args *args)
{
    hidden::Params p = hidden::params_of(args);
    bool is_fast = false;
    return hidden::plan_planes(p, args->gate != NULL, &is_fast, NULL) == TW_OK &&
           hidden::leaves_nnz(device, args, is_fast);
}

extern "C" enum tw_status tw_launch_hidden(const struct twp_device *device,
                                           const struct twp_hidden_args *args,
                                           struct CUstream_st *stream, struct tw_error *err)
{
    using namespace hidden;
    bool is_gated = args->gate != NULL, is_fast = false;
    Params p = params_of(args);
    p.x = common::map_of(args->x);
    p.gate = common::map_of(is_gated ? args->gate : args->up);
    p.up = common::map_of(args->up);
    p.gate_bias = args->gate_bias;
    p.up_bias = args->up_bias;
    p.rows = args->rows;
    p.steps = (args->k + TILE_K - 1) / TILE_K;
    p.cols = args->cols;
    p.parts = (args->cols + TWP_PART - 1) / TWP_PART;
    p.act = args->activation.act;
    p.threshold = args->activation.arg;
    p.h = static_cast<uint16_t *>(args->h);
    p.stride = args->stride;
    p.wide_gate = args->wide_gate;
    enum tw_status status = plan_planes(p, is_gated, &is_fast, err);
    if (status != TW_OK)
        return status;
    p.leaves_nnz = leaves_nnz(device, args, is_fast);
    if (device->path == TW_CUDA_PORTABLE)
        return launch_mma(device, args, p, stream, err);
    struct twp_map h;
    status = twp_map_encode_box(&h, args->type, args->h, args->rows.rows, args->stride,
                                args->stride, staged::BOX, err);
    if (status != TW_OK)
        return status;
    p.h_map = common::map_of(&h);
    if (args->type == TW_F16 || !is_fast)
        return launch_any(device, p, args->type, is_gated, stream, err);
    return p.counts.is_on ? launch_fast(device, p, is_gated, stream, err)
                          : launch_off(device, p, is_gated, stream, err);
}
