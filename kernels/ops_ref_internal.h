/* What the files of the reference row share. */
#ifndef TW_KERNELS_OPS_REF_INTERNAL_H
#define TW_KERNELS_OPS_REF_INTERNAL_H

#include "kernels/marks.h"
#include "kernels/ops_ref.h"

struct twp_ref {
    const struct tw_batch *batch; /* the started one, else NULL */
    struct twp_marks marks;
};

/* One matrix where it lies. */
struct tw_weight {
    struct tw_matrix matrix;
};

/* Element (row, column) of a stored matrix; vectors have row 0. */
double twp_ref_at(const struct tw_matrix *matrix, int64_t row, int64_t col);
/* sum_i x[i] * matrix[row][i] */
double twp_ref_dot(const float *x, const struct tw_matrix *matrix, int64_t row);
/* First row of the sequence that `row` is in, and the row after its last. */
int64_t twp_ref_first(const struct tw_batch *batch, int64_t row);
int64_t twp_ref_end(const struct tw_batch *batch, int64_t row);

/* One row of a feed-forward layer, for counting. */
struct twp_ref_row {
    int64_t row, width;
    const float *a;          /* [width] act(gate), or act(up) where plain */
    const float *h;          /* [width] after apply */
    const bool *pattern;     /* [width] */
    bool *is_active;         /* [width] scratch */
    uint8_t row_class;
};

/* Which neurons of a row a definition counts: out[width]. h is what ABS, TOPP
 * and TOPK look at. */
void twp_ref_active(const struct tw_active *active, const float *a,
                    const float *h, const bool *pattern, int64_t width,
                    bool *out);
/* Adds one row to the observations. */
void twp_ref_count(const struct twp_ref_row *row,
                   const struct tw_probes *probes, struct tw_layer_obs *obs);
/* Appends the row's active neurons to obs->set; rows come one by one. */
TW_MUST_USE enum tw_status twp_ref_set(const struct twp_ref_row *row,
                                       const struct tw_active *active,
                                       struct tw_layer_obs *obs,
                                       struct tw_error *err);

enum tw_status twp_ref_embed(void *ctx, void *y, const struct tw_weight *w,
                             float scale, struct tw_error *err);
enum tw_status twp_ref_positions(void *ctx, void *y, const struct tw_weight *w,
                                 int64_t first, struct tw_error *err);
enum tw_status twp_ref_norm(void *ctx, void *y, const void *x, int64_t width,
                            const struct tw_norm *norm, struct tw_error *err);
enum tw_status twp_ref_matmul(void *ctx, void *y, const void *x,
                              const struct tw_weight *w,
                              const struct tw_matrix *bias,
                              const void *residual, struct tw_error *err);
enum tw_status twp_ref_rope(void *ctx, void *x, int64_t heads, int64_t head_dim,
                            const struct tw_rope *rope, struct tw_error *err);
enum tw_status twp_ref_attention(void *ctx, void *y, const void *q,
                                 const void *k, const void *v,
                                 const struct tw_attention *attention,
                                 struct tw_error *err);
enum tw_status twp_ref_add(void *ctx, void *y, const void *x, const void *part,
                           int64_t width, float scale, struct tw_error *err);
enum tw_status twp_ref_act_mul(void *ctx, void *y, const void *gate,
                               const void *up, int64_t width,
                               const struct tw_activation *activation,
                               struct tw_error *err);
enum tw_status twp_ref_head_nll(void *ctx, const void *x,
                                const struct tw_weight *w,
                                const struct tw_head *head,
                                struct tw_head_obs *obs, struct tw_error *err);
enum tw_status twp_ref_ffn_load(void *ctx, const struct tw_ffn_desc *desc,
                                struct tw_ffn **ffn, struct tw_error *err);
void twp_ref_ffn_free(void *ctx, struct tw_ffn *ffn);
enum tw_status twp_ref_ffn(void *ctx, void *y, const void *x,
                           const void *residual, struct tw_ffn *ffn,
                           const struct tw_probes *probes,
                           struct tw_layer_obs *obs, struct tw_error *err);

#endif
