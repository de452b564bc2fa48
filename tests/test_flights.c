/* Claims about flights: the same rows come in the same order whatever is in
 * flight and wherever memory ends; the next batch is with the backend while one
 * is looked at; errors come where their batch would have. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "run/flights.h"
#include "tests/late_ops.h"
#include "tw_check.h"
#include "tw_llama.h"

enum { DOCUMENTS = 20, CTX = 8, BATCH = 24 };

/* Documents of 1 to 11 ids; one of them may hold an id past the vocabulary, or
 * be unreadable. */
struct source {
    int64_t at, bad_id, bad_document;
    int32_t id[16];
};

static enum tw_status next_document(void *state, struct tw_document *document,
                                    bool *has_document, struct tw_error *err)
{
    struct source *s = state;
    int64_t at = s->at++;
    *has_document = at < DOCUMENTS;
    if (at == s->bad_document)
        return tw_error_set(err, TW_ERR_FORMAT, "document %d: bad", (int)at);
    for (int i = 0; i < 11; i++)
        s->id[i] = (int32_t)((at * 7 + i * 3) % TINY_V);
    if (at == s->bad_id)
        s->id[0] = TINY_V + 5;
    *document = (struct tw_document){.ids = s->id, .count = 1 + at * 5 % 11};
    return TW_OK;
}

static const char *folder;
static struct tw_model *model;
static const struct tw_active hidden = {.kind = TW_ACTIVE_HIDDEN,
                                        .name = "hidden"};

static void setup(void)
{
    struct tw_error err = {0};
    struct tw_model_options options = {.threads = 1};
    folder = tw_folder_make();
    tiny_write(folder, &(struct tiny_edit){0});
    TW_OK_OR_FAIL(tw_model_open(folder, &options, &model, &err), err);
    late_place = LATE_NOWHERE;
    late_calls = (struct late_calls){0};
}

static void teardown(void)
{
    tw_model_close(model);
    tw_folder_remove(folder);
}

/* All that one pass needs. */
struct pass {
    struct source source;
    struct tw_documents documents;
    struct tw_runner *runner;
    struct tw_batches *batches;
    struct tw_flights *flights;
    struct tw_strbuf rows; /* a line each */
    int64_t most_rows;     /* of a batch */
    int given;
};

static enum tw_status read_batch(void *arg, struct tw_batch *batch,
                                 struct tw_error *err)
{
    return tw_batches_next(arg, batch, err);
}

static enum tw_status pass_open(struct pass *p, const struct tw_ops *ops,
                                struct tw_error *err)
{
    const struct tw_runner_config config = {.ops = {.threads = 1},
                                            .max_rows = BATCH};
    const struct tw_batch_options text = {.ctx = CTX,
                                          .batch_tokens = BATCH,
                                          .limit = -1,
                                          .vocab = 2 * TINY_V,
                                          .bos = -1,
                                          .eos = -1,
                                          .shards = 1};
    for (int i = 0; i < 4000; i++) // no allocation while it runs
        tw_strbuf_puts(&p->rows, "room for the rows that are printed later");
    tw_strbuf_clear(&p->rows);
    p->documents =
        (struct tw_documents){.state = &p->source, .next = next_document};
    enum tw_status status =
        tw_runner_create(model, ops, &config, &p->runner, err);
    if (status == TW_OK)
        status = tw_batches_create(&p->documents, &text, &p->batches, err);
    const struct tw_flights_config flights = {.runner = p->runner,
                                              .batches = p->batches,
                                              .batch_tokens = BATCH,
                                              .read = read_batch,
                                              .arg = p->batches,
                                              .layers = TINY_LAYERS,
                                              .width = TINY_F,
                                              .vocab = TINY_V,
                                              .probes = {1, &hidden},
                                              .has_loss = true,
                                              .has_sets = true,
                                              .has_logits = true};
    return status == TW_OK ? tw_flights_create(&flights, &p->flights, err)
                           : status;
}

static void pass_close(struct pass *p)
{
    tw_flights_destroy(p->flights);
    tw_batches_destroy(p->batches);
    tw_runner_destroy(p->runner);
    tw_strbuf_fini(&p->rows);
}

static void print_row(struct pass *p, const struct tw_flight *f, int64_t seq,
                      int64_t row)
{
    const struct tw_batch *b = &f->text.batch;
    tw_strbuf_printf(&p->rows, "%d:%d %d %a", (int)b->document[seq],
                     (int)(b->start[seq] + row - b->offset[seq]), b->token[row],
                     (double)f->head.nll[row]);
    for (int l = 0; l < TINY_LAYERS; l++) {
        const struct tw_layer_obs *obs = &f->obs[l];
        tw_strbuf_printf(&p->rows, " %u %a", obs->nnz[row],
                         (double)obs->l1[row]);
        for (int64_t i = obs->set_start[row]; i < obs->set_start[row + 1]; i++)
            tw_strbuf_printf(&p->rows, ",%u", obs->set[i]);
    }
    if (row == b->offset[seq + 1] - 1)
        for (int v = 0; v < TINY_V; v++)
            tw_strbuf_printf(&p->rows, " %a",
                             (double)f->logits.logits[seq * TINY_V + v]);
    tw_strbuf_printf(&p->rows, "\n");
}

static enum tw_status pass_run(struct pass *p, struct tw_error *err)
{
    for (;;) {
        struct tw_flight *f;
        enum tw_status status = tw_flights_next(p->flights, &f, err);
        if (status != TW_OK || !f)
            return status;
        const struct tw_batch *b = &f->text.batch;
        p->given++;
        p->most_rows = b->rows > p->most_rows ? b->rows : p->most_rows;
        for (int64_t s = 0; s < b->seqs; s++)
            for (int64_t r = b->offset[s]; r < b->offset[s + 1]; r++)
                print_row(p, f, s, r);
    }
}

static struct pass good(void)
{
    return (struct pass){.source = {.bad_id = -1, .bad_document = -1}};
}

/* The rows that the cpu backend gives by itself, one batch after another. */
static char *plain_rows(struct pass p)
{
    struct tw_error err = {0};
    struct tw_error end = {0};
    TW_OK_OR_FAIL(pass_open(&p, &tw_ops_cpu, &err), err);
    ck_assert_int_eq(tw_runner_flights(p.runner), 1);
    enum tw_status status = pass_run(&p, &end);
    ck_assert(status == TW_OK || p.source.bad_id >= 0 ||
              p.source.bad_document >= 0);
    char *rows = tw_strdup(tw_strbuf_text(&p.rows));
    pass_close(&p);
    return rows;
}

/* The limit from the longest sequence to the longest batch: some batches fit,
 * and are in flight while one fails. */
START_TEST(the_same_rows_come_wherever_memory_ends)
{
    char *want = plain_rows(good());
    late_place = (enum late_place)_i;
    bool is_short = late_place > LATE_ALLOC; // the tiny model's buffers fit
    for (late_rows = CTX; late_rows <= BATCH; late_rows++) {
        struct tw_error err = {0};
        struct pass p = good();
        struct tw_flights_times times;
        late_calls = (struct late_calls){0};
        TW_OK_OR_FAIL(pass_open(&p, late_ops(), &err), err);
        TW_OK_OR_FAIL(pass_run(&p, &err), err);
        ck_assert_str_eq(tw_strbuf_text(&p.rows), want);
        ck_assert_int_eq(late_calls.most, 2);
        ck_assert(p.most_rows <= late_rows || !is_short);
        ck_assert_int_eq(BATCH >> late_calls.trims,
                         tw_flights_batch_tokens(p.flights));
        ck_assert(late_calls.trims == 0 || is_short);
        tw_flights_times(p.flights, &times);
        ck_assert(times.device > 0 && times.device <= times.span);
        pass_close(&p);
    }
    tw_free(want);
}
END_TEST

START_TEST(the_next_batch_is_submitted_before_one_is_given)
{
    struct tw_error err = {0};
    struct pass p = good();
    struct tw_flight *f;
    TW_OK_OR_FAIL(pass_open(&p, late_ops(), &err), err);
    for (int i = 1; i <= 3; i++) {
        TW_OK_OR_FAIL(tw_flights_next(p.flights, &f, &err), err);
        ck_assert_int_eq(late_calls.collects, i);
        ck_assert_int_eq(late_calls.submits, i + 1);
    }
    pass_close(&p); // with one in flight
    ck_assert_int_eq(late_calls.collects, late_calls.submits);
}
END_TEST

/* What comes before the error of a document's text, or of its batch. */
static void check_error(struct pass p, enum tw_status status, const char *text)
{
    struct pass plain = p;
    char *want = plain_rows(plain);
    struct tw_error err = {0}, again = {0};
    struct tw_flight *f;
    TW_OK_OR_FAIL(pass_open(&p, late_ops(), &err), err);
    ck_assert_int_eq(pass_run(&p, &err), status);
    ck_assert_str_eq(err.text, text);
    ck_assert_int_gt(p.given, 1);
    ck_assert_str_eq(tw_strbuf_text(&p.rows), want);
    ck_assert_int_eq(tw_flights_next(p.flights, &f, &again), status);
    ck_assert_str_eq(again.text, text);
    pass_close(&p);
    tw_free(want);
}

START_TEST(an_error_comes_after_the_batches_before_it)
{
    struct pass p = good();
    p.source.bad_document = 12;
    check_error(p, TW_ERR_FORMAT, "document 12: bad");
    p = good();
    p.source.bad_id = 12;
    check_error(p, TW_ERR_MISMATCH,
                "token 15 is not in the model's vocabulary of 10");
}
END_TEST

START_TEST(a_sequence_that_does_not_fit_is_named)
{
    struct tw_error err = {0};
    struct pass p = good();
    late_place = (enum late_place)_i;
    late_rows = 7; // a document is longer
    TW_OK_OR_FAIL(pass_open(&p, late_ops(), &err), err);
    ck_assert_int_eq(pass_run(&p, &err), TW_ERR_NOMEM);
    char want[200];
    snprintf(want, sizeof want,
             "no memory for one sequence of 8 rows, which no -b makes shorter "
             "(it is 6): late: no memory at %d",
             _i);
    ck_assert_str_eq(err.text, want);
    pass_close(&p);
}
END_TEST

/* Without memory of the program's own: an error, or the same rows. */
START_TEST(a_failed_allocation_loses_nothing)
{
    char *want = plain_rows(good());
    const struct tw_ops *ops = _i ? late_ops() : &tw_ops_cpu;
    enum tw_status status = TW_ERR_NOMEM;
    for (int64_t n = 0; status != TW_OK; n += 1 + n / 50) {
        struct pass p = good();
        struct tw_error err = {0};
        TW_OK_OR_FAIL(pass_open(&p, ops, &err), err);
        tw_alloc_fail_after(n);
        status = pass_run(&p, &err);
        tw_alloc_fail_after(-1);
        ck_assert(status == TW_OK || status == TW_ERR_NOMEM);
        if (status == TW_OK)
            ck_assert_str_eq(tw_strbuf_text(&p.rows), want);
        ck_assert_int_lt(n, 1000000);
        pass_close(&p);
    }
    tw_free(want);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flights");
    TCase *core = tcase_create("core"), *errors = tcase_create("errors");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_checked_fixture(errors, setup, teardown);
    tcase_add_loop_test(core, the_same_rows_come_wherever_memory_ends, 0,
                        LATE_PLACES);
    tcase_add_test(core, the_next_batch_is_submitted_before_one_is_given);
    tcase_add_test(errors, an_error_comes_after_the_batches_before_it);
    tcase_add_loop_test(errors, a_sequence_that_does_not_fit_is_named,
                        LATE_START, LATE_PLACES);
    tcase_add_loop_test(errors, a_failed_allocation_loses_nothing, 0, 2);
    suite_add_tcase(suite, core);
    suite_add_tcase(suite, errors);
    return tw_run_suite(suite);
}
