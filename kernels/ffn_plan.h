/* How a feed-forward layer is to be computed, from what it did to some rows and
 * from a model of cost. Never from a timing, nor from a batch's size: results
 * are the same bits for every -b. Shared inside this room: each backend gives
 * its own costs (cpu/ffn_plan.c, cuda/plan.c). */
#ifndef TW_KERNELS_FFN_PLAN_H
#define TW_KERNELS_FFN_PLAN_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In any unit, of rows in a large batch. */
struct twp_ffn_costs {
    double dense; /* a row of a dense layer */
    double pack;  /* a row's first product, packed: every row of a sparse one */
    double row;   /* a row that stays sparse, besides its entries */
    double entry; /* one of its non-zeros */
    double chain; /* an entry of the longest row: that row alone takes so long,
                   * whatever runs beside it; 0: no such bound */
    double routed; /* a routed row, after packing */
    double any;    /* that there is a routed row at all in TW_PLAN_ROWS rows */
};

/* What `seen` costs, the `routed` rows with the most non-zeros routed; most is
 * ascending nnz, [rows]. For tests. */
double twp_ffn_plan_cost(const struct twp_ffn_costs *costs,
                         const uint32_t *ascending, int64_t rows,
                         int64_t routed);

/* The cheapest of: dense; sparse, routing the rows above some limit (rows that
 * overflow are routed in any case; they are taken to be the largest). Returns
 * TW_OK or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status
twp_ffn_plan_choose(const struct twp_ffn_costs *costs,
                    const struct tw_ffn_seen *seen, struct tw_ffn_plan *plan,
                    struct tw_error *err);

/* Can a layer loaded with that path be computed so? */
TW_MUST_USE enum tw_status twp_ffn_plan_check(const struct tw_ffn_plan *plan,
                                              enum tw_ffn_path loaded,
                                              struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
