/* What a feed-forward layer costs on this backend, in columns of the gate's
 * dense product (a row takes d_ff of them): ratios of kernels measured beside
 * each other, so free of the clock. A column and an entry both cost in
 * proportion to d_model, so that it drops out.
 *
 * One H200, d_model 2048, d_ff 5632, 16384 rows, uniform: the product of
 * cuBLASLt 0.503 ms, so a column 5.45 ps. Packing 1.02 of the product; a sparse
 * layer of 15, 29, 50, 100, 300 non-zeros a row 0.81, 1.01, 1.30, 2.05, 5.16
 * ms: 0.87 to 0.95 ns an entry (0.44 a weight) and 5.2 ns a row. Dense 1.55 ms,
 * where it meets the sparse layer at 65 non-zeros. Routed rows: 98 ns each, and
 * 0.05 ms if there are any (one row: 0.07 to 0.09 ms measured since). A row
 * alone is taken to need half a microsecond an entry, whatever runs beside it:
 * a guess from two rows of each weight being on their way at a time, as are the
 * figures of plain layers.
 *
 * Weights larger than half the L2 cache, whose halves keep their own copies,
 * come in part from memory: 2.4 times as slow. That factor is the ratio of
 * bandwidths, not measured. */
#include <config.h>

#include "kernels/cuda/cuda_internal.h"
#include "kernels/ffn_plan.h"

#include <cuda_runtime_api.h>

#define PACK      1.02 /* these of the product */
#define DENSE     3.08
#define DENSE_UP  2.05 /* plain: two products */
#define ROUTED    3.2
#define ROUTED_UP 2.2

#define ROW       950.0 /* these in columns */
#define ROW_PLAIN 450.0
#define ENTRY     82.0 /* a weight's row */
#define ANY       1.4e7
#define CHAIN     9e4 /* at d_model 2048; a latency, so the less the longer */

#define FROM_MEMORY 2.4
#define L2_BYTES    (50 << 20) /* where the device doesn't say */

static double entry_cost(const struct tw_ffn *ffn)
{
    int device = 0, l2 = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device) !=
            cudaSuccess ||
        l2 <= 0) {
        cudaGetLastError();
        l2 = L2_BYTES;
    }
    double bytes = 2.0 * ffn->d * ffn->f, kept = l2 / 2.0;
    double missed = bytes > kept ? 1 - kept / bytes : 0;
    return ENTRY * (1 + (FROM_MEMORY - 1) * missed);
}

static struct twp_ffn_costs costs_of(const struct tw_ffn *ffn)
{
    bool is_gated = ffn->is_gated;
    double columns = ffn->f;
    return (struct twp_ffn_costs){
        .dense = (is_gated ? DENSE : DENSE_UP) * columns,
        .pack = PACK * columns,
        .row = is_gated ? ROW : ROW_PLAIN,
        .entry = (is_gated ? 2 : 1) * entry_cost(ffn),
        .chain = (is_gated ? 1 : 0.5) * CHAIN * 2048 / ffn->d,
        .routed = (is_gated ? ROUTED : ROUTED_UP) * columns,
        .any = ANY};
}

enum tw_status twp_cuda_plan(void *ctx, const struct tw_ffn *ffn,
                             const struct tw_ffn_seen *seen,
                             struct tw_ffn_plan *plan, struct tw_error *err)
{
    (void)ctx;
    if (!ffn->can_pack || seen->rows == 0) {
        *plan = (struct tw_ffn_plan){
            ffn->can_pack ? TW_FFN_TWELL : TW_FFN_DENSE, TW_NO_ROW_LIMIT};
        return TW_OK;
    }
    const struct twp_ffn_costs costs = costs_of(ffn);
    return twp_ffn_plan_choose(&costs, seen, plan, err);
}

enum tw_status twp_cuda_plan_use(void *ctx, struct tw_ffn *ffn,
                                 const struct tw_ffn_plan *plan,
                                 struct tw_error *err)
{
    (void)ctx;
    enum tw_status status = twp_ffn_plan_check(
        plan, ffn->can_pack ? TW_FFN_TWELL : TW_FFN_DENSE, err);
    if (status != TW_OK)
        return status;
    ffn->is_dense = plan->path == TW_FFN_DENSE;
    ffn->row_limit = (int32_t)plan->row_limit;
    return TW_OK;
}
