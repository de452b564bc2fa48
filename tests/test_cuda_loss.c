/* The loss launchers against the formula in fp64, of logits by chunks of the
 * vocabulary and of Hopper's product with its loss: bias, scale, cap, wanted
 * rows, logits that aren't finite; nothing written outside; a row's bits free
 * of runs, of the rows beside it, of its place among them and of what is kept.
 * Exits 77 without a GPU. */
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

#define MOST_ROWS 384

struct loss {
    struct rows rows;
    int32_t vocab, chunk;
    float *logits, *bias; /* [rows][vocab], [vocab] */
    float *d_bias, *state, *nll, *kept, *d_logits;
    int32_t *wanted, n_wanted;
    struct twp_loss_args args;
};

static void loss_init(struct loss *l, int32_t vocab, int32_t chunk, int head,
                      const int64_t length[FIX_SEQS])
{
    *l = (struct loss){.vocab = vocab, .chunk = chunk};
    rows_init(&l->rows, length);
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
    int32_t number[MOST_ROWS];
    ck_assert_int_le(rows, MOST_ROWS);
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

static void check_nll(const struct loss *l, const float *nll)
{
    for (int32_t r = 0; r < l->rows.on_device.rows; r++) {
        double want = nll_of(l, r), got = (double)nll[r];
        ck_assert_msg(isnan(want) ? isnan(got) != 0 : fabs(got - want) <= 1e-5,
                      "row %d: %.8g, not %.8g", r, got, want);
    }
}

START_TEST(loss)
{
    for (int n = 0; n < COUNT(heads) * 2; n++) {
        struct loss l;
        loss_init(&l, chunks[_i][0], chunks[_i][1], n % COUNT(heads),
                  lengths[(n + _i) % COUNT(lengths)]);
        int32_t rows = l.rows.on_device.rows;
        float *nll = loss_run(&l, n < COUNT(heads) ? rows : 7);
        check_nll(&l, nll);
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
    loss_init(&l, chunks[_i][0], chunks[_i][1], _i % COUNT(heads), lengths[3]);
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
    loss_init(&l, 1003, 400, 0, lengths[3]);
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

/* ---- the product with its loss ---- */

/* Tiles are 256 rows by 256 columns, steps of 64 along k. */
static const struct {
    int32_t vocab, k;
    int64_t length[FIX_SEQS];
} shapes[] = {{1000, 64, {5, 1, 12}}, {257, 200, {1}},
              {23, 8, {40, 27}},      {256, 72, {128, 1, 128}},
              {512, 320, {256}},      {1021, 96, {200, 100, 2}},
              {257, 2048, {30, 100}}, {49152, 64, {7, 2}}};

struct fused {
    struct loss loss; /* its logits are the product's */
    enum tw_dtype type;
    int32_t k;
    float *x, *w;
    void *d_x, *d_w, *part;
    struct twp_map x_map, w_map;
    struct twp_head_args args;
};

/* Halves up to 1: products and their sums are exact. */
static float *halves(int64_t n)
{
    float *v = fix_floats(n, 2);
    for (int64_t i = 0; i < n; i++)
        v[i] = roundf(v[i]) / 2;
    return v;
}

static void *on_device(const float *v, enum tw_dtype type, int64_t n)
{
    uint16_t *bits = new_bits((size_t)n);
    twp_narrow(bits, v, type, (size_t)n);
    void *p = guarded((size_t)n * sizeof *bits);
    cuda_ok(
        cudaMemcpy(p, bits, (size_t)n * sizeof *bits, cudaMemcpyHostToDevice));
    tw_free(bits);
    return p;
}

/* x and w as they are now: to the device, and their product. */
static void fused_set(struct fused *f)
{
    struct tw_error err = {0};
    struct loss *l = &f->loss;
    int32_t rows = l->rows.on_device.rows, k = f->k;
    cuda_ok(cudaFree(f->d_x));
    cuda_ok(cudaFree(f->d_w));
    f->d_x = on_device(f->x, f->type, (int64_t)rows * k);
    f->d_w = on_device(f->w, f->type, (int64_t)l->vocab * k);
    TW_OK_OR_FAIL(twp_map_encode(&f->x_map, f->type, f->d_x, rows, k, k, &err),
                  err);
    TW_OK_OR_FAIL(
        twp_map_encode(&f->w_map, f->type, f->d_w, l->vocab, k, k, &err), err);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < l->vocab; c++) {
            float sum = 0;
            for (int64_t i = 0; i < k; i++)
                sum += f->x[r * k + i] * f->w[c * k + i];
            l->logits[r * l->vocab + c] = sum;
        }
}

/* Next tokens in every tile, the last column among them. */
static void spread_tokens(struct loss *l)
{
    int32_t rows = l->rows.on_device.rows;
    int32_t *token = (int32_t *)(uintptr_t)l->rows.fix.batch.token;
    for (int32_t r = 0; r < rows; r++)
        token[r] = r % 5 == 1 ? l->vocab - 1 : (r * 37 + r / 7) % l->vocab;
    cuda_ok(cudaMemcpy((void *)(uintptr_t)l->rows.on_device.token, token,
                       (size_t)rows * sizeof *token, cudaMemcpyHostToDevice));
}

static void fused_init(struct fused *f, int shape, int head, enum tw_dtype type)
{
    struct loss *l = &f->loss;
    *f = (struct fused){.type = type, .k = shapes[shape].k};
    loss_init(l, shapes[shape].vocab, 1, head, shapes[shape].length);
    spread_tokens(l);
    int32_t rows = l->rows.on_device.rows;
    f->x = halves((int64_t)rows * f->k);
    f->w = halves((int64_t)l->vocab * f->k);
    f->part = guarded(tw_head_part_bytes(rows, l->vocab));
    fused_set(f);
    f->args = (struct twp_head_args){.type = type,
                                     .x = &f->x_map,
                                     .w = &f->w_map,
                                     .k = f->k,
                                     .vocab = l->vocab,
                                     .bias = l->args.bias,
                                     .scale = l->args.scale,
                                     .soft_cap = l->args.soft_cap,
                                     .part = f->part,
                                     .nll = l->nll,
                                     .wanted = l->wanted,
                                     .n_wanted = l->n_wanted,
                                     .kept = l->kept,
                                     .batch = &l->rows.on_device};
}

static void fused_fini(struct fused *f)
{
    void *all[] = {f->d_x, f->d_w, f->part};
    for (int i = 0; i < COUNT(all); i++)
        cuda_ok(cudaFree(all[i]));
    tw_free(f->x);
    tw_free(f->w);
    loss_fini(&f->loss);
}

/* All rows, `step` at once; their nll (tw_free). */
static float *fused_run(struct fused *f, int32_t step)
{
    struct tw_error err = {0};
    const struct loss *l = &f->loss;
    struct twp_head_args *a = &f->args;
    int32_t rows = l->rows.on_device.rows;
    size_t bytes = (size_t)rows * sizeof(float);
    cuda_ok(cudaMemset(l->nll, 0x55, bytes));
    for (a->first_row = 0; a->first_row < rows; a->first_row += step) {
        a->rows = rows - a->first_row < step ? rows - a->first_row : step;
        cuda_ok(cudaMemset(f->part, 0xff, tw_head_part_bytes(rows, l->vocab)));
        TW_OK_OR_FAIL(tw_launch_head(&the_device, a, NULL, &err), err);
    }
    cuda_ok(cudaDeviceSynchronize());
    float *nll = fix_poison(rows);
    cuda_ok(cudaMemcpy(nll, l->nll, bytes, cudaMemcpyDeviceToHost));
    check_band(l->nll, bytes);
    check_band(l->kept, bytes * (size_t)l->vocab);
    check_band(f->part, tw_head_part_bytes(rows, l->vocab));
    return nll;
}

START_TEST(loss_of_products)
{
    for (int head = 0; head < COUNT(heads); head++) {
        struct fused f;
        fused_init(&f, _i, head, types[(_i + head) % 2]);
        float *nll = fused_run(&f, head < 2 ? MOST_ROWS : TWP_HEAD_ROWS);
        check_nll(&f.loss, nll);
        check_kept(&f.loss);
        tw_free(nll);
        fused_fini(&f);
    }
}
END_TEST

/* The batch of `f` with its sequences in the other order. */
static void fused_turned(struct fused *turned, const struct fused *f, int shape,
                         int head)
{
    const struct fix_batch *fix = &f->loss.rows.fix;
    int64_t seqs = fix->batch.seqs, k = f->k, to = 0;
    fused_init(turned, shape, head, f->type);
    struct rows *rows = &turned->loss.rows;
    int32_t *token = (int32_t *)(uintptr_t)rows->fix.batch.token;
    for (int64_t s = seqs - 1; s >= 0; s--) {
        int64_t from = fix->offset[s], n = fix->offset[s + 1] - from;
        memcpy(token + to, fix->batch.token + from, (size_t)n * sizeof *token);
        memcpy(turned->x + to * k, f->x + from * k,
               (size_t)(n * k) * sizeof(float));
        for (int64_t i = 0; i < n; i++)
            rows->position[to++] = (int32_t)i;
    }
    size_t bytes = (size_t)to * sizeof *token;
    cuda_ok(cudaMemcpy((void *)(uintptr_t)rows->on_device.token, token, bytes,
                       cudaMemcpyHostToDevice));
    cuda_ok(cudaMemcpy((void *)(uintptr_t)rows->on_device.position,
                       rows->position, bytes, cudaMemcpyHostToDevice));
    memcpy(turned->w, f->w, (size_t)(f->loss.vocab * k) * sizeof(float));
    turned->args.bias = f->args.bias;
    fused_set(turned);
}

/* A row here and there has one logit far above all. */
static void make_peaks(struct fused *f)
{
    for (int32_t r = 0; r < f->loss.rows.on_device.rows; r++)
        f->x[(r + 1) * f->k - 1] = r % 61 == 3 ? 64 : 0;
    for (int32_t c = 0; c < f->loss.vocab; c++)
        f->w[(c + 1) * f->k - 1] = c == 9 ? 4 : 0;
    fused_set(f);
}

/* Equal bits in every run, for fewer rows at once, for rows elsewhere,
 * and where no z is kept. */
START_TEST(a_loss_of_products_is_its_own)
{
    int head = _i % COUNT(heads);
    struct fused f, turned;
    fused_init(&f, 5, head, types[_i / COUNT(heads) % 2]);
    make_peaks(&f);
    fused_turned(&turned, &f, 5, head);
    const struct fix_batch *fix = &f.loss.rows.fix;
    size_t rows = (size_t)fix->batch.rows;
    float *first = fused_run(&f, MOST_ROWS);
    for (int run = 0; run < REPEATS; run++) {
        f.args.wanted = run % 2 ? f.loss.wanted : NULL;
        float *again = fused_run(&f, run < 2 ? TWP_HEAD_ROWS : MOST_ROWS);
        ck_assert_mem_eq(first, again, rows * sizeof *first);
        tw_free(again);
    }
    float *nll = fused_run(&turned, MOST_ROWS);
    for (int64_t s = 0; s < fix->batch.seqs; s++) {
        int64_t end = fix->offset[s + 1], n = end - fix->offset[s];
        ck_assert_mem_eq(nll + (int64_t)rows - end, first + fix->offset[s],
                         (size_t)n * sizeof *nll);
    }
    tw_free(nll);
    tw_free(first);
    fused_fini(&f);
    fused_fini(&turned);
}
END_TEST

/* The row's column k - 1 - i is `size`, which is 0 in the others, and the
 * word's there +-size: its logit is far from the others, or +-Inf. */
static void make_far(struct fused *f, int i, int32_t row, int32_t word,
                     float size, float sign)
{
    int32_t at = f->k - 1 - i;
    f->x[row * f->k + at] = size;
    f->w[word * f->k + at] = sign * size;
}

#define ODD    8 /* columns */
#define HUGE_X 0x1p127f

/* -Inf is a token that can't come; what isn't a number makes a loss none. Rows
 * 0 to 4 have such; elsewhere 20 has one logit far above the others of its
 * tile, 40 a tile far above and a target far below. */
static void make_odd(struct fused *f)
{
    int32_t rows = f->loss.rows.on_device.rows, vocab = f->loss.vocab, k = f->k;
    const int32_t *token = f->loss.rows.fix.batch.token;
    for (int32_t i = 0; i < ODD; i++) {
        for (int32_t r = 0; r < rows; r++)
            f->x[r * k + k - 1 - i] = 0;
        for (int32_t c = 0; c < vocab; c++)
            f->w[c * k + k - 1 - i] = 0;
    }
    for (int32_t c = 0; c < vocab; c++)
        if (c != token[1] && c != vocab - 2)
            make_far(f, 0, 0, c, HUGE_X, -1);
    make_far(f, 1, 1, token[2], HUGE_X, -1);
    make_far(f, 2, 2, vocab - 3, HUGE_X, 1); /* and NaN by Inf - Inf */
    f->x[2 * k + k - ODD] = HUGE_X;
    f->w[(vocab - 3) * k + k - ODD] = -HUGE_X;
    make_far(f, 3, 3, 5, HUGE_X, 1);
    for (int32_t c = 0; c < vocab; c++)
        make_far(f, 4, 4, c, HUGE_X, -1);
    make_far(f, 5, 20, 9, 16, 1);
    for (int32_t c = 256; c < 512; c++)
        make_far(f, 6, 40, c, 32, 1);
    make_far(f, 6, 40, token[41], 32, -1);
    fused_set(f);
}

START_TEST(loss_of_odd_products)
{
    struct fused f;
    fused_init(&f, 5, 0, TW_BF16);
    make_odd(&f);
    f.args.wanted = NULL;
    float *nll = fused_run(&f, MOST_ROWS);
    ck_assert(isinf(nll[1]) && nll[1] > 0);
    ck_assert(isnan(nll[2]) && !isfinite(nll[3]) && !isfinite(nll[4]));
    for (int32_t r = 0; r < f.loss.rows.on_device.rows; r++) {
        double want = nll_of(&f.loss, r), far = fabs((double)nll[r] - want);
        ck_assert_msg((r >= 1 && r <= 4) || far <= 1e-5 + 1e-7 * fabs(want) ||
                          (isnan(nll[r]) && isnan(want)),
                      "row %d: %g, not %g", r, (double)nll[r], want);
    }
    tw_free(nll);
    fused_fini(&f);
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
    if (the_device.path != TW_CUDA_HOPPER)
        return suite;
    tc = tcase_create("Products");
    tcase_add_loop_test(tc, loss_of_products, 0, COUNT(shapes));
    tcase_add_loop_test(tc, a_loss_of_products_is_its_own, 0, 2 * COUNT(heads));
    tcase_add_test(tc, loss_of_odd_products);
    tcase_set_timeout(tc, 60);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return rows_main(loss_suite);
}
