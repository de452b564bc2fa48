/* Claims about a profile's rows: they equal what SQL makes of the single
 * cells, whatever the batches, their order, the threads or a kill between. */
#include <config.h>

#include <stdio.h>
#include <unistd.h>

#include "analysis/store_profile.h"
#include "base/strbuf.h"
#include "base/threads.h"
#include "db/query.h"
#include "profile_corpus.h"
#include "profile_oracle.h"

static char path[64];
static struct tw_store *store;
static struct corpus corpus;
static int order[MAX_SEQS];

static void setup(void)
{
    struct tw_error err = {0};
    snprintf(path, sizeof path, "/tmp/tw_profileXXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(path);
    TW_OK_OR_FAIL(tw_store_open(path, TW_STORE_WRITE, &store, &err), err);
    TW_OK_OR_FAIL(tw_store_begin(store, &err), err);
    make_corpus(&corpus, 7);
    for (int i = 0; i < corpus.seqs; i++)
        order[i] = i;
}

static void teardown(void)
{
    tw_store_close(store);
    unlink(path);
}

static int64_t make_run(const char *name)
{
    static const char *const active[PROBES] = {"hidden", "abs:0.01", "topk:8"};
    struct tw_error err = {0};
    int64_t run = 0;
    TW_OK_OR_FAIL(tw_store_run_create(store, name, "profile", &run, &err),
                  err);
    for (int d = 0; d < PROBES; d++)
        TW_OK_OR_FAIL(tw_store_put_definition(store, run, d, active[d], &err),
                      err);
    TW_OK_OR_FAIL(tw_store_set_text(store, run, "active", "hidden", &err),
                  err);
    TW_OK_OR_FAIL(tw_store_set_int(store, run, "layers", LAYERS, &err), err);
    return run;
}

static void sql(const char *text)
{
    struct tw_error err = {0};
    TW_OK_OR_FAIL(tw_query_exec(store, text, &err), err);
}

/* All cells of a query as text; numbers exactly as SQLite prints them. */
static void print_query(struct tw_strbuf *out, const char *text)
{
    struct tw_error err = {0};
    struct tw_query *query = NULL;
    bool has_row = false;
    TW_OK_OR_FAIL(tw_query_open(store, text, &query, &err), err);
    for (;;) {
        TW_OK_OR_FAIL(tw_query_next(query, &has_row, &err), err);
        if (!has_row)
            break;
        for (int i = 0; i < tw_query_columns(query); i++) {
            const char *cell = tw_query_text(query, i, NULL);
            tw_strbuf_printf(out, "%s,", cell ? cell : "NULL");
        }
        tw_strbuf_puts(out, "\n");
    }
    tw_query_close(query);
}

static const char *const tables[] = {
    "layer_", "block_", "class_", "layer_position_", "position_",
    "layer_token_", "token_", "neuron_", "hist_", "tile_", "magnitude_",
    "route_", "document_", "dead_curve_"};

/* Everything a run left behind, its number left out. */
static char *dump(int64_t run)
{
    struct tw_strbuf out = {0};
    char text[512];
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        tw_strbuf_printf(&out, "%s\n", tables[i]);
        snprintf(text, sizeof text,
                 "SELECT 0 * run_id, t.* FROM (SELECT * FROM %s "
                 "WHERE run_id = %d) t", tables[i], (int)run);
        size_t from = out.length;
        print_query(&out, text);
        /* "0,RUN,..." at each line's begin: blank the run's number. */
        for (char *line = out.data + from; line && *line;
             line = strchr(line, '\n') + 1)
            for (char *c = line + 2; *c != ','; c++)
                *c = '#';
    }
    snprintf(text, sizeof text,
             "SELECT tokens, sequences, documents, skipped, predicted, "
             "sum_nll, mean_nll, se_nll, perplexity, overflow_rows "
             "FROM run_ WHERE run_id = %d", (int)run);
    print_query(&out, text);
    return tw_strbuf_take(&out);
}

static void finish(struct tw_profile *profile, int64_t run)
{
    struct tw_error err = {0};
    TW_OK_OR_FAIL(tw_profile_finish(profile, store, run, &err), err);
    tw_profile_destroy(profile);
}

/* The run of the whole corpus in one batch. */
static int64_t plain_run(const char *name)
{
    int64_t run = make_run(name);
    struct tw_profile *profile = make_profile(NULL);
    add_sequences(profile, &corpus, order, 0, corpus.seqs, MAX_SEQS);
    finish(profile, run);
    return run;
}

START_TEST(rows_equal_what_sql_counts)
{
    plain_run("a");
    put_cells(store, &corpus);
    for (size_t i = 0; i < sizeof oracles / sizeof oracles[0]; i++) {
        struct tw_strbuf stored = {0}, counted = {0};
        char text[1200];
        snprintf(text, sizeof text, "SELECT %s ORDER BY 1, 2, 3, 4",
                 oracles[i].stored);
        if (strstr(text, "route_"))
            *strstr(text, ", 3, 4") = '\0';
        else if (strstr(text, "tile_") || strstr(text, "document_"))
            *strstr(text, ", 4") = '\0';
        print_query(&stored, text);
        snprintf(text, sizeof text, "SELECT %s", oracles[i].counted);
        print_query(&counted, text);
        ck_assert_msg(stored.length > 0, "%s: empty", oracles[i].stored);
        ck_assert_msg(strcmp(stored.data, counted.data) == 0,
                      "%s:\n%.600s\ncounted:\n%.600s", oracles[i].stored,
                      stored.data, counted.data);
        tw_strbuf_fini(&stored);
        tw_strbuf_fini(&counted);
    }
}
END_TEST

static void shuffle(uint64_t seed)
{
    for (int i = corpus.seqs - 1; i > 0; i--) {
        int j = (int)(next_random(&seed) % (uint64_t)(i + 1)), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

static void same_dump(int64_t run, const char *expected)
{
    char *found = dump(run);
    size_t at = 0;
    while (found[at] && found[at] == expected[at])
        at++;
    ck_assert_msg(strcmp(found, expected) == 0,
                  "differs at %zu: '%.60s', expected '%.60s'", at, found + at,
                  expected + at);
    tw_free(found);
}

/* most: sequences a batch; threads 0: no pool. */
/* A copy taken between batches saves as the profile did then, and the profile
 * goes on as if there were none. Taken again, it is that of now. */
START_TEST(a_copy_stays_as_it_was)
{
    struct tw_error err = {0};
    int64_t plain = plain_run("plain"), first = make_run("first");
    int64_t copied = make_run("copied"), again = make_run("again");
    char *expected = dump(plain), *saved;
    struct tw_profile *profile = make_profile(NULL), *copy = NULL;
    add_sequences(profile, &corpus, order, 0, corpus.seqs / 2, 3);
    TW_OK_OR_FAIL(tw_profile_save(profile, store, first, &err), err);
    TW_OK_OR_FAIL(tw_profile_copy(profile, &copy, &err), err);
    add_sequences(profile, &corpus, order, corpus.seqs / 2, corpus.seqs, 3);
    saved = dump(first);
    TW_OK_OR_FAIL(tw_profile_save(copy, store, copied, &err), err);
    same_dump(copied, saved);
    TW_OK_OR_FAIL(tw_profile_copy(profile, &copy, &err), err);
    finish(copy, again);
    same_dump(again, expected);
    finish(profile, first);
    same_dump(first, expected);
    tw_free(expected);
    tw_free(saved);
}
END_TEST

static const struct {
    int most, threads, is_shuffled;
} ways[] = {{1, 0, 0}, {3, 0, 0}, {7, 3, 0}, {1, 0, 1}, {4, 2, 1}, {100, 4, 1}};

START_TEST(no_way_of_batching_changes_a_bit)
{
    struct tw_error err = {0};
    char *expected = dump(plain_run("a"));
    struct tw_threads *pool = NULL;
    if (ways[_i].threads)
        TW_OK_OR_FAIL(tw_threads_create(ways[_i].threads, &pool, &err), err);
    if (ways[_i].is_shuffled)
        shuffle(99);
    struct tw_profile *profile = make_profile(pool);
    int64_t run = make_run("b");
    add_sequences(profile, &corpus, order, 0, corpus.seqs, ways[_i].most);
    finish(profile, run);
    same_dump(run, expected);
    tw_free(expected);
    tw_threads_destroy(pool);
}
END_TEST

START_TEST(a_resumed_run_ends_as_an_unbroken_one)
{
    struct tw_error err = {0};
    char *expected = dump(plain_run("a"));
    int breaks[] = {0, 1, 9, 9, 20, corpus.seqs}, from = 0;
    int64_t run = make_run("b");
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        struct tw_profile *profile = make_profile(NULL);
        TW_OK_OR_FAIL(tw_profile_restore(profile, store, run, &err), err);
        TW_OK_OR_FAIL(tw_profile_save(profile, store, run, &err), err);
        add_sequences(profile, &corpus, order, from, breaks[i], 2);
        TW_OK_OR_FAIL(tw_profile_save(profile, store, run, &err), err);
        tw_profile_destroy(profile);
        from = breaks[i];
    }
    struct tw_profile *profile = make_profile(NULL);
    TW_OK_OR_FAIL(tw_profile_restore(profile, store, run, &err), err);
    finish(profile, run);
    same_dump(run, expected);
    tw_free(expected);
}
END_TEST

/* SQL that makes the rows of run 1 impossible, and the table it names. */
static const struct {
    const char *harm, *words;
} harms[] = {
    {"DELETE FROM layer_ WHERE layer = 1", "layer_"},
    {"UPDATE layer_ SET width = 65", "layer_"},
    {"DELETE FROM neuron_ WHERE neuron = 5", "neuron_"},
    {"UPDATE neuron_ SET first_document = 77777 WHERE fired > 0", "neuron_"},
    {"UPDATE neuron_ SET first_document = NULL WHERE fired > 0", "neuron_"},
    {"UPDATE neuron_ SET neuron = neuron + 640", "neuron_"},
    {"UPDATE neuron_ SET sum_abs = NULL WHERE def_ord = 0", "neuron_"},
    {"UPDATE block_ SET block = block + 64", "block_"},
    {"UPDATE block_ SET sum_nll = 9e18", "block_"},
    {"UPDATE class_ SET class = 9 WHERE class = 1", "class_"},
    {"UPDATE class_ SET sum_nnz = 9e18", "class_"},
    {"UPDATE layer_position_ SET position = -5 WHERE position = 5",
     "layer_position_"},
    {"UPDATE layer_position_ SET max_nnz = 65", "layer_position_"},
    {"UPDATE layer_token_ SET token_id = token_id + 40", "layer_token_"},
    {"UPDATE token_ SET token_id = -1 - token_id", "token_"},
    {"UPDATE hist_ SET nnz = nnz + 65", "hist_"},
    {"UPDATE hist_ SET tokens = -1", "hist_"},
    {"UPDATE tile_ SET tile_width = 65 WHERE tile_width = 64", "tile_"},
    {"UPDATE magnitude_ SET log2_bin = log2_bin + 1000", "magnitude_"},
    {"UPDATE route_ SET layer = layer + 3", "route_"},
    {"UPDATE document_ SET rows = -1", "document_"},
};

START_TEST(impossible_rows_are_refused)
{
    struct tw_error err = {0};
    int64_t run = plain_run("a");
    sql(harms[_i].harm);
    struct tw_profile *profile = make_profile(NULL);
    TW_FAILS_WITH(tw_profile_restore(profile, store, run, &err),
                  TW_ERR_MISMATCH, harms[_i].words, err);
    tw_profile_destroy(profile);
}
END_TEST

static double number(const char *text)
{
    struct tw_strbuf out = {0};
    print_query(&out, text);
    double value = strcmp(out.data, "NULL,\n") ? strtod(out.data, NULL) : NAN;
    tw_strbuf_fini(&out);
    return value;
}

START_TEST(skipping_never_changes_the_loss)
{
    plain_run("skip");
    for (int i = 0; i < corpus.rows; i++)
        corpus.row_class[i] &= TW_ROW_CLASS_MASK;
    plain_run("all");
    ck_assert(number("SELECT count(DISTINCT mean_nll || se_nll || perplexity) "
                     "FROM run_info") == 1);
    ck_assert(number("SELECT count(DISTINCT tokens + skipped) FROM run_info")
              == 1);
    ck_assert(number("SELECT count(DISTINCT tokens) FROM run_info") == 2);
    ck_assert(number("SELECT abs(perplexity - exp(mean_nll)) < 1e-6 "
                     "FROM run_info") == 1);
}
END_TEST

START_TEST(views_agree_with_each_other)
{
    plain_run("a");
    ck_assert(number("SELECT max(abs(l.mean_nnz - h.m)) < 1e-9 AND "
                     "max(abs(l.std_nnz * l.std_nnz - h.v)) < 1e-9 FROM "
                     "layer_stats l JOIN (SELECT layer, sum(1.0*nnz*tokens) / "
                     "sum(tokens) m, sum(1.0*nnz*nnz*tokens) / sum(tokens) - "
                     "pow(sum(1.0*nnz*tokens) / sum(tokens), 2) v FROM "
                     "nnz_histogram GROUP BY 1) h USING (layer)") == 1);
    ck_assert(number("SELECT min(min_nnz <= p50_nnz AND p50_nnz <= p90_nnz "
                     "AND p90_nnz <= p99_nnz AND p99_nnz <= p999_nnz AND "
                     "p999_nnz <= max_nnz AND se_nnz > 0) FROM all_layer_stats")
              == 1);
    ck_assert(number("SELECT count(*) FROM all_layer_stats") ==
              LAYERS * PROBES);
}
END_TEST

START_TEST(a_shard_without_documents_ends_well)
{
    int64_t run = make_run("empty");
    finish(make_profile(NULL), run);
    ck_assert(number("SELECT tokens FROM run_info") == 0);
    ck_assert(isnan(number("SELECT mean_nll FROM run_info")));
    ck_assert(isnan(number("SELECT perplexity FROM run_info")));
    ck_assert(number("SELECT count(mean_nnz) + count(dead) + count(min_nnz) "
                     "FROM layer_stats") == 0);
    ck_assert(number("SELECT count(*) FROM dead_curve") == 0);
    struct tw_error err = {0};
    struct tw_profile *profile = make_profile(NULL);
    TW_OK_OR_FAIL(tw_profile_restore(profile, store, run, &err), err);
    tw_profile_destroy(profile);
}
END_TEST

START_TEST(finish_survives_every_allocation_failure)
{
    int64_t run = make_run("a");
    struct tw_profile *profile = make_profile(NULL);
    add_sequences(profile, &corpus, order, 0, 5, 5);
    enum tw_status status = TW_ERR_NOMEM;
    for (int count = 0; status; count++) {
        struct tw_error err = {0};
        tw_alloc_fail_after(count);
        status = tw_profile_finish(profile, store, run, &err);
        tw_alloc_fail_after(-1);
        ck_assert(status == TW_OK || status == TW_ERR_NOMEM);
    }
    tw_profile_destroy(profile);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("profile_store");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_set_timeout(core, 120);
    tcase_add_test(core, rows_equal_what_sql_counts);
    tcase_add_loop_test(core, no_way_of_batching_changes_a_bit, 0,
                        sizeof ways / sizeof ways[0]);
    tcase_add_test(core, a_copy_stays_as_it_was);
    tcase_add_test(core, a_resumed_run_ends_as_an_unbroken_one);
    tcase_add_test(core, skipping_never_changes_the_loss);
    tcase_add_test(core, views_agree_with_each_other);
    tcase_add_test(core, a_shard_without_documents_ends_well);
    suite_add_tcase(suite, core);
    TCase *errors = tcase_create("errors");
    tcase_add_checked_fixture(errors, setup, teardown);
    tcase_set_timeout(errors, 120);
    tcase_add_loop_test(errors, impossible_rows_are_refused, 0,
                        sizeof harms / sizeof harms[0]);
    tcase_add_test(errors, finish_survives_every_allocation_failure);
    suite_add_tcase(suite, errors);
    return tw_run_suite(suite);
}
