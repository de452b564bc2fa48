/* Reference attention, a row and a head at a time:
 *     s_k = scale q.k_k, soft cap, + slope (k - q) or c bf16(slope bf16(k))
 *     y = softmax(s) V
 * over the keys q - window < k <= q of the sequence. */
#include <config.h>

#include "kernels/ops_ref_internal.h"

#include <math.h>

#include "base/memory.h"

struct view {
    const float *q, *k, *v; /* this head's first key and value; the query */
    int64_t stride;         /* floats from key to key */
    int64_t query;          /* its position */
};

static double score(const struct view *view, int64_t key, int64_t head,
                    const struct tw_attention *how)
{
    double sum = 0;
    for (int64_t i = 0; i < how->head_dim; i++)
        sum += (double)view->q[i] * (double)view->k[key * view->stride + i];
    sum *= (double)how->scale;
    if (how->soft_cap > 0)
        sum = (double)how->soft_cap * tanh(sum / (double)how->soft_cap);
    if (how->alibi && how->alibi_bf16 > 0)
        sum += (double)how->alibi_bf16 *
               (double)tw_round_bf16(how->alibi[head] *
                                     tw_round_bf16((float)key));
    else if (how->alibi)
        sum += (double)how->alibi[head] * (double)(key - view->query);
    return sum;
}

static void attend(float *y, double *weight, const struct view *view,
                   int64_t head, const struct tw_attention *how)
{
    int64_t first = 0;
    double max = -INFINITY, sum = 0;
    if (how->window > 0 && view->query - how->window + 1 > 0)
        first = view->query - how->window + 1;
    for (int64_t key = first; key <= view->query; key++) {
        weight[key] = score(view, key, head, how);
        max = weight[key] > max ? weight[key] : max;
    }
    for (int64_t key = first; key <= view->query; key++) {
        weight[key] = exp(weight[key] - max);
        sum += weight[key];
    }
    for (int64_t i = 0; i < how->head_dim; i++) {
        double value = 0;
        for (int64_t key = first; key <= view->query; key++)
            value += weight[key] * (double)view->v[key * view->stride + i];
        y[i] = (float)(value / sum);
    }
}

enum tw_status twp_ref_attention(void *ctx, void *y, const void *q,
                                 const void *k, const void *v,
                                 const struct tw_attention *how,
                                 struct tw_error *err)
{
    const struct twp_ref *ref = ctx;
    int64_t dim = how->head_dim, group = how->heads / how->kv_heads;
    double *weight = tw_alloc((size_t)ref->batch->rows, sizeof *weight);
    if (!weight)
        return tw_error_set(err, TW_ERR_NOMEM, "ref: out of memory");
    for (int64_t row = 0; row < ref->batch->rows; row++)
        for (int64_t head = 0; head < how->heads; head++) {
            int64_t first = twp_ref_first(ref->batch, row);
            int64_t at = (row * how->heads + head) * dim;
            int64_t kv = (first * how->kv_heads + head / group) * dim;
            struct view view = {.q = (const float *)q + at,
                                .k = (const float *)k + kv,
                                .v = (const float *)v + kv,
                                .stride = how->kv_heads * dim,
                                .query = row - first};
            attend((float *)y + at, weight, &view, head, how);
        }
    tw_free(weight);
    return TW_OK;
}
