/* Claims about tokenizers beyond GPT-2's kind: ids are those of Hugging Face
 * tokenizers and SentencePiece (tests/data/tokenizers, the shared GGUF
 * vocabularies), BOS goes by the files, what is unknown is named.
 * test_vocabularies_hostile.c has the malformed ones. */
#include <config.h>

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "gguf_vocab.h"
#include "test_text.h"
#include "test_vocabularies.h"
#include "text/tokenizer.h"
#include "text/vocab.h"
#include "tw_check.h"

#define MARK "\xe2\x96\x81"

const char *test_data(const char *name)
{
    static char path[1024];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/data/tokenizers/%s",
             top ? top : ".", name);
    return path;
}

static json_t *read_bundle(void)
{
    json_t *bundle = json_load_file(test_data("bundle.json"), 0, NULL);
    ck_assert_ptr_nonnull(bundle);
    return bundle;
}

static void check_ids(const struct tw_tokenizer *tokenizer, const char *name,
                      const json_t *text, bool parse_special,
                      const json_t *wanted)
{
    struct tw_error err = {0};
    struct tw_ids ids = {0};
    TW_OK_OR_FAIL(tw_tokenizer_encode(tokenizer, json_string_value(text),
                                      json_string_length(text), parse_special,
                                      &ids, &err),
                  err);
    for (size_t i = 0; i < ids.count && i < json_array_size(wanted); i++)
        ck_assert_msg(ids.id[i] ==
                          json_integer_value(json_array_get(wanted, i)),
                      "%s: '%s': id %zu is %d", name, json_string_value(text),
                      i, ids.id[i]);
    ck_assert_msg(ids.count == json_array_size(wanted),
                  "%s: '%s': %zu ids, wanted %zu", name,
                  json_string_value(text), ids.count,
                  json_array_size(wanted));
    tw_ids_fini(&ids);
}

static struct tw_tokenizer *open_here(void)
{
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer = NULL;
    TW_OK_OR_FAIL(tw_tokenizer_open(test_folder(), &tokenizer, &err), err);
    return tokenizer;
}

/* A case's tokenizer.json: its model with what stands around it. */
static void write_case(json_t *bundle, json_t *one)
{
    const char *model = json_string_value(json_object_get(one, "model"));
    json_t *file = json_deep_copy(one);
    json_t *copy = json_deep_copy(
        json_object_get(json_object_get(bundle, "models"), model));
    json_object_update(copy, json_object_get(one, "options"));
    json_object_set_new(file, "model", copy);
    char *text = json_dumps(file, 0);
    test_write_text("tokenizer.json", text);
    free(text);
    json_decref(file);
}

START_TEST(json_ids_are_those_of_tokenizers)
{
    json_t *bundle = read_bundle(), *one, *text;
    json_t *texts = json_object_get(bundle, "texts");
    size_t i, k;
    ck_assert_uint_gt(json_array_size(json_object_get(bundle, "cases")), 15);
    json_array_foreach(json_object_get(bundle, "cases"), i, one) {
        write_case(bundle, one);
        struct tw_tokenizer *tokenizer = open_here();
        json_array_foreach(texts, k, text)
            check_ids(tokenizer,
                      json_string_value(json_object_get(one, "name")), text,
                      true, json_array_get(json_object_get(one, "ids"), k));
        tw_tokenizer_close(tokenizer);
    }
    json_decref(bundle);
}
END_TEST

static void copy_data(const char *name, const char *as)
{
    struct tw_error err = {0};
    char *bytes;
    size_t size;
    TW_OK_OR_FAIL(tw_file_read(test_data(name), 1 << 20, &bytes, &size, &err),
                  err);
    test_write(as, bytes, size);
    tw_free(bytes);
}

/* Control pieces are plain text to SentencePiece. */
START_TEST(model_ids_are_those_of_sentencepiece)
{
    json_t *bundle = read_bundle(), *text;
    json_t *one = json_array_get(json_object_get(bundle, "files"), (size_t)_i);
    const char *name = json_string_value(json_object_get(one, "file"));
    size_t k;
    copy_data(name, "tokenizer.model");
    struct tw_tokenizer *tokenizer = open_here();
    json_array_foreach(json_object_get(bundle, "texts"), k, text)
        check_ids(tokenizer, name, text, false,
                  json_array_get(json_object_get(one, "ids"), k));
    ck_assert_int_eq(tw_tokenizer_bos(tokenizer),
                     json_integer_value(json_object_get(one, "bos")));
    ck_assert_int_eq(tw_tokenizer_eos(tokenizer),
                     json_integer_value(json_object_get(one, "eos")));
    tw_tokenizer_close(tokenizer);
    json_decref(bundle);
}
END_TEST

static size_t count_ids(const struct tw_tokenizer *tokenizer, const char *text)
{
    struct tw_error err = {0};
    struct tw_ids ids = {0};
    TW_OK_OR_FAIL(tw_tokenizer_encode(tokenizer, text, strlen(text), true,
                                      &ids, &err),
                  err);
    size_t count = ids.count;
    tw_ids_fini(&ids);
    return count;
}

/* "a" has a space put before it at the start ("<mark>a" is one piece), behind
 * a token with the old code alone; added tokens come from the config. */
START_TEST(config_governs_a_model)
{
    copy_data("llama.model", "tokenizer.model");
    struct tw_tokenizer *tokenizer = open_here();
    int64_t size = tw_tokenizer_size(tokenizer);
    int32_t first = tw_tokenizer_find(tokenizer, MARK "a");
    ck_assert_int_ge(first, 0);
    ck_assert_uint_eq(count_ids(tokenizer, "a</s>a"), 3);
    tw_tokenizer_close(tokenizer);
    test_write_text("tokenizer_config.json",
                    "{\"add_bos_token\":false,\"legacy\":true,\"eos_token\":"
                    "\"<|end|>\",\"added_tokens_decoder\":{\"600\":{"
                    "\"content\":\"<|end|>\",\"special\":true,"
                    "\"rstrip\":true}}}");
    tokenizer = open_here();
    ck_assert_int_eq(tw_tokenizer_size(tokenizer), 601);
    ck_assert_int_lt(size, 601);
    ck_assert_int_eq(tw_tokenizer_bos(tokenizer), -1);
    ck_assert_int_eq(tw_tokenizer_eos(tokenizer), 600);
    ck_assert(tw_tokenizer_is_special(tokenizer, 600));
    ck_assert_uint_eq(count_ids(tokenizer, "<|end|>   a"), 2);
    ck_assert_uint_eq(count_ids(tokenizer, "a</s>"), 2);
    tw_tokenizer_close(tokenizer);
    test_write_text("tokenizer_config.json", "{\"add_prefix_space\":false}");
    tokenizer = open_here();
    struct tw_error err = {0};
    struct tw_ids ids = {0};
    TW_OK_OR_FAIL(tw_tokenizer_encode(tokenizer, "a", 1, true, &ids, &err),
                  err);
    ck_assert_int_ne(ids.id[0], first);
    tw_ids_fini(&ids);
    tw_tokenizer_close(tokenizer);
}
END_TEST

/* Bytes, spaces and the rest, as a text has them. */
START_TEST(pieces_are_bytes_of_the_text)
{
    static const struct {
        const char *token, *bytes;
    } pieces[] = {{"<0x0A>", "\n"}, {MARK "a", " a"}, {"<s>", "<s>"}};
    copy_data("llama.model", "tokenizer.model");
    struct tw_tokenizer *tokenizer = open_here();
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t size = 0;
        const char *piece = tw_tokenizer_piece(
            tokenizer, tw_tokenizer_find(tokenizer, pieces[i].token), &size);
        ck_assert_uint_eq(size, strlen(pieces[i].bytes));
        ck_assert_int_eq(memcmp(piece, pieces[i].bytes, size), 0);
    }
    tw_tokenizer_close(tokenizer);
}
END_TEST

/* --- Vocabularies as arrays --- */

#define TEXT(text) {text, sizeof text - 1}
static const struct tw_vocab_text llama_pieces[] = {
    TEXT("<unk>"), TEXT("<s>"),  TEXT("</s>"), TEXT(MARK),   TEXT("a"),
    TEXT("b"),     TEXT("ab"),   TEXT("ba"),   TEXT("aba"),  TEXT(MARK "a"),
    TEXT("a"),     TEXT("<ud>"), TEXT("aa"),   TEXT("aaaa"), TEXT("bb")};
/* "ab" and "ba" have one score: the leftmost goes first. "a" stands twice. */
static const float llama_scores[] = {0,    0,  0,  -9, -9, -9, -1, -1,
                                     -0.5, -5, -9, 0,  -2, -3, -4};
static const int32_t llama_types[] = {2, 3, 3, 1, 1, 1, 1, 1,
                                      1, 1, 1, 4, 1, 1, 5};
static const struct tw_vocab_text gpt2_pieces[] = {
    TEXT("a"), TEXT("b"), TEXT("\xc4\xa0"), TEXT("ab"), TEXT("\xc4\xa0" "a"),
    TEXT("<|endoftext|>"), TEXT("1"), TEXT("ba")};
static const struct tw_vocab_text gpt2_merges[] = {TEXT("a b"),
                                                   TEXT("\xc4\xa0 a")};
static const int32_t gpt2_types[] = {1, 1, 1, 1, 1, 3, 1, 1};

struct tw_vocab test_vocab(bool is_llama)
{
    struct tw_vocab vocab = TW_VOCAB_INIT;
    vocab.model = is_llama ? "llama" : "gpt2";
    vocab.pieces = is_llama ? 15 : 8;
    vocab.piece = is_llama ? llama_pieces : gpt2_pieces;
    vocab.type = is_llama ? llama_types : gpt2_types;
    vocab.score = is_llama ? llama_scores : NULL;
    vocab.merge = is_llama ? NULL : gpt2_merges;
    vocab.merges = is_llama ? 0 : 2;
    vocab.bos = is_llama ? 1 : 5;
    vocab.eos = is_llama ? 2 : 5;
    return vocab;
}

static const struct {
    bool is_llama;
    const char *pre;
    enum tw_vocab_switch prefix, squeeze;
    const char *text;
    int32_t ids[8];
    int count;
} arrays[] = {
    {true, NULL, TW_VOCAB_UNSET, TW_VOCAB_UNSET, "aba", {3, 8}, 2},
    {true, NULL, TW_VOCAB_NO, TW_VOCAB_UNSET, "baba", {7, 7}, 2},
    {true, NULL, TW_VOCAB_NO, TW_VOCAB_UNSET, "aaaaa", {13, 10}, 2},
    {true, NULL, TW_VOCAB_NO, TW_VOCAB_UNSET, "xyaz", {0, 10, 0}, 3},
    {true, NULL, TW_VOCAB_NO, TW_VOCAB_UNSET, "a<ud>b</s>", {10, 11, 5, 2},
     4},
    {true, NULL, TW_VOCAB_YES, TW_VOCAB_UNSET, " b", {3, 3, 5}, 3},
    {true, NULL, TW_VOCAB_YES, TW_VOCAB_YES, " b  b ", {3, 5, 3, 5}, 4},
    /* behind a token the space comes again, as llama.cpp has it */
    {true, NULL, TW_VOCAB_YES, TW_VOCAB_UNSET, "b</s>b", {3, 5, 2, 3, 5}, 5},
    {false, "gpt-2", TW_VOCAB_UNSET, TW_VOCAB_UNSET, "ab a<|endoftext|>a",
     {3, 4, 5, 0}, 4},
    {false, NULL, TW_VOCAB_UNSET, TW_VOCAB_UNSET, "ba11", {1, 0, 6, 6}, 4},
    {false, "llama3", TW_VOCAB_UNSET, TW_VOCAB_UNSET, "ba", {7}, 1},
};

START_TEST(arrays_give_the_ids_worked_out)
{
    struct tw_vocab vocab = test_vocab(arrays[_i].is_llama);
    struct tw_error err = {0};
    struct tw_ids ids = {0};
    struct tw_tokenizer *tokenizer = NULL;
    vocab.pre = arrays[_i].pre;
    vocab.add_space_prefix = arrays[_i].prefix;
    vocab.remove_extra_whitespaces = arrays[_i].squeeze;
    TW_OK_OR_FAIL(tw_tokenizer_from_vocab(&vocab, &tokenizer, &err), err);
    TW_OK_OR_FAIL(tw_tokenizer_encode(tokenizer, arrays[_i].text,
                                      strlen(arrays[_i].text), true, &ids,
                                      &err),
                  err);
    for (size_t i = 0; i < ids.count && (int)i < arrays[_i].count; i++)
        ck_assert_int_eq(ids.id[i], arrays[_i].ids[i]);
    ck_assert_uint_eq(ids.count, (size_t)arrays[_i].count);
    tw_ids_fini(&ids);
    tw_tokenizer_close(tokenizer);
}
END_TEST

static const struct {
    bool is_llama;
    const char *pre;
    enum tw_vocab_switch add_bos;
    int32_t bos;
} bos_rows[] = {
    {true, NULL, TW_VOCAB_UNSET, 1},      {true, NULL, TW_VOCAB_NO, -1},
    {false, "gpt-2", TW_VOCAB_UNSET, -1}, {false, "gpt-2", TW_VOCAB_YES, 5},
    {false, "llama3", TW_VOCAB_UNSET, 5}, {false, "llama3", TW_VOCAB_NO, -1},
};

START_TEST(bos_goes_by_the_file_or_the_kind)
{
    struct tw_vocab vocab = test_vocab(bos_rows[_i].is_llama);
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer = NULL;
    vocab.pre = bos_rows[_i].pre;
    vocab.add_bos = bos_rows[_i].add_bos;
    TW_OK_OR_FAIL(tw_tokenizer_from_vocab(&vocab, &tokenizer, &err), err);
    ck_assert_int_eq(tw_tokenizer_bos(tokenizer), bos_rows[_i].bos);
    ck_assert_int_eq(tw_tokenizer_eos(tokenizer), vocab.eos);
    ck_assert(tw_tokenizer_is_special(tokenizer, vocab.bos));
    tw_tokenizer_close(tokenizer);
}
END_TEST

static void take_hash(const struct tw_vocab *vocab, char hash[65])
{
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer = NULL;
    TW_OK_OR_FAIL(tw_tokenizer_from_vocab(vocab, &tokenizer, &err), err);
    snprintf(hash, 65, "%s", tw_tokenizer_hash(tokenizer));
    tw_tokenizer_close(tokenizer);
}

START_TEST(the_hash_is_the_content)
{
    char hash[3][65];
    struct tw_vocab vocab = test_vocab(true);
    float scores[15];
    take_hash(&vocab, hash[0]);
    memcpy(scores, llama_scores, sizeof scores);
    vocab.score = scores;
    take_hash(&vocab, hash[1]);
    scores[6] = -1.5f;
    take_hash(&vocab, hash[2]);
    ck_assert_str_eq(hash[0], hash[1]);
    ck_assert_str_ne(hash[0], hash[2]);
}
END_TEST

/* --- Shared GGUF vocabularies --- */

static const char *const shared[] = {"gpt-2", "deepseek-coder", "llama-spm"};

static char *read_shared(const char *name, const char *ending)
{
    struct tw_error err = {0};
    char file[128], *text = NULL;
    size_t size;
    snprintf(file, sizeof file, "tokenizers/ggml-vocab-%s.gguf%s", name,
             ending);
    const char *path = test_shared(file);
    if (path)
        TW_OK_OR_FAIL(tw_file_read(path, 1 << 20, &text, &size, &err), err);
    return text;
}

START_TEST(gguf_conforms)
{
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer = NULL;
    struct gguf_vocab gguf;
    char file[128];
    char *texts = read_shared(shared[_i], ".inp");
    char *ids = read_shared(shared[_i], ".out");
    snprintf(file, sizeof file, "tokenizers/ggml-vocab-%s.gguf", shared[_i]);
    const char *path = test_shared(file);
    if (!texts || !ids || !path)
        return;
    ck_assert(gguf_vocab_read(path, &gguf));
    TW_OK_OR_FAIL(tw_tokenizer_from_vocab(&gguf.vocab, &tokenizer, &err), err);
    ck_assert_int_gt(test_ggml(tokenizer, texts, ids), 40);
    tw_tokenizer_close(tokenizer);
    gguf_vocab_fini(&gguf);
    tw_free(texts);
    tw_free(ids);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vocabularies");
    TCase *core = tcase_create("core"), *last = tcase_create("shared");
    tcase_add_checked_fixture(core, test_folder_make, test_folder_remove);
    tcase_add_test(core, json_ids_are_those_of_tokenizers);
    tcase_add_loop_test(core, model_ids_are_those_of_sentencepiece, 0, 3);
    tcase_add_test(core, config_governs_a_model);
    tcase_add_test(core, pieces_are_bytes_of_the_text);
    tcase_add_loop_test(core, arrays_give_the_ids_worked_out, 0,
                        sizeof arrays / sizeof *arrays);
    tcase_add_loop_test(core, bos_goes_by_the_file_or_the_kind, 0,
                        sizeof bos_rows / sizeof *bos_rows);
    tcase_add_test(core, the_hash_is_the_content);
    tcase_add_loop_test(last, gguf_conforms, 0, 3);
    tcase_set_timeout(core, 60);
    tcase_set_timeout(last, 60);
    suite_add_tcase(suite, core);
    suite_add_tcase(suite, last);
    int failed = tw_run_suite(suite);
    return tw_run_suite(vocabularies_hostile_suite()) || failed;
}
