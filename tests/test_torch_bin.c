/* pytorch_model.bin: files that PyTorch wrote give their tensors, and pickles
 * that would do anything else are refused by name, before anything is done. */
#include <config.h>

#include <stdlib.h>

#include "base/memory.h"
#include "load/safetensors.h"
#include "tw_check.h"
#include "tw_zip.h"

static const char *folder;

static void setup(void)
{
    static char path[2048];
    snprintf(path, sizeof path, "%s", tw_folder_make());
    folder = path;
}

static void teardown(void)
{
    tw_folder_remove(folder);
}

static const char *fixture(const char *name)
{
    static char path[4096];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/data/bin/%s", top ? top : ".", name);
    return path;
}

/* --- What PyTorch writes --- */

static void check_quarters(const struct tw_tensors *set, const char *name,
                           int64_t count, double start)
{
    float value[32];
    const struct tw_tensor *t = tw_tensors_find(set, name);
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->elements, count);
    tw_widen(value, t->data, t->dtype, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        ck_assert_double_eq(value[i], (start + (double)i) / 4);
}

START_TEST(state_dictionary)
{
    struct tw_tensors set;
    struct tw_error err = {0};
    TW_OK_OR_FAIL(tw_tensors_open_file(fixture("state.bin"), &set, &err), err);
    ck_assert_uint_eq(set.count, 9);
    check_quarters(&set, "whole", 24, 0);
    check_quarters(&set, "again", 24, 0);
    check_quarters(&set, "rows", 12, 8);
    check_quarters(&set, "half", 5, -3);
    check_quarters(&set, "brain", 6, 0);
    check_quarters(&set, "parameter", 3, 7);
    const struct tw_tensor *rows = tw_tensors_find(&set, "rows");
    const struct tw_tensor *whole = tw_tensors_find(&set, "whole");
    ck_assert_int_eq(rows->shape[0], 3);
    ck_assert_int_eq(rows->shape[1], 4);
    ck_assert_ptr_eq(rows->data, (const float *)whole->data + 8);
    ck_assert_ptr_null(whole->owned); /* mapped, not copied */
    ck_assert_int_eq(tw_tensors_find(&set, "scalar")->dims, 0);
    ck_assert_int_eq(tw_tensors_find(&set, "empty")->elements, 0);
    ck_assert_int_eq(tw_tensors_find(&set, "ids")->dtype, TW_I64);
    tw_tensors_close(&set);
}
END_TEST

START_TEST(other_types_are_kept_out)
{
    struct tw_tensors set;
    struct tw_error err = {0};
    const struct tw_tensor *t;
    const int64_t shape[] = {2};
    TW_OK_OR_FAIL(tw_tensors_open_file(fixture("state.bin"), &set, &err), err);
    ck_assert_ptr_null(tw_tensors_find(&set, "mask"));
    TW_FAILS_WITH(tw_tensors_take(&set, "double", 1, shape, false, &t, &err),
                  TW_ERR_MISMATCH, "state.bin: tensor 'double' has type F64",
                  err);
    TW_FAILS_WITH(tw_tensors_take(&set, "note", 1, shape, false, &t, &err),
                  TW_ERR_NOT_FOUND, "state.bin: no tensor 'note'", err);
    tw_tensors_close(&set);
}
END_TEST

static const struct {
    const char *file;
    enum tw_status status;
    const char *words;
} refused[] = {
    {"view.bin", TW_ERR_UNSUPPORTED, "tensor 'turned' is a transposed"},
    {"legacy.bin", TW_ERR_UNSUPPORTED, "form before 1.6"},
    {"object.bin", TW_ERR_UNSUPPORTED,
     "global 'torch.nn.modules.linear.Linear'"},
};

START_TEST(what_is_no_state_dictionary)
{
    struct tw_tensors set;
    struct tw_error err = {0};
    TW_FAILS_WITH(tw_tensors_open_file(fixture(refused[_i].file), &set, &err),
                  refused[_i].status, refused[_i].words, err);
}
END_TEST

/* --- Pickles by hand --- */

/* The start and end of a dictionary {"w": tensor} with a storage "0". */
#define KEY    "\x80\x02}X\x01\0\0\0w"
#define TENSOR "ctorch._utils\n_rebuild_tensor_v2\n"
#define STORAGE                                                                \
    "((X\x07\0\0\0storage"                                                     \
    "ctorch\nFloatStorage\n"                                                   \
    "X\x01\0\0\0"                                                              \
    "0X\x03\0\0\0"                                                             \
    "cpuK\x04tQ"
#define REST                                                                   \
    "\x89"                                                                     \
    "ccollections\nOrderedDict\n)RtRs."
/* offset 0, size (2, 2), stride (2, 1) */
#define GOOD KEY TENSOR STORAGE "K\0K\x02K\x02\x86K\x02K\x01\x86" REST

struct pickle {
    const char *bytes;
    size_t size;
    enum tw_status status;
    const char *words;
};
#define PICKLE(text, status, words)                                            \
    {                                                                          \
        text, sizeof text - 1, status, words                                   \
    }

static const float four[4] = {1, 2, 3, 4};

static enum tw_status open_pickle(const void *bytes, size_t size,
                                  const struct zip_fault *fault,
                                  struct tw_tensors *set, struct tw_error *err)
{
    const struct zip_part parts[] = {
        {"archive/data.pkl", bytes, size},
        {"archive/data/0", four, sizeof four},
        {"archive/version", "3\n", 2},
    };
    zip_write(folder, "x.bin", parts, 3, fault);
    return tw_tensors_open_file(tw_in(folder, "x.bin"), set, err);
}

static const struct pickle pickles[] = {
    /* code */
    PICKLE("\x80\x02"
           "cposix\nsystem\nX\x02\0\0\0id\x85R.",
           TW_ERR_UNSUPPORTED, "global 'posix.system'"),
    PICKLE("\x80\x02"
           "c__builtin__\neval\n.",
           TW_ERR_UNSUPPORTED, "global '__builtin__.eval'"),
    PICKLE("\x80\x04\x8c\x08"
           "builtins\x8c\x04"
           "exec\x93.",
           TW_ERR_UNSUPPORTED, "global 'builtins.exec'"),
    PICKLE("\x80\x02"
           "ctorch\nload\n.",
           TW_ERR_UNSUPPORTED, "global 'torch.load'"),
    PICKLE("\x80\x02"
           "ctorch._utils\n_rebuild_sparse_tensor\n.",
           TW_ERR_UNSUPPORTED, "_rebuild_sparse_tensor"),
    PICKLE("(iposix\nsystem\n.", TW_ERR_UNSUPPORTED, "opcode INST (0x69)"),
    PICKLE("(cposix\no.", TW_ERR_FORMAT, "ends too early"),
    PICKLE("(o.", TW_ERR_UNSUPPORTED, "opcode OBJ"),
    PICKLE("))\x81.", TW_ERR_UNSUPPORTED, "opcode NEWOBJ"),
    PICKLE("\x82\x01.", TW_ERR_UNSUPPORTED, "opcode EXT1"),
    PICKLE("Pid\n.", TW_ERR_UNSUPPORTED, "opcode PERSID"),
    PICKLE("\xff.", TW_ERR_UNSUPPORTED, "opcode unknown (0xff)"),
    PICKLE("ctorch\nFloatStorage\n)R.", TW_ERR_UNSUPPORTED, "REDUCE"),
    PICKLE("K\x01)R.", TW_ERR_UNSUPPORTED, "REDUCE"),
    PICKLE("]}b.", TW_ERR_UNSUPPORTED, "BUILD"),
    PICKLE("}K\x01"
           "b.",
           TW_ERR_UNSUPPORTED, "BUILD"),
    /* broken streams */
    PICKLE("", TW_ERR_FORMAT, "ends too early"),
    PICKLE("\x80\x02}", TW_ERR_FORMAT, "ends too early"),
    PICKLE(".", TW_ERR_FORMAT, "empty stack"),
    PICKLE("(.", TW_ERR_FORMAT, "empty stack"),
    PICKLE("t.", TW_ERR_FORMAT, "no mark"),
    PICKLE("K\x01\x86.", TW_ERR_FORMAT, "empty stack"),
    PICKLE("(K\x01K\x02u.", TW_ERR_FORMAT, "something else than a dictionary"),
    PICKLE("}(K\x01u.", TW_ERR_FORMAT, "something else than a dictionary"),
    PICKLE("}K\x01"
           "a.",
           TW_ERR_FORMAT, "something else than a list"),
    PICKLE("q\x01.", TW_ERR_FORMAT, "memo"),
    PICKLE("}r\xff\xff\xff\xff.", TW_ERR_FORMAT, "memo"),
    PICKLE("h\x01.", TW_ERR_FORMAT, "memo that was not"),
    PICKLE("X\xff\xff\xff\x7fw.", TW_ERR_FORMAT, "ends too early"),
    PICKLE("\x8d\xff\xff\xff\xff\xff\xff\xff\xffw.", TW_ERR_FORMAT,
           "ends too early"),
    PICKLE("\x8a\x09zzzzzzzzz.", TW_ERR_FORMAT, "more than 64 bits"),
    PICKLE("K\x01K\x02\x93.", TW_ERR_FORMAT, "something else than text"),
    PICKLE("K\x01.", TW_ERR_FORMAT, "no dictionary of tensors"),
    PICKLE("].", TW_ERR_FORMAT, "no dictionary of tensors"),
    PICKLE("}.", TW_ERR_FORMAT, "holds no tensors"),
    PICKLE("}X\x01\0\0\0wK\x01s.", TW_ERR_FORMAT, "holds no tensors"),
    PICKLE("}K\x01K\x01s.", TW_ERR_FORMAT, "name is no text"),
    PICKLE("}X\x02\0\0\0w\0K\x01s.", TW_ERR_FORMAT, "name is no text"),
    /* tensors that are none */
    PICKLE(KEY TENSOR ")Rs.", TW_ERR_FORMAT, "odd arguments"),
    PICKLE(KEY TENSOR STORAGE "J\xff\xff\xff\xffK\x02\x85K\x01\x85" REST,
           TW_ERR_FORMAT, "odd arguments"),
    PICKLE(KEY TENSOR STORAGE "K\0K\x02\x85)" REST, TW_ERR_FORMAT,
           "odd dimensions"),
    PICKLE(KEY TENSOR STORAGE "K\0J\xff\xff\xff\xff\x85K\x01\x85" REST,
           TW_ERR_FORMAT, "absurd shape"),
    PICKLE(KEY TENSOR STORAGE "K\0\x8a\x08\0\0\0\0\0\0\0\x40K\x08\x86"
                              "K\x08K\x01\x86" REST,
           TW_ERR_FORMAT, "absurd shape"),
    PICKLE(KEY TENSOR STORAGE "K\x01K\x04\x85K\x01\x85" REST, TW_ERR_FORMAT,
           "past its storage's end"),
    PICKLE(KEY TENSOR STORAGE "K\0K\x05\x85K\x01\x85" REST, TW_ERR_FORMAT,
           "past its storage's end"),
    PICKLE(KEY TENSOR STORAGE "K\0K\x02K\x02\x86K\x01K\x02\x86" REST,
           TW_ERR_UNSUPPORTED, "tensor 'w' is a transposed"),
    PICKLE(KEY TENSOR STORAGE "K\0K\x04\x85K\0\x85" REST, TW_ERR_UNSUPPORTED,
           "tensor 'w' is a transposed or expanded"),
    PICKLE("(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
           "9X\x03\0\0\0cpuK\x04tQ.",
           TW_ERR_FORMAT, "storage '9' is not in the archive"),
    PICKLE("(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
           "0X\x03\0\0\0cpuK\x05tQ.",
           TW_ERR_FORMAT, "larger than its entry"),
    PICKLE("(X\x07\0\0\0storageccollections\nOrderedDict\nX\x01\0\0\0"
           "0X\x03\0\0\0cpuK\x04tQ.",
           TW_ERR_FORMAT, "no storage"),
    PICKLE("K\x01Q.", TW_ERR_FORMAT, "no storage"),
    PICKLE("ctorch._utils\n_rebuild_parameter\nK\x01\x89}\x87R.", TW_ERR_FORMAT,
           "Parameter of no tensor"),
    PICKLE("ccollections\nOrderedDict\n]\x85R.", TW_ERR_FORMAT, "OrderedDict"),
};

START_TEST(pickle_is_refused)
{
    const struct pickle *p = &pickles[_i];
    struct tw_tensors set;
    struct tw_error err = {0};
    TW_FAILS_WITH(
        open_pickle(p->bytes, p->size, &(struct zip_fault){0}, &set, &err),
        p->status, p->words, err);
    ck_assert_ptr_nonnull(strstr(err.text, "x.bin: "));
}
END_TEST

START_TEST(stack_has_a_limit)
{
    static char bytes[40000];
    struct tw_tensors set;
    struct tw_error err = {0};
    memset(bytes, ')', sizeof bytes);
    TW_FAILS_WITH(
        open_pickle(bytes, sizeof bytes, &(struct zip_fault){0}, &set, &err),
        TW_ERR_FORMAT, "too deeply", err);
}
END_TEST

/* --- Archives by hand --- */

static void check_four(const struct tw_tensors *set)
{
    const struct tw_tensor *w = tw_tensors_find(set, "w");
    ck_assert_ptr_nonnull(w);
    ck_assert_mem_eq(w->data, four, sizeof four);
    ck_assert_uint_eq((uintptr_t)w->data % 4, 0);
}

START_TEST(archive_forms)
{
    for (int shift = 0; shift < 8; shift++)
        for (int is_wide = 0; is_wide < 2; is_wide++) {
            struct tw_tensors set;
            struct tw_error err = {0};
            struct zip_fault form = {.is_wide = is_wide, .shift = shift};
            TW_OK_OR_FAIL(open_pickle(GOOD, sizeof GOOD - 1, &form, &set, &err),
                          err);
            check_four(&set);
            tw_tensors_close(&set);
        }
}
END_TEST

static const struct {
    struct zip_fault fault;
    enum tw_status status;
    const char *words;
} archives[] = {
    {{.method = 8}, TW_ERR_UNSUPPORTED, "compressed or encrypted"},
    {{.flags = 1}, TW_ERR_UNSUPPORTED, "compressed or encrypted"},
    {{.entries = 1}, TW_ERR_FORMAT, "more entries than"},
    {{.offset = 60000}, TW_ERR_FORMAT, "directory is past the end"},
    {{.offset = -1}, TW_ERR_FORMAT, "directory is broken"},
    {{.place = 1}, TW_ERR_FORMAT, "not where the directory says"},
    {{.place = 0x7fffffff}, TW_ERR_FORMAT, "not where the directory says"},
};

START_TEST(archive_is_refused)
{
    struct tw_tensors set;
    struct tw_error err = {0};
    TW_FAILS_WITH(
        open_pickle(GOOD, sizeof GOOD - 1, &archives[_i].fault, &set, &err),
        archives[_i].status, archives[_i].words, err);
}
END_TEST

START_TEST(truncated_anywhere)
{
    struct zip_fault form = {.is_wide = 1};
    static char bytes[1 << 16];
    struct tw_tensors set;
    struct tw_error err = {0};
    TW_OK_OR_FAIL(open_pickle(GOOD, sizeof GOOD - 1, &form, &set, &err), err);
    tw_tensors_close(&set);
    FILE *file = fopen(tw_in(folder, "x.bin"), "rb");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t cut = 0; cut < size; cut++) {
        tw_write(folder, "cut.bin", bytes, cut);
        err = (struct tw_error){0};
        ck_assert_int_ne(
            tw_tensors_open_file(tw_in(folder, "cut.bin"), &set, &err), TW_OK);
    }
}
END_TEST

START_TEST(no_archive)
{
    struct tw_tensors set;
    struct tw_error err = {0};
    tw_write_text(folder, "a.bin", "not a zip");
    TW_FAILS_WITH(tw_tensors_open_file(tw_in(folder, "a.bin"), &set, &err),
                  TW_ERR_FORMAT, "no zip archive", err);
    const struct zip_part part = {"x/y", "z", 1};
    zip_write(folder, "b.bin", &part, 1, &(struct zip_fault){0});
    TW_FAILS_WITH(tw_tensors_open_file(tw_in(folder, "b.bin"), &set, &err),
                  TW_ERR_FORMAT, "without data.pkl", err);
    const struct zip_part parts[] = {{"x/data.pkl", "}.", 2},
                                     {"x/byteorder", "big", 3}};
    zip_write(folder, "c.bin", parts, 2, &(struct zip_fault){0});
    TW_FAILS_WITH(tw_tensors_open_file(tw_in(folder, "c.bin"), &set, &err),
                  TW_ERR_UNSUPPORTED, "byte order", err);
}
END_TEST

START_TEST(no_memory)
{
    struct tw_tensors set;
    enum tw_status status = TW_ERR_NOMEM;
    const struct zip_part parts[] = {
        {"archive/data.pkl", GOOD, sizeof GOOD - 1},
        {"archive/data/0", four, sizeof four},
    };
    zip_write(folder, "x.bin", parts, 2, &(struct zip_fault){.shift = 1});
    for (int64_t n = 0; status != TW_OK && n < 10000; n++) {
        struct tw_error err = {0};
        tw_alloc_fail_after(n);
        status = tw_tensors_open_file(tw_in(folder, "x.bin"), &set, &err);
        tw_alloc_fail_after(-1);
        ck_assert_msg(status == TW_OK || status == TW_ERR_NOMEM, "%lld: %s",
                      (long long)n, err.text);
    }
    ck_assert_int_eq(status, TW_OK);
    check_four(&set);
    tw_tensors_close(&set);
}
END_TEST

/* --- Directories --- */

static void write_good(const char *name)
{
    const struct zip_part parts[] = {
        {"archive/data.pkl", GOOD, sizeof GOOD - 1},
        {"archive/data/0", four, sizeof four},
    };
    zip_write(folder, name, parts, 2, &(struct zip_fault){0});
}

START_TEST(found_in_a_directory)
{
    struct tw_tensors set;
    struct tw_error err = {0};
    write_good("pytorch_model.bin");
    TW_OK_OR_FAIL(tw_tensors_open(folder, &set, &err), err);
    ck_assert_str_eq(set.tensor[0].file, "pytorch_model.bin");
    tw_tensors_close(&set);
    tw_write_safetensors(folder, "model.safetensors",
                         "{'v':{'dtype':'F32','shape':[1],"
                         "'data_offsets':[0,4]}}",
                         NULL, 4);
    TW_OK_OR_FAIL(tw_tensors_open(folder, &set, &err), err);
    ck_assert_str_eq(set.tensor[0].name, "v");
    tw_tensors_close(&set);
}
END_TEST

START_TEST(shards_by_an_index)
{
    struct tw_tensors set;
    struct tw_error err = {0};
    write_good("pytorch_model-00001-of-00001.bin");
    tw_write_text(folder, "pytorch_model.bin.index.json",
                  "{\"weight_map\": {\"w\": "
                  "\"pytorch_model-00001-of-00001.bin\"}}");
    TW_OK_OR_FAIL(tw_tensors_open(folder, &set, &err), err);
    check_four(&set);
    tw_tensors_close(&set);
    tw_write_text(folder, "pytorch_model.bin.index.json",
                  "{\"weight_map\": {\"w\": \"gone.bin\"}}");
    TW_FAILS_WITH(tw_tensors_open(folder, &set, &err), TW_ERR_FORMAT,
                  "pytorch_model.bin.index.json: shard 'gone.bin'", err);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("torch_bin");
    TCase *core = tcase_create("core"), *errors = tcase_create("errors");
    tcase_set_timeout(errors, 60); /* a thousand files */
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_checked_fixture(errors, setup, teardown);
    tcase_add_test(core, state_dictionary);
    tcase_add_test(core, other_types_are_kept_out);
    tcase_add_test(core, archive_forms);
    tcase_add_test(core, found_in_a_directory);
    tcase_add_test(core, shards_by_an_index);
    tcase_add_loop_test(errors, what_is_no_state_dictionary, 0,
                        sizeof refused / sizeof *refused);
    tcase_add_loop_test(errors, pickle_is_refused, 0,
                        sizeof pickles / sizeof *pickles);
    tcase_add_loop_test(errors, archive_is_refused, 0,
                        sizeof archives / sizeof *archives);
    tcase_add_test(errors, stack_has_a_limit);
    tcase_add_test(errors, truncated_anywhere);
    tcase_add_test(errors, no_archive);
    tcase_add_test(errors, no_memory);
    suite_add_tcase(suite, core);
    suite_add_tcase(suite, errors);
    return tw_run_suite(suite);
}
