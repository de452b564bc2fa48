/* The loss launcher against the formula in fp64: chunks of the vocabulary,
 * bias, scale, cap, wanted rows, logits that aren't finite; nothing written
 * outside; a row's bits free of runs, of the rows beside it and of what is
 * kept. Exits 77 without a GPU. */
#include <config.h>

#include "tests/cuda_rows.h"

/* Vocabulary, chunk: of one piece, of many, of an odd last one. */
static const int32_t chunks[][2] = {{VOCAB, 64},  {24, 8},      {1000, 1000},
                                    {1003, 400},  {5000, 4096}, {3077, 1024},
                                    {2049, 2048}, {61, 4}};
static const struct {
    bool has_bias;
    float scale, soft_cap;
} heads[] = {{false, 1, 0}, {true, 1, 0}, {false, 0.25f, 30}, {true, -2, 5}};

struct loss {
    struct rows rows;
    int32_t vocab, chunk;
    float *logits, *bias; /* [rows][vocab], [vocab] */
    float *d_bias, *state, *nll, *kept, *d_logits;
    int32_t *wanted, n_wanted;
    struct twp_loss_args args;
};

static void loss_init(struct loss *l, int chunk, int head, int n)
{
    *l = (struct loss){.vocab = chunks[chunk][0], .chunk = chunks[chunk][1]};
    rows_init(&l->rows, lengths[n]);
    int32_t rows = l->rows.on_device.rows;
    int64_t count = (int64_t)rows * l->vocab;
    l->logits = fix_floats(count, 12);
    l->bias = fix_floats(l->vocab, 2);
    l->d_bias = device_floats(l->bias, l->vocab);
    l->d_logits = guarded((size_t)rows * (size_t)(l->chunk + 3) * 4);
    l->state = guarded((size_t)rows * 3 * sizeof *l->state);
    l->nll = guarded((size_t)rows * sizeof *l->nll);
    l->kept = guarded((size_t)count * sizeof *l->kept);
    l->wanted = guarded((size_t)rows * sizeof *l->wanted);
    int32_t number[FIX_SEQS * 64];
    for (int32_t r = 0; r < rows; r += 1 + r % 3)
        number[l->n_wanted++] = r;
    cuda_ok(cudaMemcpy(l->wanted, number, (size_t)l->n_wanted * 4,
                       cudaMemcpyHostToDevice));
    l->args =
        (struct twp_loss_args){.logits = l->d_logits,
                               .vocab = l->vocab,
                               .bias = heads[head].has_bias ? l->d_bias : NULL,
                               .scale = heads[head].scale,
                               .soft_cap = heads[head].soft_cap,
                               .state = l->state,
                               .nll = l->nll,
                               .wanted = l->wanted,
                               .n_wanted = l->n_wanted,
                               .kept = l->kept,
                               .batch = &l->rows.on_device};
}

static void loss_fini(struct loss *l)
{
    float *all[] = {l->d_bias, l->state, l->nll, l->kept, l->d_logits};
    for (int i = 0; i < COUNT(all); i++)
        cuda_ok(cudaFree(all[i]));
    cuda_ok(cudaFree(l->wanted));
    tw_free(l->logits);
    tw_free(l->bias);
    rows_fini(&l->rows);
}

/* One chunk of rows and columns: what a product leaves, NaN behind it. */
static void put_logits(struct loss *l)
{
    const struct twp_loss_args *a = &l->args;
    size_t bytes = (size_t)a->rows * (size_t)a->stride * sizeof(float);
    float *part = fix_poison(a->rows * a->stride);
    for (int32_t r = 0; r < a->rows; r++)
        memcpy(part + r * a->stride,
               l->logits + (int64_t)(a->first_row + r) * l->vocab + a->first,
               (size_t)a->cols * sizeof *part);
    cuda_ok(cudaMemcpy(l->d_logits, part, bytes, cudaMemcpyHostToDevice));
    tw_free(part);
}

/* All rows, `step` at once; their nll (tw_free). */
static float *loss_run(struct loss *l, int32_t step)
{
    struct tw_error err = {0};
    struct twp_loss_args *a = &l->args;
    int32_t rows = l->rows.on_device.rows;
    size_t bytes = (size_t)rows * sizeof(float);
    cuda_ok(cudaMemset(l->nll, 0x55, bytes));
    for (a->first_row = 0; a->first_row < rows; a->first_row += step) {
        cuda_ok(cudaMemset(l->state, 0xff, 3 * bytes));
        a->rows = rows - a->first_row < step ? rows - a->first_row : step;
        for (a->first = 0; a->first < l->vocab; a->first += l->chunk) {
            int32_t left = l->vocab - a->first;
            a->cols = left < l->chunk ? left : l->chunk;
            a->stride = (a->cols + 3) / 4 * 4;
            put_logits(l);
            TW_OK_OR_FAIL(tw_launch_loss(a, NULL, &err), err);
            cuda_ok(cudaDeviceSynchronize());
        }
    }
    float *nll = fix_poison(rows);
    cuda_ok(cudaMemcpy(nll, l->nll, bytes, cudaMemcpyDeviceToHost));
    check_band(l->nll, bytes);
    check_band(l->state, 3 * bytes);
    check_band(l->kept, bytes * (size_t)l->vocab);
    return nll;
}

static double z_of(const struct loss *l, int32_t row, int32_t col)
{
    double z = (double)l->args.scale *
               (double)l->logits[(int64_t)row * l->vocab + col];
    double cap = (double)l->args.soft_cap;
    if (l->args.bias)
        z += (double)l->bias[col];
    return cap > 0 ? cap * tanh(z / cap) : z;
}

static double nll_of(const struct loss *l, int32_t row)
{
    const struct twp_device_batch *batch = &l->rows.on_device;
    double max = -INFINITY, sum = 0;
    if (row + 1 == batch->rows || l->rows.position[row + 1] == 0)
        return NAN;
    for (int32_t c = 0; c < l->vocab; c++)
        max = fmax(max, z_of(l, row, c));
    for (int32_t c = 0; c < l->vocab; c++)
        sum += exp(z_of(l, row, c) - max);
    return log(sum) + max - z_of(l, row, l->rows.fix.batch.token[row + 1]);
}

static void check_kept(const struct loss *l)
{
    size_t n = (size_t)l->rows.on_device.rows * (size_t)l->vocab;
    float *kept = fix_poison((int64_t)n);
    cuda_ok(cudaMemcpy(kept, l->kept, n * 4, cudaMemcpyDeviceToHost));
    for (int32_t i = 0, row = 0; i < l->n_wanted; i++, row += 1 + row % 3)
        for (int32_t c = 0; c < l->vocab; c++) {
            double want = z_of(l, row, c);
            double got = (double)kept[(int64_t)i * l->vocab + c];
            ck_assert_msg(fabs(got - want) <= 1e-5, "z[%d][%d]: %g, not %g",
                          row, c, got, want);
        }
    for (size_t i = (size_t)(l->n_wanted * l->vocab); i < n; i++)
        ck_assert_msg(isnan(kept[i]), "behind the wanted rows is written");
    tw_free(kept);
}

START_TEST(loss)
{
    for (int n = 0; n < COUNT(heads) * 2; n++) {
        struct loss l;
        loss_init(&l, _i, n % COUNT(heads), (n + _i) % COUNT(lengths));
        int32_t rows = l.rows.on_device.rows;
        float *nll = loss_run(&l, n < COUNT(heads) ? rows : 7);
        for (int32_t r = 0; r < rows; r++) {
            double want = nll_of(&l, r), got = (double)nll[r];
            ck_assert_msg(isnan(want) ? isnan(got) != 0
                                      : fabs(got - want) <= 1e-5,
                          "row %d: %.8g, not %.8g", r, got, want);
        }
        check_kept(&l);
        tw_free(nll);
        loss_fini(&l);
    }
}
END_TEST

/* Equal bits in every run, with other rows at once, and where no z is kept. */
START_TEST(a_loss_of_a_row_is_its_own)
{
    struct loss l;
    loss_init(&l, _i, _i % COUNT(heads), 3);
    size_t bytes = (size_t)l.rows.on_device.rows * sizeof(float);
    float *first = loss_run(&l, l.rows.on_device.rows);
    for (int run = 0; run < REPEATS; run++) {
        l.args.wanted = run % 2 ? l.wanted : NULL;
        float *again = loss_run(&l, 1 + run * run * 4);
        ck_assert_mem_eq(first, again, bytes);
        tw_free(again);
    }
    tw_free(first);
    loss_fini(&l);
}
END_TEST

/* -Inf is a token that can't come; what isn't a number makes a loss none. */
START_TEST(loss_of_odd_logits)
{
    struct loss l;
    loss_init(&l, 3, 0, 3);
    const int32_t *token = l.rows.fix.batch.token;
    float *row = l.logits;
    for (int32_t c = 0; c < l.vocab - 1; c++) /* all but the last one */
        row[c] = -INFINITY;
    row[token[1]] = 0;
    row[l.vocab - 1] = -1;
    row += l.vocab; /* a target that can't come */
    row[token[2]] = -INFINITY;
    row += l.vocab;
    row[l.vocab - 2] = NAN;
    row += l.vocab;
    row[5] = INFINITY;
    row += l.vocab; /* far apart */
    row[token[5]] = -3e4f;
    l.args.wanted = NULL;
    float *nll = loss_run(&l, 11);
    double want = log(1 + exp(-1));
    ck_assert_msg(fabs((double)nll[0] - want) < 1e-6, "%g, not %g",
                  (double)nll[0], want);
    ck_assert(isinf(nll[1]) && nll[1] > 0);
    ck_assert(isnan(nll[2]) && !isfinite(nll[3]));
    ck_assert(nll[4] > 3e4f && isfinite(nll[4]));
    ck_assert(isfinite(nll[5]));
    tw_free(nll);
    loss_fini(&l);
}
END_TEST

static Suite *loss_suite(void)
{
    Suite *suite = suite_create("cuda_loss");
    TCase *tc = tcase_create("Core");
    tcase_add_loop_test(tc, loss, 0, COUNT(chunks));
    tcase_add_loop_test(tc, a_loss_of_a_row_is_its_own, 0, COUNT(chunks));
    tcase_add_test(tc, loss_of_odd_logits);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return rows_main(loss_suite);
}
