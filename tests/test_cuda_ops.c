/* Each slot of the cuda row around the feed-forward layer, against the
 * reference row on the same rounded numbers. What the two rows see is equal, so
 * results differ by one rounding to 16 bits and by fp32 sums in another order.
 * Exits 77 without a GPU. */
#include <config.h>

#include <stdio.h>

#include "tests/cuda_pair.h"

/* Attention takes one case in FEW: tests/test_cuda_attention has the grid.
 * Where the device is emulated a loop takes one pass in three, unless
 * TW_EMU_ALL. */
#ifdef TW_CUDA_EMULATED
#define FEW 8
static bool is_left_out(int i)
{
    return !getenv("TW_EMU_ALL") && i % 3 != 0;
}
#else
#define FEW            2
#define is_left_out(i) ((void)(i), false)
#endif

static const int64_t widths[] = {8, 63, 64, 72, 264, 520, 2056};

START_TEST(embed_and_positions)
{
    if (is_left_out(_i))
        return;
    struct pair *pair = pair_start(_i, 11);
    int64_t rows = pair->fix.batch.rows;
    for (int i = 0; i < COUNT(widths); i++) {
        struct tw_error err = {0};
        struct tw_matrix table = pair_matrix(pair, 300, widths[i], 1);
        struct tw_weight *w[2];
        TW_OK_OR_FAIL(CUDA.weight_load(pair->cuda, &table, &w[0], &err), err);
        TW_OK_OR_FAIL(REF.weight_load(pair->ref, &table, &w[1], &err), err);
        int64_t count = rows * widths[i];
        BOTH(pair, count, 0, CUDA.embed(pair->cuda, y, w[0], 1.5f, &err),
             REF.embed(pair->ref, y, w[1], 1.5f, &err));
        float *x = pair_numbers(pair, count, 1);
        void *y = pair_device(pair, x, count);
        TW_OK_OR_FAIL(CUDA.positions(pair->cuda, y, w[0], 2, &err), err);
        TW_OK_OR_FAIL(REF.positions(pair->ref, x, w[1], 2, &err), err);
        pair_same(pair, y, x, count, 0);
        CUDA.weight_free(pair->cuda, w[0]);
        REF.weight_free(pair->ref, w[1]);
        fix_matrix_fini(&table);
    }
    pair_end(pair);
}
END_TEST

START_TEST(what_has_no_row_is_named)
{
    struct tw_error err = {0};
    struct pair *pair = pair_start_of(batches[3], 11, TW_BF16);
    struct tw_matrix table = pair_matrix(pair, 5, 8, 1);
    struct tw_weight *w;
    TW_OK_OR_FAIL(CUDA.weight_load(pair->cuda, &table, &w, &err), err);
    void *y = pair_output(pair, pair->fix.batch.rows * 8);
    TW_FAILS_WITH(CUDA.embed(pair->cuda, y, w, 1, &err), TW_ERR_MISMATCH,
                  "is not among the embedding's rows", err);
    TW_FAILS_WITH(CUDA.positions(pair->cuda, y, w, 2, &err), TW_ERR_MISMATCH,
                  "position 5 has no embedding", err);
    float nll[300];
    struct tw_head_obs obs = {.nll = nll};
    TW_FAILS_WITH(CUDA.head_nll(pair->cuda, y, w, &(struct tw_head){.scale = 1},
                                &obs, &err),
                  TW_ERR_MISMATCH, "is not among the loss head's rows", err);
    CUDA.free(pair->cuda, y);
    CUDA.weight_free(pair->cuda, w);
    fix_matrix_fini(&table);
    pair_end(pair);
}
END_TEST

static void check_norm(struct pair *pair, int64_t width, int64_t groups,
                       int kind, bool is_each, bool has_weight)
{
    struct tw_error err = {0};
    int64_t count = pair->fix.batch.rows * width, part = width / groups;
    pair_forget(pair);
    struct tw_norm norm = {.kind = kind ? TW_NORM_LAYER : TW_NORM_RMS,
                           .eps = 1e-5f,
                           .offset = has_weight && is_each ? 1 : 0,
                           .groups = groups};
    float *x = pair_numbers(pair, count, 3);
    if (has_weight)
        norm.weight = pair_matrix(pair, is_each ? groups : 1, part, 1);
    if (has_weight && kind)
        norm.bias = pair_matrix(pair, is_each ? groups : 1, part, 1);
    void *from = pair_device(pair, x, count);
    BOTH(pair, count, 4e-6, CUDA.norm(pair->cuda, y, from, width, &norm, &err),
         REF.norm(pair->ref, y, x, width, &norm, &err));
    float *want = fix_poison(count);
    TW_OK_OR_FAIL(CUDA.norm(pair->cuda, from, from, width, &norm, &err), err);
    TW_OK_OR_FAIL(REF.norm(pair->ref, want, x, width, &norm, &err), err);
    pair_same(pair, from, want, count, 4e-6);
    fix_matrix_fini(&norm.weight);
    fix_matrix_fini(&norm.bias);
    tw_free(x);
}

START_TEST(norms)
{
    if (is_left_out(_i))
        return;
    struct pair *pair = pair_start(_i, 11);
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < COUNT(widths); i++)
            check_norm(pair, widths[i], 1, kind, false, i % 3 > 0);
        check_norm(pair, 4 * 16, 4, kind, false, true);
        check_norm(pair, 3 * 20, 3, kind, true, true);
        check_norm(pair, 2 * 264, 2, kind, true, true);
    }
    pair_end(pair);
}
END_TEST

START_TEST(add_and_act_mul)
{
    if (is_left_out(_i))
        return;
    struct tw_error err = {0};
    struct pair *pair = pair_start(_i, 11);
    for (int i = 0; i < COUNT(widths); i++) {
        int64_t count = pair->fix.batch.rows * widths[i];
        float *a = pair_numbers(pair, count, 4),
              *b = pair_numbers(pair, count, 1);
        void *da = pair_device(pair, a, count),
             *db = pair_device(pair, b, count);
        BOTH(pair, count, 1e-7,
             CUDA.add(pair->cuda, y, da, db, widths[i], 0.3f, &err),
             REF.add(pair->ref, y, a, b, widths[i], 0.3f, &err));
        for (int act = 0; act < TW_ACTS; act++) {
            struct tw_activation how = {.act = (enum tw_act)act,
                                        .arg =
                                            act == TW_ACT_FATRELU ? 0.25f : 0};
            bool has_up = (i + act) % 2;
            BOTH(pair, count, 1e-6,
                 CUDA.act_mul(pair->cuda, y, da, has_up ? db : NULL, widths[i],
                              &how, &err),
                 REF.act_mul(pair->ref, y, a, has_up ? b : NULL, widths[i],
                             &how, &err));
        }
        CUDA.free(pair->cuda, da);
        CUDA.free(pair->cuda, db);
        tw_free(a);
        tw_free(b);
    }
    pair_end(pair);
}
END_TEST

static void check_matmul(struct pair *pair, int64_t n, int64_t k, int extra)
{
    struct tw_error err = {0};
    int64_t rows = pair->fix.batch.rows;
    pair_forget(pair);
    struct tw_matrix m = pair_matrix(pair, n, k, 1),
                     bias = pair_matrix(pair, 1, n, 1);
    float *x = pair_numbers(pair, rows * k, 1),
          *r = pair_numbers(pair, rows * n, 1);
    void *dx = pair_device(pair, x, rows * k),
         *dr = pair_device(pair, r, rows * n);
    struct tw_weight *w[2];
    TW_OK_OR_FAIL(CUDA.weight_load(pair->cuda, &m, &w[0], &err), err);
    TW_OK_OR_FAIL(REF.weight_load(pair->ref, &m, &w[1], &err), err);
    const struct tw_matrix *b = extra & 1 ? &bias : NULL;
    bool has_r = extra & 2;
    BOTH(pair, rows * n, 2e-4,
         CUDA.matmul(pair->cuda, y, dx, w[0], b, has_r ? dr : NULL, &err),
         REF.matmul(pair->ref, y, x, w[1], b, has_r ? r : NULL, &err));
    if (has_r) { /* the residual is y */
        float *want = fix_poison(rows * n);
        TW_OK_OR_FAIL(CUDA.matmul(pair->cuda, dr, dx, w[0], b, dr, &err), err);
        TW_OK_OR_FAIL(REF.matmul(pair->ref, want, x, w[1], b, r, &err), err);
        pair_same(pair, dr, want, rows * n, 2e-4);
    } else {
        CUDA.free(pair->cuda, dr);
    }
    CUDA.free(pair->cuda, dx);
    CUDA.weight_free(pair->cuda, w[0]);
    REF.weight_free(pair->ref, w[1]);
    fix_matrix_fini(&m);
    fix_matrix_fini(&bias);
    tw_free(x);
    tw_free(r);
}

START_TEST(matmul)
{
    if (is_left_out(_i))
        return;
    static const int64_t sizes[] = {8, 64, 72, 384};
    struct pair *pair = pair_start(_i, 11);
    for (int n = 0; n < COUNT(sizes); n++)
        for (int k = 0; k < COUNT(sizes); k++)
            check_matmul(pair, sizes[n], sizes[k], (n + k + _i) % 4);
    pair_end(pair);
}
END_TEST

static const struct heads {
    int64_t heads, kv_heads, head_dim;
} heads[] = {{4, 4, 16}, {4, 2, 32}, {6, 1, 64},  {2, 2, 128},
             {3, 3, 24}, {2, 1, 80}, {1, 1, 192}, {2, 1, 256}};

START_TEST(rope)
{
    if (is_left_out(_i))
        return;
    struct pair *pair = pair_start(_i, 11);
    for (int h = 0; h < 4 * COUNT(heads); h++) {
        const struct heads *at = &heads[h / 4];
        float inv_freq[128];
        struct tw_rope how = {.dims = h % 2 ? at->head_dim / 2 : at->head_dim,
                              .inv_freq = inv_freq,
                              .scale = h % 2 ? 1.25f : 1,
                              .is_interleaved = h / 2 % 2};
        for (int64_t i = 0; i < how.dims / 2; i++)
            inv_freq[i] = powf(1e4f, -(float)(2 * i) / (float)how.dims);
        inv_freq[0] = 3e3f; /* an angle of a million */
        int64_t count = pair->fix.batch.rows * at->heads * at->head_dim;
        float *x = pair_numbers(pair, count, 1);
        void *y = pair_device(pair, x, count);
        struct tw_error err = {0};
        pair_forget(pair);
        TW_OK_OR_FAIL(
            CUDA.rope(pair->cuda, y, at->heads, at->head_dim, &how, &err), err);
        TW_OK_OR_FAIL(
            REF.rope(pair->ref, x, at->heads, at->head_dim, &how, &err), err);
        pair_same(pair, y, x, count, 1e-6);
    }
    pair_end(pair);
}
END_TEST

static const float slopes[] = {0.5f, 0.7f, 0.125f, 0.0625f, 1, 0.03125f};
static const struct mode {
    int64_t window;
    float soft_cap;
    bool is_alibi;
    float alibi_bf16;
} modes[] = {
    {.window = 0},      {.window = 1},
    {.window = 50},     {.window = 64, .is_alibi = true},
    {.soft_cap = 2},    {.window = 130, .soft_cap = 5, .is_alibi = true},
    {.is_alibi = true}, {.is_alibi = true, .alibi_bf16 = 0.3f}};

static struct tw_attention attention_of(const struct heads *h,
                                        const struct mode *mode)
{
    return (struct tw_attention){.heads = h->heads,
                                 .kv_heads = h->kv_heads,
                                 .head_dim = h->head_dim,
                                 .scale = 1 / sqrtf((float)h->head_dim),
                                 .window = mode->window,
                                 .soft_cap = mode->soft_cap,
                                 .alibi = mode->is_alibi ? slopes : NULL,
                                 .alibi_bf16 = mode->alibi_bf16};
}

START_TEST(attention)
{
    if (is_left_out(_i))
        return;
    struct tw_error err = {0};
    struct pair *pair = pair_start(_i, 11);
    int64_t rows = pair->fix.batch.rows;
    for (int h = 0; h < COUNT(heads); h++)
        for (int m = 0; m < COUNT(modes); m++) {
            if ((h * COUNT(modes) + m + _i) % FEW != 0)
                continue;
            struct tw_attention how = attention_of(&heads[h], &modes[m]);
            int64_t nq = rows * how.heads * how.head_dim;
            int64_t nk = rows * how.kv_heads * how.head_dim;
            float *q = pair_numbers(pair, nq, 2),
                  *k = pair_numbers(pair, nk, 2);
            float *v = pair_numbers(pair, nk, 1);
            void *dq = pair_device(pair, q, nq), *dk = pair_device(pair, k, nk);
            void *dv = pair_device(pair, v, nk);
            /* weights are rounded to 16 bits, values up to 1 */
            BOTH(pair, nq, 2 * rounding(pair->type),
                 CUDA.attention(pair->cuda, y, dq, dk, dv, &how, &err),
                 REF.attention(pair->ref, y, q, k, v, &how, &err));
            CUDA.free(pair->cuda, dq);
            CUDA.free(pair->cuda, dk);
            CUDA.free(pair->cuda, dv);
            tw_free(q);
            tw_free(k);
            tw_free(v);
        }
    pair_end(pair);
}
END_TEST

static void check_head(struct pair *pair, int64_t vocab, int64_t d,
                       const struct tw_head *how, bool has_bias)
{
    struct tw_error err = {0};
    int64_t rows = pair->fix.batch.rows;
    struct tw_matrix m = pair_matrix(pair, vocab, d, 0.3f);
    float *x = pair_numbers(pair, rows * d, 1);
    void *dx = pair_device(pair, x, rows * d);
    const int64_t wanted[] = {0, rows - 1};
    float *nll[2], *logits[2];
    struct tw_head head = *how;
    pair_forget(pair);
    if (has_bias)
        head.bias = pair_matrix(pair, 1, vocab, 1);
    head.logit_rows = rows > 1 ? 2 : 1;
    head.logit_row = wanted;
    for (int b = 0; b < 2; b++) {
        const struct tw_ops *ops = b ? &REF : &CUDA;
        void *ctx = b ? pair->ref : pair->cuda;
        struct tw_weight *w;
        nll[b] = fix_poison(rows);
        head.logits = logits[b] = fix_poison(2 * vocab);
        struct tw_head_obs obs = {.nll = nll[b]};
        TW_OK_OR_FAIL(ops->weight_load(ctx, &m, &w, &err), err);
        TW_OK_OR_FAIL(
            ops->head_nll(ctx, b ? (void *)x : dx, w, &head, &obs, &err), err);
        TW_OK_OR_FAIL(ops->finish(ctx, &err), err);
        ops->weight_free(ctx, w);
        TW_OK_OR_FAIL(ops->start(ctx, &pair->fix.batch, &err), err);
    }
    double far = fix_distance(nll[0], nll[1], rows);
    ck_assert_msg(far <= 2e-5, "a loss is %g away (vocab %lld)", far,
                  (long long)vocab);
    far = fix_distance(logits[0], logits[1], (rows > 1 ? 2 : 1) * vocab);
    ck_assert_msg(far <= 2e-5, "a logit is %g away", far);
    for (int b = 0; b < 2; b++) {
        tw_free(nll[b]);
        tw_free(logits[b]);
    }
    CUDA.free(pair->cuda, dx);
    fix_matrix_fini(&m);
    fix_matrix_fini(&head.bias);
    tw_free(x);
}

START_TEST(heads_of_loss)
{
    if (is_left_out(_i))
        return;
    static const int64_t vocabs[] = {11, 300, 4096, 5003};
    int v = _i % COUNT(vocabs);
    struct pair *pair = pair_start_of(batches[_i / COUNT(vocabs) * 2], 11,
                                      types[_i % COUNT(types)]);
    check_head(pair, vocabs[v], 64, &(struct tw_head){.scale = 1}, false);
    check_head(pair, vocabs[v], 64, &(struct tw_head){.scale = 0.5f}, true);
    check_head(pair, vocabs[v], 64,
               &(struct tw_head){.scale = 1, .soft_cap = 2}, v % 2);
    /* rows that aren't aligned: by chunks everywhere */
    check_head(pair, vocabs[v], 60, &(struct tw_head){.scale = 1}, v % 2);
    pair_end(pair);
}
END_TEST

/* A sequence's rows through product, norm and attention. */
static float *passed(const struct pair *pair, void *ctx, const float *x,
                     int64_t rows, struct tw_weight *w,
                     const struct tw_attention *how)
{
    struct tw_error err = {0};
    int64_t d = how->heads * how->head_dim;
    struct tw_norm norm = {.kind = TW_NORM_RMS, .eps = 1e-5f};
    void *a = pair_device(pair, x, rows * d), *b = pair_output(pair, rows * d);
    TW_OK_OR_FAIL(CUDA.norm(ctx, b, a, d, &norm, &err), err);
    TW_OK_OR_FAIL(CUDA.matmul(ctx, a, b, w, NULL, b, &err), err);
    TW_OK_OR_FAIL(CUDA.attention(ctx, b, a, a, a, how, &err), err);
    CUDA.free(ctx, a);
    return pair_fetched(pair, b, rows * d);
}

START_TEST(a_row_is_free_of_its_batch)
{
    if (is_left_out(_i))
        return;
    struct tw_error err = {0};
    static const int64_t length[FIX_SEQS] = {130, 3, 300, 64, 200};
    struct pair *pair = pair_start_of(length, 11, types[_i % 2]);
    struct tw_attention how =
        attention_of(&(struct heads){2, 2, 64}, &modes[_i / 2]);
    int64_t d = 128, rows = pair->fix.batch.rows;
    struct tw_matrix m = pair_matrix(pair, d, d, 0.2f);
    struct tw_weight *w;
    TW_OK_OR_FAIL(CUDA.weight_load(pair->cuda, &m, &w, &err), err);
    float *x = pair_numbers(pair, rows * d, 1);
    float *all = passed(pair, pair->cuda, x, rows, w, &how);
    TW_OK_OR_FAIL(CUDA.finish(pair->cuda, &err), err);
    for (int64_t s = 0; s < pair->fix.batch.seqs; s++) {
        struct fix_batch one;
        fix_batch_one(&one, &pair->fix, s);
        TW_OK_OR_FAIL(CUDA.start(pair->cuda, &one.batch, &err), err);
        int64_t at = pair->fix.batch.offset[s] * d;
        float *own = passed(pair, pair->cuda, x + at, one.batch.rows, w, &how);
        ck_assert_msg(memcmp(own, all + at,
                             (size_t)(one.batch.rows * d) * sizeof *own) == 0,
                      "sequence %lld has other bits alone", (long long)s);
        TW_OK_OR_FAIL(CUDA.finish(pair->cuda, &err), err);
        tw_free(own);
    }
    TW_OK_OR_FAIL(CUDA.start(pair->cuda, &pair->fix.batch, &err), err);
    CUDA.weight_free(pair->cuda, w);
    fix_matrix_fini(&m);
    tw_free(all);
    tw_free(x);
    pair_end(pair);
}
END_TEST

START_TEST(two_batches_in_flight)
{
    struct tw_error err = {0};
    struct pair *pair = pair_start_of(batches[2], 50, TW_BF16);
    struct fix_batch other;
    fix_batch_init(&other, batches[5], 50);
    struct tw_matrix m = pair_matrix(pair, 50, 64, 0.5f);
    struct tw_weight *w;
    TW_OK_OR_FAIL(CUDA.weight_load(pair->cuda, &m, &w, &err), err);
    const struct tw_batch *batch[2] = {&pair->fix.batch, &other.batch};
    const struct tw_head head = {.scale = 1};
    float *x[2], *nll[2], *again[2];
    void *dx[2];
    TW_OK_OR_FAIL(CUDA.finish(pair->cuda, &err), err);
    for (int b = 0; b < 2; b++) {
        x[b] = pair_numbers(pair, batch[b]->rows * 64, 1);
        dx[b] = pair_device(pair, x[b], batch[b]->rows * 64);
        nll[b] = fix_poison(batch[b]->rows);
        again[b] = fix_poison(batch[b]->rows);
        struct tw_head_obs obs = {.nll = nll[b]};
        TW_OK_OR_FAIL(CUDA.start(pair->cuda, batch[b], &err), err);
        TW_OK_OR_FAIL(CUDA.head_nll(pair->cuda, dx[b], w, &head, &obs, &err),
                      err);
        TW_OK_OR_FAIL(CUDA.submit(pair->cuda, &err), err);
    }
    TW_FAILS_WITH(CUDA.start(pair->cuda, batch[0], &err), TW_ERR_MISMATCH,
                  "more than 2 in flight", err);
    for (int b = 0; b < 2; b++)
        TW_OK_OR_FAIL(CUDA.collect(pair->cuda, &err), err);
    TW_FAILS_WITH(CUDA.collect(pair->cuda, &err), TW_ERR_MISMATCH,
                  "no batch in flight", err);
    for (int b = 0; b < 2; b++) {
        struct tw_head_obs obs = {.nll = again[b]};
        TW_OK_OR_FAIL(CUDA.start(pair->cuda, batch[b], &err), err);
        TW_OK_OR_FAIL(CUDA.head_nll(pair->cuda, dx[b], w, &head, &obs, &err),
                      err);
        TW_OK_OR_FAIL(CUDA.finish(pair->cuda, &err), err);
        ck_assert(memcmp(nll[b], again[b],
                         (size_t)batch[b]->rows * sizeof **nll) == 0);
        CUDA.free(pair->cuda, dx[b]);
        tw_free(x[b]);
        tw_free(nll[b]);
        tw_free(again[b]);
    }
    TW_OK_OR_FAIL(CUDA.start(pair->cuda, batch[0], &err), err);
    CUDA.weight_free(pair->cuda, w);
    fix_matrix_fini(&m);
    fix_batch_fini(&other);
    pair_end(pair);
}
END_TEST

START_TEST(out_of_memory_is_an_error_and_no_more)
{
    struct tw_error err = {0};
    struct pair *pair = pair_start_of(batches[1], 11, TW_BF16);
    void *buffer = NULL;
    TW_FAILS_WITH(CUDA.alloc(pair->cuda, INT64_C(1) << 44, &buffer, &err),
                  TW_ERR_NOMEM, "out of memory", err);
    CUDA.trim(pair->cuda);
    float *x = pair_numbers(pair, 64, 1);
    void *dx = pair_device(pair, x, 64);
    pair_same(pair, dx, x, 64, 0);
    pair_end(pair);
}
END_TEST

START_TEST(marks_are_in_order)
{
    struct tw_error err = {0};
    struct pair *pair = pair_start_of(batches[1], 11, TW_BF16);
    double ns = -1;
    TW_OK_OR_FAIL(CUDA.mark(pair->cuda, 3, &err), err);
    TW_OK_OR_FAIL(CUDA.mark(pair->cuda, 70, &err), err);
    TW_OK_OR_FAIL(CUDA.finish(pair->cuda, &err), err);
    TW_OK_OR_FAIL(CUDA.mark_ns(pair->cuda, 3, 70, &ns, &err), err);
    ck_assert(ns >= 0);
    TW_FAILS_WITH(CUDA.mark_ns(pair->cuda, 3, 4, &ns, &err), TW_ERR_MISMATCH,
                  "no mark", err);
    TW_OK_OR_FAIL(CUDA.start(pair->cuda, &pair->fix.batch, &err), err);
    pair_end(pair);
}
END_TEST

int main(void)
{
    struct tw_error err = {0};
    if (tw_ops_cuda.probe(&err) != TW_OK) {
        printf("SKIP: %s\n", err.text);
        return 77;
    }
    Suite *suite = suite_create("cuda_ops");
    TCase *tc = tcase_create("slots");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, embed_and_positions, 0, LOOPS);
    tcase_add_loop_test(tc, norms, 0, LOOPS);
    tcase_add_loop_test(tc, add_and_act_mul, 0, LOOPS);
    tcase_add_loop_test(tc, matmul, 0, LOOPS);
    tcase_add_loop_test(tc, rope, 0, LOOPS);
    tcase_add_loop_test(tc, attention, 0, LOOPS);
    tcase_add_loop_test(tc, heads_of_loss, 0, 12);
    suite_add_tcase(suite, tc);
    tc = tcase_create("batches");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, what_has_no_row_is_named);
    tcase_add_loop_test(tc, a_row_is_free_of_its_batch, 0, 2 * COUNT(modes));
    tcase_add_test(tc, two_batches_in_flight);
    tcase_add_test(tc, out_of_memory_is_an_error_and_no_more);
    tcase_add_test(tc, marks_are_in_order);
    suite_add_tcase(suite, tc);
    return tw_run_suite_here(suite);
}
