/* What only `bench` needs on the device: launchers of bench.cu, products of
 * cuBLASLt (baseline.c). Private to kernels/cuda. Device pointers, 16-bit
 * numbers of `type` (TW_BF16 or TW_F16), on the stream. */
#ifndef TW_KERNELS_CUDA_BENCH_H
#define TW_KERNELS_CUDA_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/activation.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* h[count] = act(h) * up, act(h) where up is NULL; relu, relu2 or fatrelu;
 * count a multiple of 8. */
TW_MUST_USE enum tw_status
tw_launch_multiply(enum tw_dtype type, void *h, const void *up, int64_t count,
                   const struct tw_activation *activation,
                   struct CUstream_st *stream, struct tw_error *err);
/* sums[0] += sum (a - b)^2, sums[1] += sum b^2; count even. */
TW_MUST_USE enum tw_status tw_launch_distance(enum tw_dtype type, const void *a,
                                              const void *b, int64_t count,
                                              double *sums,
                                              struct CUstream_st *stream,
                                              struct tw_error *err);
/* The stream's next work begins after so many nanoseconds. */
TW_MUST_USE enum tw_status
tw_launch_wait(int64_t ns, struct CUstream_st *stream, struct tw_error *err);

/* A handle of cuBLASLt, its workspace, the algorithms found so far: the fastest
 * of its own list, by trial on the given stream. */
struct twp_lt;
TW_MUST_USE enum tw_status twp_lt_create(struct CUstream_st *stream,
                                         struct twp_lt **lt,
                                         struct tw_error *err);
/* NULL is allowed. */
void twp_lt_destroy(struct twp_lt *lt);
size_t twp_lt_workspace_bytes(void);

/* y[m][n] = x[m][k] w[n][k]^T, rectified, or added to `residual` (NULL: none;
 * never y, which trials overwrite). */
struct twp_lt_product {
    enum tw_dtype type;
    int64_t m, n, k;
    bool is_rectified;
    const void *x, *w, *residual;
    void *y;
};
TW_MUST_USE enum tw_status twp_lt_run(struct twp_lt *lt,
                                      const struct twp_lt_product *product,
                                      struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
