/* The TwELL format: packing and its inverse, exact counts beyond the slots,
 * routing, and the names of activations. */
#include <config.h>

#include <math.h>

#include "base/memory.h"
#include "kernels/activation.h"
#include "kernels/twell.h"
#include "tests/tw_check.h"

/* Columns, slots, one non-zero in how many, is the row routed? */
static const struct {
    int64_t cols;
    int slots;
    int64_t step;
    bool is_routed;
} rows[] = {
    {1, 1, 1, false},      {63, 64, 1, false},   {64, 64, 1, false},
    {65, 64, 1, true},     {256, 256, 1, false}, {256, 64, 4, false},
    {256, 63, 4, true},    {257, 64, 4, false},  {300, 64, 3, true},
    {1024, 16, 16, false}, {1024, 15, 16, true}, {14336, 2, 128, false}};

START_TEST(unpacking_gives_back_what_was_packed)
{
    int64_t cols = rows[_i].cols, step = rows[_i].step;
    struct tw_error err = {0};
    struct tw_twell t;
    TW_OK_OR_FAIL(tw_twell_init(&t, 2, cols, rows[_i].slots, &err), err);
    float *in = tw_calloc((size_t)cols, sizeof *in);
    float *out = tw_alloc((size_t)cols, sizeof *out);
    for (int64_t i = 0; i < cols; i += step)
        in[i] = (float)(i + 1);
    memset(out, 0xff, (size_t)cols * sizeof *out);
    tw_twell_pack_row(&t, 1, in);
    ck_assert_int_eq(tw_twell_is_routed(&t, 1), rows[_i].is_routed);
    ck_assert(!tw_twell_is_routed(&t, 0));
    int64_t count = 0;
    for (int64_t i = 0; i < t.tiles; i++)
        count += t.count[t.tiles + i];
    ck_assert_int_eq(count, (cols + step - 1) / step);
    if (!rows[_i].is_routed) {
        tw_twell_unpack_row(&t, 1, out);
        ck_assert_mem_eq(in, out, (size_t)cols * sizeof *in);
    }
    tw_free(in);
    tw_free(out);
    tw_twell_fini(&t);
}
END_TEST

START_TEST(nan_is_packed_and_negative_zero_is_not)
{
    struct tw_error err = {0};
    struct tw_twell t;
    TW_OK_OR_FAIL(tw_twell_init(&t, 1, 300, 4, &err), err);
    float row[300] = {0};
    row[3] = -0.0f;
    row[255] = NAN;
    row[256] = INFINITY;
    row[299] = -1;
    tw_twell_pack_row(&t, 0, row);
    ck_assert_int_eq(t.count[0], 1);
    ck_assert_int_eq(t.count[1], 2);
    uint32_t column[8];
    float value[8];
    ck_assert_int_eq(tw_twell_list(&t, 0, 0, 2, column, value), 3);
    ck_assert(column[0] == 255 && isnan(value[0]));
    ck_assert(column[1] == 256 && isinf(value[1]));
    ck_assert(column[2] == 299 && value[2] == -1);
    tw_twell_fini(&t);
}
END_TEST

START_TEST(init_without_memory_fails_cleanly)
{
    struct tw_error err = {0};
    struct tw_twell t;
    tw_alloc_fail_after(_i);
    enum tw_status status = tw_twell_init(&t, 3, 300, 8, &err);
    tw_alloc_fail_after(-1);
    ck_assert_int_eq(status, TW_ERR_NOMEM);
}
END_TEST

static const struct {
    const char *text, *name; /* name NULL: refused */
    bool is_sparse;
} names[] = {{"relu", "relu", true},
             {"relu2", "relu2", true},
             {"fatrelu:0.01", "fatrelu:0.01", true},
             {"fatrelu:1e-2", "fatrelu:0.01", true},
             {"fatrelu:0", "fatrelu:0", true},
             {"silu", "silu", false},
             {"swish", "silu", false},
             {"gelu", "gelu", false},
             {"gelu_python", "gelu", false},
             {"gelu_new", "gelu_tanh", false},
             {"gelu_fast", "gelu_tanh", false},
             {"gelu_pytorch_tanh", "gelu_tanh", false},
             {"quick_gelu", "quick_gelu", false},
             {"fatrelu", NULL, false},
             {"fatrelu:", NULL, false},
             {"fatrelu:-1", NULL, false},
             {"fatrelu:nan", NULL, false},
             {"fatrelu:1x", NULL, false},
             {"relu:1", NULL, false},
             {"mish", NULL, false},
             {"", NULL, false}};

START_TEST(activation_names)
{
    struct tw_error err = {0};
    struct tw_activation act;
    if (!names[_i].name) {
        TW_FAILS_WITH(tw_activation_parse(names[_i].text, &act, &err),
                      TW_ERR_UNSUPPORTED, "activation", err);
        return;
    }
    TW_OK_OR_FAIL(tw_activation_parse(names[_i].text, &act, &err), err);
    ck_assert_str_eq(act.name, names[_i].name);
    ck_assert_int_eq(tw_activation_is_sparse(act.act), names[_i].is_sparse);
    ck_assert(isnan(tw_activation_apply(&act, NAN)));
    ck_assert(tw_activation_apply(&act, 0.0) == 0);
}
END_TEST

static Suite *twell_suite(void)
{
    Suite *suite = suite_create("twell");
    TCase *core = tcase_create("Core");
    int row_count = (int)(sizeof rows / sizeof rows[0]);
    int name_count = (int)(sizeof names / sizeof names[0]);
    tcase_add_loop_test(core, unpacking_gives_back_what_was_packed, 0,
                        row_count);
    tcase_add_test(core, nan_is_packed_and_negative_zero_is_not);
    tcase_add_loop_test(core, activation_names, 0, name_count);
    suite_add_tcase(suite, core);
    TCase *errors = tcase_create("Errors");
    tcase_add_loop_test(errors, init_without_memory_fails_cleanly, 0, 3);
    suite_add_tcase(suite, errors);
    return suite;
}

int main(void)
{
    return tw_run_suite(twell_suite());
}
