/* Each slot of the cpu row against the reference row, on grids of shapes whose
 * edges are those of the 64-row blocks, 16-wide vectors and key and vocabulary
 * chunks. Outputs hold NaN beforehand. */
#include <config.h>

#include "tests/ops_fixture.h"

#include "base/memory.h"

/* Products of K numbers in (-1, 1), float against double: K roundings of 2^-24
 * of partial sums about sqrt(K)/3 large stay below this for K <= 400. */
#define PRODUCT_TOLERANCE 4e-5
/* Results of about 1 from some ten float operations. */
#define ELEMENT_TOLERANCE 2e-6
/* Attention averages values in (-1, 1); scores up to 5 err by 1e-6. */
#define ATTENTION_TOLERANCE 5e-6
/* What DESIGN promises of a token's loss. */
#define LOSS_TOLERANCE 1e-5

static const int64_t batches[][FIX_SEQS] = {
    {1},      {7},   {63},
    {64},     {65},  {5, 64, 186},
    {1, 256}, {257}, {1, 1, 1, 63, 65, 124},
};
static const int64_t widths[] = {8, 63, 64, 72, 128, 384};
static const enum tw_dtype dtypes[] = {TW_F32, TW_BF16, TW_F16};

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

struct pair {
    struct fix_batch fix;
    struct fix_backend cpu, ref;
};

static struct pair *pair_start(int batch, int32_t vocab)
{
    struct pair *pair = tw_calloc(1, sizeof *pair);
    ck_assert_ptr_nonnull(pair);
    fix_seed((uint64_t)batch + 1);
    fix_batch_init(&pair->fix, batches[batch], vocab);
    pair->cpu = fix_start(&tw_ops_cpu, 2, 0, &pair->fix);
    pair->ref = fix_start(&tw_ops_ref, 1, 0, &pair->fix);
    return pair;
}

static void pair_end(struct pair *pair)
{
    fix_end(&pair->cpu);
    fix_end(&pair->ref);
    fix_batch_fini(&pair->fix);
    tw_free(pair);
}

/* Compares and frees two outputs. */
static void same(float *got, float *want, int64_t count, double tolerance)
{
    double distance = fix_distance(got, want, count);
    ck_assert_msg(distance <= tolerance, "distance %g of %lld numbers",
                  distance, (long long)count);
    tw_free(got);
    tw_free(want);
}

/* Runs a slot on both backends: `call` uses ops, ctx and y. */
#define ON_BOTH(pair, count, tolerance, call)                               \
    do {                                                                    \
        struct tw_error err = {0};                                          \
        float *y_[2];                                                       \
        for (int b_ = 0; b_ < 2; b_++) {                                    \
            struct fix_backend *be = b_ ? &(pair)->ref : &(pair)->cpu;      \
            const struct tw_ops *ops = be->ops;                             \
            void *ctx = be->ctx;                                            \
            float *y = y_[b_] = fix_poison(count);                          \
            TW_OK_OR_FAIL(call, err);                                       \
        }                                                                   \
        same(y_[0], y_[1], count, tolerance);                               \
    } while (0)

static enum tw_status run_embed(const struct tw_ops *ops, void *ctx, float *y,
                                const struct tw_matrix *m, struct tw_error *err)
{
    struct tw_weight *w;
    enum tw_status status = ops->weight_load(ctx, m, &w, err);
    if (status == TW_OK) {
        status = ops->embed(ctx, y, w, 1.5f, err);
        ops->weight_free(ctx, w);
    }
    return status;
}

START_TEST(embed_matches_reference)
{
    for (int w = 0; w < COUNT(widths); w++)
        for (int d = 0; d < COUNT(dtypes); d++) {
            struct pair *pair = pair_start(_i, 11);
            struct tw_matrix m = fix_matrix(dtypes[d], 11, widths[w], 1);
            int64_t count = pair->fix.batch.rows * widths[w];
            ON_BOTH(pair, count, 0, run_embed(ops, ctx, y, &m, &err));
            fix_matrix_fini(&m);
            pair_end(pair);
        }
}
END_TEST

static void check_norm(struct pair *pair, int64_t width, enum tw_dtype dtype,
                       enum tw_norm_kind kind)
{
    int64_t count = pair->fix.batch.rows * width;
    float *x = fix_floats(count, 3);
    struct tw_norm norm = {
        .kind = kind, .eps = 1e-5f, .weight = fix_matrix(dtype, 1, width, 1)};
    if (kind == TW_NORM_LAYER)
        norm.bias = fix_matrix(dtype, 1, width, 1);
    ON_BOTH(pair, count, ELEMENT_TOLERANCE,
            ops->norm(ctx, y, x, width, &norm, &err));
    fix_matrix_fini(&norm.weight);
    fix_matrix_fini(&norm.bias);
    tw_free(x);
}

/* Groups of their own (heads), one weight for all or a row for each, no weight,
 * and an offset. */
START_TEST(grouped_norm_matches_reference)
{
    static const struct {
        int64_t groups, width;
        bool is_each, has_weight;
        float offset;
    } cases[] = {{4, 16, false, true, 1},
                 {3, 20, true, true, 0},
                 {1, 72, false, false, 0},
                 {2, 33, true, true, 1}};
    struct pair *pair = pair_start(_i, 11);
    for (int c = 0; c < COUNT(cases); c++) {
        int64_t width = cases[c].groups * cases[c].width;
        int64_t count = pair->fix.batch.rows * width;
        int64_t rows = cases[c].is_each ? cases[c].groups : 1;
        float *x = fix_floats(count, 3);
        struct tw_norm norm = {.kind = c % 2 ? TW_NORM_LAYER : TW_NORM_RMS,
                               .eps = 1e-5f,
                               .offset = cases[c].offset,
                               .groups = cases[c].groups};
        if (cases[c].has_weight) {
            norm.weight = fix_matrix(TW_BF16, rows, cases[c].width, 1);
            norm.bias = fix_matrix(TW_F32, rows, cases[c].width, 1);
        }
        ON_BOTH(pair, count, ELEMENT_TOLERANCE,
                ops->norm(ctx, y, x, width, &norm, &err));
        fix_matrix_fini(&norm.weight);
        fix_matrix_fini(&norm.bias);
        tw_free(x);
    }
    pair_end(pair);
}
END_TEST

static enum tw_status run_positions(const struct tw_ops *ops, void *ctx,
                                    float *y, const float *x, int64_t count,
                                    const struct tw_matrix *m,
                                    struct tw_error *err)
{
    struct tw_weight *w;
    memcpy(y, x, (size_t)count * sizeof *y);
    enum tw_status status = ops->weight_load(ctx, m, &w, err);
    if (status == TW_OK) {
        status = ops->positions(ctx, y, w, 2, err);
        ops->weight_free(ctx, w);
    }
    return status;
}

START_TEST(positions_match_reference)
{
    for (int w = 0; w < COUNT(widths); w++)
        for (int d = 0; d < COUNT(dtypes); d++) {
            struct pair *pair = pair_start(_i, 11);
            struct tw_matrix m = fix_matrix(dtypes[d], 260, widths[w], 1);
            int64_t count = pair->fix.batch.rows * widths[w];
            float *x = fix_floats(count, 1);
            ON_BOTH(pair, count, 0,
                    run_positions(ops, ctx, y, x, count, &m, &err));
            fix_matrix_fini(&m);
            tw_free(x);
            pair_end(pair);
        }
}
END_TEST

START_TEST(a_position_without_embedding_is_named)
{
    struct pair *pair = pair_start(4, 11); /* 65 rows */
    struct tw_matrix m = fix_matrix(TW_F32, 66, 8, 1);
    float *x = fix_floats(65 * 8, 1);
    for (int b = 0; b < 2; b++) {
        struct tw_error err = {0};
        struct fix_backend *be = b ? &pair->ref : &pair->cpu;
        float *y = fix_poison(65 * 8);
        TW_FAILS_WITH(run_positions(be->ops, be->ctx, y, x, 65 * 8, &m, &err),
                      TW_ERR_MISMATCH, "position 66 has no embedding", err);
        tw_free(y);
    }
    fix_matrix_fini(&m);
    tw_free(x);
    pair_end(pair);
}
END_TEST

START_TEST(add_matches_reference)
{
    struct pair *pair = pair_start(_i, 11);
    for (int w = 0; w < COUNT(widths); w++) {
        int64_t count = pair->fix.batch.rows * widths[w];
        float *x = fix_floats(count, 1), *part = fix_floats(count, 1);
        ON_BOTH(pair, count, ELEMENT_TOLERANCE,
                ops->add(ctx, y, x, part, widths[w], 0.3f, &err));
        tw_free(x);
        tw_free(part);
    }
    pair_end(pair);
}
END_TEST

START_TEST(norm_matches_reference)
{
    struct pair *pair = pair_start(_i, 11);
    for (int w = 0; w < COUNT(widths); w++)
        for (int d = 0; d < COUNT(dtypes); d++) {
            check_norm(pair, widths[w], dtypes[d], TW_NORM_RMS);
            check_norm(pair, widths[w], dtypes[d], TW_NORM_LAYER);
        }
    pair_end(pair);
}
END_TEST

struct product {
    struct tw_matrix matrix, bias;
    float *x, *residual;
};

static enum tw_status run_matmul(const struct tw_ops *ops, void *ctx, float *y,
                                 const struct product *p, struct tw_error *err)
{
    struct tw_weight *w;
    enum tw_status status = ops->weight_load(ctx, &p->matrix, &w, err);
    if (status == TW_OK) {
        status = ops->matmul(ctx, y, p->x, w, p->bias.data ? &p->bias : NULL,
                             p->residual, err);
        ops->weight_free(ctx, w);
    }
    return status;
}

static void check_matmul(struct pair *pair, int64_t n, int64_t k,
                         enum tw_dtype dtype)
{
    int64_t rows = pair->fix.batch.rows;
    struct product p = {.matrix = fix_matrix(dtype, n, k, 1),
                        .x = fix_floats(rows * k, 1)};
    for (int extra = 0; extra < 4; extra++) {
        if (extra & 1)
            p.bias = fix_matrix(dtype, 1, n, 1);
        if (extra & 2)
            p.residual = fix_floats(rows * n, 1);
        ON_BOTH(pair, rows * n, PRODUCT_TOLERANCE,
                run_matmul(ops, ctx, y, &p, &err));
        fix_matrix_fini(&p.bias);
        tw_free(p.residual);
        p.bias.data = p.residual = NULL;
    }
    fix_matrix_fini(&p.matrix);
    tw_free(p.x);
}

START_TEST(matmul_matches_reference)
{
    struct pair *pair = pair_start(_i, 11);
    for (int n = 0; n < COUNT(widths); n++)
        for (int k = 0; k < COUNT(widths); k++)
            if (n == _i % COUNT(widths) || k == _i % COUNT(widths))
                check_matmul(pair, widths[n], widths[k], dtypes[(n + k) % 3]);
    check_matmul(pair, 72, 384, TW_F32);
    pair_end(pair);
}
END_TEST

static const struct heads {
    int64_t heads, kv_heads, head_dim;
} heads[] = {{4, 4, 16}, {4, 2, 32}, {6, 1, 64}, {2, 2, 128}, {3, 3, 20}};

static enum tw_status run_rope(const struct tw_ops *ops, void *ctx, float *y,
                               const float *x, const struct heads *h,
                               const struct tw_batch *batch,
                               const struct tw_rope *rope, struct tw_error *err)
{
    size_t count = (size_t)(batch->rows * h->heads * h->head_dim);
    memcpy(y, x, count * sizeof *y);
    return ops->rope(ctx, y, h->heads, h->head_dim, rope, err);
}

START_TEST(rope_matches_reference)
{
    struct pair *pair = pair_start(_i, 11);
    const struct tw_batch *batch = &pair->fix.batch;
    for (int h = 0; h < 4 * COUNT(heads); h++) {
        const struct heads *at = &heads[h / 4];
        float inv_freq[64];
        struct tw_rope rope = {.dims = h % 2 ? at->head_dim / 2 : at->head_dim,
                               .inv_freq = inv_freq,
                               .scale = h % 2 ? 1.25f : 1,
                               .is_interleaved = h / 2 % 2};
        for (int64_t i = 0; i < rope.dims / 2; i++)
            inv_freq[i] = powf(1e4f, -(float)(2 * i) / (float)rope.dims);
        int64_t count = batch->rows * at->heads * at->head_dim;
        float *x = fix_floats(count, 1);
        ON_BOTH(pair, count, ELEMENT_TOLERANCE,
                run_rope(ops, ctx, y, x, at, batch, &rope, &err));
        tw_free(x);
    }
    pair_end(pair);
}
END_TEST

static void check_attention(struct pair *pair, const struct tw_attention *how)
{
    int64_t rows = pair->fix.batch.rows;
    int64_t q_floats = rows * how->heads * how->head_dim;
    int64_t k_floats = rows * how->kv_heads * how->head_dim;
    float *q = fix_floats(q_floats, 2), *k = fix_floats(k_floats, 2);
    float *v = fix_floats(k_floats, 1);
    ON_BOTH(pair, q_floats, ATTENTION_TOLERANCE,
            ops->attention(ctx, y, q, k, v, how, &err));
    tw_free(q);
    tw_free(k);
    tw_free(v);
}

START_TEST(attention_matches_reference)
{
    static const float slopes[] = {0.5f, 0.7f, 0.125f, 0.0625f, 1, 0.03125f};
    static const struct {
        int64_t window;
        float soft_cap;
        bool is_alibi;
        float alibi_bf16;
    } modes[] = {{.window = 0},
                 {.window = 1},
                 {.window = 50},
                 {.window = 64, .is_alibi = true},
                 {.soft_cap = 2},
                 {.window = 130, .soft_cap = 5, .is_alibi = true},
                 {.is_alibi = true},
                 {.is_alibi = true, .alibi_bf16 = 0.3f}};
    struct pair *pair = pair_start(_i, 11);
    for (int h = 0; h < COUNT(heads); h++)
        for (int m = 0; m < COUNT(modes); m++) {
            struct tw_attention how = {
                .heads = heads[h].heads,
                .kv_heads = heads[h].kv_heads,
                .head_dim = heads[h].head_dim,
                .scale = 1 / sqrtf((float)heads[h].head_dim),
                .window = modes[m].window,
                .soft_cap = modes[m].soft_cap,
                .alibi = modes[m].is_alibi ? slopes : NULL,
                .alibi_bf16 = modes[m].alibi_bf16};
            check_attention(pair, &how);
        }
    pair_end(pair);
}
END_TEST

START_TEST(long_attention_matches_reference)
{
    /* More keys than one chunk; windows that start within one. */
    static const int64_t length[FIX_SEQS] = {70, 2100};
    static const int64_t windows[] = {0, 100, 1100, 2048};
    struct pair *pair = tw_calloc(1, sizeof *pair);
    ck_assert_ptr_nonnull(pair);
    fix_batch_init(&pair->fix, length, 11);
    pair->cpu = fix_start(&tw_ops_cpu, 2, 0, &pair->fix);
    pair->ref = fix_start(&tw_ops_ref, 1, 0, &pair->fix);
    struct tw_attention how = {.heads = 1,
                               .kv_heads = 1,
                               .head_dim = 20,
                               .scale = 0.3f,
                               .window = windows[_i]};
    check_attention(pair, &how);
    pair_end(pair);
}
END_TEST

START_TEST(act_mul_matches_reference)
{
    struct pair *pair = pair_start(_i % COUNT(batches), 11);
    for (int act = 0; act < TW_ACTS; act++) {
        struct tw_activation activation = {
            .act = (enum tw_act)act, .arg = act == TW_ACT_FATRELU ? 0.25f : 0};
        for (int w = 0; w < COUNT(widths); w++) {
            int64_t count = pair->fix.batch.rows * widths[w];
            float *gate = fix_floats(count, w % 2 ? 9 : 2);
            float *up = w % 3 ? fix_floats(count, 0.2f) : NULL;
            gate[0] = w == 0 ? NAN : 0;
            gate[count - 1] = w == 0 ? INFINITY : -200;
            /* Relative to results up to 81 (relu2). */
            ON_BOTH(
                pair, count, 5 * ELEMENT_TOLERANCE,
                ops->act_mul(ctx, y, gate, up, widths[w], &activation, &err));
            tw_free(gate);
            tw_free(up);
        }
    }
    pair_end(pair);
}
END_TEST

static const struct {
    int64_t vocab, width;
    enum tw_dtype dtype;
    float soft_cap, scale;
    bool has_bias;
} head_rows[] = {
    {7, 8, TW_F32, 0, 1, false},       {512, 63, TW_BF16, 0, 1, true},
    {2048, 72, TW_F16, 30, 1, false},  {5000, 64, TW_BF16, 0, 0.25f, true},
    {4100, 128, TW_F32, 5, 1, true},
};

struct head_run {
    struct tw_matrix matrix;
    struct tw_head head;
    float *x;
    int64_t rows;
    bool is_without_losses;
};

/* y: the losses, then the wanted rows' logits. */
static enum tw_status run_head(const struct tw_ops *ops, void *ctx, float *y,
                               const struct head_run *run, struct tw_error *err)
{
    struct tw_weight *w;
    struct tw_head head = run->head;
    struct tw_head_obs obs = {.nll = run->is_without_losses ? NULL : y};
    head.logits = y + run->rows;
    enum tw_status status = ops->weight_load(ctx, &run->matrix, &w, err);
    if (status == TW_OK) {
        status = ops->head_nll(ctx, run->x, w, &head, &obs, err);
        ops->weight_free(ctx, w);
    }
    return status;
}

START_TEST(head_matches_reference)
{
    int at = _i % COUNT(head_rows);
    int64_t vocab = head_rows[at].vocab, width = head_rows[at].width;
    struct pair *pair = pair_start(_i / COUNT(head_rows), (int32_t)vocab);
    int64_t rows = pair->fix.batch.rows;
    const int64_t wanted[] = {rows - 1, 0, rows / 2};
    struct head_run run = {.rows = rows,
                           .matrix =
                               fix_matrix(head_rows[at].dtype, vocab, width, 1),
        .head = {.soft_cap = head_rows[at].soft_cap,
                 .scale = head_rows[at].scale,
                 .logit_rows = 3,
                 .logit_row = wanted},
        .x = fix_floats(rows * width, 1)};
    if (head_rows[at].has_bias)
        run.head.bias = fix_matrix(head_rows[at].dtype, 1, vocab, 2);
    ON_BOTH(pair, rows + 3 * vocab, PRODUCT_TOLERANCE,
            run_head(ops, ctx, y, &run, &err));
    run.is_without_losses = true;
    ON_BOTH(pair, rows + 3 * vocab, PRODUCT_TOLERANCE,
            run_head(ops, ctx, y, &run, &err));
    run.is_without_losses = false;
    run.head.logit_rows = 0;
    ON_BOTH(pair, rows + 3 * vocab, LOSS_TOLERANCE,
            run_head(ops, ctx, y, &run, &err));
    fix_matrix_fini(&run.head.bias);
    fix_matrix_fini(&run.matrix);
    tw_free(run.x);
    pair_end(pair);
}
END_TEST

START_TEST(head_without_wishes_does_nothing)
{
    struct pair *pair = pair_start(3, 7);
    struct tw_weight *w;
    struct tw_error err = {0};
    struct tw_matrix m = fix_matrix(TW_F32, 7, 8, 1);
    struct tw_head head = {.scale = 1};
    struct tw_head_obs obs = {.nll = NULL};
    TW_OK_OR_FAIL(pair->cpu.ops->weight_load(pair->cpu.ctx, &m, &w, &err), err);
    TW_OK_OR_FAIL(
        pair->cpu.ops->head_nll(pair->cpu.ctx, NULL, w, &head, &obs, &err),
                  err);
    pair->cpu.ops->weight_free(pair->cpu.ctx, w);
    fix_matrix_fini(&m);
    pair_end(pair);
}
END_TEST

/* Every host backend's; a mark that was never put has no time. */
START_TEST(marks_give_times)
{
    const struct tw_ops *both[] = {&tw_ops_ref, &tw_ops_cpu};
    for (int i = 0; i < 2; i++) {
        const int64_t length[FIX_SEQS] = {3};
        struct fix_batch fix;
        fix_batch_init(&fix, length, 10);
        struct fix_backend b = fix_start(both[i], 1, 0, &fix);
        struct tw_error err = {0};
        double there = 0, back = 0;
        TW_OK_OR_FAIL(b.ops->mark(b.ctx, 0, &err), err);
        TW_OK_OR_FAIL(b.ops->mark(b.ctx, 900, &err), err);
        TW_OK_OR_FAIL(b.ops->mark_ns(b.ctx, 0, 900, &there, &err), err);
        TW_OK_OR_FAIL(b.ops->mark_ns(b.ctx, 900, 0, &back, &err), err);
        ck_assert(there >= 0 && there < 60e9 && back == -there);
        ck_assert_int_eq(b.ops->mark_ns(b.ctx, 0, 899, &there, &err),
                         TW_ERR_MISMATCH);
        fix_end(&b);
        fix_batch_fini(&fix);
    }
}
END_TEST

START_TEST(tokens_out_of_range_are_refused)
{
    struct pair *pair = pair_start(4, 50);
    struct tw_matrix m = fix_matrix(TW_F32, 7, 8, 1);
    struct tw_error err = {0};
    float *y = fix_poison(65 * 8);
    struct head_run run = {.matrix = m, .head = {.scale = 1}, .x = y};
    for (int b = 0; b < 2; b++) {
        struct fix_backend *be = b ? &pair->ref : &pair->cpu;
        TW_FAILS_WITH(run_embed(be->ops, be->ctx, y, &m, &err), TW_ERR_MISMATCH,
                      "is not among", err);
        TW_FAILS_WITH(run_head(be->ops, be->ctx, y, &run, &err),
                      TW_ERR_MISMATCH, "is not among", err);
    }
    tw_free(y);
    fix_matrix_fini(&m);
    pair_end(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops");
    TCase *core = tcase_create("Core");
    tcase_set_timeout(core, 120);
    int n = COUNT(batches);
    tcase_add_loop_test(core, embed_matches_reference, 0, n);
    tcase_add_loop_test(core, positions_match_reference, 0, n);
    tcase_add_loop_test(core, norm_matches_reference, 0, n);
    tcase_add_loop_test(core, grouped_norm_matches_reference, 0, n);
    tcase_add_loop_test(core, add_matches_reference, 0, n);
    tcase_add_loop_test(core, matmul_matches_reference, 0, n);
    tcase_add_loop_test(core, rope_matches_reference, 0, n);
    tcase_add_loop_test(core, attention_matches_reference, 0, n);
    tcase_add_loop_test(core, long_attention_matches_reference, 0, 4);
    tcase_add_loop_test(core, act_mul_matches_reference, 0, n);
    tcase_add_loop_test(core, head_matches_reference, 0, n * COUNT(head_rows));
    tcase_add_test(core, head_without_wishes_does_nothing);
    tcase_add_test(core, marks_give_times);
    suite_add_tcase(suite, core);
    TCase *errors = tcase_create("Errors");
    tcase_add_test(errors, tokens_out_of_range_are_refused);
    tcase_add_test(errors, a_position_without_embedding_is_named);
    suite_add_tcase(suite, errors);
    return tw_run_suite(suite);
}
