/* Malformed vocabularies: each ends in an error that names the cause; no
 * mutation crashes, or asks for memory that its size does not account for. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "test_text.h"
#include "test_vocabularies.h"
#include "text/tokenizer.h"
#include "tw_check.h"


static const char sample[] =
    "abc  b\xc3\xa9 a\xe2\x96\x81 <ud> 123 \xf0\x9f\xa4\x97</s><s>\n\n\ta"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabababababababababab";

/* --- Arrays --- */

enum field {
    MODEL, NO_MODEL, PRE, NO_PIECES, BOS, PAD, ADD_BOS, ADD_EOS, NAN_SCORE,
    NO_SCORES, NO_MERGES, BAD_PIECE, ONE_PART, UNKNOWN_PART, BAD_MERGE, LONG,
    NO_LETTERS
};
static const struct {
    enum field field;
    bool is_llama;
    enum tw_status status;
    const char *words;
} rows[] = {
    {MODEL, true, TW_ERR_UNSUPPORTED, "'bert' (supported: gpt2, llama)"},
    {NO_MODEL, true, TW_ERR_UNSUPPORTED, "'none'"},
    {PRE, false, TW_ERR_UNSUPPORTED, "'chatglm' (supported: default, gpt-2,"},
    {NO_PIECES, true, TW_ERR_FORMAT, "0 pieces"},
    {BOS, true, TW_ERR_FORMAT, "bos token's id 15"},
    {PAD, false, TW_ERR_FORMAT, "padding token's id -2"},
    {ADD_BOS, true, TW_ERR_FORMAT, "adds a bos"},
    {ADD_EOS, true, TW_ERR_FORMAT, "adds an eos"},
    {NAN_SCORE, true, TW_ERR_FORMAT, "piece 3 has a score"},
    {NO_SCORES, true, TW_ERR_FORMAT, "no scores"},
    {NO_MERGES, false, TW_ERR_FORMAT, "no merges"},
    {BAD_PIECE, true, TW_ERR_FORMAT, "piece 0 is not valid UTF-8"},
    {ONE_PART, false, TW_ERR_FORMAT, "merge 0 is not two"},
    {UNKNOWN_PART, false, TW_ERR_FORMAT, "merge 0 names 'x'"},
    {BAD_MERGE, false, TW_ERR_FORMAT, "merge 0 is not valid UTF-8"},
    {LONG, true, TW_ERR_FORMAT, "piece 0 has 2000 bytes"},
    {NO_LETTERS, false, TW_ERR_UNSUPPORTED, "alphabet"},
};

struct spoilt {
    struct tw_vocab vocab;
    struct tw_vocab_text piece[16], merge[1];
    float score[16];
    char bytes[2000];
};

static void set_piece(struct spoilt *s, const char *text, size_t size)
{
    s->piece[0] = (struct tw_vocab_text){text, size};
    s->vocab.piece = s->piece;
}

static void set_merge(struct spoilt *s, const char *text)
{
    s->merge[0] = (struct tw_vocab_text){text, strlen(text)};
    s->vocab.merge = s->merge;
    s->vocab.merges = 1;
}

static void spoil(struct spoilt *s, enum field field)
{
    struct tw_vocab *v = &s->vocab;
    switch (field) {
    case MODEL: v->model = "bert"; break;
    case NO_MODEL: v->model = NULL; break;
    case PRE: v->pre = "chatglm"; break;
    case NO_PIECES: v->pieces = 0; v->bos = v->eos = -1; break;
    case BOS: v->bos = (int32_t)v->pieces; break;
    case PAD: v->pad = -2; break;
    case ADD_BOS: v->bos = -1; v->add_bos = TW_VOCAB_YES; break;
    case ADD_EOS: v->eos = -1; v->add_eos = TW_VOCAB_YES; break;
    case NAN_SCORE: s->score[3] = NAN; v->score = s->score; break;
    case NO_SCORES: v->score = NULL; break;
    case NO_MERGES: v->merges = 0; break;
    case BAD_PIECE: set_piece(s, "\xff", 1); break;
    case ONE_PART: set_merge(s, "ab"); break;
    case UNKNOWN_PART: set_merge(s, "x b"); break;
    case BAD_MERGE: set_merge(s, "a \xc3"); break;
    case NO_LETTERS:
        set_piece(s, "\xe4\xbd\xa0", 3);
        v->pieces = 1;
        v->bos = v->eos = -1;
        break;
    case LONG:
        memset(s->bytes, 'a', sizeof s->bytes);
        set_piece(s, s->bytes, sizeof s->bytes);
        v->type = NULL;
        break;
    }
}

START_TEST(bad_arrays_are_refused)
{
    static struct spoilt s;
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer = NULL;
    s.vocab = test_vocab(rows[_i].is_llama);
    memcpy(s.piece, s.vocab.piece,
           (size_t)s.vocab.pieces * sizeof *s.piece);
    spoil(&s, rows[_i].field);
    TW_FAILS_WITH(tw_tokenizer_from_vocab(&s.vocab, &tokenizer, &err),
                  rows[_i].status, rows[_i].words, err);
    ck_assert_ptr_null(tokenizer);
}
END_TEST

static enum tw_status try_encode(struct tw_tokenizer *tokenizer,
                                 struct tw_error *err)
{
    struct tw_ids ids = {0};
    enum tw_status status = TW_OK;
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

static enum tw_status try_vocab(const struct tw_vocab *vocab,
                                struct tw_error *err)
{
    struct tw_tokenizer *tokenizer = NULL;
    enum tw_status status = tw_tokenizer_from_vocab(vocab, &tokenizer, err);
    return status == TW_OK ? try_encode(tokenizer, err) : status;
}

/* Parts of the sample as pieces and merges, whatever types and scores. */
START_TEST(no_arrays_crash)
{
    static const char *const parts[] = {
        "a", "b", "aa", "ab", "ba", "aaa", "abab", "\xe2\x96\x81",
        "\xe2\x96\x81" "a", "a\xe2\x96\x81", "<0x41>", "<ud>", "</s>",
        "\xc3\xa9", "b\xc3\xa9", "\xf0\x9f\xa4\x97", "a b", "aa b", "", " ",
        "\xc4\xa0", "\xc4\xa0" "a"};
    static const size_t count = sizeof parts / sizeof parts[0];
    static const char *const pres[] = {"gpt-2", "deepseek-llm", "tekken"};
    unsigned seed = 11;
    int opened = 0;
    for (int i = 0; i < 4000; i++) {
        struct tw_vocab_text piece[24], merge[8];
        float score[24];
        int32_t type[24];
        for (int k = 0; k < 24; k++) {
            const char *part = parts[test_random(&seed) % count];
            size_t cut = test_random(&seed) % 256 == 0;
            piece[k] = (struct tw_vocab_text){
                part, part[0] ? strlen(part) - cut : 0};
            score[k] = (float)(test_random(&seed) % 8);
            type[k] = (int32_t)(test_random(&seed) % 9);
            merge[k / 3] = piece[k];
        }
        struct tw_vocab vocab = test_vocab(i % 2);
        vocab.pieces = 24;
        vocab.piece = piece;
        vocab.score = score;
        vocab.type = test_random(&seed) % 4 ? type : NULL;
        vocab.pre = pres[test_random(&seed) % 3];
        if (test_random(&seed) % 8 == 0) {
            vocab.merge = merge;
            vocab.merges = 8;
        }
        vocab.unk = (int32_t)(test_random(&seed) % 26) - 1;
        struct tw_error err = {0};
        opened += try_vocab(&vocab, &err) == TW_OK;
    }
    ck_assert_int_gt(opened, 100);
}
END_TEST

/* --- tokenizer.model --- */

#define PIECE_A "\x0a\x03\x0a\x01" "a"
static const struct {
    const char *bytes;
    size_t size;
    enum tw_status status;
    const char *words;
} files[] = {
    {"", 0, TW_ERR_FORMAT, "no pieces"},
    {"\x12\x02\x18\x02", 4, TW_ERR_FORMAT, "no pieces"},
    {"hello world", 11, TW_ERR_FORMAT, "not a protocol buffer"},
    {"\x0a\xff\xff\xff\xff\x7f" "a", 7, TW_ERR_FORMAT, "protocol buffer"},
    {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f" "a", 12, TW_ERR_FORMAT,
     "protocol buffer"},
    {"\x0a\x02\x0a\x00", 4, TW_ERR_FORMAT, "piece 0 is empty"},
    {"\x0a\x05\x15" "abcd", 7, TW_ERR_FORMAT, "piece 0 is empty"},
    {"\x08\x01", 2, TW_ERR_FORMAT, "piece 0 is empty"},
    {"\x0a\x03\x0a\x09" "a", 5, TW_ERR_FORMAT, "protocol buffer"},
    {PIECE_A, 5, TW_ERR_UNSUPPORTED, "'unigram' (supported: byte-pair)"},
    {PIECE_A "\x12\x02\x18\x03", 9, TW_ERR_UNSUPPORTED, "'word'"},
    {PIECE_A "\x12\x02\x18\x63", 9, TW_ERR_UNSUPPORTED, "'unknown'"},
    {PIECE_A "\x12\x02\x18\x02\x1a\x09\x0a\x04nfkc\x12\x01x", 20,
     TW_ERR_UNSUPPORTED, "'nfkc' (supported: identity)"},
    {PIECE_A "\x12\x05\x18\x02\xc0\x01\x01", 12, TW_ERR_UNSUPPORTED,
     "treat_whitespace_as_suffix"},
    {PIECE_A "\x12\x02\x18\x02\x1a\x02\x28\x00", 13, TW_ERR_UNSUPPORTED,
     "escape_whitespaces"},
};

START_TEST(bad_models_are_refused)
{
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer = NULL;
    test_write("tokenizer.model", files[_i].bytes, files[_i].size);
    TW_FAILS_WITH(tw_tokenizer_open(test_folder(), &tokenizer, &err),
                  files[_i].status, files[_i].words, err);
    ck_assert_ptr_nonnull(strstr(err.text, "tokenizer.model: "));
    ck_assert_ptr_null(tokenizer);
}
END_TEST

static const struct {
    const char *config, *words;
} configs[] = {
    {"{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}", "'x'"},
    {"{\"added_tokens_decoder\":{\"600\":7}}", "'600'"},
    {"{\"added_tokens_decoder\":{\"600\":{}}}", "no content"},
    {"{\"added_tokens_decoder\":{\"999999999\":{\"content\":\"y\"}}}",
     "id 999999999, outside"},
    {"{\"added_tokens_decoder\":{\"5\":{\"content\":\"<y>\"}}}", "two tokens"},
};

static char *read_model(const char *name, size_t *size)
{
    struct tw_error err = {0};
    char *bytes = NULL;
    TW_OK_OR_FAIL(tw_file_read(test_data(name), 1 << 20, &bytes, size, &err),
                  err);
    return bytes;
}

START_TEST(bad_added_tokens_are_refused)
{
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer = NULL;
    size_t size;
    char *bytes = read_model("llama.model", &size);
    test_write("tokenizer.model", bytes, size);
    test_write_text("tokenizer_config.json", configs[_i].config);
    TW_FAILS_WITH(tw_tokenizer_open(test_folder(), &tokenizer, &err),
                  TW_ERR_FORMAT, configs[_i].words, err);
    tw_free(bytes);
}
END_TEST

static enum tw_status try_folder(struct tw_error *err)
{
    struct tw_tokenizer *tokenizer = NULL;
    enum tw_status status =
        tw_tokenizer_open(test_folder(), &tokenizer, err);
    return status == TW_OK ? try_encode(tokenizer, err) : status;
}

/* One to three changes: a byte, a bit, a cut, a copy. */
static size_t mutate(char *bytes, size_t size, unsigned *seed)
{
    for (unsigned n = 1 + test_random(seed) % 3; n > 0; n--) {
        size_t at = test_random(seed) % size, from = test_random(seed) % size;
        size_t length = 1 + test_random(seed) % 12;
        if (length > size - at)
            length = size - at;
        if (length > size - from)
            length = size - from;
        switch (test_random(seed) % 4) {
        case 0:
            bytes[at] = (char)test_random(seed);
            break;
        case 1:
            bytes[at] ^= (char)(1 << test_random(seed) % 8);
            break;
        case 2:
            size = at > 0 ? at : size;
            break;
        default:
            memmove(bytes + at, bytes + from, length);
        }
    }
    return size;
}

static const char *const models[] = {"llama.model", "gemma.model",
                                     "squeeze.model"};

START_TEST(no_mutation_of_a_model_crashes)
{
    size_t size;
    unsigned seed = 5 + (unsigned)_i;
    char *good = read_model(models[_i], &size);
    char *bytes = tw_alloc(size, 1);
    int opened = 0;
    for (int i = 0; i < 600; i++) {
        memcpy(bytes, good, size);
        size_t left = mutate(bytes, size, &seed);
        test_write("tokenizer.model", bytes, left);
        struct tw_error err = {0};
        uint64_t before = tw_alloc_total();
        tw_alloc_largest();
        enum tw_status status = try_folder(&err);
        uint64_t asked = tw_alloc_total() - before;
        ck_assert_uint_le(tw_alloc_largest(),
                          TEST_CACHE_BYTES > 2 * left ? TEST_CACHE_BYTES
                                                      : 2 * left);
        ck_assert_uint_le(asked, TEST_FIXED_BYTES + TEST_TIMES * left);
        opened += status == TW_OK;
        if (status != TW_OK)
            ck_assert_ptr_nonnull(strstr(err.text, "tokenizer.model: "));
    }
    ck_assert_int_gt(opened, 50);
    tw_free(bytes);
    tw_free(good);
}
END_TEST

START_TEST(failing_memory_is_reported)
{
    enum tw_status status = TW_ERR_NOMEM;
    size_t size;
    char *bytes = read_model("squeeze.model", &size);
    struct tw_vocab vocab = test_vocab(true);
    test_write("tokenizer.model", bytes, size);
    test_write_text("tokenizer_config.json",
                    "{\"added_tokens_decoder\":"
                    "{\"600\":{\"content\":\"<y>\"}}}");
    for (int count = 0; status == TW_ERR_NOMEM; count++) {
        struct tw_error err = {0};
        ck_assert_int_lt(count, 10000);
        tw_alloc_fail_after(count);
        status = _i ? try_vocab(&vocab, &err) : try_folder(&err);
        tw_alloc_fail_after(-1);
        ck_assert_int_eq(err.status, status);
    }
    ck_assert_int_eq(status, TW_OK);
    tw_free(bytes);
}
END_TEST

Suite *vocabularies_hostile_suite(void)
{
    Suite *suite = suite_create("vocabularies-hostile");
    TCase *errors = tcase_create("errors");
    tcase_add_checked_fixture(errors, test_folder_make, test_folder_remove);
    tcase_set_timeout(errors, 240);
    tcase_add_loop_test(errors, bad_arrays_are_refused, 0,
                        sizeof rows / sizeof *rows);
    tcase_add_test(errors, no_arrays_crash);
    tcase_add_loop_test(errors, bad_models_are_refused, 0,
                        sizeof files / sizeof *files);
    tcase_add_loop_test(errors, bad_added_tokens_are_refused, 0,
                        sizeof configs / sizeof *configs);
    tcase_add_loop_test(errors, no_mutation_of_a_model_crashes, 0, 3);
    tcase_add_loop_test(errors, failing_memory_is_reported, 0, 2);
    suite_add_tcase(suite, errors);
    return suite;
}
