/* What a feed-forward layer costs on this backend, in columns of the first
 * product: a row of it is d_ff of them, and so is each further product.
 *
 * An entry takes ENTRY columns for each weight it meets, measured as ffn.c's
 * table shows it: from 5 to 20 % of density, where the choice lies, 3.7 to 4.3
 * where a row of weights is short or of 16 bits, 6.5 where 8 KiB of floats a
 * row pass the second-level cache (2048 x 5632: the sparse layer meets the
 * dense one at 25 and 16 %). At lower densities an entry costs up to twice as
 * much, which changes no choice. A routed row is packed first and then runs all
 * products. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"
#include "kernels/ffn_plan.h"

#define ENTRY          4.2
#define ENTRY_LONG     6.5
#define LONG_ROW_BYTES 4096

static struct twp_ffn_costs costs_of(const struct tw_ffn *ffn)
{
    const struct tw_ffn_desc *desc = &ffn->desc;
    double columns = (double)desc->d_ff;
    double products = desc->gate.data ? 3 : 2;
    double row_bytes =
        (double)desc->d_model * (double)tw_dtype_size(desc->up.dtype);
    double entry = row_bytes > LONG_ROW_BYTES ? ENTRY_LONG : ENTRY;
    return (struct twp_ffn_costs){.dense = products * columns,
                                  .pack = columns,
                                  .entry = (products - 1) * entry,
                                  .routed = products * columns};
}

enum tw_status twp_cpu_plan(void *ctx, const struct tw_ffn *ffn,
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

enum tw_status twp_cpu_plan_use(void *ctx, struct tw_ffn *ffn,
                                const struct tw_ffn_plan *plan,
                                struct tw_error *err)
{
    (void)ctx;
    enum tw_status status = twp_ffn_plan_check(plan, ffn->desc.path, err);
    if (status == TW_OK)
        ffn->plan = *plan;
    return status;
}
