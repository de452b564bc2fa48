/* Shapes and types of a feed-forward layer's description. */
#include <config.h>

#include "kernels/ffn_desc.h"

static enum tw_status check_matrix(const struct tw_matrix *m, int64_t rows,
                                   int64_t cols, const char *name,
                                   struct tw_error *err)
{
    if (!m->data)
        return TW_OK;
    if (m->rows != rows || m->cols != cols)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "feed-forward %s is %lld x %lld, not %lld x %lld",
                            name, (long long)m->rows, (long long)m->cols,
                            (long long)rows, (long long)cols);
    if (m->dtype != TW_F32 && m->dtype != TW_BF16 && m->dtype != TW_F16)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "feed-forward %s of type %s", name,
                            tw_dtype_name(m->dtype));
    return TW_OK;
}

enum tw_status twp_ffn_desc_check(const struct tw_ffn_desc *desc,
                                  struct tw_error *err)
{
    int64_t f = desc->d_ff, d = desc->d_model;
    if (f < 1 || d < 1 || !desc->up.data || !desc->down.data)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "a feed-forward layer needs up and down weights");
    if (desc->is_up_activated && !desc->gate.data)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "only a gated feed-forward layer activates up");
    const struct {
        const struct tw_matrix *m;
        int64_t rows, cols;
        const char *name;
    } part[] = {{&desc->gate, f, d, "gate"},
                {&desc->up, f, d, "up"},
                {&desc->down, d, f, "down"},
                {&desc->gate_bias, 1, f, "gate bias"},
                {&desc->up_bias, 1, f, "up bias"},
                {&desc->down_bias, 1, d, "down bias"}};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        enum tw_status status = check_matrix(part[i].m, part[i].rows,
                                             part[i].cols, part[i].name, err);
        if (status != TW_OK)
            return status;
    }
    return TW_OK;
}
