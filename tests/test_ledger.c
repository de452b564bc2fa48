/* Claim: the ledger's BLOBs give back what was put in, and damaged ones give an
 * error, never more memory than their size allows. */
#include <config.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "db/ledger_format.h"
#include "tw_check.h"

static uint32_t random_state = 1;

static uint32_t draw(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 4;
}

static const struct {
    int bytes;
    uint32_t count, mask;
} shapes[] = {{1, 0, 0xff},       {1, 300, 0xff},       {2, 1000, 0xffff},
              {3, 77, 0xffffff},  {4, 5000, 0xffffffff}, {4, 4096, 7}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void fill(struct tw_section *section, int shape)
{
    *section = (struct tw_section){
        shapes[shape].bytes, shapes[shape].count,
        tw_alloc(shapes[shape].count + 1, sizeof(uint32_t))};
    for (uint32_t i = 0; i < section->count; i++)
        section->value[i] = (draw() << 8 ^ draw()) & shapes[shape].mask;
}

START_TEST(what_is_packed_comes_back)
{
    struct tw_error err = {0};
    for (int count = 1; count <= 4; count++) {
        struct tw_section in[4], out[4];
        unsigned char *blob;
        size_t size;
        for (int i = 0; i < count; i++) {
            fill(&in[i], (_i + i) % SHAPES);
            out[i] = (struct tw_section){in[i].bytes, in[i].count, NULL};
        }
        TW_OK_OR_FAIL(tw_ledger_pack(in, count, &blob, &size, &err), err);
        TW_OK_OR_FAIL(tw_ledger_unpack(blob, size, out, count, &err), err);
        for (int i = 0; i < count; i++) {
            ck_assert_uint_eq(out[i].count, in[i].count);
            ck_assert(memcmp(out[i].value, in[i].value,
                             in[i].count * sizeof(uint32_t)) == 0);
            tw_free(in[i].value);
            tw_free(out[i].value);
        }
        tw_free(blob);
    }
}
END_TEST

/* A BLOB of two sections, 300 of 1 byte and 1,000 of 2. */
static unsigned char *sample(size_t *size)
{
    struct tw_error err = {0};
    struct tw_section in[2];
    unsigned char *blob;
    fill(&in[0], 1);
    fill(&in[1], 2);
    TW_OK_OR_FAIL(tw_ledger_pack(in, 2, &blob, size, &err), err);
    tw_free(in[0].value);
    tw_free(in[1].value);
    return blob;
}

static enum tw_status read_sample(const void *blob, size_t size,
                                  struct tw_error *err)
{
    struct tw_section out[2] = {{1, 300, NULL}, {2, 1000, NULL}};
    enum tw_status status = tw_ledger_unpack(blob, size, out, 2, err);
    if (status == TW_OK) {
        tw_free(out[0].value);
        tw_free(out[1].value);
    }
    return status;
}

START_TEST(every_cut_is_refused)
{
    size_t size;
    unsigned char *blob = sample(&size);
    for (size_t cut = 0; cut < size; cut++) {
        struct tw_error err = {0};
        TW_FAILS_WITH(read_sample(blob, cut, &err), TW_ERR_FORMAT, "ledger",
                      err);
    }
    tw_free(blob);
}
END_TEST

START_TEST(heads_that_lie_are_refused)
{
    size_t size;
    unsigned char *blob = sample(&size);
    static const struct {
        int at, value;
        const char *words;
    } lies[] = {{0, 2, "version 2"},          {1, 3, "number of sections"},
                {2, 2, "another size"},       {4, 200, "more numbers"},
                {3, 43, "does not decompress"}, {8, 231, "does not decompress"}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct tw_error err = {0};
        unsigned char kept = blob[lies[i].at];
        blob[lies[i].at] = (unsigned char)lies[i].value;
        TW_FAILS_WITH(read_sample(blob, size, &err), TW_ERR_FORMAT,
                      lies[i].words, err);
        blob[lies[i].at] = kept;
    }
    tw_free(blob);
}
END_TEST

START_TEST(small_blobs_claim_no_memory)
{
    struct tw_error err = {0};
    unsigned char blob[] = {1, 1, 4, 0xff, 0xff, 0xff, 0x0f, 0x78, 0x9c, 3, 0};
    struct tw_section out = {4, TW_LEDGER_LIMIT, NULL};
    TW_FAILS_WITH(tw_ledger_unpack(blob, sizeof blob, &out, 1, &err),
                  TW_ERR_FORMAT, "than its size can hold", err);
}
END_TEST

START_TEST(short_memory_is_an_error)
{
    size_t size;
    unsigned char *blob = sample(&size);
    for (int n = 0; n < 3; n++) {
        struct tw_error err = {0};
        tw_alloc_fail_after(n);
        enum tw_status status = read_sample(blob, size, &err);
        tw_alloc_fail_after(-1);
        ck_assert_int_eq(status, TW_ERR_NOMEM);
    }
    tw_free(blob);
}
END_TEST

START_TEST(halves_round_to_nearest_even)
{
    ck_assert_uint_eq(tw_ledger_narrow(1.0f), 0x3f80);
    ck_assert_uint_eq(tw_ledger_narrow(0x1.01p0f), 0x3f80); /* tie: even */
    ck_assert_uint_eq(tw_ledger_narrow(0x1.03p0f), 0x3f82);
    ck_assert_uint_eq(tw_ledger_narrow(0x1.010002p0f), 0x3f81);
    ck_assert(isnan(tw_ledger_widen(tw_ledger_narrow(NAN))));
    for (uint32_t half = 0; half < 0x7f80; half++)
        ck_assert_uint_eq(tw_ledger_narrow(tw_ledger_widen(half)), half);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ledger");
    TCase *format = tcase_create("format");
    tcase_add_loop_test(format, what_is_packed_comes_back, 0, SHAPES);
    tcase_add_test(format, every_cut_is_refused);
    tcase_add_test(format, heads_that_lie_are_refused);
    tcase_add_test(format, small_blobs_claim_no_memory);
    tcase_add_test(format, short_memory_is_an_error);
    tcase_add_test(format, halves_round_to_nearest_even);
    suite_add_tcase(suite, format);
    return tw_run_suite(suite);
}
