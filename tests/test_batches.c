/* Claims about batches: sequences are cut as worked out by hand below; and
 * whatever the batch size, shard or resume point, the same sequences come. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "test_text.h"
#include "text/batches.h"
#include "tw_check.h"

#define BOS 90
#define EOS 91
#define VOCAB 100

/* --- Documents of ids from memory --- */

struct fake {
    const int32_t (*ids)[16];
    const int64_t *counts;
    int64_t documents, at;
};

static enum tw_status fake_next(void *state, struct tw_document *document,
                                bool *has_document, struct tw_error *err)
{
    struct fake *fake = state;
    (void)err;
    *has_document = fake->at < fake->documents;
    if (*has_document)
        *document = (struct tw_document){.ids = fake->ids[fake->at],
                                         .count = fake->counts[fake->at]};
    fake->at++;
    return TW_OK;
}

static const int32_t small[][16] = {
    {1, 2, 3, 4, 5}, {BOS, 6, 7}, {8}, {9, EOS, 10, BOS, 11, 12, 13}};
static const int64_t small_counts[] = {5, 3, 1, 7};

static struct tw_batch_options plain(void)
{
    return (struct tw_batch_options){.ctx = 4,
                                     .batch_tokens = 8,
                                     .limit = -1,
                                     .vocab = VOCAB,
                                     .bos = -1,
                                     .eos = -1,
                                     .shards = 1};
}

/* Sequences as lines "document:start id id ...", a class other than text
 * behind its id as b or s, x where it is skipped; "|" between batches. */
static void print_batch(const struct tw_batch *batch, char *out, bool marks)
{
    static const char letters[] = " bs";
    for (int64_t s = 0; s < batch->seqs; s++) {
        out += sprintf(out, "%lld:%lld", (long long)batch->document[s],
                       (long long)batch->start[s]);
        for (int64_t r = batch->offset[s]; r < batch->offset[s + 1]; r++) {
            unsigned class = batch->row_class[r] & TW_ROW_CLASS_MASK;
            out += sprintf(out, " %d", batch->token[r]);
            if (class != TW_ROW_TEXT)
                *out++ = letters[class];
            if (batch->row_class[r] & TW_ROW_SKIPPED)
                *out++ = 'x';
        }
        *out++ = '\n';
    }
    if (marks)
        *out++ = '|';
    *out = '\0';
}

/* Everything that comes, in out; its totals. */
static enum tw_status run(struct fake fake,
                          const struct tw_batch_options *options, bool marks,
                          char *out, struct tw_batch_totals *totals,
                          struct tw_error *err)
{
    struct tw_documents documents = {.state = &fake, .next = fake_next};
    struct tw_batches *batches;
    struct tw_batch batch = {0};
    enum tw_status status =
        tw_batches_create(&documents, options, &batches, err);
    *out = '\0';
    if (status != TW_OK)
        return status;
    do {
        status = tw_batches_next(batches, &batch, err);
        if (status != TW_OK || batch.rows == 0)
            break;
        ck_assert_int_eq(batch.offset[batch.seqs], batch.rows);
        ck_assert(batch.seqs == 1 || batch.rows <= options->batch_tokens);
        print_batch(&batch, out + strlen(out), marks);
    } while (true);
    if (totals)
        tw_batches_totals(batches, totals);
    tw_batches_destroy(batches);
    return status;
}

static struct fake small_fake(void)
{
    return (struct fake){small, small_counts, 4, 0};
}

/* --- Worked out by hand --- */

#define DOCS "0:0 1 2 3 4\n0:4 5\n1:0 90 6 7\n2:0 8\n3:0 9 91 10 90\n"   \
             "3:4 11 12 13\n"

static const struct {
    struct tw_batch_options change; /* what is not 0 replaces plain's */
    const char *wanted;
    int64_t documents, text_tokens;
} rows[] = {
    {{.ctx = 4}, DOCS, 4, 16},
    {{.ctx = 16}, "0:0 1 2 3 4 5\n1:0 90 6 7\n2:0 8\n"
                  "3:0 9 91 10 90 11 12 13\n", 4, 16},
    /* BOS inside ctx, added but where it stands already */
    {{.bos = BOS},
     "0:0 90b 1 2 3\n0:4 90b 4 5\n1:0 90b 6 7\n2:0 90b 8\n"
     "3:0 90b 9 91 10\n3:4 90b 11 12 13\n", 4, 16},
    {{.bos = BOS, .eos = EOS, .skip_bos = true, .skip_special = true},
     "0:0 90bx 1 2 3\n0:4 90bx 4 5\n1:0 90bx 6 7\n2:0 90bx 8\n"
     "3:0 90bx 9 91sx 10\n3:4 90bx 11 12 13\n", 4, 16},
    {{.ctx = 3, .bos = BOS, .skip_first = 2},
     "0:0 90bx 1x 2\n0:3 90bx 3x 4\n0:6 90bx 5x\n1:0 90bx 6x 7\n"
     "2:0 90bx 8x\n3:0 90bx 9x 91\n3:3 90bx 10x 90s\n3:6 90bx 11x 12\n"
     "3:9 90bx 13x\n", 4, 16},
    /* the limit counts text only, and cuts its sequence short */
    {{.limit = 7}, "0:0 1 2 3 4\n0:4 5\n1:0 90 6\n", 2, 7},
    {{.limit = 7, .bos = BOS},
     "0:0 90b 1 2 3\n0:4 90b 4 5\n1:0 90b 6\n", 2, 7},
    {{.limit = 5}, "0:0 1 2 3 4\n0:4 5\n", 1, 5},
    {{.limit = 100}, DOCS, 4, 16},
    /* shards and resume points choose */
    {{.shard = 1, .shards = 2}, "1:0 90 6 7\n3:0 9 91 10 90\n3:4 11 12 13\n",
     4, 10},
    {{.shard = 1, .shards = 2, .limit = 100},
     "1:0 90 6 7\n3:0 9 91 10 90\n3:4 11 12 13\n", 4, 16},
    {{.shard = 1, .shards = 3, .limit = 8}, "1:0 90 6 7\n", 2, 8},
    {{.shard = 5, .shards = 6}, "", 4, 0},
    {{.from_start = 4},
     "0:4 5\n1:0 90 6 7\n2:0 8\n3:0 9 91 10 90\n3:4 11 12 13\n", 4, 16},
    {{.from_document = 3, .from_start = 4}, "3:4 11 12 13\n", 4, 16},
    /* the stream: EOS between documents counts as text */
    {{.split = TW_SPLIT_STREAM},
     "0:0 1 2 3 4\n1:0 5 90 6 7\n2:0 8 9 91 10\n3:0 90 11 12 13\n", 4, 16},
    {{.split = TW_SPLIT_STREAM, .eos = EOS},
     "0:0 1 2 3 4\n1:0 5 91s 90 6\n2:0 7 91s 8 91s\n3:0 9 91s 10 90\n"
     "4:0 11 12 13\n", 4, 19},
    {{.split = TW_SPLIT_STREAM, .eos = EOS, .bos = BOS},
     "0:0 90b 1 2 3\n1:0 90b 4 5 91s\n2:0 90b 6 7 91s\n3:0 90b 8 91s 9\n"
     "4:0 90b 91s 10 90s\n5:0 90b 11 12 13\n", 4, 19},
    {{.split = TW_SPLIT_STREAM, .eos = EOS, .limit = 6},
     "0:0 1 2 3 4\n1:0 5 91s\n", 2, 6},
    {{.split = TW_SPLIT_STREAM, .shard = 1, .shards = 2},
     "1:0 5 90 6 7\n3:0 90 11 12 13\n", 4, 16},
    {{.split = TW_SPLIT_STREAM, .from_document = 2},
     "2:0 8 9 91 10\n3:0 90 11 12 13\n", 4, 16},
};

static struct tw_batch_options row_options(int row)
{
    struct tw_batch_options options = plain();
    const struct tw_batch_options *change = &rows[row].change;
    options.split = change->split;
    options.ctx = change->ctx ? change->ctx : options.ctx;
    options.bos = change->bos ? change->bos : options.bos;
    options.eos = change->eos ? change->eos : options.eos;
    options.limit = change->limit ? change->limit : options.limit;
    options.shards = change->shards ? change->shards : 1;
    options.shard = change->shard;
    options.skip_bos = change->skip_bos;
    options.skip_special = change->skip_special;
    options.skip_first = change->skip_first;
    options.from_document = change->from_document;
    options.from_start = change->from_start;
    return options;
}

START_TEST(sequences_are_those_worked_out)
{
    char got[4096];
    struct tw_error err = {0};
    struct tw_batch_totals totals;
    struct tw_batch_options options = row_options(_i);
    TW_OK_OR_FAIL(run(small_fake(), &options, false, got, &totals, &err), err);
    ck_assert_str_eq(got, rows[_i].wanted);
    ck_assert_int_eq(totals.documents, rows[_i].documents);
    ck_assert_int_eq(totals.text_tokens, rows[_i].text_tokens);
    ck_assert_int_eq(totals.is_limited, options.limit >= 0 &&
                                            options.limit < 16);
}
END_TEST

START_TEST(a_limit_of_nothing_is_nothing)
{
    char got[64];
    struct tw_error err = {0};
    struct tw_batch_totals totals;
    struct tw_batch_options options = plain();
    options.limit = 0;
    TW_OK_OR_FAIL(run(small_fake(), &options, false, got, &totals, &err), err);
    ck_assert_str_eq(got, "");
    ck_assert_int_eq(totals.documents, 0);
}
END_TEST

START_TEST(batches_are_whole_sequences)
{
    char got[512];
    struct tw_error err = {0};
    struct tw_batch_options options = plain();
    TW_OK_OR_FAIL(run(small_fake(), &options, true, got, NULL, &err), err);
    ck_assert_str_eq(got, "0:0 1 2 3 4\n0:4 5\n1:0 90 6 7\n|"
                          "2:0 8\n3:0 9 91 10 90\n3:4 11 12 13\n|");
    options.batch_tokens = 3; /* at least one, however long */
    TW_OK_OR_FAIL(run(small_fake(), &options, true, got, NULL, &err), err);
    ck_assert_str_eq(got, "0:0 1 2 3 4\n|0:4 5\n|1:0 90 6 7\n|2:0 8\n|"
                          "3:0 9 91 10 90\n|3:4 11 12 13\n|");
}
END_TEST

/* --- Properties, over random documents and options --- */

enum { DOCUMENTS = 23, ROOM = 1 << 15 };
static int32_t random_ids[DOCUMENTS][16];
static int64_t random_counts[DOCUMENTS];

static struct fake random_fake(unsigned *seed)
{
    for (int d = 0; d < DOCUMENTS; d++) {
        random_counts[d] = test_random(seed) % 17;
        for (int i = 0; i < 16; i++)
            random_ids[d][i] = (int32_t)(test_random(seed) % 4 ? i : BOS);
    }
    return (struct fake){random_ids, random_counts, DOCUMENTS, 0};
}

static struct tw_batch_options random_options(unsigned *seed)
{
    struct tw_batch_options options = plain();
    options.split = test_random(seed) % 2 ? TW_SPLIT_DOCS : TW_SPLIT_STREAM;
    options.ctx = 2 + test_random(seed) % 9;
    options.bos = test_random(seed) % 2 ? BOS : -1;
    options.eos = test_random(seed) % 2 ? EOS : -1;
    options.limit =
        test_random(seed) % 2 ? (int64_t)(test_random(seed) % 200) : -1;
    options.skip_first = test_random(seed) % 3;
    return options;
}

static void get(struct fake fake, const struct tw_batch_options *options,
                char *out)
{
    struct tw_error err = {0};
    TW_OK_OR_FAIL(run(fake, options, false, out, NULL, &err), err);
}

START_TEST(batch_size_changes_nothing)
{
    static char whole[ROOM], other[ROOM];
    unsigned seed = (unsigned)_i;
    struct fake fake = random_fake(&seed);
    struct tw_batch_options options = random_options(&seed);
    get(fake, &options, whole);
    for (options.batch_tokens = 1; options.batch_tokens < 100;
         options.batch_tokens += 7) {
        get(fake, &options, other);
        ck_assert_str_eq(whole, other);
    }
}
END_TEST

/* Every line of the whole comes from the shard of its document. */
START_TEST(shards_make_the_whole)
{
    static char whole[ROOM], part[4][ROOM];
    unsigned seed = (unsigned)_i;
    struct fake fake = random_fake(&seed);
    struct tw_batch_options options = random_options(&seed);
    char *next[4];
    get(fake, &options, whole);
    options.shards = 1 + test_random(&seed) % 4;
    for (options.shard = 0; options.shard < options.shards; options.shard++) {
        next[options.shard] = part[options.shard];
        get(fake, &options, part[options.shard]);
    }
    for (char *line = whole, *end; *line; line = end) {
        char **from = &next[atoll(line) % options.shards];
        end = strchr(line, '\n') + 1;
        ck_assert_int_eq(strncmp(line, *from, (size_t)(end - line)), 0);
        *from += end - line;
    }
    for (int64_t s = 0; s < options.shards; s++)
        ck_assert_str_eq(next[s], "");
}
END_TEST

START_TEST(resuming_gives_the_rest)
{
    static char whole[ROOM], rest[ROOM];
    unsigned seed = (unsigned)_i;
    struct fake fake = random_fake(&seed);
    struct tw_batch_options options = random_options(&seed);
    get(fake, &options, whole);
    for (char *line = whole; *line; line = strchr(line, '\n') + 1) {
        options.from_document = atoll(line);
        options.from_start = atoll(strchr(line, ':') + 1);
        get(fake, &options, rest);
        ck_assert_str_eq(rest, line);
    }
}
END_TEST

/* --- Errors --- */

START_TEST(ids_outside_the_vocabulary_are_named)
{
    char got[512];
    struct tw_error err = {0};
    struct tw_batch_options options = plain();
    options.vocab = 91;
    TW_FAILS_WITH(run(small_fake(), &options, false, got, NULL, &err),
                  TW_ERR_FORMAT, "document 3: token id 91", err);
    options.limit = 10; /* it stands behind the end */
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(run(small_fake(), &options, false, got, NULL, &err), err);
    static const int32_t negative[][16] = {{1, -1}};
    static const int64_t two = 2;
    TW_FAILS_WITH(run((struct fake){negative, &two, 1, 0}, &options, false,
                      got, NULL, &err),
                  TW_ERR_FORMAT, "document 0: token id -1", err);
}
END_TEST

static const struct {
    int64_t ctx, batch_tokens, shard, shards;
    int32_t bos, eos;
    const char *words;
} bad[] = {
    {0, 1, 0, 1, -1, -1, "context"}, {1, 1, 0, 1, 5, -1, "context"},
    {4, 0, 0, 1, -1, -1, "batch"},   {4, 1, 0, 0, -1, -1, "shard"},
    {4, 1, 2, 2, -1, -1, "shard"},   {4, 1, -1, 2, -1, -1, "shard"},
    {4, 1, 0, 1, VOCAB, -1, "BOS"},  {4, 1, 0, 1, -1, VOCAB, "EOS"},
};

START_TEST(options_out_of_range_are_named)
{
    char got[64];
    struct tw_error err = {0};
    struct tw_batch_options options = plain();
    options.ctx = bad[_i].ctx;
    options.batch_tokens = bad[_i].batch_tokens;
    options.shard = bad[_i].shard;
    options.shards = bad[_i].shards;
    options.bos = bad[_i].bos;
    options.eos = bad[_i].eos;
    TW_FAILS_WITH(run(small_fake(), &options, false, got, NULL, &err),
                  TW_ERR_USAGE, bad[_i].words, err);
}
END_TEST

START_TEST(failing_memory_is_reported)
{
    char got[1024];
    enum tw_status status = TW_ERR_NOMEM;
    struct tw_batch_options options = plain();
    for (int count = 0; status == TW_ERR_NOMEM; count++) {
        struct tw_error err = {0};
        tw_alloc_fail_after(count);
        status = run(small_fake(), &options, false, got, NULL, &err);
        tw_alloc_fail_after(-1);
        ck_assert_int_lt(count, 1000);
    }
    ck_assert_int_eq(status, TW_OK);
    ck_assert_str_eq(got, DOCS);
}
END_TEST

/* --- With a tokenizer --- */

START_TEST(texts_are_tokenised_and_their_specials_known)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true}],"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
        "\"merges\":[\"a b\"]}}";
    static const char text[] = "aab<s>b";
    struct tw_error err = {0};
    struct tw_tokenizer *tokenizer;
    struct tw_document_file file = {0};
    struct tw_documents documents;
    struct tw_batches *batches;
    struct tw_batch batch;
    char got[128];
    test_write_text("tokenizer.json", json);
    TW_OK_OR_FAIL(tw_tokenizer_open(test_folder(), &tokenizer, &err), err);
    struct tw_batch_options options = plain();
    options.skip_special = true;
    for (int round = 0; round < 2; round++) {
        options.tokenizer = tokenizer;
        options.parse_special = round == 0;
        TW_OK_OR_FAIL(tw_documents_from_text(text, strlen(text), &file,
                                             &documents, &err), err);
        TW_OK_OR_FAIL(tw_batches_create(&documents, &options, &batches, &err),
                      err);
        TW_OK_OR_FAIL(tw_batches_next(batches, &batch, &err), err);
        print_batch(&batch, got, false);
        ck_assert_str_eq(got, round == 0 ? "0:0 0 2 3sx 1\n" : "0:0 0 2 1\n");
        tw_batches_destroy(batches);
        documents.close(documents.state);
    }
    options.tokenizer = NULL;
    TW_OK_OR_FAIL(tw_documents_from_text(text, strlen(text), &file, &documents,
                                         &err), err);
    TW_OK_OR_FAIL(tw_batches_create(&documents, &options, &batches, &err),
                  err);
    TW_FAILS_WITH(tw_batches_next(batches, &batch, &err), TW_ERR_USAGE,
                  "tokenizer", err);
    tw_batches_destroy(batches);
    documents.close(documents.state);
    tw_tokenizer_close(tokenizer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batches");
    TCase *core = tcase_create("core"), *errors = tcase_create("errors");
    tcase_add_checked_fixture(core, test_folder_make, test_folder_remove);
    tcase_add_loop_test(core, sequences_are_those_worked_out, 0,
                        sizeof rows / sizeof *rows);
    tcase_add_test(core, a_limit_of_nothing_is_nothing);
    tcase_add_test(core, batches_are_whole_sequences);
    tcase_add_loop_test(core, batch_size_changes_nothing, 0, 40);
    tcase_add_loop_test(core, shards_make_the_whole, 0, 40);
    tcase_add_loop_test(core, resuming_gives_the_rest, 0, 40);
    tcase_add_test(core, texts_are_tokenised_and_their_specials_known);
    tcase_add_test(errors, ids_outside_the_vocabulary_are_named);
    tcase_add_loop_test(errors, options_out_of_range_are_named, 0,
                        sizeof bad / sizeof *bad);
    tcase_add_test(errors, failing_memory_is_reported);
    suite_add_tcase(suite, core);
    suite_add_tcase(suite, errors);
    return tw_run_suite(suite);
}
