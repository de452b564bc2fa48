/* Hostile tokenizer files: each ends in an error that names the file and the
 * cause; no mutation of a good one crashes; memory that fails is reported. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "test_text.h"
#include "text/tokenizer.h"
#include "tw_check.h"

Suite *hostile_suite(void);


#define LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define FILE_OF(added, pre, rest, vocab, merges)                          \
    "{\"added_tokens\":[" added "],\"pre_tokenizer\":" pre "," rest        \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges \
    "]}}"
#define VOCAB(vocab) FILE_OF("", LEVEL, "", vocab, "")
#define PRE(pre) FILE_OF("", pre, "", "\"a\":0", "")
#define REGEX(regex)                                                      \
    PRE("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","     \
        "\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"" regex "\"}}," \
        LEVEL "]}")

static const struct {
    const char *json;
    enum tw_status status;
    const char *words;
} files[] = {
    {"", TW_ERR_FORMAT, "tokenizer.json"},
    {"{", TW_ERR_FORMAT, "line 1"},
    {"[]", TW_ERR_FORMAT, "not a JSON object"},
    {"{\"a\":1,\"a\":2}", TW_ERR_FORMAT, "duplicate"},
    {"{\"pre_tokenizer\":" LEVEL "}", TW_ERR_FORMAT, "no object 'model'"},
    {VOCAB("\"a\":2147483647"), TW_ERR_FORMAT, "id 2147483647"},
    {VOCAB("\"a\":70000"), TW_ERR_FORMAT, "id 70000, outside 0..65536"},
    {VOCAB("\"a\":-1"), TW_ERR_FORMAT, "id -1"},
    {VOCAB("\"a\":1.5"), TW_ERR_FORMAT, "no whole number"},
    {VOCAB("\"a\":99999999999999999999"), TW_ERR_FORMAT, "too big"},
    {VOCAB("\"a\":0,\"b\":0"), TW_ERR_FORMAT, "id 0 stands for two tokens"},
    {VOCAB(""), TW_ERR_UNSUPPORTED, "alphabet"},
    {FILE_OF("", LEVEL, "", "\"a\":0", "\"a x\""), TW_ERR_FORMAT,
     "merge 0 names 'x'"},
    {FILE_OF("", LEVEL, "", "\"a\":0,\"b\":1", "\"a b\""), TW_ERR_FORMAT,
     "merge 0 names 'ab'"},
    {FILE_OF("", LEVEL, "", "\"a\":0", "\"a\""), TW_ERR_FORMAT,
     "merge 0 is not two"},
    {FILE_OF("", LEVEL, "", "\"a\":0", "\"a a a\""), TW_ERR_FORMAT,
     "merge 0 is not two"},
    {FILE_OF("", LEVEL, "", "\"a\":0", "[\"a\",1]"), TW_ERR_FORMAT,
     "merge 0 is not two"},
    {FILE_OF("{\"id\":0,\"content\":\"b\"}", LEVEL, "", "\"a\":0", ""),
     TW_ERR_FORMAT, "id 0 stands for two"},
    {FILE_OF("{\"id\":1,\"content\":\"a\"}", LEVEL, "", "\"a\":0", ""),
     TW_ERR_FORMAT, "two ids"},
    {FILE_OF("{\"id\":16777216,\"content\":\"b\"}", LEVEL, "", "\"a\":0", ""),
     TW_ERR_FORMAT, "id 16777216"},
    {FILE_OF("7", LEVEL, "", "\"a\":0", ""), TW_ERR_FORMAT, "no content"},
    {FILE_OF("", LEVEL, "\"normalizer\":{\"type\":\"Lowercase\"},", "\"a\":0",
             ""), TW_ERR_UNSUPPORTED, "'Lowercase' (supported: NFC"},
    {FILE_OF("", LEVEL, "\"post_processor\":{\"type\":\"BertProcessing\"},",
             "\"a\":0", ""), TW_ERR_UNSUPPORTED, "'BertProcessing' (supported: ByteLevel"},
    {FILE_OF("", LEVEL, "\"post_processor\":{\"type\":\"TemplateProcessing\","
             "\"single\":[{\"SpecialToken\":{\"id\":\"x\"}},{\"Sequence\":{}}]"
             "},", "\"a\":0", ""), TW_ERR_FORMAT, "names 'x'"},
    {"{\"pre_tokenizer\":" LEVEL ",\"model\":{\"type\":\"Unigram\"}}",
     TW_ERR_UNSUPPORTED, "'Unigram' (supported: BPE)"},
    {PRE("{\"type\":\"Whitespace\"}"), TW_ERR_UNSUPPORTED,
     "'Whitespace' (supported: Split, Digits"},
    {PRE("{\"type\":\"Metaspace\"}"), TW_ERR_FORMAT, "one character"},
    {PRE("{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), TW_ERR_FORMAT,
     "one character"},
    {PRE("{\"type\":\"Metaspace\",\"replacement\":\"_\","
         "\"prepend_scheme\":\"last\"}"), TW_ERR_UNSUPPORTED,
     "'last' (supported: always"},
    {FILE_OF("", LEVEL, "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{"
             "\"String\":\"\"},\"content\":\"\"},", "\"a\":0", ""),
     TW_ERR_FORMAT, "without a pattern"},
    {FILE_OF("", LEVEL, "\"normalizer\":{\"type\":\"Prepend\"},", "\"a\":0",
             ""), TW_ERR_FORMAT, "without a text"},
    {PRE("{\"type\":\"Sequence\",\"pretokenizers\":[" LEVEL "," LEVEL
         "]}"), TW_ERR_UNSUPPORTED, "'ByteLevel' behind"},
    {REGEX("(a"), TW_ERR_FORMAT, "'(a'"},
    {REGEX("[a&&b]"), TW_ERR_UNSUPPORTED, "&&"},
    {REGEX("[a[^b]]"), TW_ERR_UNSUPPORTED, "[^ between"},
    {REGEX("[a-[b]]"), TW_ERR_UNSUPPORTED, "- before"},
    {REGEX("[[a]-b]"), TW_ERR_UNSUPPORTED, "- behind"},
    {REGEX("[a[b]"), TW_ERR_FORMAT, "regular expression"},
    {REGEX("\\\\h"), TW_ERR_UNSUPPORTED, "\\h"},
    {REGEX("(?m:.)"), TW_ERR_UNSUPPORTED, "(?m)"},
    {REGEX("a{1,2}+"), TW_ERR_UNSUPPORTED, "{n,m}+"},
    {REGEX("\\\\"), TW_ERR_FORMAT, "regular expression"},
};

START_TEST(hostile_files_are_refused)
{
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer = NULL;
    test_write_text("tokenizer.json", files[_i].json);
    TW_FAILS_WITH(tw_tokenizer_open(test_folder(), &tokenizer, &err),
                  files[_i].status, files[_i].words, err);
    ck_assert_ptr_nonnull(strstr(err.text, "tokenizer.json: "));
    ck_assert_ptr_null(strchr(err.text, '\n'));
    ck_assert_ptr_null(tokenizer);
}
END_TEST

START_TEST(deep_nesting_is_refused)
{
    enum { DEPTH = 100000 };
    static char text[2 * DEPTH];
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer;
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    test_write("tokenizer.json", text, sizeof text);
    TW_FAILS_WITH(tw_tokenizer_open(test_folder(), &tokenizer, &err),
                  TW_ERR_FORMAT, "depth", err);
}
END_TEST

START_TEST(no_tokenizer_is_not_found)
{
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer;
    TW_FAILS_WITH(tw_tokenizer_open(test_folder(), &tokenizer, &err),
                  TW_ERR_NOT_FOUND, "no tokenizer", err);
    TW_FAILS_WITH(tw_tokenizer_open("/nowhere/at/all", &tokenizer, &err),
                  TW_ERR_NOT_FOUND, "no tokenizer", err);
}
END_TEST

/* Exponential in the run of a: cut off by its number of steps. */
START_TEST(a_pattern_cannot_hang)
{
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabc";
    struct tw_error err = {0};
    struct tw_ids ids = {0};
    struct tw_tokenizer *tokenizer;
    test_write_text("tokenizer.json", REGEX("(a+a+)+c"));
    TW_OK_OR_FAIL(tw_tokenizer_open(test_folder(), &tokenizer, &err), err);
    TW_FAILS_WITH(tw_tokenizer_encode(tokenizer, text, sizeof text - 1, true,
                                      &ids, &err),
                  TW_ERR_FORMAT, "too many steps", err);
    ck_assert_uint_eq(ids.count, 0);
    tw_ids_fini(&ids);
    tw_tokenizer_close(tokenizer);
}
END_TEST

static const char good_bytes[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<x>\",\"special\":true,"
    "\"lstrip\":true,\"single_word\":true},{\"id\":10,\"content\":"
    "\"b\\u00e9\",\"rstrip\":true,\"normalized\":true}],"
    "\"normalizer\":{\"type\":\"NFC\"},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
    "\"Split\",\"pattern\":{\"Regex\":\"\\\\s?[a-c]+|(?i:x|y)|\\\\p{N}{1,3}\"},"
    "\"behavior\":\"MergedWithPrevious\",\"invert\":false},{\"type\":"
    "\"Digits\",\"individual_digits\":true},{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":"
    "true,\"use_regex\":true}]},\"post_processor\":{\"type\":"
    "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<x>\"}},"
    "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<x>\":{\"ids\":[9]}"
    "}},\"model\":{\"type\":\"BPE\",\"unk_token\":\"<u>\",\"fuse_unk\":true,"
    "\"ignore_merges\":true,\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"\\u0120\":3,"
    "\"ab\":4,\"bc\":5,\"abc\":6,\"\\u0120a\":7,\"<u>\":8},\"merges\":["
    "\"b c\",\"a b\",[\"\\u0120\",\"a\"],\"a bc\"]}}";
static const char good_characters[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<u>\",\"special\":true,"
    "\"normalized\":true},{\"id\":12,\"content\":\"b\\u00e9\"}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
    "\"Prepend\",\"prepend\":\"x\"},{\"type\":\"Replace\",\"pattern\":{"
    "\"Regex\":\" {2,}\"},\"content\":\" \"},{\"type\":\"Replace\","
    "\"pattern\":{\"String\":\"bc\"},\"content\":\"c \"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
    "\"Punctuation\",\"behavior\":\"Isolated\"},{\"type\":\"Metaspace\","
    "\"replacement\":\"\\u2581\",\"prepend_scheme\":\"first\",\"split\":true}]"
    "},\"model\":{\"type\":\"BPE\",\"unk_token\":\"<u>\",\"fuse_unk\":true,"
    "\"byte_fallback\":true,\"vocab\":{\"<u>\":0,\"a\":1,\"b\":2,\"c\":3,"
    "\"\\u2581\":4,\"ab\":5,\"abc\":6,\"\\u2581a\":7,\"<0xC3>\":8,\"<0xA9>\":"
    "9,\"\\u2581\\u2581\":10,\"aa\":11},\"merges\":[\"a b\",\"ab c\","
    "\"\\u2581 a\",\"a a\",[\"\\u2581\",\"\\u2581\"]]}}";
static const char *const goods[] = {good_bytes, good_characters};
static const char sample[] =
    "abc  b\xc3\xa9 be\xcc\x81  <x> 123 \xe2\x85\xa7 aaaabbbbccccabcabcabcabc"
    "abcabcabcabcabcabcabcabcabcabcabc \xf0\x9f\xa4\x97x<x>\n\n\ta";

/* Opens what stands in the folder; ids that come out are the tokenizer's. */
static enum tw_status try_folder(struct tw_error *err)
{
    struct tw_tokenizer *tokenizer;
    struct tw_ids ids = {0};
    enum tw_status status =
        tw_tokenizer_open(test_folder(), &tokenizer, err);
    if (status != TW_OK)
        return status;
    for (int special = 0; special < 2 && status == TW_OK; special++)
        status = tw_tokenizer_encode(tokenizer, sample, sizeof sample - 1,
                                     special, &ids, err);
    for (size_t i = 0; i < ids.count; i++) {
        ck_assert_int_ge(ids.id[i], 0);
        ck_assert_int_lt(ids.id[i], tw_tokenizer_size(tokenizer));
    }
    tw_ids_fini(&ids);
    tw_tokenizer_close(tokenizer);
    return status;
}

/* One to four changes: a byte, a bit, a cut, a copy, a digit. */
static size_t mutate(char *text, size_t size, unsigned *seed)
{
    for (unsigned n = 1 + test_random(seed) % 4; n > 0; n--) {
        size_t at = test_random(seed) % size;
        size_t length = 1 + test_random(seed) % 12;
        size_t from = test_random(seed) % size;
        if (length > size - at)
            length = size - at;
        if (length > size - from)
            length = size - from;
        switch (test_random(seed) % 5) {
        case 0:
            text[at] = (char)test_random(seed);
            break;
        case 1:
            text[at] ^= (char)(1 << test_random(seed) % 8);
            break;
        case 2:
            memmove(text + at, text + at + length, size - at - length);
            size -= length < size ? length : 0;
            break;
        case 3:
            memmove(text + at, text + from, length);
            break;
        default:
            text[at] = "0123456789-.[]{}()*+?\\\"ab"[test_random(seed) % 25];
        }
    }
    return size;
}

START_TEST(no_mutation_crashes)
{
    static char text[sizeof good_bytes + sizeof good_characters];
    const char *good = goods[_i];
    unsigned seed = 7;
    int opened = 0;
    struct tw_error err = {0};
    test_write_text("tokenizer.json", good);
    TW_OK_OR_FAIL(try_folder(&err), err);
    for (int i = 0; i < 4000; i++) {
        strcpy(text, good);
        size_t size = mutate(text, strlen(good), &seed);
        test_write("tokenizer.json", text, size);
        err = (struct tw_error){0};
        uint64_t before = tw_alloc_total();
        enum tw_status status = try_folder(&err);
        uint64_t asked = tw_alloc_total() - before;
        ck_assert_uint_le(asked, TEST_FIXED_BYTES + TEST_IDS_BYTES +
                                     TEST_TIMES * size);
        opened += status == TW_OK;
        if (status != TW_OK)
            ck_assert_int_gt(strlen(err.text), 0);
    }
    ck_assert_int_gt(opened, 100);
}
END_TEST

START_TEST(failing_memory_is_reported)
{
    enum tw_status status = TW_ERR_NOMEM;
    int count = 0;
    test_write_text("tokenizer.json", goods[_i]);
    for (; status == TW_ERR_NOMEM; count++) {
        struct tw_error err = {0};
        ck_assert_int_lt(count, 10000);
        tw_alloc_fail_after(count);
        status = try_folder(&err);
        tw_alloc_fail_after(-1);
        ck_assert_int_eq(err.status, status);
    }
    ck_assert_int_eq(status, TW_OK);
    ck_assert_int_gt(count, 50);
}
END_TEST

Suite *hostile_suite(void)
{
    Suite *suite = suite_create("tokenizer-hostile");
    TCase *errors = tcase_create("errors");
    tcase_add_checked_fixture(errors, test_folder_make, test_folder_remove);
    tcase_set_timeout(errors, 240);
    tcase_add_loop_test(errors, hostile_files_are_refused, 0,
                        sizeof files / sizeof *files);
    tcase_add_test(errors, deep_nesting_is_refused);
    tcase_add_test(errors, no_tokenizer_is_not_found);
    tcase_add_test(errors, a_pattern_cannot_hang);
    tcase_add_loop_test(errors, no_mutation_crashes, 0, 2);
    tcase_add_loop_test(errors, failing_memory_is_reported, 0, 2);
    suite_add_tcase(suite, errors);
    return suite;
}
