/* A run's plan as text: how each layer is computed, for which model, backend
 * and number type. Stored with the run, and read from a file or a run:
 *
 *     {"model_hash":"...","backend":"cpu","types":"float32","layers":[
 *      {"path":"twell","row_limit":2012,"hot":0},{"path":"dense"}]}
 *
 * row_limit absent: none; hot (neurons computed densely) is 0 so far. */
#ifndef TW_RUN_PLAN_H
#define TW_RUN_PLAN_H

#include <stdint.h>

#include "base/strbuf.h"
#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a plan is for; strings are borrowed. */
struct tw_plan_subject {
    const char *model_hash, *backend, *types;
    int64_t layers;
};

/* Appends the text, without a newline. */
void tw_plan_write(const struct tw_plan_subject *subject,
                   const struct tw_ffn_plan *plans, struct tw_strbuf *out);

/* The inverse into plans[subject->layers]; `name` stands before each error.
 * TW_ERR_FORMAT for what is no plan, TW_ERR_MISMATCH for one of another model,
 * backend, number type or number of layers, TW_ERR_UNSUPPORTED for hot
 * neurons. */
TW_MUST_USE enum tw_status tw_plan_read(const char *text, const char *name,
                                        const struct tw_plan_subject *subject,
                                        struct tw_ffn_plan *plans,
                                        struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
