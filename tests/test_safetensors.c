/* Claims about checkpoint tensors: a sound file opens, every unsound one is
 * refused with a message that names file, tensor and cause, mutated ones never
 * crash, shards are what their index says, and the digest is one number
 * whatever the threads and shards. */
#include <config.h>

#include <math.h>

#include "base/memory.h"
#include "load/load_internal.h"
#include "tw_check.h"
#include "tw_files.h"

static const char *folder;

static void setup(void)
{
    folder = tw_folder_make();
}

static void teardown(void)
{
    tw_folder_remove(folder);
}

#define A8 "'a':{'dtype':'F32','shape':[2],'data_offsets':[0,8]}"

static const struct {
    const char *header, *words; /* words NULL: sound */
    size_t size;                /* bytes of data */
} files[] = {
    {"{" A8 "}", NULL, 8},
    {"{}", NULL, 0},
    {"{" A8 ",'__metadata__':{'x':'y'}}", NULL, 8},
    {"{'__metadata__':{'x':{'y':[1,{}]}}," A8 "}", NULL, 8},
    {"{" A8 ",'z':{'dtype':'BF16','shape':[0,9],'data_offsets':[8,8]}}", NULL,
     8},
    {"{" A8 ",'s':{'dtype':'F32','shape':[],'data_offsets':[8,12]}}", NULL, 12},
    {"{'\xc3\xa9\\u00e8':{'dtype':'F16','shape':[1],'data_offsets':[0,2]}}",
     NULL, 2},
    {"{'b':{'dtype':'BOOL','shape':[3],'data_offsets':[0,3]}}", NULL, 3},
    {"{'b':{'dtype':'F64','shape':[3],'data_offsets':[0,24]}}", NULL, 24},
    {"{'b':{'dtype':'F8_E4M3','shape':[3],'data_offsets':[0,3]}}", NULL, 3},
    {"{'b':{'dtype':'F4','shape':[2],'data_offsets':[0,1]}}", NULL, 1},
    {"{'b':{'dtype':'F4','shape':[3],'data_offsets':[0,1]}}", "bytes", 1},
    {"{'b':{'dtype':'F64','shape':[3],'data_offsets':[0,12]}}", "bytes", 12},
    {"[" "1]", "no JSON object", 0},
    {"3", "header", 0},
    {"{" A8 "," A8 "}", "duplicate", 8},
    {"{'a':7}", "'a' is no JSON object", 0},
    {"{'a':{'shape':[2],'data_offsets':[0,8]}}", "no dtype", 8},
    {"{'a':{'dtype':'F32','data_offsets':[0,8]}}", "no shape", 8},
    {"{'a':{'dtype':'F32','shape':[2]}}", "no data_offsets", 8},
    {"{'a':{'dtype':'F32','shape':[2],'data_offsets':[0]}}", "no data_offsets",
     8},
    {"{'a':{'dtype':'X9','shape':[2],'data_offsets':[0,8]}}", "unknown type",
     8},
    {"{'a':{'dtype':'F32','shape':[-2],'data_offsets':[0,8]}}", "no size", 8},
    {"{'a':{'dtype':'F32','shape':[2.0],'data_offsets':[0,8]}}", "no size", 8},
    {"{'a':{'dtype':'F32','shape':[3],'data_offsets':[0,8]}}",
     "has 8 bytes of data, its shape and type F32 make 12", 8},
    {"{'a':{'dtype':'F32','shape':[4294967296,4294967296],"
     "'data_offsets':[0,8]}}",
     "2^63", 8},
    {"{'a':{'dtype':'F32','shape':[4611686018427387904],"
     "'data_offsets':[0,0]}}",
     "2^63", 0},
    {"{'a':{'dtype':'F32','shape':[99999999999999999999],"
     "'data_offsets':[0,8]}}",
     "big integer", 8},
    {"{'a':{'dtype':'F32','shape':[1,1,1,1,1,1,1,1,2],"
     "'data_offsets':[0,8]}}",
     "too many dimensions", 8},
    {"{'a':{'dtype':'F32','shape':[2],'data_offsets':[8,0]}}", "out of order",
     8},
    {"{'a':{'dtype':'F32','shape':[2],'data_offsets':[-8,0]}}", "out of order",
     8},
    {"{" A8 "}", "truncated", 7},
    {"{" A8 "}", "1 bytes follow the last tensor", 9},
    {"{'a':{'dtype':'F32','shape':[2],'data_offsets':[4,12]}}", "hole", 12},
    {"{" A8 ",'b':{'dtype':'F32','shape':[2],'data_offsets':[4,12]}}",
     "'b' overlaps", 12},
    {"{'b':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},"
     "'a':{'dtype':'F32','shape':[2],'data_offsets':[2,10]}}",
     "'a' is misaligned", 10},
    {"{'a\\u0000b':{'dtype':'F32','shape':[2],'data_offsets':[0,8]}}", "header",
     8},
};

START_TEST(each_fault_is_named)
{
    struct tw_error err = {0};
    struct tw_tensors set;
    tw_write_safetensors(folder, "x.safetensors", files[_i].header, NULL,
                         files[_i].size);
    const char *path = tw_in(folder, "x.safetensors");
    if (files[_i].words) {
        TW_FAILS_WITH(tw_tensors_open_file(path, &set, &err), TW_ERR_FORMAT,
                      files[_i].words, err);
        ck_assert(strncmp(err.text, "x.safetensors: ", 15) == 0);
    } else {
        TW_OK_OR_FAIL(tw_tensors_open_file(path, &set, &err), err);
        tw_tensors_close(&set);
    }
}
END_TEST

START_TEST(a_length_past_the_end_is_refused)
{
    static const uint64_t lengths[] = {2, 100000001, UINT64_MAX, 1u << 31};
    struct tw_error err = {0};
    struct tw_tensors set;
    const char *path = tw_in(folder, "x.safetensors");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        tw_write(folder, "x.safetensors", &lengths[i], 8);
        TW_FAILS_WITH(tw_tensors_open_file(path, &set, &err), TW_ERR_FORMAT,
                      "past the end", err);
    }
    tw_write(folder, "x.safetensors", "1234567", 7);
    TW_FAILS_WITH(tw_tensors_open_file(path, &set, &err), TW_ERR_FORMAT,
                  "too short", err);
    tw_write(folder, "x.safetensors", "", 0);
    TW_FAILS_WITH(tw_tensors_open_file(path, &set, &err), TW_ERR_FORMAT,
                  "too short", err);
    TW_FAILS_WITH(tw_tensors_open_file(folder, &set, &err), TW_ERR_IO,
                  "not a regular file", err);
}
END_TEST

START_TEST(take_checks_shape_and_type)
{
    struct tw_error err = {0};
    struct tw_tensors set;
    const struct tw_tensor *t = NULL;
    int64_t good[] = {2, 1}, bad[] = {2, 2};
    tw_write_safetensors(
        folder, "x.safetensors",
        "{'w':{'dtype':'F32','shape':[2,1],'data_offsets':[0,8]},"
        "'i':{'dtype':'I32','shape':[2,1],'data_offsets':[8,16]},"
        "'q':{'dtype':'F8_E5M2','shape':[2,1],'data_offsets':[16,18]}}",
        NULL, 18);
    TW_OK_OR_FAIL(
        tw_tensors_open_file(tw_in(folder, "x.safetensors"), &set, &err), err);
    ck_assert_uint_eq(set.count, 2);
    ck_assert(!tw_tensors_find(&set, "w")->is_used);
    TW_OK_OR_FAIL(tw_tensors_take(&set, "w", 2, good, false, &t, &err), err);
    ck_assert(t->is_used && t->elements == 2);
    ck_assert_ptr_eq(t, tw_tensors_find(&set, "w"));
    TW_FAILS_WITH(tw_tensors_take(&set, "w", 2, bad, false, &t, &err),
                  TW_ERR_MISMATCH,
                  "x.safetensors: tensor 'w' has shape [2, 1], expected [2, 2]",
                  err);
    TW_FAILS_WITH(tw_tensors_take(&set, "i", 2, good, false, &t, &err),
                  TW_ERR_MISMATCH, "int32", err);
    TW_FAILS_WITH(tw_tensors_take(&set, "q", 2, good, false, &t, &err),
                  TW_ERR_MISMATCH, "F8_E5M2", err);
    TW_FAILS_WITH(tw_tensors_take(&set, "v", 2, good, false, &t, &err),
                  TW_ERR_NOT_FOUND, "no tensor 'v'", err);
    TW_OK_OR_FAIL(tw_tensors_take(&set, "v", 2, good, true, &t, &err), err);
    ck_assert_ptr_null(t);
    tw_tensors_close(&set);
}
END_TEST

/* A small generator, so that the mutations are the same every time. */
static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void mutate(uint8_t *bytes, size_t size, uint32_t *state)
{
    static const char likely[] = "0123456789-[]{},:\"\\e.F\0\xff";
    unsigned count = 1 + next_random(state) % 4;
    for (unsigned i = 0; i < count; i++) {
        size_t at = next_random(state) % size;
        bytes[at] = next_random(state) % 2
                        ? (uint8_t)next_random(state)
                        : (uint8_t)likely[next_random(state) %
                                          (sizeof likely - 1)];
    }
}

START_TEST(mutated_headers_never_crash)
{
    enum { ROUNDS = 20000 };
    static const char header[] =
        "{'__metadata__':{'format':'pt'},"
        "'a.weight':{'dtype':'F32','shape':[2,3],'data_offsets':[0,24]},"
        "'b':{'dtype':'BF16','shape':[4],'data_offsets':[24,32]},"
        "'c':{'dtype':'I64','shape':[1],'data_offsets':[32,40]}}";
    uint32_t state = 1;
    uint8_t sound[512], bytes[512];
    int opened = 0;
    tw_write_safetensors(folder, "x.safetensors", header, NULL, 40);
    struct tw_file map;
    struct tw_error err = {0};
    TW_OK_OR_FAIL(tw_file_map(tw_in(folder, "x.safetensors"), &map, &err), err);
    ck_assert(map.size <= sizeof sound);
    memcpy(sound, map.data, map.size);
    for (int i = 0; i < ROUNDS; i++) {
        struct tw_tensor_file file = {.name = (char *)(uintptr_t)"m"};
        struct tw_tensor *tensors = NULL;
        size_t count = 0;
        memcpy(bytes, sound, map.size);
        mutate(bytes, map.size, &state);
        file.map.data = bytes;
        file.map.size = map.size - (i % 8 == 0 ? next_random(&state) % 64 : 0);
        struct tw_error cause = {0};
        if (twp_header_parse(&file, &tensors, &count, &cause) == TW_OK) {
            opened++;
            for (size_t t = 0; t < count; t++)
                ck_assert((const uint8_t *)tensors[t].data +
                              (size_t)tensors[t].elements *
                                  tw_dtype_size(tensors[t].dtype) <=
                          bytes + file.map.size);
        } else {
            ck_assert_str_ne(cause.text, "");
        }
        tw_free(tensors);
        tw_free(file.names);
        tw_free(file.other);
    }
    ck_assert_int_gt(opened, 100); /* names, values: not all are harmful */
    tw_file_unmap(&map);
}
END_TEST

START_TEST(every_failed_allocation_is_an_error)
{
    struct tw_error err = {0};
    struct tw_tensors set;
    enum tw_status status = TW_ERR_NOMEM;
    tw_write_safetensors(folder, "model.safetensors", files[7].header, NULL, 3);
    for (int i = 0; status != TW_OK && i < 100; i++) {
        err = (struct tw_error){0};
        tw_alloc_fail_after(i);
        status = tw_tensors_open(folder, &set, &err);
        tw_alloc_fail_after(-1);
        ck_assert(status == TW_OK || status == TW_ERR_NOMEM);
    }
    ck_assert_int_eq(status, TW_OK);
    tw_tensors_close(&set);
}
END_TEST

static void write_shards(void)
{
    tw_write_safetensors(
        folder, "one.safetensors",
        "{" A8 ",'extra':{'dtype':'F32','shape':[1],'data_offsets':[8,12]}}",
        NULL, 12);
    tw_write_safetensors(
        folder, "two.safetensors",
        "{'b':{'dtype':'BF16','shape':[2],'data_offsets':[0,4]}}", NULL, 4);
}

static const struct {
    const char *index, *words;
} indexes[] = {
    {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\"}}",
     NULL},
    {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"no.safetensors\"}}",
     "shard 'no.safetensors' is missing"},
    {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "plain file name"},
    {"{\"weight_map\":{\"a\":\"/one.safetensors\"}}", "plain file name"},
    {"{\"weight_map\":{\"a\":\"..\"}}", "plain file name"},
    {"{\"weight_map\":{\"a\":\"\"}}", "plain file name"},
    {"{\"weight_map\":{\"a\":7}}", "plain file name"},
    {"{\"weight_map\":{\"a\":\"two.safetensors\"}}", "two.safetensors: no "
                                                     "tensor 'a'"},
    {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\","
     "\"c\":\"two.safetensors\"}}",
     "two.safetensors: no tensor 'c'"},
    {"{\"weight_map\":{}}", "no weight_map"},
    {"{}", "no weight_map"},
    {"{\"weight_map\":[]}", "no weight_map"},
    {"[1]", "no weight_map"},
    {"{\"weight_map\":{\"a\":\"x\",\"a\":\"y\"}}", "duplicate"},
    {"{", "line"},
};

START_TEST(shards_are_what_the_index_says)
{
    struct tw_error err = {0};
    struct tw_tensors set;
    write_shards();
    tw_write_text(folder, "model.safetensors.index.json", indexes[_i].index);
    if (indexes[_i].words) {
        TW_FAILS_WITH(tw_tensors_open(folder, &set, &err), TW_ERR_FORMAT,
                      indexes[_i].words, err);
        return;
    }
    TW_OK_OR_FAIL(tw_tensors_open(folder, &set, &err), err);
    ck_assert_uint_eq(set.count, 2);
    ck_assert_ptr_null(tw_tensors_find(&set, "extra"));
    ck_assert_str_eq(tw_tensors_find(&set, "b")->file, "two.safetensors");
    tw_tensors_close(&set);
}
END_TEST

START_TEST(a_tensor_in_two_shards_is_refused)
{
    struct tw_error err = {0};
    struct tw_tensors set;
    write_shards();
    tw_write_safetensors(
        folder, "two.safetensors",
        "{" A8 ",'b':{'dtype':'BF16','shape':[2],'data_offsets':[8,12]}}", NULL,
        12);
    tw_write_text(folder, "model.safetensors.index.json", indexes[0].index);
    TW_FAILS_WITH(tw_tensors_open(folder, &set, &err), TW_ERR_FORMAT,
                  "tensor 'a' stands in", err);
    tw_folder_remove(folder);
    mkdir(folder, 0700);
    TW_FAILS_WITH(tw_tensors_open(folder, &set, &err), TW_ERR_NOT_FOUND,
                  "neither model.safetensors nor", err);
}
END_TEST

static void digest(const char *path, int threads, char hex[65])
{
    struct tw_error err = {0};
    struct tw_tensors set;
    TW_OK_OR_FAIL(tw_tensors_open(path, &set, &err), err);
    TW_OK_OR_FAIL(tw_tensors_hash(&set, threads, hex, &err), err);
    tw_tensors_close(&set);
}

START_TEST(the_digest_is_free_of_threads_and_shards)
{
    char one[65], four[65], whole[65];
    write_shards();
    tw_write_text(folder, "model.safetensors.index.json", indexes[0].index);
    digest(folder, 1, one);
    digest(folder, 4, four);
    ck_assert_str_eq(one, four);
    tw_write_safetensors(
        folder, "model.safetensors",
        "{'b':{'dtype':'BF16','shape':[2],'data_offsets':[8,12]}," A8 "}", NULL,
        12);
    digest(folder, 1, whole);
    ck_assert_str_eq(one, whole);
    tw_write_safetensors(
        folder, "model.safetensors",
        "{'b':{'dtype':'F16','shape':[2],'data_offsets':[8,12]}," A8 "}", NULL,
        12);
    digest(folder, 1, whole);
    ck_assert_str_ne(one, whole);
}
END_TEST

START_TEST(the_lowest_bad_value_is_named)
{
    enum { COUNT = 100000 };
    static float values[2 * COUNT];
    struct tw_error err = {0};
    struct tw_tensors set;
    char hex[65];
    values[COUNT + 99999] = NAN;
    values[COUNT + 77003] = -INFINITY;
    values[5] = NAN;
    tw_write_safetensors(
        folder, "model.safetensors",
        "{'z':{'dtype':'F32','shape':[100000],'data_offsets':[0,400000]},"
        "'a':{'dtype':'F32','shape':[1000,100],"
        "'data_offsets':[400000,800000]}}",
        values, sizeof values);
    TW_OK_OR_FAIL(tw_tensors_open(folder, &set, &err), err);
    for (int threads = 1; threads <= 3; threads++)
        TW_FAILS_WITH(tw_tensors_hash(&set, threads, hex, &err), TW_ERR_NUMERIC,
                      "model.safetensors: tensor 'a' is not a finite number "
                      "at [770, 3]",
                      err);
    tw_tensors_close(&set);
}
END_TEST

START_TEST(halves_are_checked_by_their_own_exponent)
{
    static const struct {
        const char *type;
        uint16_t bits;
        bool is_bad;
    } cases[] = {
        {"F16", 0x7c00, true},   {"F16", 0x7bff, false},
        {"BF16", 0x7f80, true},  {"BF16", 0xffc1, true},
        {"BF16", 0x7c00, false}, {"F16", 0xfe00, true},
        {"I32", 0xffff, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[128], hex[65];
        uint16_t data[4] = {0, 0, 0, cases[i].bits};
        struct tw_error err = {0};
        struct tw_tensors set;
        snprintf(header, sizeof header,
                 "{'a':{'dtype':'%s','shape':[%d],'data_offsets':[0,8]}}",
                 cases[i].type, cases[i].type[0] == 'I' ? 2 : 4);
        tw_write_safetensors(folder, "model.safetensors", header, data, 8);
        TW_OK_OR_FAIL(tw_tensors_open(folder, &set, &err), err);
        enum tw_status status = tw_tensors_hash(&set, 1, hex, &err);
        ck_assert_int_eq(status, cases[i].is_bad ? TW_ERR_NUMERIC : TW_OK);
        tw_tensors_close(&set);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_set_timeout(core, 120);
    tcase_add_loop_test(core, each_fault_is_named, 0,
                        sizeof files / sizeof *files);
    tcase_add_test(core, a_length_past_the_end_is_refused);
    tcase_add_test(core, take_checks_shape_and_type);
    tcase_add_test(core, mutated_headers_never_crash);
    tcase_add_test(core, every_failed_allocation_is_an_error);
    tcase_add_loop_test(core, shards_are_what_the_index_says, 0,
                        sizeof indexes / sizeof *indexes);
    tcase_add_test(core, a_tensor_in_two_shards_is_refused);
    tcase_add_test(core, the_digest_is_free_of_threads_and_shards);
    tcase_add_test(core, the_lowest_bad_value_is_named);
    tcase_add_test(core, halves_are_checked_by_their_own_exponent);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
