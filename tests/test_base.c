/* Claims about src/base: the first error wins, sizes are checked, definitions
 * have one name each, halves widen exactly, every piece runs once. */
#include <config.h>

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/active.h"
#include "base/dtype.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "base/threads.h"
#include "tw_check.h"

START_TEST(first_error_wins_and_is_clean)
{
    struct tw_error err = {0};
    ck_assert_int_eq(
        tw_error_set(&err, TW_ERR_FORMAT, "bad\n\x1b[2J%s", "name"),
        TW_ERR_FORMAT);
    ck_assert_int_eq(tw_error_set(&err, TW_ERR_IO, "later"), TW_ERR_IO);
    ck_assert_int_eq(err.status, TW_ERR_FORMAT);
    ck_assert_str_eq(err.text, "bad??[2Jname");
    tw_error_prefix(&err, "file %d", 7);
    ck_assert_str_eq(err.text, "file 7: bad??[2Jname");
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
    ck_assert_ptr_null(tw_alloc(SIZE_MAX / 2, 4));
    ck_assert_ptr_null(tw_alloc_aligned(SIZE_MAX, 1));
    void *array = NULL;
    size_t capacity = 0;
    ck_assert_int_eq(tw_grow(&array, &capacity, SIZE_MAX / 2 + 2, 1), -1);
    ck_assert_ptr_null(array);
}
END_TEST

START_TEST(injected_failure_reaches_the_caller)
{
    tw_alloc_fail_after(1);
    void *one = tw_alloc(1, 1);
    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_null(tw_alloc(1, 1));
    struct tw_strbuf text = {0};
    tw_strbuf_puts(&text, "x");
    ck_assert(text.is_failed);
    ck_assert_ptr_null(tw_strbuf_take(&text));
    tw_alloc_fail_after(-1);
    tw_free(one);
}
END_TEST

static const struct {
    const char *text, *name; /* name NULL: refused */
} definitions[] = {
    {"hidden", "hidden"},
    {"gate", "gate"},
    {"abs:0.010", "abs:0.01"},
    {"abs:1e-2", "abs:0.01"},
    {"gate-abs:0", "gate-abs:0"},
    {"topp:1", "topp:1"},
    {"topk:32", "topk:32"},
    {"topk:1.5", NULL},
    {"topk:0", NULL},
    {"topp:0", NULL},
    {"topp:1.1", NULL},
    {"abs", NULL},
    {"abs:", NULL},
    {"abs:x", NULL},
    {"abs:-1", NULL},
    {"abs:nan", NULL},
    {"hidden:1", NULL},
    {"hid", NULL},
    {"", NULL},
};

START_TEST(definitions_have_one_name)
{
    struct tw_error err = {0};
    struct tw_active active;
    enum tw_status status =
        tw_active_parse(definitions[_i].text, &active, &err);
    if (definitions[_i].name) {
        ck_assert_int_eq(status, TW_OK);
        ck_assert_str_eq(active.name, definitions[_i].name);
    } else {
        ck_assert_int_eq(status, TW_ERR_USAGE);
    }
}
END_TEST

START_TEST(halves_widen_exactly)
{
    ck_assert(tw_f16_to_f32(0x3c00) == 1.0f);
    ck_assert(tw_f16_to_f32(0x0001) == 0x1p-24f);
    ck_assert(tw_f16_to_f32(0x03ff) == 0x1.ff8p-15f);
    ck_assert(tw_f16_to_f32(0x7bff) == 65504.0f);
    ck_assert(signbit(tw_f16_to_f32(0x8000)));
    ck_assert(isinf(tw_f16_to_f32(0xfc00)));
    ck_assert(isnan(tw_f16_to_f32(0x7e00)));
    ck_assert(tw_bf16_to_f32(0x3fc0) == 1.5f);
}
END_TEST

static void add_piece(void *arg, int worker, int64_t piece)
{
    (void)worker;
    atomic_fetch_add(&((_Atomic int64_t *)arg)[piece], 1);
}

START_TEST(every_piece_runs_once)
{
    enum { PIECES = 1000 };
    static _Atomic int64_t seen[PIECES];
    struct tw_error err = {0};
    struct tw_threads *pool;
    TW_OK_OR_FAIL(tw_threads_create(3, &pool, &err), err);
    for (int round = 0; round < 20; round++)
        tw_threads_run(pool, add_piece, seen, PIECES);
    for (int i = 0; i < PIECES; i++)
        ck_assert_int_eq(seen[i], 20);
    tw_threads_destroy(pool);
}
END_TEST

START_TEST(sha256_of_abc)
{
    struct tw_sha256 hash;
    char hex[65];
    tw_sha256_init(&hash);
    tw_sha256_update(&hash, "ab", 2);
    tw_sha256_update(&hash, "c", 1);
    tw_sha256_hex(&hash, hex);
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223"
                          "b00361a396177a9cb410ff61f20015ad");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *core = tcase_create("core");
    tcase_add_test(core, first_error_wins_and_is_clean);
    tcase_add_test(core, sizes_that_overflow_are_refused);
    tcase_add_test(core, injected_failure_reaches_the_caller);
    tcase_add_loop_test(core, definitions_have_one_name, 0,
                        sizeof definitions / sizeof *definitions);
    tcase_add_test(core, halves_widen_exactly);
    tcase_add_test(core, every_piece_runs_once);
    tcase_add_test(core, sha256_of_abc);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
