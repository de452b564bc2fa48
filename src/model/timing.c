/* Marks around the layers of a batch, and the times between them. */
#include <config.h>

#include "model/runner_internal.h"

int twp_mark_index(int64_t layer, enum twp_mark mark)
{
    return 2 * TWP_MAX_FLIGHTS + (int)layer * TWP_MARKS + (int)mark;
}

int twp_mark_batch(int flight, bool is_end)
{
    return 2 * flight + is_end;
}

enum tw_status twp_mark_put(struct tw_runner *r, int index,
                            struct tw_error *err)
{
    return r->has_marks ? r->ops->mark(r->ctx, index, err) : TW_OK;
}

enum tw_status tw_runner_timing(struct tw_runner *r, bool is_on,
                                struct tw_error *err)
{
    if (is_on && (!r->ops->mark || !r->ops->mark_ns))
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend '%s' cannot do mark", r->ops->name);
    r->has_marks = is_on;
    return TW_OK;
}

enum tw_status tw_runner_times(struct tw_runner *r, struct tw_layer_ns *times,
                               double *total_ns, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (!r->ops->mark_ns)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend '%s' cannot do mark_ns", r->ops->name);
    for (int64_t l = 0; l < r->model->layers && status == TW_OK; l++) {
        status = r->ops->mark_ns(r->ctx, twp_mark_index(l, TWP_MARK_FFN),
                                 twp_mark_index(l, TWP_MARK_FFN_END),
                                 &times[l].ffn, err);
        if (status == TW_OK)
            status = r->ops->mark_ns(r->ctx, twp_mark_index(l, TWP_MARK_LAYER),
                                     twp_mark_index(l, TWP_MARK_LAYER_END),
                                     &times[l].layer, err);
    }
    if (status == TW_OK && total_ns)
        *total_ns = r->last_ns;
    return status;
}
