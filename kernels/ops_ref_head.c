/* Reference loss head: z = soft_cap(scale x W^T + bias),
 * nll = log(sum e^(z - max)) + max - z[next token]. */
#include <config.h>

#include "kernels/ops_ref_internal.h"

#include <math.h>

#include "base/memory.h"

static double logit(const float *x, const struct tw_matrix *w, int64_t entry,
                    const struct tw_head *head)
{
    double z = twp_ref_dot(x, w, entry) * (double)head->scale;
    if (head->bias.data)
        z += twp_ref_at(&head->bias, 0, entry);
    if (head->soft_cap > 0)
        z = (double)head->soft_cap * tanh(z / (double)head->soft_cap);
    return z;
}

static double log_sum_exp(const double *z, int64_t count)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        max = z[i] > max ? z[i] : max;
    for (int64_t i = 0; i < count; i++)
        sum += exp(z[i] - max);
    return log(sum) + max;
}

static void copy_wanted(const struct tw_head *head, int64_t row,
                        const double *z, int64_t vocab)
{
    for (int64_t i = 0; i < head->logit_rows; i++)
        if (head->logit_row[i] == row)
            for (int64_t entry = 0; entry < vocab; entry++)
                head->logits[i * vocab + entry] = (float)z[entry];
}

enum tw_status twp_ref_head_nll(void *ctx, const void *x,
                                const struct tw_weight *w,
                                const struct tw_head *head,
                                struct tw_head_obs *obs, struct tw_error *err)
{
    const struct twp_ref *ref = ctx;
    const struct tw_batch *batch = ref->batch;
    int64_t vocab = w->matrix.rows;
    float *nll = obs ? obs->nll : NULL;
    double *z = tw_alloc((size_t)vocab, sizeof *z);
    enum tw_status status = TW_OK;
    if (!z)
        return tw_error_set(err, TW_ERR_NOMEM, "ref: out of memory");
    for (int64_t row = 0; row < batch->rows && status == TW_OK; row++) {
        const float *input = (const float *)x + row * w->matrix.cols;
        bool is_last = row + 1 == twp_ref_end(batch, row);
        int64_t target = is_last ? 0 : batch->token[row + 1];
        for (int64_t entry = 0; entry < vocab; entry++)
            z[entry] = logit(input, &w->matrix, entry, head);
        copy_wanted(head, row, z, vocab);
        if (!nll)
            continue;
        if (target < 0 || target >= vocab)
            status = tw_error_set(err, TW_ERR_MISMATCH,
                                  "token %lld is not among the loss head's "
                                  "rows",
                                  (long long)target);
        else
            nll[row] = is_last ? NAN
                               : (float)(log_sum_exp(z, vocab) - z[target]);
    }
    tw_free(z);
    return status;
}
