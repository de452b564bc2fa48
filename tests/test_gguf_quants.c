/* Every GGUF type against the public gguf package, bit for bit, on 1000 random
 * blocks (scripts/make_gguf_blocks.py tells how they are made). */
#include <config.h>

#include <stdint.h>
#include <string.h>

#include "base/sha256.h"
#include "load/gguf_quants.h"
#include "tw_check.h"

#include "gguf_blocks.h"

enum { BLOCKS = 1000, TYPES = sizeof expected / sizeof *expected };

/* Where a type's half-precision numbers stand in a block; -1: none. */
static const struct {
    const char *name;
    int half[2];
} halves[] = {
    {"F16", {0, -1}},   {"Q8_0", {0, -1}},   {"Q4_0", {0, -1}},
    {"Q4_1", {0, 2}},   {"Q5_0", {0, -1}},   {"Q5_1", {0, 2}},
    {"Q2_K", {80, 82}}, {"Q3_K", {108, -1}}, {"Q4_K", {0, 2}},
    {"Q5_K", {0, 2}},   {"Q6_K", {208, -1}},
};

static uint64_t splitmix64(uint64_t seed, uint64_t number)
{
    uint64_t z = seed + number * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void make_finite(const char *name, uint8_t *block)
{
    if (strcmp(name, "BF16") == 0 && (block[1] & 0x7f) == 0x7f &&
        block[0] >= 0x80)
        block[1] &= 0xbf;
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
        for (int h = 0; h < 2 && strcmp(name, halves[i].name) == 0; h++)
            if (halves[i].half[h] >= 0 &&
                (block[halves[i].half[h] + 1] & 0x7c) == 0x7c)
                block[halves[i].half[h] + 1] &= 0xbf;
}

static void make_blocks(const struct tw_gguf_type *type, uint8_t *bytes)
{
    size_t size = (size_t)type->bytes;
    for (size_t i = 0; i < BLOCKS * size; i++)
        bytes[i] = (uint8_t)(splitmix64(type->id, i / 8 + 1) >> (8 * (i % 8)));
    for (size_t b = 0; b < BLOCKS; b++)
        make_finite(type->name, bytes + b * size);
}

START_TEST(same_bits_as_the_gguf_package)
{
    static uint8_t bytes[BLOCKS * 256];
    static float values[BLOCKS * 256];
    const struct tw_gguf_type *type = twp_gguf_type(expected[_i].id);
    char hex[65];
    struct tw_sha256 hash;
    ck_assert_ptr_nonnull(type);
    ck_assert_str_eq(type->name, expected[_i].name);
    make_blocks(type, bytes);
    if (type->dequant)
        for (int b = 0; b < BLOCKS; b++)
            type->dequant(bytes + b * type->bytes, values + b * type->values);
    else
        tw_widen(values, bytes, type->dtype, BLOCKS);
    ck_assert_mem_eq(values, expected[_i].first, sizeof expected[_i].first);
    tw_sha256_init(&hash);
    tw_sha256_update(&hash, values,
                     BLOCKS * (size_t)type->values * sizeof *values);
    tw_sha256_hex(&hash, hex);
    ck_assert_str_eq(hex, expected[_i].sha256);
}
END_TEST

START_TEST(types_have_names)
{
    char list[200];
    twp_gguf_types(list, sizeof list);
    ck_assert_str_eq(list, "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
                           "Q2_K, Q3_K, Q4_K, Q5_K, Q6_K");
    ck_assert_ptr_null(twp_gguf_type(16));
    ck_assert_str_eq(twp_gguf_type_name(16), "IQ2_XXS");
    ck_assert_str_eq(twp_gguf_type_name(14), "Q6_K");
    ck_assert_str_eq(twp_gguf_type_name(4000000000u), "unknown");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf_quants");
    TCase *core = tcase_create("core");
    tcase_add_loop_test(core, same_bits_as_the_gguf_package, 0, TYPES);
    tcase_add_test(core, types_have_names);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
