/* Claims about config.json and finding checkpoints: lookups are typed and
 * remembered, Python's NaN loads, the Hugging Face cache is found offline and
 * read-only, and a named file is the one that is read. */
#include <config.h>

#include "base/memory.h"
#include "load/checkpoint.h"
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

static struct tw_config *open_text(const char *text)
{
    struct tw_error err = {0};
    struct tw_config *config = NULL;
    tw_write_text(folder, "config.json", text);
    TW_OK_OR_FAIL(tw_config_open(tw_in(folder, "config.json"), &config, &err),
                  err);
    return config;
}

START_TEST(lookups_are_typed)
{
    struct tw_error err = {0};
    int64_t n = 0;
    double x = 0;
    bool is = false;
    const char *s = "";
    struct tw_config *c = open_text(
        "{\"n\":7,\"x\":1e-5,\"t\":true,\"s\":\"silu\",\"z\":null,"
        "\"o\":{\"p\":{\"q\":3}},\"bad\":NaN,\"l\":[1,Infinity,-Infinity],"
        "\"quoted\":\"a \\\" NaN\"}");
    TW_OK_OR_FAIL(tw_config_int(c, "n", &n, &err), err);
    ck_assert_int_eq(n, 7);
    TW_OK_OR_FAIL(tw_config_int(c, "o.p.q", &n, &err), err);
    ck_assert_int_eq(n, 3);
    TW_OK_OR_FAIL(tw_config_int_or(c, "z", 5, &n, &err), err);
    ck_assert_int_eq(n, 5);
    TW_OK_OR_FAIL(tw_config_int_or(c, "z.y", 6, &n, &err), err);
    ck_assert_int_eq(n, 6);
    TW_OK_OR_FAIL(tw_config_real(c, "x", &x, &err), err);
    ck_assert(x == 1e-5);
    TW_OK_OR_FAIL(tw_config_real(c, "n", &x, &err), err);
    ck_assert(x == 7);
    TW_OK_OR_FAIL(tw_config_bool_or(c, "t", false, &is, &err), err);
    ck_assert(is);
    TW_OK_OR_FAIL(tw_config_text(c, "s", &s, &err), err);
    ck_assert_str_eq(s, "silu");
    TW_OK_OR_FAIL(tw_config_text(c, "quoted", &s, &err), err);
    ck_assert_str_eq(s, "a \" NaN");
    ck_assert(tw_config_has(c, "o.p") && !tw_config_has(c, "z"));
    TW_FAILS_WITH(tw_config_int(c, "nope", &n, &err), TW_ERR_FORMAT,
                  "config.json: no field 'nope'", err);
    TW_FAILS_WITH(tw_config_int(c, "z", &n, &err), TW_ERR_FORMAT,
                  "no field 'z'", err);
    TW_FAILS_WITH(tw_config_int_or(c, "x", 1, &n, &err), TW_ERR_FORMAT,
                  "config.json: field 'x' is not an integer", err);
    TW_FAILS_WITH(tw_config_real_or(c, "bad", 1, &x, &err), TW_ERR_FORMAT,
                  "field 'bad' is not a number", err);
    TW_FAILS_WITH(tw_config_bool_or(c, "n", true, &is, &err), TW_ERR_FORMAT,
                  "field 'n' is not true or false", err);
    TW_FAILS_WITH(tw_config_text_or(c, "n", "", &s, &err), TW_ERR_FORMAT,
                  "field 'n' is not a text", err);
    TW_FAILS_WITH(tw_config_int_or(c, "s.t", 1, &n, &err), TW_ERR_FORMAT,
                  "field 's' is not an object", err);
    tw_config_close(c);
}
END_TEST

static const struct {
    const char *text, *words;
} malformed[] = {
    {"", "line"},         {"[1]", "not a JSON object"}, {"{\"a\":1", "line 1"},
    {"{\"a\":1,\"a\":2}", "duplicate"},                 {"{\"a\":nan}", "line"},
    {"{\"a\":1}x", "line"}, {"{\"a\":\"\\", "line"},
    {"{\"a\":123456789012345678901}", "big integer"},
    {"{\"a\":\"\xff\"}", "decode"},
};

START_TEST(malformed_json_is_refused)
{
    struct tw_error err = {0};
    struct tw_config *config;
    tw_write_text(folder, "config.json", malformed[_i].text);
    TW_FAILS_WITH(tw_config_open(tw_in(folder, "config.json"), &config, &err),
                  TW_ERR_FORMAT, malformed[_i].words, err);
    ck_assert(strncmp(err.text, "config.json: ", 13) == 0);
}
END_TEST

static void list_field(void *arg, const char *field, const char *json,
                       bool is_used, const char *why)
{
    char *text = arg;
    sprintf(text + strlen(text), "%s=%s%s%s ", field, json, is_used ? "*" : "",
            why ? why : "");
}

START_TEST(fields_are_listed_in_order)
{
    struct tw_error err = {0};
    int64_t n;
    char text[4096] = "", json[1024] = "{\"z\":1,\"a\":{\"b\":[2]},\"s\":\"";
    for (int i = 0; i < 150; i++)
        strcat(json, "\xc3\xa9");
    strcat(json, "\"}");
    struct tw_config *c = open_text(json);
    TW_OK_OR_FAIL(tw_config_int_or(c, "a.c", 1, &n, &err), err);
    TW_OK_OR_FAIL(tw_config_int_or(c, "absent", 1, &n, &err), err);
    tw_config_each(c, list_field, text);
    ck_assert(strncmp(text, "z=1 a={\"b\":[2]}* s=\"\xc3\xa9", 22) == 0);
    /* The cut leaves whole characters: a quote and 99 of two bytes. */
    ck_assert_uint_eq(strlen(text), strlen("z=1 a={\"b\":[2]}* s= ") + 199);
    tw_config_close(c);
}
END_TEST

START_TEST(an_entered_object_is_looked_up_alone)
{
    struct tw_error err = {0};
    int64_t n;
    size_t length = 9;
    const char *word;
    char text[4096] = "";
    struct tw_config *c = open_text(
        "{\"a\":1,\"t\":{\"b\":[\"x\",\"y\",[5,6]],\"c\":null,"
        "\"d\":2}}");
    TW_OK_OR_FAIL(tw_config_enter(c, "t", &err), err);
    TW_FAILS_WITH(tw_config_int(c, "a", &n, &err), TW_ERR_FORMAT,
                  "no field 'a'", err);
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(tw_config_text(c, "b.1", &word, &err), err);
    ck_assert_str_eq(word, "y");
    TW_OK_OR_FAIL(tw_config_int(c, "b.2.0", &n, &err), err);
    ck_assert_int_eq(n, 5);
    TW_FAILS_WITH(tw_config_text(c, "b.3", &word, &err), TW_ERR_FORMAT,
                  "no field 'b.3'", err);
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(tw_config_length(c, "b", &length, &err), err);
    ck_assert_uint_eq(length, 3);
    TW_OK_OR_FAIL(tw_config_length(c, "e", &length, &err), err);
    ck_assert_uint_eq(length, 0);
    TW_FAILS_WITH(tw_config_length(c, "d", &length, &err), TW_ERR_FORMAT,
                  "'d' is not a list", err);
    ck_assert(tw_config_is_null(c, "c") && !tw_config_is_null(c, "d") &&
              !tw_config_is_null(c, "e"));
    tw_config_override(c, "d", "!");
    tw_config_each(c, list_field, text);
    ck_assert_str_eq(text, "a=1 t={\"b\":[\"x\",\"y\",[5,6]],\"c\":null,"
                           "\"d\":2}* t.b=[\"x\",\"y\",[5,6]]* t.c=null "
                           "t.d=2*! ");
    tw_config_close(c);
}
END_TEST

#define SNAPSHOT "hub/models--org--my-model/snapshots/abc123"

/* A cache as the hub's client leaves it: links from the snapshot to blobs. */
static void write_cache(void)
{
    static const char *const parts[] = {
        "hub", "hub/models--org--my-model", "hub/models--org--my-model/blobs",
        "hub/models--org--my-model/refs", "hub/models--org--my-model/snapshots",
        SNAPSHOT, "hub/models--org--my-model/snapshots/zzz"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_int_eq(mkdir(tw_in(folder, parts[i]), 0700), 0);
    static const char blob[] = "hub/models--org--my-model/blobs/b0";
    tw_write_text(folder, "hub/models--org--my-model/refs/main", "abc123\n");
    tw_write_text(folder, "hub/models--org--my-model/blobs/c0", "{}");
    tw_write_safetensors(
        folder, blob,
        "{'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4]}}", NULL, 4);
    ck_assert_int_eq(symlink("../../blobs/c0",
                             tw_in(folder, SNAPSHOT "/config.json")), 0);
    ck_assert_int_eq(symlink("../../blobs/b0",
                             tw_in(folder, SNAPSHOT "/s1.safetensors")), 0);
    tw_write_text(folder, SNAPSHOT "/model.safetensors.index.json",
                  "{\"weight_map\":{\"a\":\"s1.safetensors\"}}");
    ck_assert_int_eq(chmod(tw_in(folder, SNAPSHOT), 0500), 0);
}

START_TEST(the_cache_is_found_offline)
{
    struct tw_error err = {0};
    struct tw_checkpoint checkpoint;
    write_cache();
    unsetenv("HF_HUB_CACHE");
    setenv("HF_HOME", folder, 1);
    TW_OK_OR_FAIL(tw_checkpoint_open("org/my-model", 1, &checkpoint, &err), err);
    ck_assert_str_eq(checkpoint.name, "my-model");
    ck_assert_ptr_nonnull(strstr(checkpoint.directory, SNAPSHOT));
    ck_assert_uint_eq(checkpoint.tensors.count, 1);
    tw_checkpoint_close(&checkpoint);
    /* The snapshot by its path keeps the model's name. */
    TW_OK_OR_FAIL(
        tw_checkpoint_open(tw_in(folder, SNAPSHOT "/"), 1, &checkpoint, &err),
        err);
    ck_assert_str_eq(checkpoint.name, "my-model");
    tw_checkpoint_close(&checkpoint);
    setenv("HF_HUB_CACHE", tw_in(folder, "none"), 1);
    TW_FAILS_WITH(tw_checkpoint_open("org/my-model", 1, &checkpoint, &err),
                  TW_ERR_NOT_FOUND, "none/models--org--my-model", err);
    chmod(tw_in(folder, SNAPSHOT), 0700);
}
END_TEST

START_TEST(without_a_ref_the_newest_snapshot_is_taken)
{
    struct tw_error err = {0};
    char *directory = NULL, *name = NULL;
    write_cache();
    setenv("HF_HUB_CACHE", tw_in(folder, "hub"), 1);
    tw_write_text(folder, "hub/models--org--my-model/refs/main", "../../evil");
    sleep(1); /* snapshot times have the clock's coarse step */
    chmod(tw_in(folder, SNAPSHOT), 0700);
    tw_write_text(folder, SNAPSHOT "/new", "");
    TW_OK_OR_FAIL(tw_checkpoint_find("org/my-model", &directory, &name, &err),
                  err);
    ck_assert_ptr_nonnull(strstr(directory, SNAPSHOT));
    tw_free(directory);
    tw_free(name);
}
END_TEST

START_TEST(wrong_places_are_named)
{
    struct tw_error err = {0};
    struct tw_checkpoint c;
    TW_FAILS_WITH(tw_checkpoint_open("/no/such/place", 1, &c, &err),
                  TW_ERR_NOT_FOUND, "'/no/such/place'", err);
    TW_FAILS_WITH(tw_checkpoint_open("../x", 1, &c, &err), TW_ERR_NOT_FOUND,
                  "'../x'", err);
    TW_FAILS_WITH(tw_checkpoint_open("", 1, &c, &err), TW_ERR_NOT_FOUND,
                  "no directory", err);
    TW_FAILS_WITH(tw_checkpoint_open(folder, 1, &c, &err), TW_ERR_NOT_FOUND,
                  "config.json", err);
    tw_write_text(folder, "config.json", "{}");
    TW_FAILS_WITH(tw_checkpoint_open(folder, 1, &c, &err), TW_ERR_NOT_FOUND,
                  "neither model.safetensors", err);
    tw_write_text(folder, "m.gguf", "GGUF");
    TW_FAILS_WITH(tw_checkpoint_open(tw_in(folder, "m.gguf"), 1, &c, &err),
                  TW_ERR_FORMAT, "m.gguf: header is past the end", err);
}
END_TEST

START_TEST(a_named_file_is_the_one_read)
{
    static const char header[] =
        "{'%s':{'dtype':'F32','shape':[1],'data_offsets':[0,4]}}";
    struct tw_error err = {0};
    struct tw_checkpoint c;
    char text[128];
    tw_write_text(folder, "config.json", "{}");
    snprintf(text, sizeof text, header, "main");
    tw_write_safetensors(folder, "model.safetensors", text, NULL, 4);
    snprintf(text, sizeof text, header, "other");
    tw_write_safetensors(folder, "other.safetensors", text, NULL, 4);
    TW_OK_OR_FAIL(
        tw_checkpoint_open(tw_in(folder, "other.safetensors"), 1, &c, &err), err);
    ck_assert_ptr_nonnull(tw_tensors_find(&c.tensors, "other"));
    tw_checkpoint_close(&c);
    TW_OK_OR_FAIL(tw_checkpoint_open(tw_in(folder, "config.json"), 1, &c, &err),
                  err);
    ck_assert_ptr_nonnull(tw_tensors_find(&c.tensors, "main"));
    ck_assert_str_eq(c.name, folder + strlen(folder) - 8);
    tw_checkpoint_close(&c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_test(core, lookups_are_typed);
    tcase_add_loop_test(core, malformed_json_is_refused, 0,
                        sizeof malformed / sizeof *malformed);
    tcase_add_test(core, fields_are_listed_in_order);
    tcase_add_test(core, an_entered_object_is_looked_up_alone);
    tcase_add_test(core, the_cache_is_found_offline);
    tcase_add_test(core, without_a_ref_the_newest_snapshot_is_taken);
    tcase_add_test(core, wrong_places_are_named);
    tcase_add_test(core, a_named_file_is_the_one_read);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
