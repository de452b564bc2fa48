/* The second pass's launchers against the reference row and the cpu backend:
 * every definition, magnitudes and active sets, equal bit by bit for equal h;
 * dense rows, lists, and a layer with both; rows of ties, of numbers far apart,
 * of what isn't finite; nothing written outside. Exits 77 without a GPU. */
#include <config.h>

#include "tests/cuda_check.h"
#include "tests/cuda_rows.h"

#include "kernels/cuda/launch_second.h"
#include "kernels/ops_ref_internal.h"

enum form { DENSE, LISTED, BOTH, FORMS };

static const char *const wishes[][TWP_DEFS] = {
    {"topp:0.5", "topk:32", "hidden", "abs:0.1"},
    {"topp:1", "gate", "gate-abs:0.3", "topp:0.999999"},
    {"topk:1", "topp:0.9", "topk:100000", "topp:0.000001"},
    {"gate-abs:0.7", "topp:0.25", "topk:2"},
    {"abs:2.5", "topp:0.99"},
    {"gate", "topp:0.75"},
    {"hidden"},
};

struct second_case {
    int32_t rows, cols;
    enum form form;
    size_t wish;
    float *h, *a; /* [rows][cols] */
    uint8_t *row_class;
    struct tw_active active[TWP_DEFS];
    struct tw_probes probes;
    struct tw_layer_obs want, got;
    struct tw_error err;
};

/* ---- rows ---- */

/* 2 to the power of something within +-span, times 1 to 2. */
static float spread(int span)
{
    int e = (int)(fix_random() % (uint64_t)(2 * span + 1)) - span;
    return ldexpf(1 + fix_unit() * fix_unit(), e);
}

static float number_of(int kind, int32_t column)
{
    switch (kind) {
    case 0:
        return spread(6);
    case 1: /* ties */
        return (float)(fix_random() % 7) - 3;
    case 2: /* as of a smooth activation: many near 0 */
        return spread(18) * fix_unit() * 0x1p-16f;
    case 3:
        return fix_random() % 40 ? 0 : spread(3);
    case 4: /* all equal */
        return -0.375f;
    case 5: /* one number, and a tail that it swallows in part */
        return column == 5 ? 0x1p30f : spread(12) * 0x1p-12f;
    case 6: /* subnormal ones too */
        return ldexpf(fix_unit(), -120 - (int)(fix_random() % 30));
    case 7: /* ties in a tail, of an odd unit */
        return column % 9 == 2
                   ? 0x1p29f
                   : (float)(fix_random() % 4 + 1) * 0x1.000002p-24f;
    case 8:
        return spread(60) * 0x1p-30f;
    default:
        return 0;
    }
}
#define KINDS 10

static void fill(struct second_case *c)
{
    size_t n = (size_t)c->rows * (size_t)c->cols;
    c->h = tw_calloc(n, sizeof *c->h);
    c->a = tw_calloc(n, sizeof *c->a);
    c->row_class = tw_calloc((size_t)c->rows, 1);
    ck_assert(c->h && c->a && c->row_class);
    for (int32_t r = 0; r < c->rows; r++) {
        c->row_class[r] = r % 7 == 3 ? TW_ROW_SKIPPED : 0;
        for (int32_t i = 0; i < c->cols; i++) {
            float *h = &c->h[(int64_t)r * c->cols + i];
            if (fix_random() % 5 == 0) /* outside the pattern */
                continue;
            *h = number_of(r % KINDS, i) * (fix_random() % 2 ? 1.0f : -1.0f);
            c->a[(int64_t)r * c->cols + i] = 1.0f + 0.99f * fix_unit();
        }
    }
}

static void case_start(struct second_case *c)
{
    int n = 0;
    for (; n < TWP_DEFS && wishes[c->wish][n]; n++)
        TW_OK_OR_FAIL(
            tw_active_parse(wishes[c->wish][n], &c->active[n], &c->err),
            c->err);
    c->probes = (struct tw_probes){n, c->active};
    fix_seed((uint64_t)(c->rows + c->cols));
    fill(c);
    struct tw_layer_obs *obs[] = {&c->want, &c->got};
    for (int i = 0; i < 2; i++) {
        TW_OK_OR_FAIL(
            tw_layer_obs_init(obs[i], c->rows, c->cols, n, 1, 1, &c->err),
            c->err);
        TW_OK_OR_FAIL(tw_layer_obs_want_sets(obs[i], c->rows, &c->err), c->err);
        tw_layer_obs_reset(obs[i], c->rows);
    }
}

static void case_end(struct second_case *c)
{
    tw_layer_obs_fini(&c->want);
    tw_layer_obs_fini(&c->got);
    tw_free(c->h);
    tw_free(c->a);
    tw_free(c->row_class);
}

/* ---- what is wanted ---- */

static void refer(struct second_case *c)
{
    size_t cols = (size_t)c->cols;
    bool *pattern = tw_calloc(cols, sizeof *pattern);
    bool *scratch = tw_calloc(cols, sizeof *scratch);
    ck_assert(pattern && scratch);
    c->want.set_start[0] = 0;
    for (int32_t r = 0; r < c->rows; r++) {
        struct twp_ref_row row = {.row = r,
                                  .width = c->cols,
                                  .a = c->a + (size_t)r * cols,
                                  .h = c->h + (size_t)r * cols,
                                  .pattern = pattern,
                                  .is_active = scratch,
                                  .row_class = c->row_class[r]};
        for (size_t i = 0; i < cols; i++)
            pattern[i] = row.a[i] != 0;
        twp_ref_count(&row, &c->probes, &c->want);
        TW_OK_OR_FAIL(twp_ref_set(&row, &c->active[0], &c->want, &c->err),
                      c->err);
    }
    tw_free(pattern);
    tw_free(scratch);
}

/* The cpu backend's layer whose h is c->h: its up is the unit matrix, its gate
 * a bias, powers of two or off. */
static void ask_cpu(struct second_case *c, enum tw_ffn_path path)
{
    int64_t n = c->cols;
    float *unit = tw_calloc((size_t)(n * n), sizeof *unit);
    float *none = tw_calloc((size_t)(n * n), sizeof *none);
    float *bias = tw_calloc((size_t)n, sizeof *bias);
    float *x = tw_calloc((size_t)(c->rows * n), sizeof *x);
    float *y = tw_calloc((size_t)(c->rows * n), sizeof *y);
    ck_assert(unit && none && bias && x && y);
    for (int64_t i = 0; i < n; i++) {
        unit[i * n + i] = 1;
        bias[i] = i % 11 == 4 ? -1 : ldexpf(1, (int)(i % 4) - 2);
    }
    for (int64_t i = 0; i < c->rows * n; i++) {
        c->a[i] = bias[i % n] > 0 ? bias[i % n] : 0;
        c->h[i] = c->a[i] > 0 ? c->h[i] : 0;
        x[i] = c->a[i] > 0 ? c->h[i] / c->a[i] : 1;
        c->h[i] = c->a[i] * x[i] + 0.0f; /* as it comes: subnormal numbers are
                                          * rounded, -0 is 0 */
    }
    struct tw_ffn_desc desc = {.d_model = n,
                               .d_ff = n,
                               .gate = floats(none, n, n),
                               .up = floats(unit, n, n),
                               .down = floats(none, n, n),
                               .gate_bias = floats(bias, 1, n),
                               .path = path};
    TW_OK_OR_FAIL(tw_activation_parse("relu", &desc.activation, &c->err),
                  c->err);
    int64_t offset[2] = {0, c->rows}, zero = 0;
    struct tw_batch batch = {.rows = c->rows,
                             .seqs = 1,
                             .offset = offset,
                             .document = &zero,
                             .start = &zero,
                             .row_class = c->row_class};
    const struct tw_ops *cpu = &tw_ops_cpu;
    void *ctx = NULL;
    struct tw_ffn *ffn = NULL;
    TW_OK_OR_FAIL(
        cpu->init(&(struct tw_ops_config){.threads = 2}, &ctx, &c->err),
        c->err);
    TW_OK_OR_FAIL(cpu->start(ctx, &batch, &c->err), c->err);
    TW_OK_OR_FAIL(cpu->ffn_load(ctx, &desc, &ffn, &c->err), c->err);
    TW_OK_OR_FAIL(cpu->ffn(ctx, y, x, NULL, ffn, &c->probes, &c->want, &c->err),
                  c->err);
    TW_OK_OR_FAIL(cpu->finish(ctx, &c->err), c->err);
    cpu->ffn_free(ctx, ffn);
    cpu->fini(ctx);
    tw_free(unit);
    tw_free(none);
    tw_free(bias);
    tw_free(x);
    tw_free(y);
}

/* ---- the device ---- */

/* Device memory with what it is to hold (NULL: ones), freed together. */
struct device {
    struct {
        char *at;
        size_t bytes;
    } block[48];
    int blocks;
};

static void *on_device(struct device *d, const void *from, size_t bytes)
{
    ck_assert_int_lt(d->blocks, COUNT(d->block));
    char *at = guarded(bytes);
    d->block[d->blocks].at = at;
    d->block[d->blocks++].bytes = bytes;
    if (from)
        cuda_ok(cudaMemcpy(at, from, bytes, cudaMemcpyHostToDevice));
    return at;
}

static void *zeros(struct device *d, size_t bytes)
{
    void *at = on_device(d, NULL, bytes);
    cuda_ok(cudaMemset(at, 0, bytes));
    return at;
}

static void fetch(void *to, const void *from, size_t bytes)
{
    cuda_ok(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

static void device_free(struct device *d)
{
    for (int i = 0; i < d->blocks; i++) {
        check_band(d->block[i].at, d->block[i].bytes);
        cuda_ok(cudaFree(d->block[i].at));
    }
}

static bool is_listed(const struct second_case *c, int32_t row)
{
    return c->form == LISTED || (c->form == BOTH && row % 3 != 1);
}

/* The rows that aren't in lists: `stride` apart, more than there are at most.
 */
static struct twp_second_h dense_rows(const struct second_case *c,
                                      struct device *d)
{
    int64_t stride = c->cols + 3;
    size_t n = (size_t)c->rows * (size_t)stride;
    float *h = fix_poison((int64_t)n), *a = fix_poison((int64_t)n);
    int32_t *list = tw_calloc((size_t)c->rows, sizeof *list), actual = 0;
    ck_assert_ptr_nonnull(list);
    for (int32_t r = 0; r < c->rows; r++) {
        if (is_listed(c, r))
            continue;
        size_t bytes = (size_t)c->cols * sizeof *h;
        memcpy(h + actual * stride, c->h + (int64_t)r * c->cols, bytes);
        memcpy(a + actual * stride, c->a + (int64_t)r * c->cols, bytes);
        list[actual++] = r;
    }
    struct twp_second_h out = {.rows = {.rows = c->rows}, .stride = stride};
    out.h = on_device(d, h, n * sizeof *h);
    out.a = on_device(d, a, n * sizeof *a);
    if (c->form == BOTH) {
        out.rows.list = on_device(d, list, (size_t)actual * sizeof *list);
        out.rows.actual = on_device(d, &actual, sizeof actual);
    }
    tw_free(h);
    tw_free(a);
    tw_free(list);
    return out;
}

static struct twp_second_h listed_rows(const struct second_case *c,
                                       struct device *d)
{
    size_t rows = (size_t)c->rows, room = (size_t)c->cols + 2;
    uint32_t *n = tw_calloc(rows, sizeof *n);
    uint32_t *pair = tw_calloc(rows * room, 2 * sizeof *pair);
    float *a = fix_poison((int64_t)(rows * room));
    ck_assert(n && pair);
    memset(pair, 0xff, rows * room * 2 * sizeof *pair);
    for (size_t r = 0; r < rows; r++) {
        if (!is_listed(c, (int32_t)r)) {
            n[r] = UINT32_MAX;
            continue;
        }
        for (size_t i = 0; i < (size_t)c->cols; i++) {
            size_t from = r * (size_t)c->cols + i, to = r * room + n[r];
            if (c->a[from] == 0)
                continue;
            pair[2 * to] = (uint32_t)i;
            memcpy(&pair[2 * to + 1], &c->h[from], sizeof *pair);
            a[to] = c->a[from];
            n[r]++;
        }
    }
    struct twp_second_h out = {.rows = {.rows = c->rows}};
    out.list.room = (int32_t)room;
    out.list.n = on_device(d, n, rows * sizeof *n);
    out.list.pair = on_device(d, pair, rows * room * 2 * sizeof *pair);
    out.a = on_device(d, a, rows * room * sizeof *a);
    tw_free(n);
    tw_free(pair);
    tw_free(a);
    return out;
}

static struct twp_second second_of(const struct second_case *c,
                                   struct device *d)
{
    size_t cols = (size_t)c->cols, rows = (size_t)c->rows, words = cols + 31;
    struct twp_second s = {.rows = c->rows,
                           .cols = c->cols,
                           .defs = c->probes.count,
                           .words = (int32_t)(words / 32),
                           .blocks = 5,
                           .room = twp_second_room(c->cols)};
    s.skip = on_device(d, c->row_class, rows);
    for (int i = 0; i < s.defs; i++) {
        s.def[i] = twp_second_def_of(&c->active[i]);
        s.bits[i] = on_device(d, NULL, rows * (words / 32) * 4);
        s.nnz[i] = on_device(d, NULL, rows * 4);
        s.fired[i] = zeros(d, cols * 4);
        s.first[i] = on_device(d, NULL, cols * 4);
        s.last[i] = zeros(d, cols * 4);
    }
    s.scratch = on_device(d, NULL, (size_t)(s.blocks * s.room) * 4);
    return s;
}

static void fetch_counts(struct second_case *c, const struct twp_second *s)
{
    size_t cols = (size_t)c->cols, rows = (size_t)c->rows;
    uint32_t *fired = tw_alloc(cols, sizeof *fired);
    ck_assert_ptr_nonnull(fired);
    for (int i = 0; i < s->defs; i++) {
        size_t at = (size_t)i * cols;
        fetch(c->got.nnz + (size_t)i * rows, s->nnz[i], rows * 4);
        fetch(c->got.first + at, s->first[i], cols * 4);
        fetch(c->got.last + at, s->last[i], cols * 4);
        fetch(fired, s->fired[i], cols * 4);
        for (size_t n = 0; n < cols; n++) {
            c->got.fired[at + n] = fired[n];
            c->got.last[at + n]--; /* 0: none */
        }
    }
    tw_free(fired);
}

/* The sets of launch after launch. */
struct sets {
    int64_t *start, end;
    uint32_t *set;
    float *value;
};

static void append_sets(struct second_case *c, struct device *d,
                        const struct twp_second *s,
                        const struct twp_second_h *h, struct sets *all)
{
    int64_t end = 0, first = all->end;
    TW_OK_OR_FAIL(tw_launch_set_starts(s, h, all->start, NULL, &c->err),
                  c->err);
    cuda_ok(cudaDeviceSynchronize());
    fetch(&end, all->start + c->rows, sizeof end);
    size_t bytes = (size_t)(end - first) * 4;
    struct twp_second_sets sets = {.start = all->start,
                                   .set = on_device(d, NULL, bytes),
                                   .value = on_device(d, NULL, bytes),
                                   .first = first};
    TW_OK_OR_FAIL(tw_launch_sets(s, h, &sets, NULL, &c->err), c->err);
    cuda_ok(cudaDeviceSynchronize());
    fetch(all->set + first, sets.set, bytes);
    fetch(all->value + first, sets.value, bytes);
    all->end = end;
}

/* In the rows' order. */
static void order_sets(struct second_case *c, const struct sets *all)
{
    size_t n = (size_t)all->end + 1;
    int64_t *start = tw_calloc((size_t)c->rows + 1, sizeof *start), to = 0;
    c->got.set = tw_realloc(c->got.set, n, sizeof *c->got.set);
    c->got.set_value = tw_realloc(c->got.set_value, n, sizeof(float));
    ck_assert(start && c->got.set && c->got.set_value);
    fetch(start, all->start, (size_t)(c->rows + 1) * 8);
    ck_assert_int_eq(start[c->rows], all->end);
    for (int32_t r = 0; r < c->rows; r++) {
        int64_t row = c->got.nnz[r];
        ck_assert(start[r] >= 0 && start[r] + row <= all->end);
        c->got.set_start[r] = to;
        memcpy(c->got.set + to, all->set + start[r], (size_t)row * 4);
        memcpy(c->got.set_value + to, all->value + start[r], (size_t)row * 4);
        to += row;
    }
    c->got.set_start[c->rows] = to;
    tw_free(start);
}

/* All launchers; returns whether a sum was beyond 64 bits. */
static bool run_case(struct second_case *c)
{
    struct device d = {.blocks = 0};
    struct twp_second_h h[2];
    int forms = 0;
    if (c->form != LISTED)
        h[forms++] = dense_rows(c, &d);
    if (c->form != DENSE)
        h[forms++] = listed_rows(c, &d);
    struct twp_second s = second_of(c, &d);
    size_t cols = (size_t)c->cols;
    size_t room = (size_t)c->rows * cols;
    struct twp_magnitudes m = {.abs_sum = zeros(&d, cols * 8),
                               .abs_max = zeros(&d, cols * 4),
                               .magnitude = zeros(&d, TW_MAGNITUDE_BINS * 8),
                               .is_overflown = zeros(&d, 4)};
    struct sets sets = {.start = zeros(&d, (size_t)(c->rows + 1) * 8),
                        .set = tw_alloc(room, sizeof *sets.set),
                        .value = tw_alloc(room, sizeof *sets.value)};
    ck_assert(sets.set && sets.value);
    for (int i = 0; i < forms; i++) {
        TW_OK_OR_FAIL(tw_launch_select(&s, &h[i], NULL, &c->err), c->err);
        TW_OK_OR_FAIL(tw_launch_magnitudes(&s, &h[i], &m, NULL, &c->err),
                      c->err);
        append_sets(c, &d, &s, &h[i], &sets);
    }
    TW_OK_OR_FAIL(tw_launch_columns(&s, NULL, &c->err), c->err);
    cuda_ok(cudaDeviceSynchronize());
    fetch_counts(c, &s);
    order_sets(c, &sets);
    tw_free(sets.set);
    tw_free(sets.value);
    fetch(c->got.abs_sum, m.abs_sum, cols * 8);
    fetch(c->got.abs_max, m.abs_max, cols * 4);
    fetch(c->got.magnitude, m.magnitude, TW_MAGNITUDE_BINS * 8);
    uint32_t is_overflown = 0;
    fetch(&is_overflown, m.is_overflown, 4);
    device_free(&d);
    return is_overflown != 0;
}

/* ---- equal ---- */

static void same_words(const struct second_case *c, const char *what,
                       const uint32_t *got, const uint32_t *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(got[i] == want[i], "%d x %d, %s, %s[%lld]: %u, not %u",
                      c->rows, c->cols, wishes[c->wish][0], what, (long long)i,
                      got[i], want[i]);
}

static void check_equal(const struct second_case *c)
{
    const struct tw_layer_obs *got = &c->got, *want = &c->want;
    int64_t rows = c->rows, cols = c->cols, defs = c->probes.count;
    int64_t all = want->set_start[rows];
    same_words(c, "nnz", got->nnz, want->nnz, defs * rows);
    same_words(c, "first", got->first, want->first, defs * cols);
    same_words(c, "last", got->last, want->last, defs * cols);
    ck_assert_mem_eq(got->fired, want->fired, (size_t)(defs * cols) * 8);
    ck_assert_mem_eq(got->abs_sum, want->abs_sum, (size_t)cols * 8);
    ck_assert_mem_eq(got->abs_max, want->abs_max, (size_t)cols * 4);
    ck_assert_mem_eq(got->magnitude, want->magnitude, TW_MAGNITUDE_BINS * 8);
    ck_assert_mem_eq(got->set_start, want->set_start, (size_t)(rows + 1) * 8);
    same_words(c, "set", got->set, want->set, all);
    ck_assert_mem_eq(got->set_value, want->set_value, (size_t)all * 4);
}

static const int32_t shapes[][2] = {{1, 1},     {20, 31},  {20, 32},
                                    {21, 33},   {30, 257}, {40, 1000},
                                    {20, 2049}, {1100, 70}};
#define WISHES COUNT(wishes)

START_TEST(equals_the_reference)
{
    int shape = _i / WISHES;
    if (is_left_out(_i, 5))
        return;
    for (int form = 0; form < FORMS; form++) {
        struct second_case c = {.rows = shapes[shape][0],
                                .cols = shapes[shape][1],
                                .form = (enum form)form,
                                .wish = (size_t)_i % WISHES};
        case_start(&c);
        refer(&c);
        ck_assert(!run_case(&c));
        check_equal(&c);
        case_end(&c);
    }
}
END_TEST

START_TEST(equals_the_cpu_backend)
{
    if (is_left_out(_i, 5))
        return;
    for (int form = 0; form < FORMS; form++) {
        struct second_case c = {.rows = 60,
                                .cols = 300 + 7 * _i,
                                .form = (enum form)form,
                                .wish = (size_t)_i % WISHES};
        case_start(&c);
        ask_cpu(&c, _i / WISHES ? TW_FFN_DENSE : TW_FFN_TWELL);
        ck_assert(!run_case(&c));
        check_equal(&c);
        case_end(&c);
    }
}
END_TEST

START_TEST(what_is_not_finite)
{
    for (int form = 0; form < FORMS; form++) {
        struct second_case c = {.rows = 40,
                                .cols = 100,
                                .form = (enum form)form,
                                .wish = (size_t)_i};
        case_start(&c);
        for (int32_t r = 0; r < c.rows; r++) {
            static const float odd[] = {NAN, INFINITY, -INFINITY, -NAN};
            for (int32_t i = 0; i < r % 4; i++) {
                int64_t at = (int64_t)r * c.cols + (i * 37 + r) % c.cols;
                c.h[at] = odd[(r / 4 + i) % 4];
                c.a[at] = 1;
            }
        }
        refer(&c);
        ck_assert(!run_case(&c));
        check_equal(&c);
        case_end(&c);
    }
}
END_TEST

/* One |h| of 2^42 is 2^62 units; two are beyond 63 bits, and so is one of 2^43.
 */
START_TEST(sums_beyond_64_bits_are_told)
{
    static const float size[][2] = {
        {0x1p42f, 0}, {0x1p42f, -0x1p42f}, {0x1.8p42f, 0}, {3e38f, 0}};
    for (int form = 0; form < FORMS; form++) {
        struct second_case c = {
            .rows = 600, .cols = 9, .form = (enum form)form, .wish = 6};
        case_start(&c);
        memset(c.h, 0, (size_t)(c.rows * c.cols) * sizeof *c.h);
        c.h[2] = size[_i][0];
        c.h[590 * c.cols + 2] = size[_i][1];
        c.a[2] = c.a[590 * c.cols + 2] = 1;
        ck_assert_int_eq(run_case(&c), _i > 0);
        case_end(&c);
    }
}
END_TEST

START_TEST(a_layer_too_wide_is_named)
{
    struct tw_error err = {0};
    struct twp_second s = {.rows = 1, .cols = TWP_SECOND_COLS + 1, .blocks = 1};
    struct twp_second_h h = {.rows = {.rows = 1}};
    TW_FAILS_WITH(tw_launch_select(&s, &h, NULL, &err), TW_ERR_UNSUPPORTED,
                  "1048577", err);
}
END_TEST

static Suite *second_suite(void)
{
    Suite *suite = suite_create("cuda_second");
    TCase *tc = tcase_create("Core");
    tcase_add_loop_test(tc, equals_the_reference, 0, COUNT(shapes) * WISHES);
    tcase_add_loop_test(tc, equals_the_cpu_backend, 0, 2 * WISHES);
    suite_add_tcase(suite, tc);
    tc = tcase_create("Limits");
    tcase_add_loop_test(tc, what_is_not_finite, 0, WISHES);
    tcase_add_loop_test(tc, sums_beyond_64_bits_are_told, 0, 4);
    suite_add_tcase(suite, tc);
    tc = tcase_create("Errors");
    tcase_add_test(tc, a_layer_too_wide_is_named);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return rows_main(second_suite);
}
