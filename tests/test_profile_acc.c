/* Claims about analysis/profile without a database: a small batch by hand,
 * what is refused, sums that don't fit, allocation failures, the clock. */
#include <config.h>

#include "analysis/profile_internal.h"
#include "profile_corpus.h"

static struct corpus corpus;
static const int all_of_it[] = {0, 1, 2, 3, 4, 5, 6, 7};

/* Two documents: 5 (rows BOS skipped, a, b) and 9 (row a), one layer, width 4,
 * one definition. */
struct hand {
    struct tw_layer_obs obs;
    struct tw_profile *profile;
    struct tw_batch batch;
    struct tw_head_obs head;
};
static const int64_t hand_offset[] = {0, 3, 4}, hand_document[] = {5, 9},
                     hand_start[] = {0, 0};
static const int32_t hand_token[] = {0, 7, 8, 7};
static const uint8_t hand_class[] = {TW_ROW_BOS | TW_ROW_SKIPPED, 0, 0, 0};
static float hand_nll[] = {1.5f, 2.5f, NAN, NAN};

static void make_hand(struct hand *h)
{
    struct tw_error err = {0};
    struct tw_profile_config config = {.layers = 1, .probes = 1, .width = 4,
                                       .experts = 1, .vocab = 10, .ctx = 8,
                                       .with_loss = true};
    *h = (struct hand){.head = {hand_nll}};
    h->batch = (struct tw_batch){4, 2, hand_offset, hand_document, hand_start,
                                 hand_token, hand_class};
    TW_OK_OR_FAIL(tw_profile_create(&config, &h->profile, &err), err);
    TW_OK_OR_FAIL(tw_layer_obs_init(&h->obs, 4, 4, 1, 1, 0, &err), err);
    tw_layer_obs_reset(&h->obs, 4);
    /* Row 0 fires 0 1 2 3 (skipped), row 1 fires 1, row 2 fires 1 2, row 3
     * fires 1: neurons 0 and 3 stay dead. */
    memcpy(h->obs.nnz, (uint32_t[]){4, 1, 2, 1}, 4 * sizeof(uint32_t));
    memcpy(h->obs.fired, (uint64_t[]){0, 3, 1, 0}, 4 * sizeof(uint64_t));
    h->obs.first[1] = 1;
    h->obs.last[1] = 3;
    h->obs.first[2] = h->obs.last[2] = 2;
    h->obs.seen[0] = 3;
    memcpy(h->obs.l1, (float[]){8, 0.5f, 0.25f, 0x1p-17f}, 4 * sizeof(float));
}

static void free_hand(struct hand *h)
{
    tw_layer_obs_fini(&h->obs);
    tw_profile_destroy(h->profile);
}

static enum tw_status add_hand(struct hand *h, struct tw_error *err)
{
    return tw_profile_add(h->profile, &h->batch, &h->obs, &h->head, err);
}

START_TEST(a_batch_by_hand)
{
    struct hand h;
    struct tw_error err = {0};
    make_hand(&h);
    TW_OK_OR_FAIL(add_hand(&h, &err), err);
    const struct tw_profile *p = h.profile;
    const struct twp_probe *probe = twp_probe(p, 0, 0);
    struct tw_profile_totals t;
    tw_profile_totals(p, &t);
    ck_assert_int_eq(t.rows, 4);
    ck_assert_int_eq(t.tokens, 3);
    ck_assert_int_eq(t.skipped, 1);
    ck_assert_int_eq(t.sequences, 2);
    ck_assert_int_eq(t.documents, 2);
    ck_assert_int_eq(t.predicted, 2); /* the skipped row's loss counts */
    ck_assert(t.mean_nll == 2);
    struct tw_profile_layer s;
    tw_profile_layer(p, 0, 0, &s);
    ck_assert_int_eq(s.tokens, 3);
    ck_assert_int_eq(s.sum_nnz, 4);
    ck_assert_int_eq(s.dead, 2);
    ck_assert_int_eq(p->layer[0].sum_l1, 32768 + 16384); /* 0.5: to even */
    ck_assert_int_eq(probe->hist[1], 2);
    ck_assert_int_eq(probe->hist[4], 0);
    ck_assert_int_eq(probe->kind_sum[TW_ROW_BOS * 2 + 1], 4);
    ck_assert_int_eq(probe->block_sum[5], 3);
    ck_assert_int_eq(probe->block_sum[9], 1);
    ck_assert_int_eq(p->position_count[0], 1); /* document 9's */
    ck_assert_uint_eq(probe->position[2].sum, 2);
    ck_assert_uint_eq(probe->token[7].sum, 2);
    ck_assert_int_eq(p->token[7].in_sequences, 2);
    ck_assert_int_eq(p->token[7].count_even, 0); /* 5 and 9 are odd */
    ck_assert_int_eq(probe->first[1].document, 5);
    ck_assert_int_eq(probe->first[1].row, 1);
    ck_assert_int_eq(probe->last[1].document, 9);
    free_hand(&h);
}
END_TEST

START_TEST(clock_by_hand)
{
    struct hand h;
    struct tw_error err = {0};
    int64_t clock[3];
    make_hand(&h);
    TW_OK_OR_FAIL(add_hand(&h, &err), err);
    TW_OK_OR_FAIL(twp_document_add(h.profile, 7, 10, 1, &err), err);
    ck_assert_int_eq(twp_clock_make(h.profile, clock), 14);
    ck_assert_int_eq(twp_clock_at(h.profile, clock, (struct twp_place){5, 2}),
                     2);
    ck_assert_int_eq(twp_clock_at(h.profile, clock, (struct twp_place){7, 0}),
                     3);
    ck_assert_int_eq(twp_clock_at(h.profile, clock, (struct twp_place){9, 0}),
                     13);
    free_hand(&h);
}
END_TEST

START_TEST(strange_batches_are_refused)
{
    struct hand h;
    struct tw_error err = {0};
    make_hand(&h);
    h.obs.width = 8;
    TW_FAILS_WITH(add_hand(&h, &err), TW_ERR_MISMATCH, "layer 0", err);
    h.obs.width = 4;
    h.head.nll = NULL;
    TW_FAILS_WITH(add_hand(&h, &err), TW_ERR_MISMATCH, "loss", err);
    h.head.nll = (float[]){1, INFINITY, NAN, NAN};
    TW_FAILS_WITH(add_hand(&h, &err), TW_ERR_NUMERIC, "document 5, row 1",
                  err);
    h.head.nll = hand_nll;
    h.batch.token = (int32_t[]){0, 10, 0, 0};
    TW_FAILS_WITH(add_hand(&h, &err), TW_ERR_FORMAT, "10", err);
    h.batch.token = (int32_t[]){0, -1, 0, 0};
    TW_FAILS_WITH(add_hand(&h, &err), TW_ERR_FORMAT, "-1", err);
    free_hand(&h);
}
END_TEST

static void break_l1(struct hand *h)
{
    h->obs.l1[1] = h->obs.l1[2] = 0x1.8p46f; /* 3/4 of the range each */
}
static void break_one_l1(struct hand *h)
{
    h->obs.l1[1] = 3e38f;
}
static void break_loss(struct hand *h)
{
    static float nll[] = {0x1.8p42f, 0x1.8p42f, NAN, NAN};
    h->head.nll = nll;
}
static void break_nnz(struct hand *h)
{
    h->profile->nnz_total[0] = INT64_MAX - 7; /* the batch holds 8 */
}
static void break_fired(struct hand *h)
{
    h->obs.fired[2] = (uint64_t)INT64_MAX + 1;
}
static void break_tiles(struct hand *h)
{
    h->obs.tiles[1][3] = UINT64_MAX;
}

static const struct {
    void (*make)(struct hand *h);
    const char *words;
} overflows[] = {
    {break_l1, "layer 0: the sum of l1"}, {break_one_l1, "of l1"},
    {break_loss, "losses"},               {break_nnz, "non-zeros"},
    {break_fired, "of firings"},          {break_tiles, "rows or tiles"},
};

START_TEST(sums_that_do_not_fit_are_errors)
{
    struct hand h;
    struct tw_error err = {0};
    make_hand(&h);
    overflows[_i].make(&h);
    TW_FAILS_WITH(add_hand(&h, &err), TW_ERR_OVERFLOW, overflows[_i].words,
                  err);
    free_hand(&h);
}
END_TEST

START_TEST(create_survives_every_allocation_failure)
{
    struct tw_profile_config config = {.layers = 2, .probes = 2, .width = 4,
                                       .experts = 1, .vocab = 10, .ctx = 8,
                                       .with_magnitudes = true};
    struct tw_profile *profile = NULL;
    enum tw_status status = TW_ERR_NOMEM;
    int count = 0;
    for (; status; count++) {
        struct tw_error err = {0};
        tw_alloc_fail_after(count);
        status = tw_profile_create(&config, &profile, &err);
        tw_alloc_fail_after(-1);
        ck_assert(status == TW_OK || (status == TW_ERR_NOMEM && !profile));
    }
    ck_assert_int_gt(count, 20);
    tw_profile_destroy(profile);
    tw_profile_destroy(NULL);
}
END_TEST

START_TEST(add_survives_every_allocation_failure)
{
    enum tw_status status = TW_ERR_NOMEM;
    for (int count = 0; status; count++) {
        struct hand h;
        struct tw_error err = {0};
        make_hand(&h);
        tw_alloc_fail_after(count);
        status = add_hand(&h, &err);
        tw_alloc_fail_after(-1);
        ck_assert(status == TW_OK || status == TW_ERR_NOMEM);
        free_hand(&h);
    }
}
END_TEST

/* The room for positions doubles; what was counted before stays. */
START_TEST(longer_sequences_keep_earlier_positions)
{
    make_corpus(&corpus, 3);
    struct tw_profile *profile = make_profile(NULL);
    add_sequences(profile, &corpus, all_of_it, 0, 3, 1);
    ck_assert_int_eq(profile->positions, 64);
    int64_t before = profile->position_count[1];
    uint64_t sum = twp_probe(profile, 2, 1)->position[1].sum;
    TW_OK_OR_FAIL(twp_positions_reserve(profile, 1000, &(struct tw_error){0}),
                  (struct tw_error){0});
    ck_assert_int_eq(profile->positions, 1024);
    ck_assert_int_eq(profile->position_count[1], before);
    ck_assert_uint_eq(twp_probe(profile, 2, 1)->position[1].sum, sum);
    ck_assert_int_eq(profile->position_count[1023], 0);
    tw_profile_destroy(profile);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("profile_acc");
    TCase *core = tcase_create("core");
    tcase_add_test(core, a_batch_by_hand);
    tcase_add_test(core, clock_by_hand);
    tcase_add_test(core, longer_sequences_keep_earlier_positions);
    suite_add_tcase(suite, core);
    TCase *errors = tcase_create("errors");
    tcase_add_test(errors, strange_batches_are_refused);
    tcase_add_loop_test(errors, sums_that_do_not_fit_are_errors, 0,
                        sizeof overflows / sizeof overflows[0]);
    tcase_add_test(errors, create_survives_every_allocation_failure);
    tcase_add_test(errors, add_survives_every_allocation_failure);
    suite_add_tcase(suite, errors);
    return tw_run_suite(suite);
}
