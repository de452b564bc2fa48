/* What the cuda row's ffn counts, by every definition, with magnitudes and
 * active sets: equal to the cpu backend's where all numbers are small integers
 * times powers of two, so that both have the same h; on either path, of lists,
 * of routed and of dense rows, in parts, of two batches in flight. With a
 * second pass and without, a definition's counts and the output's bits are the
 * same. Exits 77 without a GPU. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/cuda/context.h"
#include "tests/ops_fixture.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))
#define CUDA         tw_ops_cuda
#define MOST         16

extern const struct tw_ops tw_ops_cuda;

static const char *const names[MOST] = {
    "hidden",   "topp:0.5",     "gate-abs:0.5", "topk:3",
    "abs:0.25", "gate",         "abs:0.5",      "abs:0.75",
    "abs:1.25", "abs:1",        "abs:1.5",      "abs:2",
    "abs:1.75", "gate-abs:0.3", "gate-abs:1.5", "topp:0.999"};

static const struct form {
    const char *act, *apply;
    int primary; /* of names */
    bool is_gated, is_dense, is_f16, is_portable;
    int32_t slots; /* 0: all fit */
} forms[] = {
    {"relu", NULL, 0, .is_gated = true},
    {"relu", NULL, 2, .is_gated = true, .slots = 20, .is_portable = true},
    {"relu", NULL, 5, .is_gated = true, .slots = 20, .is_f16 = true},
    {"relu", NULL, 1, .slots = 20},
    {"relu", NULL, 2, .is_dense = true, .is_portable = true},
    {"fatrelu:0.5", NULL, 3, .is_gated = true, .is_dense = true},
    {"relu", NULL, 5, .is_gated = true, .is_dense = true},
    {"relu", "abs:0.5", 2, .is_gated = true, .is_dense = true},
    {"relu", "abs:0.5", 5, .is_dense = true, .is_f16 = true},
    {"relu", "gate-abs:0.5", 5, .is_gated = true}, /* all dense: 0.3 */
    {"relu", "gate-abs:0.3", 13, .is_gated = true, .slots = 20},
    {"relu", "gate-abs:0.5", 5, .is_gated = true, .is_dense = true},
};

struct active_case {
    const struct form *form;
    int64_t d, f;
    struct tw_active active[MOST], apply;
    struct tw_probes probes;
    struct tw_ffn_desc desc;
    struct tw_error err;
};

/* Whole numbers up to `most` times scale, many of them 0. */
static float *whole(int64_t count, int most, float scale)
{
    float *v = tw_alloc((size_t)count, sizeof *v);
    ck_assert_ptr_nonnull(v);
    for (int64_t i = 0; i < count; i++) {
        int n = (int)(fix_random() % (uint64_t)(2 * most + 1)) - most;
        v[i] = fix_random() % 3 ? 0 : (float)n * scale;
    }
    return v;
}

static struct tw_matrix matrix(int64_t rows, int64_t cols)
{
    return (struct tw_matrix){.data = whole(rows * cols, 1, 0.25f),
                              .dtype = TW_F32,
                              .rows = rows,
                              .cols = cols};
}

/* The first definition is the primary; the others keep their order. */
static void parse_probes(struct active_case *c, int primary, int count)
{
    const char *name[MOST];
    memcpy(name, names, sizeof name);
    name[0] = names[primary];
    name[primary] = names[0];
    for (int i = 0; i < count; i++)
        TW_OK_OR_FAIL(tw_active_parse(name[i], &c->active[i], &c->err), c->err);
    c->probes = (struct tw_probes){count, c->active};
}

static void case_make(struct active_case *c, const struct form *form)
{
    *c = (struct active_case){.form = form, .d = 44, .f = 300};
    fix_seed((uint64_t)(form - forms) + 7);
    parse_probes(c, form->primary, MOST);
    c->desc = (struct tw_ffn_desc){.d_model = c->d,
                                   .d_ff = c->f,
                                   .up = matrix(c->f, c->d),
                                   .down = matrix(c->d, c->f),
                                   .path = form->is_dense ? TW_FFN_DENSE
                                                          : TW_FFN_TWELL};
    float *bias = whole(c->f, 3, 0.25f);
    for (int64_t n = 0; n < c->f; n++) /* few are active */
        bias[n] -= 0.75f;
    struct tw_matrix m = {bias, TW_F32, 1, c->f};
    *(form->is_gated ? &c->desc.gate_bias : &c->desc.up_bias) = m;
    if (form->is_gated)
        c->desc.gate = matrix(c->f, c->d);
    TW_OK_OR_FAIL(tw_activation_parse(form->act, &c->desc.activation, &c->err),
                  c->err);
    if (form->apply) {
        TW_OK_OR_FAIL(tw_active_parse(form->apply, &c->apply, &c->err), c->err);
        c->desc.apply = &c->apply;
    }
}

static void case_free(struct active_case *c)
{
    struct tw_matrix *m[] = {&c->desc.gate, &c->desc.up, &c->desc.down,
                             &c->desc.gate_bias, &c->desc.up_bias};
    for (int i = 0; i < COUNT(m); i++)
        if (m[i]->data)
            fix_matrix_fini(m[i]);
}

static void obs_make(struct active_case *c, struct tw_layer_obs *obs,
                     int64_t rows, bool is_all)
{
    TW_OK_OR_FAIL(
        tw_layer_obs_init(obs, rows, c->f, c->probes.count, 1, is_all, &c->err),
        c->err);
    if (is_all)
        TW_OK_OR_FAIL(tw_layer_obs_want_sets(obs, rows, &c->err), c->err);
    tw_layer_obs_reset(obs, rows);
}

static void *open_cuda(const struct form *form, int64_t part_bytes)
{
    struct tw_error err = {0};
    void *ctx = NULL;
    struct tw_ops_config config = {
        .dtype = form->is_f16 ? TW_F16 : TW_BF16,
        .cuda_path = form->is_portable ? TW_CUDA_PORTABLE : TW_CUDA_AUTO};
    TW_OK_OR_FAIL(CUDA.init(&config, &ctx, &err), err);
    ((struct twp_cuda *)ctx)->second.part_bytes = part_bytes;
    return ctx;
}

static struct tw_ffn *load(struct active_case *c, void *cuda)
{
    struct tw_ffn *ffn = NULL;
    TW_OK_OR_FAIL(CUDA.ffn_load(cuda, &c->desc, &ffn, &c->err), c->err);
    if (c->form->slots)
        ffn->slots = c->form->slots;
    return ffn;
}

static void ask_cpu(struct active_case *c, const struct tw_batch *batch,
                    const float *x, struct tw_layer_obs *obs)
{
    const struct tw_ops *cpu = &tw_ops_cpu;
    void *ctx = NULL;
    struct tw_ffn *ffn = NULL;
    float *y = fix_poison(batch->rows * c->d);
    struct tw_ops_config config = {.threads = 1};
    TW_OK_OR_FAIL(cpu->init(&config, &ctx, &c->err), c->err);
    TW_OK_OR_FAIL(cpu->ffn_load(ctx, &c->desc, &ffn, &c->err), c->err);
    TW_OK_OR_FAIL(cpu->start(ctx, batch, &c->err), c->err);
    TW_OK_OR_FAIL(cpu->ffn(ctx, y, x, NULL, ffn, &c->probes, obs, &c->err),
                  c->err);
    TW_OK_OR_FAIL(cpu->finish(ctx, &c->err), c->err);
    cpu->ffn_free(ctx, ffn);
    cpu->fini(ctx);
    tw_free(y);
}

static void same(const struct active_case *c, const char *what,
                 const uint32_t *got, const uint32_t *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(got[i] == want[i], "form %d, %s[%lld]: %u, not %u",
                      (int)(c->form - forms), what, (long long)i, got[i],
                      want[i]);
}

static void check_counts(const struct active_case *c,
                         const struct tw_layer_obs *got,
                         const struct tw_layer_obs *want, int probes)
{
    static const int widths[] = {64, 128, 256};
    int64_t rows = got->rows, cells = probes * c->f;
    same(c, "nnz", got->nnz, want->nnz, probes * rows);
    same(c, "first", got->first, want->first, cells);
    same(c, "last", got->last, want->last, cells);
    ck_assert_mem_eq(got->fired, want->fired, (size_t)cells * 8);
    ck_assert_mem_eq(got->l1, want->l1, (size_t)rows * 4);
    ck_assert_uint_eq(got->seen[0], want->seen[0]);
    for (int t = 0; t < TW_TILE_WIDTHS; t++)
        ck_assert_mem_eq(got->tiles[t], want->tiles[t],
                         (size_t)(widths[t] + 1) * 8);
}

static void check_values(const struct active_case *c,
                         const struct tw_layer_obs *got,
                         const struct tw_layer_obs *want)
{
    int64_t all = want->set_start[want->rows];
    ck_assert_int_gt(all, 0);
    ck_assert_mem_eq(got->abs_sum, want->abs_sum, (size_t)c->f * 8);
    ck_assert_mem_eq(got->abs_max, want->abs_max, (size_t)c->f * 4);
    ck_assert_mem_eq(got->magnitude, want->magnitude, TW_MAGNITUDE_BINS * 8);
    ck_assert_mem_eq(got->set_start, want->set_start,
                     (size_t)(want->rows + 1) * 8);
    same(c, "set", got->set, want->set, all);
    ck_assert_mem_eq(got->set_value, want->set_value, (size_t)all * 4);
}

static void start_ffn(struct active_case *c, void *cuda, struct tw_ffn *ffn,
                      const struct tw_batch *batch, void *y, const void *x,
                      struct tw_layer_obs *obs)
{
    TW_OK_OR_FAIL(CUDA.start(cuda, batch, &c->err), c->err);
    TW_OK_OR_FAIL(CUDA.ffn(cuda, y, x, NULL, ffn, &c->probes, obs, &c->err),
                  c->err);
    TW_OK_OR_FAIL(CUDA.submit(cuda, &c->err), c->err);
}

/* Up to two batches in flight, the second of several parts where rows are
 * dense.
 */
#define BATCHES 3
START_TEST(equals_the_cpu_backend)
{
    static const int64_t length[BATCHES][FIX_SEQS] = {
        {3, 1, 40}, {100, 1, 40}, {5, 2}};
    struct active_case c;
    struct fix_batch fix[BATCHES];
    struct tw_layer_obs got[BATCHES], want[BATCHES];
    float *x[BATCHES];
    case_make(&c, &forms[_i]);
    void *cuda = open_cuda(&forms[_i], 1), *dx[BATCHES], *y[BATCHES];
    struct tw_ffn *ffn = load(&c, cuda);
    for (int b = 0; b < BATCHES; b++) {
        fix_batch_init(&fix[b], length[b], 11);
        int64_t rows = fix[b].batch.rows, n = rows * c.d;
        x[b] = whole(n, 4, 0.5f);
        obs_make(&c, &got[b], rows, true);
        obs_make(&c, &want[b], rows, true);
        TW_OK_OR_FAIL(CUDA.alloc(cuda, n, &dx[b], &c.err), c.err);
        TW_OK_OR_FAIL(CUDA.alloc(cuda, n, &y[b], &c.err), c.err);
        TW_OK_OR_FAIL(CUDA.upload(cuda, dx[b], x[b], n, &c.err), c.err);
    }
    for (int b = 0; b <= BATCHES; b++) {
        if (b < BATCHES)
            start_ffn(&c, cuda, ffn, &fix[b].batch, y[b], dx[b], &got[b]);
        if (b > 0)
            TW_OK_OR_FAIL(CUDA.collect(cuda, &c.err), c.err);
    }
    for (int b = 0; b < BATCHES; b++) {
        ask_cpu(&c, &fix[b].batch, x[b], &want[b]);
        check_counts(&c, &got[b], &want[b], MOST);
        check_values(&c, &got[b], &want[b]);
    }
    bool is_mixed = !forms[_i].is_dense && forms[_i].slots;
    ck_assert(got[1].dense_rows > 0 || !is_mixed);
    ck_assert((int64_t)got[1].dense_rows < got[1].rows || !is_mixed);
    for (int b = 0; b < BATCHES; b++) {
        CUDA.free(cuda, dx[b]);
        CUDA.free(cuda, y[b]);
        tw_layer_obs_fini(&got[b]);
        tw_layer_obs_fini(&want[b]);
        fix_batch_fini(&fix[b]);
        tw_free(x[b]);
    }
    CUDA.ffn_free(cuda, ffn);
    CUDA.fini(cuda);
    case_free(&c);
}
END_TEST

static const struct form inexact[] = {
    {"relu", NULL, 0, .is_gated = true, .slots = 20},
    {"relu2", NULL, 0, .is_dense = true},
    {"silu", NULL, 0, .is_gated = true, .is_dense = true},
    {"gelu", NULL, 0, .is_gated = true, .is_dense = true, .is_f16 = true},
    {"silu", "gate-abs:0.3", 0, .is_gated = true, .slots = 60},
    {"silu", NULL, 0, .is_gated = true, .is_dense = true, .is_portable = true},
};

static float *run_alone(struct active_case *c, void *cuda, struct tw_ffn *ffn,
                        const struct tw_batch *batch, const float *x,
                        struct tw_layer_obs *obs)
{
    int64_t n = batch->rows * c->d;
    void *dx = NULL, *dy = NULL;
    float *y = fix_poison(n);
    TW_OK_OR_FAIL(CUDA.alloc(cuda, n, &dx, &c->err), c->err);
    TW_OK_OR_FAIL(CUDA.alloc(cuda, n, &dy, &c->err), c->err);
    TW_OK_OR_FAIL(CUDA.upload(cuda, dx, x, n, &c->err), c->err);
    start_ffn(c, cuda, ffn, batch, dy, dx, obs);
    TW_OK_OR_FAIL(CUDA.collect(cuda, &c->err), c->err);
    TW_OK_OR_FAIL(CUDA.download(cuda, y, dy, n, &c->err), c->err);
    CUDA.free(cuda, dx);
    CUDA.free(cuda, dy);
    return y;
}

/* names 0 and 5 need no threshold, the fastest kernels serve them. */
START_TEST(same_with_a_second_pass_and_without)
{
    static const int64_t length[FIX_SEQS] = {40, 30};
    struct active_case c;
    struct fix_batch fix;
    struct tw_layer_obs obs[2];
    float *y[2];
    case_make(&c, &inexact[_i]);
    for (int64_t i = 0; i < c.d * c.f; i++)
        ((float *)(uintptr_t)c.desc.up.data)[i] += 0.1f * fix_unit();
    fix_batch_init(&fix, length, 11);
    float *x = fix_floats(fix.batch.rows * c.d, 2);
    void *cuda = open_cuda(&inexact[_i], TWP_SECOND_BYTES);
    struct tw_ffn *ffn = load(&c, cuda);
    c.active[1] = c.active[5];
    for (int i = 0; i < 2; i++) {
        c.probes.count = i ? MOST : 2;
        obs_make(&c, &obs[i], fix.batch.rows, i);
        y[i] = run_alone(&c, cuda, ffn, &fix.batch, x, &obs[i]);
    }
    check_counts(&c, &obs[1], &obs[0], 2);
    ck_assert_mem_eq(y[0], y[1], (size_t)(fix.batch.rows * c.d) * 4);
    for (int i = 0; i < 2; i++) {
        tw_layer_obs_fini(&obs[i]);
        tw_free(y[i]);
    }
    CUDA.ffn_free(cuda, ffn);
    CUDA.fini(cuda);
    fix_batch_fini(&fix);
    case_free(&c);
    tw_free(x);
}
END_TEST

START_TEST(what_cannot_be_counted_is_an_error)
{
    static const int64_t length[FIX_SEQS] = {2};
    struct active_case c;
    struct fix_batch fix;
    struct tw_active many[TWP_SECOND_DEFS + 1];
    struct tw_layer_obs obs;
    case_make(&c, &forms[6]);
    fix_batch_init(&fix, length, 11);
    void *cuda = open_cuda(&forms[6], TWP_SECOND_BYTES), *x = NULL, *y = NULL;
    struct tw_ffn *ffn = load(&c, cuda);
    float *far = fix_floats(2 * c.d, 0x1p30f);
    TW_OK_OR_FAIL(CUDA.alloc(cuda, 2 * c.d, &x, &c.err), c.err);
    TW_OK_OR_FAIL(CUDA.alloc(cuda, 2 * c.d, &y, &c.err), c.err);
    TW_OK_OR_FAIL(CUDA.upload(cuda, x, far, 2 * c.d, &c.err), c.err);
    obs_make(&c, &obs, 2, true);
    start_ffn(&c, cuda, ffn, &fix.batch, y, x, &obs);
    TW_FAILS_WITH(CUDA.collect(cuda, &c.err), TW_ERR_OVERFLOW,
                  "exceeds 64 bits", c.err);
    for (int i = 0; i <= TWP_SECOND_DEFS; i++) {
        char name[20];
        snprintf(name, sizeof name, "topk:%d", i + 1);
        TW_OK_OR_FAIL(tw_active_parse(name, &many[i], &c.err), c.err);
    }
    struct tw_probes probes = {TWP_SECOND_DEFS + 1, many};
    TW_OK_OR_FAIL(CUDA.start(cuda, &fix.batch, &c.err), c.err);
    TW_FAILS_WITH(CUDA.ffn(cuda, y, x, NULL, ffn, &probes, &obs, &c.err),
                  TW_ERR_UNSUPPORTED, "'topk:17' is one more", c.err);
    TW_OK_OR_FAIL(CUDA.finish(cuda, &c.err), c.err);
    CUDA.free(cuda, x);
    CUDA.free(cuda, y);
    CUDA.ffn_free(cuda, ffn);
    CUDA.fini(cuda);
    tw_layer_obs_fini(&obs);
    fix_batch_fini(&fix);
    case_free(&c);
    tw_free(far);
}
END_TEST

int main(void)
{
    struct tw_error err = {0};
    if (CUDA.probe(&err) != TW_OK) {
        printf("SKIP: %s\n", err.text);
        return 77;
    }
    Suite *suite = suite_create("cuda_active");
    TCase *tc = tcase_create("Core");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, equals_the_cpu_backend, 0, COUNT(forms));
    tcase_add_loop_test(tc, same_with_a_second_pass_and_without, 0,
                        COUNT(inexact));
    suite_add_tcase(suite, tc);
    tc = tcase_create("Errors");
    tcase_add_test(tc, what_cannot_be_counted_is_an_error);
    suite_add_tcase(suite, tc);
    return tw_run_suite_here(suite);
}
