/* The dense layer that `bench ffn` compares against: what one would write with
 * BLAS alone. Three big cblas_sgemm calls on all threads, the weights widened
 * to float beforehand, and one threaded pass of act(gate) * up between. Nothing
 * is counted, and its bits depend on the batch: it is a yardstick, not a
 * backend.
 *
 *     struct tw_dense_ffn *f;
 *     tw_dense_ffn_create(&desc, 2, 2048, &f, &err);
 *     tw_dense_ffn_run(f, y, x, residual, 2048);   // time this
 *     tw_dense_ffn_destroy(f);
 */
#ifndef TW_KERNELS_CPU_DENSE_BASELINE_H
#define TW_KERNELS_CPU_DENSE_BASELINE_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_dense_ffn;

/* Widens the layer's weights (12 bytes a weight of a gated layer, held until
 * destroy) and makes buffers for up to max_rows rows. desc's memory isn't
 * needed afterwards; desc->apply is ignored. Returns TW_OK, TW_ERR_NOMEM or
 * what starting threads gives. */
TW_MUST_USE enum tw_status tw_dense_ffn_create(const struct tw_ffn_desc *desc,
                                               int threads, int64_t max_rows,
                                               struct tw_dense_ffn **out,
                                               struct tw_error *err);
/* y[rows][d_model] = residual + FFN(x); residual may be NULL. rows <= max_rows.
 * Sets OpenBLAS to the threads of create for the call and to 1 after it. */
void tw_dense_ffn_run(struct tw_dense_ffn *ffn, float *y, const float *x,
                      const float *residual, int64_t rows);
void tw_dense_ffn_destroy(struct tw_dense_ffn *ffn);

#ifdef __cplusplus
}
#endif
#endif
