/* Bit for bit: a sequence alone and inside a batch, any number of threads,
 * weights kept or widened anew. Life of a context, and what it does without
 * memory. */
#include <config.h>

#include "tests/ops_fixture.h"

#include "base/memory.h"
#include "tests/tw_files.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* One small model's slots in a row, on the given batch: embed, positions, norm,
 * q, k, v, norm of heads, rope of both kinds, attention, residual product, add,
 * activation, loss head. */
enum { WIDTH = 72, HEADS = 3, KV_HEADS = 1, DIM = 24, VOCAB = 2500 };
enum { MATRICES = 5 };

struct model {
    struct tw_matrix embed, q, kv, out, head;
    struct tw_norm norm, head_norm;
    float inv_freq[DIM / 2], slopes[HEADS];
};

static void model_init(struct model *model, enum tw_dtype dtype)
{
    fix_seed(7);
    *model = (struct model){
        .embed = fix_matrix(dtype, VOCAB, WIDTH, 1),
        .q = fix_matrix(dtype, HEADS * DIM, WIDTH, 0.3f),
        .kv = fix_matrix(dtype, KV_HEADS * DIM, WIDTH, 0.3f),
        .out = fix_matrix(dtype, WIDTH, HEADS * DIM, 0.3f),
        .head = fix_matrix(dtype, VOCAB, WIDTH, 1),
        .norm = {.kind = TW_NORM_RMS, .eps = 1e-5f,
                 .weight = fix_matrix(dtype, 1, WIDTH, 1)},
        .head_norm = {.kind = TW_NORM_LAYER, .eps = 1e-5f, .offset = 1,
                      .groups = HEADS,
                      .weight = fix_matrix(dtype, HEADS, DIM, 1)},
        .slopes = {0.5f, 0.1f, 0.02f}};
    for (int i = 0; i < DIM / 2; i++)
        model->inv_freq[i] = powf(1e4f, -(float)i / (DIM / 2));
}

static void model_fini(struct model *model)
{
    fix_matrix_fini(&model->embed);
    fix_matrix_fini(&model->q);
    fix_matrix_fini(&model->kv);
    fix_matrix_fini(&model->out);
    fix_matrix_fini(&model->head);
    fix_matrix_fini(&model->norm.weight);
    fix_matrix_fini(&model->head_norm.weight);
}

struct buffers {
    void *x, *normed, *q, *k, *v, *y;
};

static enum tw_status buffers_init(struct buffers *b, struct fix_backend *be,
                                   int64_t rows, struct tw_error *err)
{
    void **all[] = {&b->x, &b->normed, &b->q, &b->k, &b->v, &b->y};
    enum tw_status status = TW_OK;
    *b = (struct buffers){0};
    for (int i = 0; i < COUNT(all) && status == TW_OK; i++)
        status = be->ops->alloc(be->ctx, rows * WIDTH, all[i], err);
    return status;
}

static void buffers_fini(struct buffers *b, struct fix_backend *be)
{
    void *all[] = {b->x, b->normed, b->q, b->k, b->v, b->y};
    for (int i = 0; i < COUNT(all); i++)
        be->ops->free(be->ctx, all[i]);
}

#define TRY(call)                                                           \
    do {                                                                    \
        if (status == TW_OK)                                                \
            status = (call);                                                \
    } while (0)

static enum tw_status attend(const struct tw_ops *ops, void *ctx,
                             const struct model *model, struct buffers *b,
                             struct tw_weight *const w[MATRICES],
                             struct tw_error *err)
{
    struct tw_rope rope = {
        .dims = DIM, .inv_freq = model->inv_freq, .scale = 1};
    struct tw_rope pairs = rope;
    pairs.is_interleaved = true;
    struct tw_attention how = {.heads = HEADS,
                               .kv_heads = KV_HEADS,
                               .head_dim = DIM,
                               .scale = 0.2f,
                               .window = 90,
                               .soft_cap = 20,
                               .alibi = model->slopes};
    enum tw_status status = TW_OK;
    TRY(ops->norm(ctx, b->normed, b->x, WIDTH, &model->norm, err));
    TRY(ops->matmul(ctx, b->q, b->normed, w[1], NULL, NULL, err));
    TRY(ops->matmul(ctx, b->k, b->normed, w[2], NULL, NULL, err));
    TRY(ops->matmul(ctx, b->v, b->normed, w[2], NULL, NULL, err));
    TRY(ops->norm(ctx, b->q, b->q, HEADS * DIM, &model->head_norm, err));
    TRY(ops->rope(ctx, b->q, HEADS, DIM, &rope, err));
    TRY(ops->rope(ctx, b->q, HEADS, DIM, &pairs, err));
    TRY(ops->rope(ctx, b->k, KV_HEADS, DIM, &rope, err));
    TRY(ops->attention(ctx, b->y, b->q, b->k, b->v, &how, err));
    TRY(ops->matmul(ctx, b->x, b->y, w[3], NULL, b->x, err));
    TRY(ops->add(ctx, b->x, b->x, b->y, WIDTH, 0.3f, err));
    return status;
}

static enum tw_status pass(struct fix_backend *be, const struct model *model,
                           struct buffers *b,
                           struct tw_weight *const w[MATRICES], float *nll,
                           struct tw_error *err)
{
    const struct tw_ops *ops = be->ops;
    void *ctx = be->ctx;
    struct tw_activation silu = {.act = TW_ACT_SILU};
    struct tw_head head = {.scale = 1};
    struct tw_head_obs obs = {.nll = nll};
    enum tw_status status = TW_OK;
    TRY(ops->embed(ctx, b->x, w[0], 1, err));
    TRY(ops->positions(ctx, b->x, w[0], 2, err));
    for (int layer = 0; layer < 2; layer++) {
        TRY(attend(ops, ctx, model, b, w, err));
        TRY(ops->act_mul(ctx, b->x, b->x, b->normed, WIDTH, &silu, err));
        ops->layer_end(ctx);
    }
    TRY(ops->head_nll(ctx, b->x, w[4], &head, &obs, err));
    return status;
}

/* The whole pass with its loads: losses, then the last hidden rows. */
static enum tw_status run(struct fix_backend *be, const struct model *model,
                          int64_t rows, float *out, struct tw_error *err)
{
    const struct tw_matrix *matrix[MATRICES] = {
        &model->embed, &model->q, &model->kv, &model->out, &model->head};
    struct tw_weight *w[MATRICES] = {NULL};
    struct buffers b;
    enum tw_status status = buffers_init(&b, be, rows, err);
    for (int i = 0; i < MATRICES; i++)
        TRY(be->ops->weight_load(be->ctx, matrix[i], &w[i], err));
    TRY(pass(be, model, &b, w, out, err));
    TRY(be->ops->download(be->ctx, out + rows, b.x, rows * WIDTH, err));
    for (int i = 0; i < MATRICES; i++)
        be->ops->weight_free(be->ctx, w[i]);
    buffers_fini(&b, be);
    return status;
}

static float *run_cpu(const struct fix_batch *fix, const struct model *model,
                      int threads, int64_t keep_bytes)
{
    struct tw_error err = {0};
    struct fix_backend be = fix_start(&tw_ops_cpu, threads, keep_bytes, fix);
    float *out = fix_poison(fix->batch.rows * (1 + WIDTH));
    TW_OK_OR_FAIL(run(&be, model, fix->batch.rows, out, &err), err);
    fix_end(&be);
    return out;
}

static const int64_t lengths[FIX_SEQS] = {3, 64, 200, 65, 1, 130};
static const enum tw_dtype dtypes[] = {TW_F32, TW_BF16, TW_F16};

START_TEST(sequence_alone_equals_sequence_in_batch)
{
    struct model model;
    struct fix_batch all, one;
    model_init(&model, dtypes[_i]);
    fix_batch_init(&all, lengths, VOCAB);
    int64_t rows = all.batch.rows;
    float *together = run_cpu(&all, &model, 2, 0);
    for (int64_t s = 0; s < all.batch.seqs; s++) {
        fix_batch_one(&one, &all, s);
        int64_t first = all.offset[s], count = one.batch.rows;
        float *alone = run_cpu(&one, &model, 2, 0);
        ck_assert_mem_eq(alone, together + first,
                         (size_t)count * sizeof *alone);
        ck_assert_mem_eq(alone + count, together + rows + first * WIDTH,
                         (size_t)(count * WIDTH) * sizeof *alone);
        tw_free(alone);
    }
    tw_free(together);
    fix_batch_fini(&all);
    model_fini(&model);
}
END_TEST

START_TEST(threads_and_kept_weights_change_no_bit)
{
    static const struct {
        int threads;
        int64_t keep_bytes;
    } ways[] = {{2, 0}, {3, 0}, {2, 1}, {1, 1}, {2, 3 * DIM * WIDTH * 4}};
    struct model model;
    struct fix_batch fix;
    model_init(&model, dtypes[_i]);
    fix_batch_init(&fix, lengths, VOCAB);
    size_t bytes = (size_t)fix.batch.rows * (1 + WIDTH) * sizeof(float);
    float *first = run_cpu(&fix, &model, 1, 0);
    for (int i = 0; i < COUNT(ways); i++) {
        float *again =
            run_cpu(&fix, &model, ways[i].threads, ways[i].keep_bytes);
        ck_assert_mem_eq(first, again, bytes);
        tw_free(again);
    }
    tw_free(first);
    fix_batch_fini(&fix);
    model_fini(&model);
}
END_TEST

START_TEST(longer_sequence_keeps_its_prefix)
{
    /* Rows up to t depend on rows up to t alone, chunks of keys included. */
    static const int64_t full[FIX_SEQS] = {1500}, part[FIX_SEQS] = {1111};
    struct model model;
    struct fix_batch whole, prefix;
    model_init(&model, TW_F32);
    fix_batch_init(&whole, full, VOCAB);
    fix_batch_init(&prefix, part, VOCAB);
    memcpy((void *)prefix.batch.token, whole.batch.token,
           (size_t)part[0] * sizeof(int32_t));
    float *a = run_cpu(&whole, &model, 2, 0);
    float *b = run_cpu(&prefix, &model, 2, 0);
    ck_assert_mem_eq(a, b, (size_t)(part[0] - 1) * sizeof *a);
    ck_assert_mem_eq(a + full[0], b + part[0],
                     (size_t)(part[0] * WIDTH) * sizeof *a);
    tw_free(a);
    tw_free(b);
    fix_batch_fini(&whole);
    fix_batch_fini(&prefix);
    model_fini(&model);
}
END_TEST

START_TEST(context_can_be_used_again)
{
    struct model model;
    struct fix_batch fix, one;
    struct tw_error err = {0};
    model_init(&model, TW_BF16);
    fix_batch_init(&fix, lengths, VOCAB);
    fix_batch_one(&one, &fix, 0);
    struct fix_backend be = fix_start(&tw_ops_cpu, 2, 0, &one);
    float *small = fix_poison(one.batch.rows * (1 + WIDTH));
    float *large = fix_poison(fix.batch.rows * (1 + WIDTH));
    TW_OK_OR_FAIL(run(&be, &model, one.batch.rows, small, &err), err);
    TW_OK_OR_FAIL(be.ops->finish(be.ctx, &err), err);
    TW_OK_OR_FAIL(be.ops->start(be.ctx, &fix.batch, &err), err);
    TW_OK_OR_FAIL(run(&be, &model, fix.batch.rows, large, &err), err);
    ck_assert_mem_eq(small, large, (size_t)one.batch.rows * sizeof *small);
    fix_end(&be);
    tw_free(small);
    tw_free(large);
    fix_batch_fini(&fix);
    model_fini(&model);
}
END_TEST

/* init, start and the pass with the n-th allocation failing. */
static enum tw_status try_all(const struct fix_batch *fix,
                              const struct model *model, float *out,
                              int64_t allocations, struct tw_error *err)
{
    struct fix_backend be = {.ops = &tw_ops_cpu};
    struct tw_ops_config config = {.threads = 2, .keep_bytes = 1};
    tw_alloc_fail_after(allocations);
    enum tw_status status = be.ops->init(&config, &be.ctx, err);
    if (status == TW_OK) {
        TRY(be.ops->start(be.ctx, &fix->batch, err));
        TRY(run(&be, model, fix->batch.rows, out, err));
        be.ops->fini(be.ctx);
    }
    tw_alloc_fail_after(-1);
    return status;
}

START_TEST(every_failed_allocation_is_reported)
{
    struct model model;
    struct fix_batch fix;
    enum tw_status status = TW_ERR_NOMEM;
    int64_t allowed = 0;
    model_init(&model, TW_BF16);
    fix_batch_init(&fix, lengths, VOCAB);
    float *out = fix_poison(fix.batch.rows * (1 + WIDTH));
    for (; status != TW_OK && allowed < 500; allowed++) {
        struct tw_error err = {0};
        status = try_all(&fix, &model, out, allowed, &err);
        ck_assert(status == TW_OK || status == TW_ERR_NOMEM);
        ck_assert(status == TW_OK || err.text[0] != '\0');
    }
    ck_assert_int_eq(status, TW_OK);
    ck_assert_int_gt(allowed, 20);
    tw_free(out);
    fix_batch_fini(&fix);
    model_fini(&model);
}
END_TEST

START_TEST(a_module_that_is_none_is_named)
{
    const struct tw_ops *ops = NULL;
    struct tw_error err = {0};
    char *folder = tw_strdup(tw_folder_make());
    tw_write_text(folder, "twellscope-cuda.so", "no object");
    ck_assert_int_eq(setenv("TWELLSCOPE_LIBDIR", folder, 1), 0);
    TW_FAILS_WITH(tw_ops_find("cuda", &ops, &err), TW_ERR_UNSUPPORTED,
                  tw_in(folder, "twellscope-cuda.so"), err);
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(tw_ops_find("auto", &ops, &err), err);
    ck_assert_ptr_eq(ops, &tw_ops_cpu);
    ck_assert_int_eq(unsetenv("TWELLSCOPE_LIBDIR"), 0);
    tw_folder_remove(folder);
    tw_free(folder);
}
END_TEST

START_TEST(backends_are_found_by_name)
{
    const struct tw_ops *ops = NULL;
    struct tw_error err = {0};
    void *ctx;
    TW_OK_OR_FAIL(tw_ops_find("cpu", &ops, &err), err);
    ck_assert_ptr_eq(ops, &tw_ops_cpu);
    if (tw_ops_find("cuda", &ops, &err) == TW_OK)
        ck_assert_str_eq(ops->name, "cuda");
    else // no module, or no GPU: the reason is given
        ck_assert_ptr_nonnull(strstr(err.text, "cuda"));
    const struct tw_ops *best = ops, *found = NULL;
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(tw_ops_find("auto", &found, &err), err);
    ck_assert_ptr_eq(found, best);
    ops = &tw_ops_cpu;
    TW_FAILS_WITH(tw_ops_find("tpu", &ops, &err), TW_ERR_UNSUPPORTED,
                  "unknown backend 'tpu'", err);
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(ops->init(&(struct tw_ops_config){.threads = 2}, &ctx, &err),
                  err);
    ck_assert_ptr_nonnull(strstr(ops->device(ctx), "OpenBLAS "));
    ops->fini(ctx);
    ops->fini(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops_same");
    TCase *core = tcase_create("Core");
    tcase_set_timeout(core, 120);
    tcase_add_loop_test(core, sequence_alone_equals_sequence_in_batch, 0, 3);
    tcase_add_loop_test(core, threads_and_kept_weights_change_no_bit, 0, 3);
    tcase_add_test(core, longer_sequence_keeps_its_prefix);
    tcase_add_test(core, context_can_be_used_again);
    tcase_add_test(core, backends_are_found_by_name);
    tcase_add_test(core, a_module_that_is_none_is_named);
    suite_add_tcase(suite, core);
    TCase *errors = tcase_create("Errors");
    tcase_set_timeout(errors, 120);
    tcase_add_test(errors, every_failed_allocation_is_reported);
    suite_add_tcase(suite, errors);
    return tw_run_suite(suite);
}
