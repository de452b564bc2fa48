/* Claims about .npy token arrays: what is written reads back, each integer
 * type reads right, everything else is refused with its cause. */
#include <config.h>

#include "load/npy.h"
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

/* A file of version 1 (2: longer length) with that dictionary and zeros. */
static void write_npy(const char *dictionary, int version, const void *data,
                      size_t size)
{
    uint8_t bytes[512] = "\x93NUMPY";
    size_t length = strlen(dictionary), start = version == 1 ? 10 : 12;
    bytes[6] = (uint8_t)version;
    bytes[8] = (uint8_t)length;
    memcpy(bytes + start, dictionary, length);
    if (data)
        memcpy(bytes + start + length, data, size);
    tw_write(folder, "x.npy", bytes, start + length + size);
}

#define D(descr, order, shape) \
    "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }\n"

static const struct {
    const char *dictionary, *words; /* words NULL: sound */
    int version;
    size_t size;
} files[] = {
    {D("<i4", "False", "(3,)"), NULL, 1, 12},
    {D("<u2", "False", "(2, 3)"), NULL, 2, 12},
    {D("|u1", "False", "(2, 3)"), NULL, 3, 6},
    {D("<i8", "False", "(0,)"), NULL, 1, 0},
    {D("<i8", "True", "(1,)"), NULL, 1, 8},
    {"{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"<i4\"}", NULL, 1, 4},
    {D(">i4", "False", "(3,)"), "big-endian", 1, 12},
    {D("<f4", "False", "(3,)"), "not an array of integers", 1, 12},
    {D("<i3", "False", "(3,)"), "not an array of integers", 1, 9},
    {D("<i44", "False", "(3,)"), "not an array of integers", 1, 12},
    {D("<i4", "True", "(1, 3)"), "Fortran", 1, 12},
    {D("<i4", "False", "()"), "dimensions", 1, 4},
    {D("<i4", "False", "(1, 1, 1)"), "dimensions", 1, 4},
    {D("<i4", "False", "(3,)"), "truncated", 1, 11},
    {D("<i4", "False", "(3,)"), "truncated", 1, 13},
    {D("<i4", "False", "(-3,)"), "malformed", 1, 12},
    {D("<i4", "False", "(9223372036854775807, 9223372036854775807)"),
     "truncated", 1, 12},
    {D("<i4", "False", "(99999999999999999999,)"), "malformed", 1, 12},
    {D("<i4", "No", "(3,)"), "malformed", 1, 12},
    {"{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (3,)}",
     "malformed", 1, 12},
    {"{'descr': '<i4', 'shape': (3,)}", "malformed", 1, 12},
    {"{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, "
     "'shape': (3,)}",
     "malformed", 1, 12},
    {D("<i4", "False", "(3,)") "x", "malformed", 1, 12},
    {D("<i4", "False", "(3,"), "malformed", 1, 12},
    {"", "malformed", 1, 0},
    {D("<i4", "False", "(3,)"), "version", 4, 12},
};

START_TEST(each_fault_is_named)
{
    struct tw_error err = {0};
    struct tw_npy npy;
    write_npy(files[_i].dictionary, files[_i].version, NULL, files[_i].size);
    const char *path = tw_in(folder, "x.npy");
    if (files[_i].words) {
        TW_FAILS_WITH(tw_npy_open(path, &npy, &err), TW_ERR_FORMAT,
                      files[_i].words, err);
    } else {
        TW_OK_OR_FAIL(tw_npy_open(path, &npy, &err), err);
        tw_npy_close(&npy);
    }
}
END_TEST

START_TEST(cut_files_are_refused)
{
    struct tw_error err = {0};
    struct tw_npy npy;
    uint8_t bytes[256];
    write_npy(D("<i4", "False", "(3,)"), 2, NULL, 12);
    FILE *file = fopen(tw_in(folder, "x.npy"), "rb");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t cut = 0; cut < size; cut++) {
        tw_write(folder, "y.npy", bytes, cut);
        ck_assert(tw_npy_open(tw_in(folder, "y.npy"), &npy, &err) ==
                  TW_ERR_FORMAT);
    }
    tw_write(folder, "y.npy", bytes, size);
    TW_OK_OR_FAIL(tw_npy_open(tw_in(folder, "y.npy"), &npy, &err), err);
    tw_npy_close(&npy);
}
END_TEST

START_TEST(items_keep_their_sign)
{
    struct tw_error err = {0};
    struct tw_npy npy;
    const char *path = tw_in(folder, "x.npy");
    const uint8_t ones[] = {1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255,
                            255, 255, 255, 255};
    static const struct {
        const char *dictionary;
        int64_t last;
    } types[] = {
        {D("<i8", "False", "(1, 2)"), -1},
        {D("<u8", "False", "(1, 2)"), INT64_MAX},
        {D("<i4", "False", "(1, 4)"), -1},
        {D("<u4", "False", "(1, 4)"), UINT32_MAX},
        {D("<i2", "False", "(2, 4)"), -1},
        {D("<u2", "False", "(2, 4)"), UINT16_MAX},
        {D("|i1", "False", "(4, 4)"), -1},
        {D("|u1", "False", "(4, 4)"), UINT8_MAX},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        write_npy(types[i].dictionary, 1, ones, sizeof ones);
        TW_OK_OR_FAIL(tw_npy_open(path, &npy, &err), err);
        ck_assert_int_eq(tw_npy_at(&npy, 0, 0), 1);
        ck_assert_int_eq(tw_npy_at(&npy, npy.rows - 1, npy.cols - 1),
                         types[i].last);
        tw_npy_close(&npy);
    }
}
END_TEST

START_TEST(written_ids_read_back)
{
    struct tw_error err = {0};
    struct tw_npy npy;
    const char *path = tw_in(folder, "x.npy");
    int32_t ids[] = {0, 50256, INT32_MAX, -1};
    for (int64_t count = 0; count <= 4; count++) {
        TW_OK_OR_FAIL(tw_npy_write(path, ids, count, &err), err);
        TW_OK_OR_FAIL(tw_npy_open(path, &npy, &err), err);
        ck_assert_int_eq(npy.rows, 1);
        ck_assert_int_eq(npy.cols, count);
        ck_assert((npy.items - npy.file.data) % 64 == 0);
        for (int64_t i = 0; i < count; i++)
            ck_assert_int_eq(tw_npy_at(&npy, 0, i), ids[i]);
        tw_npy_close(&npy);
    }
    TW_FAILS_WITH(tw_npy_write("/dev/full", ids, 4, &err), TW_ERR_FULL,
                  "/dev/full", err);
    TW_FAILS_WITH(tw_npy_write(tw_in(folder, "no/x.npy"), ids, 4, &err),
                  TW_ERR_NOT_FOUND, "x.npy", err);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("npy");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_loop_test(core, each_fault_is_named, 0,
                        sizeof files / sizeof *files);
    tcase_add_test(core, cut_files_are_refused);
    tcase_add_test(core, items_keep_their_sign);
    tcase_add_test(core, written_ids_read_back);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
