/* What `bench` needs of a backend beside its operations: the dense layer that a
 * library gives, parts of a layer, a clock that the device reads itself. The
 * backend's table names it (struct tw_ops, `bench`); the ctx is that table's.
 *
 *     const struct tw_bench_ops *bench = ops->bench;
 *     bench->dense_create(ctx, &desc, rows, &dense, &err);
 *     bench->clock_start(ctx, &err);
 *     bench->dense_run(ctx, dense, y, x, residual, &err);
 *     bench->clock_stop(ctx, &nanoseconds, &err);
 *
 * Buffers are the table's (alloc), rows row-major. Slots that may be NULL say
 * so; every other slot is there. */
#ifndef TW_KERNELS_BENCH_H
#define TW_KERNELS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_BENCH_ID 32 /* bytes of a device's bus id, NUL included */

struct tw_bench_dense; /* a layer as a library computes it */

struct tw_bench_ops {
    const char *library; /* who does the dense products: "cblas" */
    int pause_ms;        /* the processor's rest before a run, and the reason
                          * to run once untimed after it; 0: none is needed */
    bool has_uncounted;  /* ops->ffn takes obs NULL: it then counts nothing */

    /* The library's layer: its products with what it can fuse into them, and
     * what is left between them in a pass of its own; nothing is counted.
     * TW_ERR_UNSUPPORTED where the library can't do this layer. */
    enum tw_status (*dense_create)(void *ctx, const struct tw_ffn_desc *desc,
                                   int64_t rows, struct tw_bench_dense **dense,
                                   struct tw_error *err);
    void (*dense_destroy)(void *ctx, struct tw_bench_dense *dense);
    /* y = residual + FFN(x) of as many rows as create was told; residual NULL:
     * none. What can be chosen is chosen, by trial, in the first run. */
    enum tw_status (*dense_run)(void *ctx, struct tw_bench_dense *dense,
                                void *y, const void *x, const void *residual,
                                struct tw_error *err);
    /* Its first product alone, after a run. NULL: not apart from the rest. */
    enum tw_status (*dense_product)(void *ctx, struct tw_bench_dense *dense,
                                    const void *x, struct tw_error *err);
    /* The same product of the started batch by a sparse layer, packed and its
     * tiles counted; where obs isn't NULL also routed, the rows' statistics
     * summed. NULL: likewise. */
    enum tw_status (*pack)(void *ctx, struct tw_ffn *ffn, const void *x,
                           const struct tw_probes *probes,
                           struct tw_layer_obs *obs, struct tw_error *err);

    /* Memory of a layer over so many rows: weights, workspace, counts. NULL:
     * unknown. */
    int64_t (*dense_bytes)(const struct tw_bench_dense *dense);
    int64_t (*ffn_bytes)(const struct tw_ffn *ffn, int64_t rows);

    /* Nanoseconds from start to stop of the device's own work, for which stop
     * waits. What is asked for between them is all ready to run at start. */
    enum tw_status (*clock_start)(void *ctx, struct tw_error *err);
    enum tw_status (*clock_stop)(void *ctx, int64_t *ns, struct tw_error *err);

    /* Fills a buffer with NaN. */
    enum tw_status (*poison)(void *ctx, void *buffer, int64_t elements,
                             struct tw_error *err);
    /* ||a - b|| / ||b|| (0 / 0 is 0); NaN where a or b has one. */
    enum tw_status (*distance)(void *ctx, const void *a, const void *b,
                               int64_t elements, double *distance,
                               struct tw_error *err);

    /* Bytes of the last cache, past which inputs rotate; 0: one input. */
    int64_t (*cache_bytes)(void *ctx);
    /* The kernels a ctx's `ffn` runs: "cpu", "hopper". Static. */
    const char *(*path)(void *ctx);
    /* Memory of the device in use, by whomever. A ctx's buffers only grow, so
     * that after some work this is the most it has held, where it is alone.
     * NULL: the process's own memory is meant. */
    int64_t (*device_bytes)(void *ctx);
    /* The device's PCI bus id, "" where it has none. */
    void (*bus_id)(void *ctx, char id[TW_BENCH_ID]);
};

#ifdef __cplusplus
}
#endif
#endif
