/* GGUF files: headers, metadata, tensors, parts; and that no file that breaks
 * a rule is believed. What models such files hold is test_gguf_goldens.c's. */
#include <config.h>

#include <math.h>

#include "tests/gguf_case.h"

START_TEST(config_and_tensors)
{
    struct tw_checkpoint c;
    struct tw_error err = {0};
    int64_t size;
    bool is_tied;
    const char *act;
    make(&none, 0, PARTS);
    gguf_write(&w, folder, "tiny.gguf");
    TW_OK_OR_FAIL(tw_checkpoint_open(tw_in(folder, "tiny.gguf"), 1, &c, &err),
                  err);
    ck_assert_str_eq(c.name, "tiny");
    TW_OK_OR_FAIL(tw_config_int(c.config, "hidden_size", &size, &err), err);
    ck_assert_int_eq(size, D);
    TW_OK_OR_FAIL(tw_config_int(c.config, "vocab_size", &size, &err), err);
    ck_assert_int_eq(size, V);
    TW_OK_OR_FAIL(tw_config_bool_or(c.config, "tie_word_embeddings", false,
                                    &is_tied, &err),
                  err);
    ck_assert(is_tied);
    TW_OK_OR_FAIL(tw_config_text(c.config, "hidden_act", &act, &err), err);
    ck_assert_str_eq(act, "silu");
    ck_assert_str_eq(tw_config_origin(c.config, "hidden_act"),
                     "assumed: no key llama.hidden_activation");
    ck_assert_str_eq(tw_config_origin(c.config, "hidden_size"),
                     "llama.embedding_length");
    ck_assert_str_eq(tw_config_file(c.config), "tiny.gguf");
    char text[100];
    tw_checkpoint_describe(&c, text, sizeof text);
    ck_assert_str_eq(text, "GGUF, 1 file: 8 float32, 2 Q8_0, 1 float16 "
                           "tensors");
    tw_checkpoint_close(&c);
}
END_TEST

/* Head h of 16 rows: stored row 2 j + s is row s * 8 + j. */
START_TEST(rows_and_blocks)
{
    struct tw_checkpoint c;
    struct tw_error err = {0};
    make(&none, 0, PARTS);
    gguf_write(&w, folder, "tiny.gguf");
    for (int threads = 1; threads < 4; threads++) {
        TW_OK_OR_FAIL(
            tw_checkpoint_open(tw_in(folder, "tiny.gguf"), threads, &c, &err),
            err);
        const struct tw_tensor *q = tw_tensors_find(
            &c.tensors, "model.layers.0.self_attn.q_proj.weight");
        const struct tw_tensor *up =
            tw_tensors_find(&c.tensors, "model.layers.0.mlp.up_proj.weight");
        const struct tw_tensor *v = tw_tensors_find(
            &c.tensors, "model.layers.0.self_attn.v_proj.weight");
        ck_assert(q && up && v);
        ck_assert_str_eq(q->stored, "Q8_0");
        ck_assert_ptr_nonnull(q->owned);
        ck_assert_ptr_null(v->owned); /* float16 stays where it is */
        for (int stored = 0; stored < D; stored++) {
            int in_head = stored % 16;
            int row = stored / 16 * 16 + in_head % 2 * 8 + in_head / 2;
            for (int i = 0; i < D; i++) {
                ck_assert_float_eq(((const float *)q->data)[row * D + i],
                                   (float)((stored + i) % 100));
                ck_assert_float_eq(((const float *)up->data)[stored * D + i],
                                   (float)((stored + i) % 100));
            }
        }
        tw_checkpoint_close(&c);
    }
}
END_TEST

/* q, k and v in one tensor of 64 rows are the three of 32, 16 and 16. */
START_TEST(joined_heads)
{
    static const char *const names[] = {"q", "k", "v"};
    struct tw_checkpoint c;
    struct tw_error err = {0};
    gguf_start(&w, 2, 9);
    put_keys(&none);
    gguf_tensor(&w, "token_embd.weight", 0, V, D, 0);
    gguf_tensor(&w, "blk.0.attn_qkv.weight", 0, 2 * D, D, V * D * 4);
    gguf_align(&w);
    put_data(&(struct part){.type = 0, .rows = V, .cols = D});
    put_data(&(struct part){.type = 0, .rows = 2 * D, .cols = D});
    gguf_write(&w, folder, "joined.gguf");
    TW_OK_OR_FAIL(tw_checkpoint_open(tw_in(folder, "joined.gguf"), 1, &c, &err),
                  err);
    ck_assert_uint_eq(c.tensors.count, 4);
    for (int p = 0, from = 0; p < 3; p++) {
        char name[80];
        snprintf(name, sizeof name, "model.layers.0.self_attn.%s_proj.weight",
                 names[p]);
        const struct tw_tensor *t = tw_tensors_find(&c.tensors, name);
        ck_assert_ptr_nonnull(t);
        ck_assert_int_eq(t->shape[0], p == 0 ? D : KV);
        for (int i = 0; i < t->shape[0]; i++) {
            int row = p == 2 ? i : i / 16 * 16 + i % 2 * 8 + i % 16 / 2;
            ck_assert_float_eq(((const float *)t->data)[row * D],
                               (float)(from + i));
        }
        from += (int)t->shape[0];
    }
    tw_checkpoint_close(&c);
}
END_TEST

/* --- What breaks a rule --- */

static const struct {
    struct fault fault;
    enum tw_status status;
    const char *words;
} faults[] = {
    {{.kind = -1, .magic = "GGUM"}, TW_ERR_FORMAT, "no GGUF file"},
    {{.kind = -1, .version = 1}, TW_ERR_UNSUPPORTED, "version 1 is not"},
    {{.kind = -1, .version = 4}, TW_ERR_UNSUPPORTED, "supported: 2, 3"},
    {{.kind = -1, .version = 256}, TW_ERR_FORMAT, "big-endian"},
    {{.kind = -1, .tensors = UINT64_MAX / 2}, TW_ERR_FORMAT, "more tensors"},
    {{.kind = -1, .values = UINT64_MAX / 2}, TW_ERR_FORMAT, "more metadata"},
    {{.kind = 13}, TW_ERR_FORMAT, "'added' has the unknown value type 13"},
    {{.kind = GGUF_ARRAY}, TW_ERR_FORMAT, "tiny.gguf: "},
    {{.kind = GGUF_TEXT}, TW_ERR_FORMAT, "tiny.gguf: "},
    {{.kind = -1, .alignment = 3}, TW_ERR_FORMAT, "general.alignment"},
    {{.kind = -1, .alignment = 4}, TW_ERR_FORMAT, "general.alignment"},
    {{.kind = -1, .type = 17},
     TW_ERR_UNSUPPORTED,
     "'blk.0.attn_q.weight' has type IQ2_XXS (16), which is not supported; "
     "supported: F32, F16"},
    {{.kind = -1, .type = 1000}, TW_ERR_UNSUPPORTED, "type unknown (999)"},
    {{.kind = -1, .cols = 33}, TW_ERR_FORMAT, "no whole blocks"},
    {{.kind = -1, .rows = 1u << 31, .cols = 1ull << 40},
     TW_ERR_FORMAT,
     "empty or absurd shape"},
    {{.kind = -1, .rows = 1u << 30}, TW_ERR_FORMAT, "past the end"},
    {{.kind = -1, .offset = 1ull << 62}, TW_ERR_FORMAT, "past the end"},
    {{.kind = -1, .offset = 33}, TW_ERR_FORMAT, "misaligned"},
    {{.kind = -1, .offset = 32}, TW_ERR_FORMAT, "overlaps"},
    {{.kind = -1, .name = "blk.0.attn_v.weight"},
     TW_ERR_FORMAT,
     "token_embd.weight"},
    {{.kind = -1, .name = ""}, TW_ERR_FORMAT, "absurd length"},
    {{.kind = -1, .text = "mamba"},
     TW_ERR_UNSUPPORTED,
     "general.architecture 'mamba' is not supported; supported: llama, qwen2"},
    {{.kind = -1, .key = "llama.block_count"},
     TW_ERR_FORMAT,
     "key 'llama.block_count' is not there"},
    {{.kind = -1, .key = "llama.block_count", .text = "one"},
     TW_ERR_FORMAT,
     "key 'llama.block_count' is not an integer"},
    {{.kind = -1, .key = "llama.attention.head_count", .text = "x"},
     TW_ERR_FORMAT,
     "key 'llama.attention.head_count' is not an integer"},
    {{.kind = -1, .rows = 15}, TW_ERR_FORMAT, "whole attention heads"},
};

START_TEST(fault_is_named)
{
    struct tw_checkpoint c;
    struct tw_error err = {0};
    make(&faults[_i].fault, 0, PARTS);
    gguf_write(&w, folder, "tiny.gguf");
    TW_FAILS_WITH(tw_checkpoint_open(tw_in(folder, "tiny.gguf"), 1, &c, &err),
                  faults[_i].status, faults[_i].words, err);
}
END_TEST

START_TEST(twice_is_refused)
{
    struct tw_checkpoint c;
    struct tw_error err = {0};
    gguf_start(&w, 0, 2);
    gguf_key_u32(&w, "a", 1);
    gguf_key_u32(&w, "a", 2);
    gguf_write(&w, folder, "keys.gguf");
    TW_FAILS_WITH(tw_checkpoint_open(tw_in(folder, "keys.gguf"), 1, &c, &err),
                  TW_ERR_FORMAT, "key 'a' stands there twice", err);
    make(&(struct fault){.kind = -1, .name = "lm_head.weight"}, 0, PARTS);
    gguf_write(&w, folder, "names.gguf");
    TW_FAILS_WITH(tw_checkpoint_open(tw_in(folder, "names.gguf"), 1, &c, &err),
                  TW_ERR_FORMAT, "no matrix 'token_embd.weight'", err);
}
END_TEST

START_TEST(truncated_anywhere)
{
    struct tw_checkpoint c;
    make(&none, 0, PARTS);
    size_t data = 0;
    for (int i = 0; i < PARTS; i++)
        data += (bytes_of(&parts[i]) + 31) / 32 * 32;
    for (size_t cut = 0; cut < w.size; cut += cut + data < w.size ? 1 : 997) {
        struct tw_error err = {0};
        tw_write(folder, "cut.gguf", w.bytes, cut);
        ck_assert_int_ne(
            tw_checkpoint_open(tw_in(folder, "cut.gguf"), 1, &c, &err), TW_OK);
    }
}
END_TEST

/* Four megabytes of the smallest metadata, tensors, or texts: refused, or
 * taken, without asking for more than twice that. */
START_TEST(memory_is_bounded)
{
    enum { MEGABYTES = 4 };
    static uint8_t bytes[MEGABYTES << 20];
    const size_t size = sizeof bytes;
    struct tw_gguf *gguf;
    struct tw_vocab vocab;
    struct tw_error err = {0};
    uint64_t count = _i == 0 ? size / 16 - 8 : 2;
    gguf_start(&w, 0, count);
    memcpy(bytes, w.bytes, w.size);
    size_t at = w.size;
    if (_i == 0) { /* keys of three bytes with a bool */
        for (uint64_t i = 0; i < count; i++) {
            const uint8_t key[16] = {3,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     (uint8_t)(1 + i % 255),
                                     (uint8_t)(1 + i / 255 % 255),
                                     (uint8_t)(1 + i / 65025),
                                     GGUF_BOOL,
                                     0,
                                     0,
                                     0,
                                     1};
            memcpy(bytes + at, key, sizeof key);
            at += sizeof key;
        }
    } else { /* as many empty texts as there is room for */
        w.size = 0;
        gguf_key_text(&w, "tokenizer.ggml.model", "llama");
        gguf_key_array(&w, "tokenizer.ggml.tokens", GGUF_TEXT,
                       (size - at - 200) / 8);
        memcpy(bytes + at, w.bytes, w.size);
        at += w.size;
    }
    tw_write(folder, "much.gguf", bytes, size);
    uint64_t before = tw_alloc_total();
    enum tw_status status =
        tw_gguf_open(tw_in(folder, "much.gguf"), &gguf, &err);
    if (status == TW_OK) {
        status = tw_gguf_vocab(gguf, &vocab, &err);
        tw_gguf_close(gguf);
    }
    ck_assert(_i == 1 || status == TW_ERR_FORMAT);
    ck_assert_uint_le(tw_alloc_total() - before, 2 * size + 65536);
}
END_TEST

/* Whichever allocation fails, it is said and nothing is lost. */
START_TEST(no_memory)
{
    struct tw_checkpoint c;
    enum tw_status status = TW_ERR_NOMEM;
    make(&none, 0, PARTS);
    gguf_write(&w, folder, "tiny.gguf");
    for (int64_t n = 0; status != TW_OK && n < 10000; n++) {
        struct tw_error err = {0};
        tw_alloc_fail_after(n);
        status = tw_checkpoint_open(tw_in(folder, "tiny.gguf"), 2, &c, &err);
        tw_alloc_fail_after(-1);
        ck_assert_msg(status == TW_OK || status == TW_ERR_NOMEM, "%lld: %s",
                      (long long)n, err.text);
    }
    ck_assert_int_eq(status, TW_OK);
    tw_checkpoint_close(&c);
}
END_TEST

/* --- Parts and places --- */

#define FIRST  "big-00001-of-00002.gguf"
#define SECOND "big-00002-of-00002.gguf"

static void write_part(const char *name, uint32_t number, uint32_t count,
                       int from, int to)
{
    make(&(struct fault){.kind = -1, .part = number, .parts = count}, from, to);
    gguf_write(&w, folder, name);
}

static void write_parts(void)
{
    write_part(FIRST, 0, 2, 0, 5);
    write_part(SECOND, 1, 2, 5, PARTS);
}

START_TEST(parts_from_anywhere)
{
    struct tw_checkpoint c;
    struct tw_error err = {0};
    char whole[65], hash[65];
    make(&none, 0, PARTS);
    gguf_write(&w, folder, "whole.gguf");
    TW_OK_OR_FAIL(tw_checkpoint_open(tw_in(folder, "whole.gguf"), 1, &c, &err),
                  err);
    TW_OK_OR_FAIL(tw_tensors_hash(&c.tensors, 1, whole, &err), err);
    tw_checkpoint_close(&c);
    remove(tw_in(folder, "whole.gguf"));
    write_parts();
    const char *const models[] = {tw_in(folder, FIRST), tw_in(folder, SECOND),
                                  folder};
    for (int i = 0; i < 3; i++) {
        TW_OK_OR_FAIL(tw_checkpoint_open(models[i], 1, &c, &err), err);
        ck_assert_str_eq(c.name, "big");
        ck_assert_uint_eq(c.tensors.files, 2);
        TW_OK_OR_FAIL(tw_tensors_hash(&c.tensors, 1, hash, &err), err);
        ck_assert_str_eq(hash, whole);
        tw_checkpoint_close(&c);
    }
}
END_TEST

START_TEST(parts_that_do_not_fit)
{
    struct tw_checkpoint c;
    struct tw_error err = {0};
    write_part(FIRST, 0, 2, 0, 5);
    TW_FAILS_WITH(tw_checkpoint_open(folder, 1, &c, &err), TW_ERR_NOT_FOUND,
                  SECOND, err);
    write_part(SECOND, 0, 2, 5, PARTS);
    TW_FAILS_WITH(tw_checkpoint_open(folder, 1, &c, &err), TW_ERR_FORMAT,
                  SECOND ": its metadata do not say", err);
    write_part(SECOND, 1, 2, 6, PARTS);
    TW_FAILS_WITH(tw_checkpoint_open(folder, 1, &c, &err), TW_ERR_FORMAT,
                  "split.tensors.count is 11, but the parts hold 10", err);
    write_part("alone.gguf", 0, 2, 0, 5);
    TW_FAILS_WITH(tw_checkpoint_open(tw_in(folder, "alone.gguf"), 1, &c, &err),
                  TW_ERR_FORMAT, "one of the 2 parts", err);
}
END_TEST

START_TEST(directories)
{
    struct tw_checkpoint c;
    struct tw_error err = {0};
    char *path;
    make(&none, 0, PARTS);
    gguf_write(&w, folder, "mmproj-tiny.gguf");
    TW_OK_OR_FAIL(tw_gguf_find(folder, &path, &err), err);
    ck_assert_ptr_null(path);
    gguf_write(&w, folder, "tiny.gguf");
    tw_write_text(folder, "config.json", "{}"); /* of no use beside it */
    TW_OK_OR_FAIL(tw_gguf_find(folder, &path, &err), err);
    ck_assert_ptr_nonnull(strstr(path, "/tiny.gguf"));
    tw_free(path);
    gguf_write(&w, folder, "other.gguf");
    TW_FAILS_WITH(tw_checkpoint_open(folder, 1, &c, &err), TW_ERR_FORMAT,
                  "several GGUF models", err);
    tw_write_safetensors(folder, "model.safetensors",
                         "{'v':{'dtype':'F32','shape':[1],"
                         "'data_offsets':[0,4]}}",
                         NULL, 4);
    TW_OK_OR_FAIL(tw_checkpoint_open(folder, 1, &c, &err), err);
    ck_assert_ptr_null(c.gguf);
    tw_checkpoint_close(&c);
}
END_TEST

/* --- The vocabulary --- */

/* Three tokens; `types` of their types. */
static void make_vocab(uint64_t scores, int kind, uint32_t eos)
{
    static const char *const piece[] = {"<s>", "a", "\xe2\x96\x81"};
    gguf_start(&w, 0, 6);
    gguf_key_text(&w, "tokenizer.ggml.model", "llama");
    gguf_key_array(&w, "tokenizer.ggml.tokens", GGUF_TEXT, 3);
    for (int i = 0; i < 3; i++)
        gguf_text(&w, piece[i]);
    gguf_key_array(&w, "tokenizer.ggml.scores", kind, scores);
    for (uint64_t i = 0; i < scores; i++)
        gguf_float(&w, -(float)i);
    gguf_key_array(&w, "tokenizer.ggml.token_type", GGUF_I32, 3);
    gguf_put(&w, 3, 4), gguf_put(&w, 1, 4), gguf_put(&w, 1, 4);
    gguf_key_u32(&w, "tokenizer.ggml.eos_token_id", eos);
    gguf_key(&w, "tokenizer.ggml.add_bos_token", GGUF_BOOL);
    gguf_put(&w, 0, 1);
    gguf_write(&w, folder, "vocab.gguf");
}

static enum tw_status open_vocab(struct tw_gguf **gguf, struct tw_vocab *vocab,
                                 struct tw_error *err)
{
    enum tw_status status =
        tw_gguf_open(tw_in(folder, "vocab.gguf"), gguf, err);
    if (status == TW_OK)
        status = tw_gguf_vocab(*gguf, vocab, err);
    return status;
}

START_TEST(vocabulary)
{
    struct tw_gguf *gguf = NULL;
    struct tw_vocab vocab;
    struct tw_error err = {0};
    make_vocab(3, GGUF_F32, 2);
    TW_OK_OR_FAIL(open_vocab(&gguf, &vocab, &err), err);
    ck_assert_str_eq(vocab.model, "llama");
    ck_assert_ptr_null(vocab.pre);
    ck_assert_int_eq(vocab.pieces, 3);
    ck_assert_uint_eq(vocab.piece[2].size, 3);
    ck_assert_mem_eq(vocab.piece[0].bytes, "<s>", 3);
    ck_assert_float_eq(vocab.score[2], -2);
    ck_assert_int_eq(vocab.type[0], TW_VOCAB_CONTROL);
    ck_assert_int_eq(vocab.merges, 0);
    ck_assert_int_eq(vocab.bos, -1);
    ck_assert_int_eq(vocab.eos, 2);
    ck_assert_int_eq(vocab.add_bos, TW_VOCAB_NO);
    ck_assert_int_eq(vocab.add_space_prefix, TW_VOCAB_UNSET);
    tw_gguf_close(gguf);
}
END_TEST

START_TEST(vocabulary_that_is_none)
{
    struct tw_gguf *gguf = NULL;
    struct tw_vocab vocab;
    struct tw_error err = {0};
    make_vocab(2, GGUF_F32, 2);
    TW_FAILS_WITH(open_vocab(&gguf, &vocab, &err), TW_ERR_FORMAT,
                  "'tokenizer.ggml.scores' is not an array with a number", err);
    tw_gguf_close(gguf);
    make_vocab(3, GGUF_I32, 2);
    TW_FAILS_WITH(open_vocab(&gguf, &vocab, &err), TW_ERR_FORMAT,
                  "'tokenizer.ggml.scores'", err);
    tw_gguf_close(gguf);
    make_vocab(3, GGUF_F32, 3);
    TW_FAILS_WITH(open_vocab(&gguf, &vocab, &err), TW_ERR_FORMAT,
                  "'tokenizer.ggml.eos_token_id' is not the number of a token",
                  err);
    tw_gguf_close(gguf);
    make(&none, 0, PARTS);
    gguf_write(&w, folder, "vocab.gguf");
    TW_FAILS_WITH(open_vocab(&gguf, &vocab, &err), TW_ERR_NOT_FOUND,
                  "--tokenizer DIR", err);
    tw_gguf_close(gguf);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf");
    TCase *core = tcase_create("core"), *errors = tcase_create("errors");
    tcase_set_timeout(errors, 60); /* a thousand files */
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_checked_fixture(errors, setup, teardown);
    tcase_add_test(core, config_and_tensors);
    tcase_add_test(core, rows_and_blocks);
    tcase_add_test(core, joined_heads);
    tcase_add_test(core, parts_from_anywhere);
    tcase_add_test(core, directories);
    tcase_add_test(core, vocabulary);
    tcase_add_loop_test(errors, fault_is_named, 0,
                        sizeof faults / sizeof *faults);
    tcase_add_test(errors, twice_is_refused);
    tcase_add_test(errors, truncated_anywhere);
    tcase_add_loop_test(errors, memory_is_bounded, 0, 2);
    tcase_add_test(errors, no_memory);
    tcase_add_test(errors, parts_that_do_not_fit);
    tcase_add_test(errors, vocabulary_that_is_none);
    suite_add_tcase(suite, core);
    suite_add_tcase(suite, errors);
    return tw_run_suite(suite);
}
