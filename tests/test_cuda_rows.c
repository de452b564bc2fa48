/* The launchers of what works on rows alone, against their formulas in fp64 on
 * the same rounded numbers: widths and addresses of every alignment, in place
 * and not, bf16 and fp16; nothing written outside; a row's bits free of runs
 * and of the batch. Exits 77 without a GPU. */
#include <config.h>

#include "tests/cuda_rows.h"

/* ---- rows of tables ---- */

static const int64_t widths[] = {1, 7, 8, 33, 64, 72, 1000, 2056, 4099};

/* Each width, aligned and not; types by turns. */
START_TEST(embed_and_positions)
{
    for (int n = 0; n < COUNT(lengths); n++) {
        struct tw_error err = {0};
        enum tw_dtype type = types[(_i + n) % 2];
        int64_t width = widths[_i / 2];
        int shift = _i % 2;
        struct rows r;
        rows_init(&r, lengths[n]);
        int64_t rows = r.on_device.rows, count = rows * width;
        struct buffer table =
            buffer_of(type, 64 * width, shift, fix_floats(64 * width, 2));
        struct buffer y = buffer_of(type, count, shift, NULL);
        struct twp_embed_args embed = {.type = type,
                                       .y = y.at,
                                       .table = table.at,
                                       .width = (int32_t)width,
                                       .scale = 0.7f,
                                       .batch = &r.on_device};
        TW_OK_OR_FAIL(tw_launch_embed(&embed, NULL, &err), err);
        double *want = new_doubles(count);
        for (int64_t i = 0; i < count; i++)
            want[i] =
                (double)embed.scale *
                (double)table
                    .value[r.fix.batch.token[i / width] * width + i % width];
        check(&y, want, 0);
        struct buffer x = buffer_of(type, count, shift, fix_floats(count, 3));
        struct twp_positions_args positions = {.type = type,
                                               .y = x.at,
                                               .table = table.at,
                                               .width = (int32_t)width,
                                               .first = 2,
                                               .batch = &r.on_device};
        TW_OK_OR_FAIL(tw_launch_positions(&positions, NULL, &err), err);
        want = new_doubles(count);
        for (int64_t i = 0; i < count; i++)
            want[i] =
                (double)x.value[i] +
                (double)table
                    .value[(r.position[i / width] + 2) * width + i % width];
        check(&x, want, 1e-7);
        buffer_free(&table);
        buffer_free(&x);
        buffer_free(&y);
        rows_fini(&r);
    }
}
END_TEST

/* ---- pairs ---- */

static const int64_t counts[] = {1, 7, 8, 255, 256, 2048, 2049, 5000, 16392};

/* Where y lies: by itself, in the first operand, in the second. */
enum place { APART, FIRST, SECOND, PLACES };

static struct buffer *placed(enum place place, struct buffer *y,
                             struct buffer *a, struct buffer *b)
{
    return place == APART ? y : place == FIRST ? a : b;
}

START_TEST(residual)
{
    int64_t n = counts[_i / 2];
    int shift = _i % 2;
    for (int i = 0; i < PLACES * COUNT(types); i++) {
        struct tw_error err = {0};
        enum tw_dtype type = types[i % 2];
        struct buffer y = buffer_of(type, n, shift, NULL);
        struct buffer a = buffer_of(type, n, 0, fix_floats(n, 4));
        struct buffer b = buffer_of(type, n, shift, fix_floats(n, 2));
        struct buffer *to = placed((enum place)(i / 2), &y, &a, &b);
        struct twp_residual_args args = {.type = type,
                                         .y = to->at,
                                         .x = a.at,
                                         .part = b.at,
                                         .elements = n,
                                         .scale = i == 0 ? 1 : -0.37f};
        TW_OK_OR_FAIL(tw_launch_residual(&args, NULL, &err), err);
        double *want = new_doubles(n);
        for (int64_t e = 0; e < n; e++)
            want[e] =
                (double)a.value[e] + (double)args.scale * (double)b.value[e];
        check(to, want, 1e-7);
        buffer_free(&y);
        buffer_free(&a);
        buffer_free(&b);
    }
}
END_TEST

static void check_act_mul(enum tw_dtype type, int64_t n, int shift,
                          const struct tw_activation *how, enum place place,
                          bool has_up)
{
    struct tw_error err = {0};
    struct buffer y = buffer_of(type, n, 0, NULL);
    struct buffer a = buffer_of(type, n, shift, fix_floats(n, 6));
    struct buffer b = buffer_of(type, n, shift, fix_floats(n, 2));
    struct buffer *to = placed(place, &y, &a, &b);
    struct twp_act_mul_args args = {.type = type,
                                    .y = to->at,
                                    .gate = a.at,
                                    .up = has_up ? b.at : NULL,
                                    .elements = n,
                                    .activation = *how};
    TW_OK_OR_FAIL(tw_launch_act_mul(&args, NULL, &err), err);
    double *want = new_doubles(n);
    for (int64_t e = 0; e < n; e++)
        want[e] = tw_activation_apply(how, (double)a.value[e]) *
                  (has_up ? (double)b.value[e] : 1);
    check(to, want, 1e-6);
    buffer_free(&y);
    buffer_free(&a);
    buffer_free(&b);
}

START_TEST(act_mul)
{
    for (int act = 0; act < TW_ACTS; act++)
        for (int t = 0; t < COUNT(types); t++) {
            int turn = _i + act + t;
            struct tw_activation how = {.act = (enum tw_act)act,
                                        .arg =
                                            act == TW_ACT_FATRELU ? 0.25f : 0};
            check_act_mul(types[t], counts[_i / 2], _i % 2, &how,
                          (enum place)(turn % PLACES), turn % 2);
        }
}
END_TEST

/* Numbers that end a format, with each activation and without up. Smooth ones
 * make Inf of Inf or NaN. */
START_TEST(act_mul_of_odd_values)
{
    static const float odd[] = {-0.0f, 0,    NAN,    INFINITY, -INFINITY,
                                30000, -1e4, 1e-30f, -1e-30f,  60000};
    struct tw_error err = {0};
    for (int t = 0; t < COUNT(types); t++) {
        struct tw_activation how = {.act = (enum tw_act)_i, .arg = 0};
        float *x = fix_poison(COUNT(odd));
        memcpy(x, odd, sizeof odd);
        if (!tw_activation_is_sparse(how.act))
            x[3] = x[4] = NAN;
        struct buffer a = buffer_of(types[t], COUNT(odd), 0, x);
        struct buffer y = buffer_of(types[t], COUNT(odd), 0, NULL);
        struct twp_act_mul_args args = {.type = types[t],
                                        .y = y.at,
                                        .gate = a.at,
                                        .elements = COUNT(odd),
                                        .activation = how};
        TW_OK_OR_FAIL(tw_launch_act_mul(&args, NULL, &err), err);
        double *want = new_doubles(COUNT(odd));
        for (int e = 0; e < COUNT(odd); e++) {
            want[e] = tw_activation_apply(&how, (double)a.value[e]);
            if (types[t] == TW_F16 && fabs(want[e]) > 65520)
                want[e] = INFINITY;
        }
        check(&y, want, 1e-30);
        buffer_free(&a);
        buffer_free(&y);
    }
}
END_TEST

/* ---- norms ---- */

static const struct {
    int64_t width, groups;
    bool is_own; /* a weight for each group */
} norms[] = {
    {1, 1, false},    {7, 1, false},       {64, 1, false},     {256, 1, false},
    {257, 1, false},  {264, 1, false},     {1000, 1, false},   {1024, 1, false},
    {2056, 1, false}, {4096, 1, false},    {4099, 1, false},   {8200, 1, false},
    {9001, 1, false}, {16392, 1, false},   {64, 4, false},     {60, 3, true},
    {528, 2, true},   {16 * 40, 16, true}, {3 * 301, 3, true},
};

static double *norm_wanted(const struct twp_norm_args *a, const float *x,
                           const float *weight, const float *bias)
{
    int64_t part = a->width / a->groups, parts = (int64_t)a->rows * a->groups;
    double *want = new_doubles(parts * part);
    for (int64_t p = 0; p < parts; p++) {
        const float *v = x + p * part;
        double mean = 0, square = 0;
        for (int64_t i = 0; i < part && a->kind == TW_NORM_LAYER; i++)
            mean += (double)v[i] / (double)part;
        for (int64_t i = 0; i < part; i++)
            square += ((double)v[i] - mean) * ((double)v[i] - mean);
        double by = 1 / sqrt(square / (double)part + (double)a->eps);
        int64_t own = a->is_per_group ? p % a->groups * part : 0;
        for (int64_t i = 0; i < part; i++)
            want[p * part + i] =
                ((double)v[i] - mean) * by *
                    (weight ? (double)(a->offset + weight[own + i]) : 1) +
                (bias ? (double)bias[own + i] : 0);
    }
    return want;
}

/* `extra`: 1 a weight, 2 a bias, 4 in place, 8 not aligned. */
static void check_norm(int norm, enum tw_norm_kind kind, enum tw_dtype type,
                       int extra)
{
    struct tw_error err = {0};
    int64_t rows = 13, width = norms[norm].width, n = rows * width;
    int64_t vector = norms[norm].is_own ? width : width / norms[norm].groups;
    float *w = fix_floats(vector, 1), *b = fix_floats(vector, 1);
    float *dw = device_floats(w, vector), *db = device_floats(b, vector);
    float *in = fix_floats(n, 3);
    for (int64_t i = 0; i < width; i++) /* a mean far from 0, and a row of 0 */
        in[4 * width + i] += 20, in[9 * width + i] = 0;
    struct buffer x = buffer_of(type, n, extra / 8, in);
    struct buffer y = buffer_of(type, n, 0, NULL);
    struct buffer *to = extra & 4 ? &x : &y;
    struct twp_norm_args args = {.type = type,
                                 .kind = kind,
                                 .eps = 1e-5f,
                                 .offset = extra % 3 ? 0 : 1,
                                 .rows = (int32_t)rows,
                                 .width = (int32_t)width,
                                 .groups = (int32_t)norms[norm].groups,
                                 .is_per_group = norms[norm].is_own,
                                 .weight = extra & 1 ? dw : NULL,
                                 .bias = extra & 2 ? db : NULL,
                                 .y = to->at,
                                 .x = x.at};
    TW_OK_OR_FAIL(tw_launch_norm(&args, NULL, &err), err);
    check(
        to,
        norm_wanted(&args, x.value, extra & 1 ? w : NULL, extra & 2 ? b : NULL),
        1e-5);
    buffer_free(&x);
    buffer_free(&y);
    cuda_ok(cudaFree(dw));
    cuda_ok(cudaFree(db));
    tw_free(w);
    tw_free(b);
}

START_TEST(norm)
{
    for (int i = 0; i < 16; i++)
        if (!is_left_out(i, 3))
            check_norm(_i, i / 4 % 2 ? TW_NORM_LAYER : TW_NORM_RMS,
                       types[(i + _i) % 2], (i * 5 + _i) % 16);
}
END_TEST

START_TEST(a_norm_too_wide_is_named)
{
    struct tw_error err = {0};
    struct twp_norm_args args = {.type = TW_BF16,
                                 .kind = TW_NORM_RMS,
                                 .rows = 1,
                                 .width = 32776,
                                 .groups = 1};
    TW_FAILS_WITH(tw_launch_norm(&args, NULL, &err), TW_ERR_UNSUPPORTED,
                  "32776", err);
}
END_TEST

/* Runs give one result, and so does a row among others and alone. */
START_TEST(a_norm_of_a_row_is_its_own)
{
    if (is_left_out(_i, 3))
        return;
    struct tw_error err = {0};
    enum tw_dtype type = types[_i % 2];
    int64_t rows = 29, width = norms[_i / 2].width, n = rows * width;
    struct buffer x = buffer_of(type, n, 0, fix_floats(n, 3));
    struct buffer y = buffer_of(type, n, 0, NULL);
    struct twp_norm_args args = {.type = type,
                                 .kind =
                                     _i / 2 % 2 ? TW_NORM_LAYER : TW_NORM_RMS,
                                 .eps = 1e-6f,
                                 .rows = (int32_t)rows,
                                 .width = (int32_t)width,
                                 .groups = (int32_t)norms[_i / 2].groups,
                                 .y = y.at,
                                 .x = x.at};
    TW_OK_OR_FAIL(tw_launch_norm(&args, NULL, &err), err);
    uint16_t *first = bits_of(&y);
    for (int run = 0; run < REPEATS; run++) {
        put(&y);
        TW_OK_OR_FAIL(tw_launch_norm(&args, NULL, &err), err);
        uint16_t *again = bits_of(&y);
        ck_assert_mem_eq(first, again, (size_t)n * 2);
        tw_free(again);
    }
    struct buffer one = buffer_of(type, width, 0, NULL);
    args.x = x.at + 17 * width;
    args.y = one.at;
    args.rows = 1;
    TW_OK_OR_FAIL(tw_launch_norm(&args, NULL, &err), err);
    uint16_t *alone = bits_of(&one);
    ck_assert_mem_eq(alone, first + 17 * width, (size_t)width * 2);
    tw_free(alone);
    tw_free(first);
    buffer_free(&one);
    buffer_free(&x);
    buffer_free(&y);
}
END_TEST

/* ---- rope ---- */

static const struct {
    int32_t heads, head_dim, dims;
} ropes[] = {{1, 2, 2},     {3, 8, 8},      {2, 64, 64}, {5, 64, 16},
             {3, 80, 20},   {2, 20, 6},     {1, 33, 10}, {7, 96, 96},
             {2, 256, 254}, {1, 1024, 1024}};

/* Of one head, in place. */
static void turn(double *want, const float *x, const struct twp_rope_args *a,
                 const float *inv_freq, int32_t position)
{
    int step = a->is_interleaved ? 2 : 1;
    int mate = a->is_interleaved ? 1 : a->dims / 2;
    for (int i = 0; i < a->head_dim; i++)
        want[i] = (double)x[i];
    for (int i = 0; i < a->dims / 2; i++) {
        float angle = (float)position * inv_freq[i];
        double c = cos((double)angle) * (double)a->scale;
        double s = sin((double)angle) * (double)a->scale;
        double one = (double)x[i * step], two = (double)x[i * step + mate];
        want[i * step] = one * c - two * s;
        want[i * step + mate] = two * c + one * s;
    }
}

static void check_rope(struct rows *r, int rope, enum tw_dtype type, int shift,
                       bool is_interleaved)
{
    struct tw_error err = {0};
    int32_t dim = ropes[rope].head_dim, heads = ropes[rope].heads;
    int64_t n = (int64_t)r->on_device.rows * heads * dim;
    float freq[512];
    for (int i = 0; i < ropes[rope].dims / 2; i++)
        freq[i] = powf(10000, -2 * (float)i / (float)ropes[rope].dims);
    float *device_freq = device_floats(freq, ropes[rope].dims / 2);
    struct buffer x = buffer_of(type, n, shift, fix_floats(n, 2));
    struct twp_rope_args args = {.type = type,
                                 .x = x.at,
                                 .heads = heads,
                                 .head_dim = dim,
                                 .dims = ropes[rope].dims,
                                 .inv_freq = device_freq,
                                 .scale = shift ? 1 : 1.25f,
                                 .is_interleaved = is_interleaved,
                                 .batch = &r->on_device};
    TW_OK_OR_FAIL(tw_launch_rope(&args, NULL, &err), err);
    double *want = new_doubles(n);
    for (int64_t h = 0; h < n / dim; h++)
        turn(want + h * dim, x.value + h * dim, &args, freq,
             r->position[h / heads]);
    check(&x, want, 2e-6);
    buffer_free(&x);
    cuda_ok(cudaFree(device_freq));
}

START_TEST(rope)
{
    for (int n = 0; n < 16; n++) {
        struct rows r;
        rows_init(&r, lengths[n / 4]);
        for (int64_t i = 0; n % 4 == 3 && i < r.on_device.rows; i++)
            r.position[i] = r.position[i] * 997 + 131000; /* far out */
        cuda_ok(cudaMemcpy((void *)(uintptr_t)r.on_device.position, r.position,
                           (size_t)r.on_device.rows * sizeof *r.position,
                           cudaMemcpyHostToDevice));
        check_rope(&r, _i, types[(n + n / 4) % 2], n / 2 % 2, n % 2);
        rows_fini(&r);
    }
}
END_TEST

START_TEST(a_rope_too_wide_is_named)
{
    struct tw_error err = {0};
    struct twp_device_batch batch = {.rows = 1};
    struct twp_rope_args args = {
        .type = TW_BF16, .heads = 1, .dims = 1026, .batch = &batch};
    TW_FAILS_WITH(tw_launch_rope(&args, NULL, &err), TW_ERR_UNSUPPORTED, "1026",
                  err);
}
END_TEST

static Suite *rows_suite(void)
{
    Suite *suite = suite_create("cuda_rows");
    TCase *tc = tcase_create("elements");
    tcase_add_loop_test(tc, embed_and_positions, 0, 2 * COUNT(widths));
    tcase_add_loop_test(tc, residual, 0, 2 * COUNT(counts));
    tcase_add_loop_test(tc, act_mul, 0, 2 * COUNT(counts));
    tcase_add_loop_test(tc, act_mul_of_odd_values, 0, TW_ACTS);
    suite_add_tcase(suite, tc);
    tc = tcase_create("rows");
    tcase_add_loop_test(tc, norm, 0, COUNT(norms));
    tcase_add_test(tc, a_norm_too_wide_is_named);
    tcase_add_loop_test(tc, a_norm_of_a_row_is_its_own, 0, 2 * COUNT(norms));
    tcase_add_loop_test(tc, rope, 0, COUNT(ropes));
    tcase_add_test(tc, a_rope_too_wide_is_named);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return rows_main(rows_suite);
}
