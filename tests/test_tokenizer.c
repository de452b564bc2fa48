/* Claims about tokenizers: ids are those of Hugging Face tokenizers (rows
 * worked out by hand and confirmed with it; shared conformance files), pieces
 * give the text back, and hostile files end in one line of error
 * (test_tokenizer_hostile.c). */
#include <config.h>

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "test_text.h"
#include "text/tokenizer.h"
#include "tw_check.h"

Suite *hostile_suite(void);

#define LEVEL(space, regex)                                              \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":" #space               \
    ",\"use_regex\":" #regex "}"
#define SEQUENCE(first)                                                  \
    "{\"type\":\"Sequence\",\"pretokenizers\":[" first ","               \
    LEVEL(false, false) "]}"
#define SPLIT(pattern, behavior, invert)                                 \
    SEQUENCE("{\"type\":\"Split\",\"pattern\":{" pattern                 \
             "},\"behavior\":\"" behavior "\",\"invert\":" #invert "}")
#define B "\"String\":\"b\""
#define DIGITS(each)                                                     \
    SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":" #each "}")
#define ADDED(id, content, flags)                                        \
    "{\"id\":" #id ",\"content\":\"" content "\"" flags "}"
#define SPECIAL ",\"special\":true,\"normalized\":false"
#define NORMALIZED ",\"special\":false,\"normalized\":true"
#define GPT LEVEL(false, true)
#define NFC "{\"type\":\"NFC\"}"

/* The letters of the alphabet for the bytes of e with an acute accent. */
#define VOCABULARY                                                       \
    "{\"a\":0,\"b\":1,\"c\":2,\"\\u0120\":3,\"1\":4,\".\":5,\"\\u00c3\":6,"\
    "\"\\u00a9\":7,\"ab\":8,\"bc\":9,\"abc\":10,\"\\u0120a\":11,"        \
    "\"\\u00c3\\u00a9\":12,\"ca\":13,\"11\":15,\"<u>\":16}"
#define MERGES                                                           \
    "[\"b c\",\"a b\",[\"\\u0120\",\"a\"],\"\\u00c3 \\u00a9\",\"a bc\","   \
    "\"1 1\"]"

static const struct {
    const char *pre, *normalizer, *added, *model, *text;
    int32_t ids[10];
    int count;
    bool is_plain; /* without parse_special */
} rows[] = {
    /* merges: lowest rank first, then the leftmost */
    {GPT, "null", "", "", "abc", {10}, 1, false},
    {GPT, "null", "", "", "ab", {8}, 1, false},
    {GPT, "null", "", "", "a abc", {0, 11, 9}, 3, false},
    {GPT, "null", "", "", "", {0}, 0, false},
    {GPT, "null", "", "", "ca", {2, 0}, 2, false},
    {GPT, "null", "", ",\"ignore_merges\":true", "ca", {13}, 1, false},
    {GPT, "null", "", ",\"ignore_merges\":true", "cab", {2, 8}, 2, false},
    /* bytes without a token: dropped, or the unknown token, or one for all */
    {GPT, "null", "", "", "azxb", {8}, 1, false},
    {GPT, "null", "", ",\"unk_token\":\"<u>\"", "azxb", {0, 16, 16, 1}, 4,
     false},
    {GPT, "null", "", ",\"unk_token\":\"<u>\",\"fuse_unk\":true", "azxb",
     {0, 16, 1}, 3, false},
    /* normalizer */
    {GPT, "null", "", "", "\xc3\xa9", {12}, 1, false},
    {GPT, "null", "", "", "e\xcc\x81", {0}, 0, false},
    {GPT, NFC, "", "", "e\xcc\x81", {12}, 1, false},
    {GPT, "{\"type\":\"Sequence\",\"normalizers\":[" NFC "]}", "", "",
     "ae\xcc\x81", {0, 12}, 2, false},
    /* split stages */
    {DIGITS(true), "null", "", "", "a11", {0, 4, 4}, 3, false},
    {DIGITS(false), "null", "", "", "a11", {0, 15}, 2, false},
    {SPLIT(B, "Isolated", false), "null", "", "", "abc", {0, 1, 2}, 3, false},
    {SPLIT(B, "Removed", false), "null", "", "", "abc", {0, 2}, 2, false},
    {SPLIT(B, "Removed", true), "null", "", "", "abc", {1}, 1, false},
    {SPLIT(B, "MergedWithPrevious", false), "null", "", "", "abc", {8, 2}, 2,
     false},
    {SPLIT(B, "MergedWithNext", false), "null", "", "", "abc", {0, 9}, 2,
     false},
    {SPLIT("\"Regex\":\"[bc]\"", "Contiguous", false), "null", "", "", "abc",
     {0, 9}, 2, false},
    {SPLIT("\"Regex\":\"[bc]\"", "Isolated", false), "null", "", "", "abc",
     {0, 1, 2}, 3, false},
    {SPLIT("\"Regex\":\"\\\\s\"", "Removed", false), "null", "", "", "a b",
     {0, 1}, 2, false},
    {SPLIT("\"Regex\":\"x*\"", "Isolated", false), "null", "", "", "bc",
     {1, 2}, 2, false},
    /* add_prefix_space */
    {LEVEL(true, true), "null", "", "", "a", {11}, 1, false},
    {LEVEL(true, true), "null", "", "", " a", {11}, 1, false},
    /* added tokens */
    {GPT, "null", ADDED(14, "<x>", SPECIAL), "", "ab<x>b", {8, 14, 1}, 3,
     false},
    {GPT, "null", ADDED(14, "<x>", SPECIAL), "", "a<x>b", {0, 1}, 2, true},
    {GPT, "null", ADDED(14, "a<", NORMALIZED), "", "a<b", {14, 1}, 2, true},
    {GPT, "null", ADDED(0, "a", SPECIAL) "," ADDED(10, "abc", SPECIAL), "",
     "ababc", {0, 1, 10}, 3, false},
    {GPT, "null", ADDED(14, "<x>", SPECIAL ",\"lstrip\":true"), "", "a  <x> a",
     {0, 14, 11}, 3, false},
    {GPT, "null", ADDED(14, "<x>", SPECIAL ",\"rstrip\":true"), "", "a <x>  a",
     {0, 3, 14, 0}, 4, false},
    {GPT, "null", ADDED(14, "1.", SPECIAL ",\"single_word\":true"), "",
     "1.a a1. 1.", {4, 5, 0, 11, 4, 5, 3, 14}, 8, false},
    {GPT, NFC, ADDED(14, "\\u00e9.", NORMALIZED), "", "ae\xcc\x81.", {0, 14}, 2,
     false},
};

static void write_row(int row)
{
    char json[8192];
    snprintf(json, sizeof json,
             "{\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,"
             "\"post_processor\":null,\"model\":{\"type\":\"BPE\"%s,"
             "\"vocab\":" VOCABULARY ",\"merges\":" MERGES "}}",
             rows[row].added, rows[row].normalizer, rows[row].pre,
             rows[row].model);
    test_write_text("tokenizer.json", json);
}

static struct tw_tokenizer *open_here(void)
{
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer = NULL;
    TW_OK_OR_FAIL(tw_tokenizer_open(test_folder(), &tokenizer, &err), err);
    return tokenizer;
}

static void check_ids(const struct tw_tokenizer *tokenizer, const char *text,
                      size_t size, bool parse_special, const int32_t *wanted,
                      size_t count)
{
    struct tw_error err = {0};
    struct tw_ids ids = {0};
    TW_OK_OR_FAIL(tw_tokenizer_encode(tokenizer, text, size, parse_special,
                                      &ids, &err), err);
    for (size_t i = 0; i < ids.count && i < count; i++)
        ck_assert_msg(ids.id[i] == wanted[i], "'%s': id %zu is %d, wanted %d",
                      text, i, ids.id[i], wanted[i]);
    ck_assert_msg(ids.count == count, "'%s': %zu ids, wanted %zu", text,
                  ids.count, count);
    tw_ids_fini(&ids);
}

START_TEST(ids_are_those_worked_out)
{
    write_row(_i);
    struct tw_tokenizer *tokenizer = open_here();
    for (int round = 0; round < 2; round++) /* again from the cache */
        check_ids(tokenizer, rows[_i].text, strlen(rows[_i].text),
                  !rows[_i].is_plain, rows[_i].ids, (size_t)rows[_i].count);
    tw_tokenizer_close(tokenizer);
}
END_TEST

/* The heap must choose as the scan does: a long word of many ties. */
START_TEST(long_words_merge_as_short_ones)
{
    enum { LENGTH = 3000 };
    static char text[LENGTH];
    static int32_t wanted[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        text[i] = "abc"[i % 3];
    for (int i = 0; i < LENGTH / 3; i++)
        wanted[i] = 10;
    write_row(0);
    struct tw_tokenizer *tokenizer = open_here();
    check_ids(tokenizer, text, LENGTH, true, wanted, LENGTH / 3);
    memset(text, '1', LENGTH);
    for (int i = 0; i < LENGTH / 2; i++)
        wanted[i] = 15;
    check_ids(tokenizer, text, LENGTH, true, wanted, LENGTH / 2);
    wanted[LENGTH / 2 - 1] = 4;
    check_ids(tokenizer, text, LENGTH - 1, true, wanted, LENGTH / 2);
    tw_tokenizer_close(tokenizer);
}
END_TEST

START_TEST(an_open_tokenizer_knows_its_ids)
{
    size_t size;
    test_write_text(
        "tokenizer.json",
        "{\"added_tokens\":[" ADDED(14, "</s>", SPECIAL) "],"
        "\"pre_tokenizer\":" GPT ",\"post_processor\":{\"type\":\"Sequence\","
        "\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":"
        "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"</s>\","
        "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
        "\"special_tokens\":{\"</s>\":{\"id\":\"</s>\",\"ids\":[14]}}}]},"
        "\"model\":{\"vocab\":" VOCABULARY ",\"merges\":" MERGES "}}");
    struct tw_tokenizer *tokenizer = open_here();
    ck_assert_int_eq(tw_tokenizer_size(tokenizer), 17);
    ck_assert_int_eq(tw_tokenizer_bos(tokenizer), 14);
    ck_assert_int_eq(tw_tokenizer_eos(tokenizer), 14);
    ck_assert_int_eq(tw_tokenizer_find(tokenizer, "\xc4\xa0" "a"), 11);
    ck_assert_int_eq(tw_tokenizer_find(tokenizer, "zz"), -1);
    ck_assert(tw_tokenizer_is_special(tokenizer, 14));
    ck_assert(!tw_tokenizer_is_special(tokenizer, 11));
    ck_assert(!tw_tokenizer_is_special(tokenizer, -1));
    const char *piece = tw_tokenizer_piece(tokenizer, 11, &size);
    ck_assert_uint_eq(size, 2);
    ck_assert_int_eq(memcmp(piece, " a", 2), 0);
    ck_assert_ptr_null(tw_tokenizer_piece(tokenizer, 17, &size));
    ck_assert_uint_eq(strlen(tw_tokenizer_hash(tokenizer)), 64);
    tw_tokenizer_close(tokenizer);
}
END_TEST

/* OPT's way: the files of GPT-2 and a BOS by the config. */
START_TEST(config_names_the_ends)
{
    static const int32_t wanted[] = {8, 13, 0};
    test_write_text("vocab.json", VOCABULARY);
    test_write_text("merges.txt", "#version: 0.2\nb c\na b\r\na bc\n");
    test_write_text("tokenizer_config.json",
                    "{\"add_bos_token\":true,\"bos_token\":{\"content\":"
                    "\"ca\"}}");
    test_write_text("special_tokens_map.json", "{\"eos_token\":\"11\"}");
    struct tw_tokenizer *tokenizer = open_here();
    ck_assert_int_eq(tw_tokenizer_bos(tokenizer), 13);
    ck_assert_int_eq(tw_tokenizer_eos(tokenizer), 15);
    check_ids(tokenizer, "abcaa", 5, true, wanted, 3);
    tw_tokenizer_close(tokenizer);
}
END_TEST

START_TEST(bad_text_is_refused_with_its_byte)
{
    struct tw_error err = {0};
    struct tw_ids ids = {0};
    write_row(0);
    struct tw_tokenizer *tokenizer = open_here();
    TW_FAILS_WITH(tw_tokenizer_encode(tokenizer, "aaaaaaaaa\xff", 10, true,
                                      &ids, &err),
                  TW_ERR_FORMAT, "byte 9", err);
    TW_FAILS_WITH(tw_tokenizer_encode(tokenizer, "a\xed\xa0\x80", 4, true,
                                      &ids, &err),
                  TW_ERR_FORMAT, "byte 1", err);
    TW_FAILS_WITH(tw_tokenizer_encode(tokenizer, "\xc3", 1, true, &ids, &err),
                  TW_ERR_FORMAT, "byte 0", err);
    ck_assert_uint_eq(ids.count, 0);
    tw_tokenizer_close(tokenizer);
}
END_TEST

static const struct {
    const char *bytes, *printed;
} pieces[] = {
    {" the", " the"},         {"\n\t\r", "\\n\\t<0x0D>"},
    {"\xc3\xa9", "\xc3\xa9"}, {"\xa9 x\xff", "<0xA9> x<0xFF>"},
    {"", ""},                 {"\x1b[2J", "<0x1B>[2J"},
    {"\xe2\x80\xae", "<0xE2><0x80><0xAE>"},
    {"\xf0\x9f\xa4", "<0xF0><0x9F><0xA4>"},
};

START_TEST(pieces_print_safely)
{
    char *printed =
        tw_piece_printable(pieces[_i].bytes, strlen(pieces[_i].bytes));
    ck_assert_str_eq(printed, pieces[_i].printed);
    tw_free(printed);
}
END_TEST

/* --- Against shared material --- */

static void check_json_ids(const struct tw_tokenizer *tokenizer,
                           const json_t *entry)
{
    int32_t wanted[512];
    const json_t *text = json_object_get(entry, "text");
    const json_t *ids = json_object_get(entry, "ids");
    size_t count = json_array_size(ids);
    ck_assert_uint_lt(count, 512);
    for (size_t i = 0; i < count; i++)
        wanted[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    check_ids(tokenizer, json_string_value(text), json_string_length(text),
              true, wanted, count);
}

static const char *const checkpoints[] = {"checkpoints/sparselm-17m",
                                          "checkpoints/sparselm-tiny"};

START_TEST(checkpoints_conform)
{
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer;
    const char *folder = test_shared(checkpoints[_i]);
    if (!folder)
        return;
    TW_OK_OR_FAIL(tw_tokenizer_open(folder, &tokenizer, &err), err);
    char *path = tw_path_join(folder, "tokenizer.conformance.json");
    json_t *list = json_load_file(path, 0, NULL);
    ck_assert_uint_gt(json_array_size(list), 10);
    for (size_t i = 0; i < json_array_size(list); i++)
        check_json_ids(tokenizer, json_array_get(list, i));
    json_decref(list);
    tw_free(path);
    tw_tokenizer_close(tokenizer);
}
END_TEST

static char *read_shared(const char *name)
{
    struct tw_error err = {0};
    const char *path = test_shared(name);
    char *text = NULL;
    size_t size;
    if (path)
        TW_OK_OR_FAIL(tw_file_read(path, 1 << 20, &text, &size, &err), err);
    return text;
}

/* tokenizer.json, then vocab.json and merges.txt alone. */
START_TEST(gpt2_conforms)
{
    static const char *const files[] = {"vocab.json", "merges.txt"};
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer;
    char *texts = read_shared("tokenizers/ggml-vocab-gpt-2.gguf.inp");
    char *ids = read_shared("tokenizers/ggml-vocab-gpt-2.gguf.out");
    const char *folder = test_shared("tokenizers/gpt2");
    if (!texts || !ids || !folder)
        return;
    for (int i = 0; i < 2 && _i; i++) {
        char *path = tw_path_join(folder, files[i]), *text;
        size_t size;
        TW_OK_OR_FAIL(tw_file_read(path, 1 << 24, &text, &size, &err), err);
        test_write(files[i], text, size);
        tw_free(path);
        tw_free(text);
    }
    TW_OK_OR_FAIL(tw_tokenizer_open(_i ? test_folder() : folder, &tokenizer,
                                    &err), err);
    ck_assert_int_eq(tw_tokenizer_eos(tokenizer), 50256);
    ck_assert_int_eq(tw_tokenizer_bos(tokenizer), -1);
    ck_assert_int_gt(test_ggml(tokenizer, texts, ids), 40);
    tw_tokenizer_close(tokenizer);
    tw_free(texts);
    tw_free(ids);
}
END_TEST

START_TEST(pieces_give_the_text_back)
{
    struct tw_error err = {0};
    struct tw_ids ids = {0};
    struct tw_tokenizer *tokenizer;
    char *text = read_shared("text/sample.txt");
    const char *folder = test_shared(checkpoints[_i]);
    if (!text || !folder)
        return;
    TW_OK_OR_FAIL(tw_tokenizer_open(folder, &tokenizer, &err), err);
    size_t length = strlen(text), at = 0;
    TW_OK_OR_FAIL(tw_tokenizer_encode(tokenizer, text, length, true, &ids,
                                      &err), err);
    for (size_t i = 0; i < ids.count; i++) {
        size_t size;
        const char *piece = tw_tokenizer_piece(tokenizer, ids.id[i], &size);
        ck_assert_ptr_nonnull(piece);
        ck_assert_uint_le(at + size, length);
        ck_assert_int_eq(memcmp(text + at, piece, size), 0);
        at += size;
    }
    ck_assert_uint_eq(at, length);
    tw_ids_fini(&ids);
    tw_tokenizer_close(tokenizer);
    tw_free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *core = tcase_create("core"), *shared = tcase_create("shared");
    tcase_add_checked_fixture(core, test_folder_make, test_folder_remove);
    tcase_add_checked_fixture(shared, test_folder_make, test_folder_remove);
    tcase_set_timeout(shared, 60);
    tcase_add_loop_test(core, ids_are_those_worked_out, 0,
                        sizeof rows / sizeof *rows);
    tcase_add_test(core, long_words_merge_as_short_ones);
    tcase_add_test(core, an_open_tokenizer_knows_its_ids);
    tcase_add_test(core, config_names_the_ends);
    tcase_add_test(core, bad_text_is_refused_with_its_byte);
    tcase_add_loop_test(core, pieces_print_safely, 0,
                        sizeof pieces / sizeof *pieces);
    tcase_add_loop_test(shared, checkpoints_conform, 0, 2);
    tcase_add_loop_test(shared, gpt2_conforms, 0, 2);
    tcase_add_loop_test(shared, pieces_give_the_text_back, 0, 2);
    suite_add_tcase(suite, core);
    suite_add_tcase(suite, shared);
    int failed = tw_run_suite(suite);
    return tw_run_suite(hostile_suite()) || failed;
}
