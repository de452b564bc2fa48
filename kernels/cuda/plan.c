/* What a feed-forward layer costs on this backend, in columns of the gate's
 * dense product (its row takes d_ff of them): ratios of kernels that were measured
 * beside each other, free of the clock.
 *
 * To be measured. */
#include <config.h>

#include "kernels/cuda/cuda_internal.h"
#include "kernels/ffn_plan.h"

static struct twp_ffn_costs costs_of(const struct tw_ffn *ffn)
{
    double columns = ffn->f;
    return ffn->is_gated ? (struct twp_ffn_costs){.dense = 3.2 * columns,
                                                  .pack = 1.03 * columns,
                                                  .row = 1100,
                                                  .entry = 110,
                                                  .chain = 30000,
                                                  .routed = 3.2 * columns,
                                                  .any = 1.5e7}
                         : (struct twp_ffn_costs){.dense = 2.1 * columns,
                                                  .pack = 1.03 * columns,
                                                  .row = 600,
                                                  .entry = 90,
                                                  .chain = 30000,
                                                  .routed = 2.1 * columns,
                                                  .any = 1.5e7};
}

enum tw_status twp_cuda_plan(void *ctx, const struct tw_ffn *ffn,
                             const struct tw_ffn_seen *seen,
                             struct tw_ffn_plan *plan, struct tw_error *err)
{
    (void)ctx;
    if (ffn->desc.path == TW_FFN_DENSE || seen->rows == 0) {
        *plan = (struct tw_ffn_plan){ffn->desc.path, TW_NO_ROW_LIMIT};
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
    enum tw_status status = twp_ffn_plan_check(plan, ffn->desc.path, err);
    if (status != TW_OK)
        return status;
    ffn->is_dense = plan->path == TW_FFN_DENSE;
    ffn->row_limit = (int32_t)plan->row_limit;
    return TW_OK;
}
