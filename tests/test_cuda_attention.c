/* The attention kernels against sums in fp64 of the same rounded numbers: head
 * sizes, lengths, shared heads, window, soft cap, both forms of alibi, in bf16
 * and fp16; nothing read or written outside; a row's bits free of runs, of the
 * batch and of later rows. A suite for each path (CK_RUN_SUITE=hopper picks
 * one), that of Hopper where its kernel takes the case. Exits 77 without a GPU.
 */
#include <config.h>

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/launch_model.h"
#include "tests/ops_fixture.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))
#define BAND         4096 /* elements around each buffer, all NaN */
#define REPEATS      5
#define SLACK        2e-5 /* fp32 sums, fp16 weights below its normal numbers */

static struct twp_device device;

static const int dims[] = {32, 64, 80, 96, 128, 192, 256, 40, 72};
static const int groups[][2] = {{2, 2}, {4, 1}, {6, 2}}; /* heads, of k and v */
static const int64_t batches[][FIX_SEQS] = {
    {1, 2, 31, 63, 64, 65}, {127, 128}, {129, 1, 200}, {300}};
static const float slopes[] = {0.5f, 0.25f, 0.0625f, 0.3f, 0.011f, 1};
static const struct {
    int64_t window;
    float soft_cap, scale; /* scale: times 1 / sqrt(head size) */
    bool is_alibi;
    float alibi_bf16;
} modes[] = {{0, 0, 1, false, 0},     {1, 0, 1, false, 0},
             {70, 0, 2.5f, false, 0}, {0, 5, 1, false, 0},
             {0, 0, 1, true, 0},      {0, 0, 1, true, 0.125f},
             {33, 3, 0.7f, true, 0},  {128, 0, -1, false, 0}};

struct work {
    struct twp_attention_args args;
    struct twp_device_batch batch;
    int32_t offset[FIX_SEQS + 1];
    float *q, *k, *v;        /* as rounded */
    void *dq, *dk, *dv, *dy; /* behind their bands */
    void *tables, *slopes;
};

#define CUDA_OK(call) ck_assert_int_eq((int)(call), 0)

static int64_t q_count(const struct work *w)
{
    return (int64_t)w->batch.rows * w->args.heads * w->args.head_dim;
}

static int64_t k_count(const struct work *w)
{
    return (int64_t)w->batch.rows * w->args.kv_heads * w->args.head_dim;
}

/* Elements on the device between bands of NaN; x NULL: NaN too. */
static void *banded(const uint16_t *x, int64_t count)
{
    uint16_t *p;
    size_t bytes = (size_t)(count + 2 * BAND) * sizeof *p;
    CUDA_OK(cudaMalloc((void **)&p, bytes));
    CUDA_OK(cudaMemset(p, 0xff, bytes));
    if (x)
        CUDA_OK(cudaMemcpy(p + BAND, x, (size_t)count * sizeof *x,
                           cudaMemcpyHostToDevice));
    return p + BAND;
}

static void free_banded(void *p)
{
    CUDA_OK(cudaFree((uint16_t *)p - BAND));
}

static float *numbers(enum tw_dtype type, int64_t count, float scale)
{
    float *x = fix_floats(count, scale);
    uint16_t *narrow = tw_alloc((size_t)count, sizeof *narrow);
    ck_assert_ptr_nonnull(narrow);
    twp_narrow(narrow, x, type, (size_t)count);
    tw_widen(x, narrow, type, (size_t)count);
    tw_free(narrow);
    return x;
}

static void *device_of(const struct work *w, const float *x, int64_t count)
{
    uint16_t *narrow = tw_alloc((size_t)count, sizeof *narrow);
    ck_assert_ptr_nonnull(narrow);
    twp_narrow(narrow, x, w->args.type, (size_t)count);
    void *p = banded(narrow, count);
    tw_free(narrow);
    return p;
}

/* Of a sequence the last tile comes first. */
static void put_tables(struct work *w)
{
    enum { TILES = 64 };
    int32_t table[FIX_SEQS + 1 + 2 * TILES + 2] = {0}, tiles = 0;
    memcpy(table, w->offset, sizeof w->offset);
    int32_t *seq = table + FIX_SEQS + 1, *at = seq + TILES;
    for (int s = 0; s < w->batch.seqs; s++) {
        int32_t length = w->offset[s + 1] - w->offset[s];
        int32_t n = (length + TWP_ATTENTION_ROWS - 1) / TWP_ATTENTION_ROWS;
        for (; n > 0; tiles++) {
            ck_assert_int_lt(tiles, TILES);
            seq[tiles] = s;
            at[tiles] = --n * TWP_ATTENTION_ROWS;
        }
    }
    int32_t *p;
    CUDA_OK(cudaMalloc((void **)&p, sizeof table));
    CUDA_OK(cudaMemcpy(p, table, sizeof table, cudaMemcpyHostToDevice));
    w->tables = p;
    w->batch.tiles = tiles;
    w->batch.offset = p;
    w->batch.tile_seq = p + FIX_SEQS + 1;
    w->batch.tile_place = p + FIX_SEQS + 1 + TILES;
    w->batch.work = p + FIX_SEQS + 1 + 2 * TILES;
}

static void put_numbers(struct work *w)
{
    w->args.q = w->dq = device_of(w, w->q, q_count(w));
    w->args.k = w->dk = device_of(w, w->k, k_count(w));
    w->args.v = w->dv = device_of(w, w->v, k_count(w));
    w->args.y = w->dy = banded(NULL, q_count(w));
}

static void work_init(struct work *w, const int64_t length[FIX_SEQS],
                      enum tw_dtype type, int dim, int group, int mode)
{
    *w = (struct work){.args = {.type = type,
                                .heads = groups[group][0],
                                .kv_heads = groups[group][1],
                                .head_dim = dim,
                                .scale = modes[mode].scale / sqrtf((float)dim),
                                .window = modes[mode].window,
                                .soft_cap = modes[mode].soft_cap,
                                .alibi_bf16 = modes[mode].alibi_bf16}};
    for (; w->batch.seqs < FIX_SEQS && length[w->batch.seqs];
         w->batch.rows = w->offset[++w->batch.seqs])
        w->offset[w->batch.seqs + 1] =
            w->batch.rows + (int32_t)length[w->batch.seqs];
    put_tables(w);
    w->args.batch = &w->batch;
    if (modes[mode].is_alibi) {
        CUDA_OK(cudaMalloc(&w->slopes, sizeof slopes));
        CUDA_OK(cudaMemcpy(w->slopes, slopes, sizeof slopes,
                           cudaMemcpyHostToDevice));
        w->args.alibi = w->slopes;
    }
    fix_seed((uint64_t)(dim * 8 + mode + 1));
    w->q = numbers(type, q_count(w), 2);
    w->k = numbers(type, k_count(w), 2);
    w->v = numbers(type, k_count(w), 1);
    put_numbers(w);
}

static void free_device(struct work *w)
{
    free_banded(w->dq);
    free_banded(w->dk);
    free_banded(w->dv);
    free_banded(w->dy);
}

static void work_fini(struct work *w)
{
    free_device(w);
    CUDA_OK(cudaFree(w->tables));
    CUDA_OK(cudaFree(w->slopes));
    tw_free(w->q);
    tw_free(w->k);
    tw_free(w->v);
}

/* y's bits (tw_free), from an output that was NaN; its bands still are. */
static uint16_t *work_run(struct work *w)
{
    struct tw_error err = {0};
    size_t count = (size_t)q_count(w), all = count + 2 * BAND;
    uint16_t *from = (uint16_t *)w->dy - BAND;
    uint16_t *y = tw_alloc(all, sizeof *y);
    ck_assert_ptr_nonnull(y);
    CUDA_OK(cudaMemset(from, 0xff, all * sizeof *y));
    TW_OK_OR_FAIL(tw_launch_attention(&device, &w->args, NULL, &err), err);
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemcpy(y, from, all * sizeof *y, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < BAND; i++)
        ck_assert_msg(y[i] == 0xffff && y[BAND + count + i] == 0xffff,
                      "written outside, %zu from an end", i);
    memmove(y, y + BAND, count * sizeof *y);
    return y;
}

/* ---- the values ---- */

static double score(const struct work *w, const float *q, const float *k,
                    int head, int key, int query)
{
    double s = 0;
    for (int i = 0; i < w->args.head_dim; i++)
        s += (double)q[i] * (double)k[i];
    s *= (double)w->args.scale;
    if (w->args.soft_cap > 0)
        s = (double)w->args.soft_cap * tanh(s / (double)w->args.soft_cap);
    if (w->args.alibi && w->args.alibi_bf16 > 0)
        s += (double)w->args.alibi_bf16 *
             (double)tw_round_bf16(slopes[head] * tw_round_bf16((float)key));
    else if (w->args.alibi)
        s += (double)slopes[head] * (key - query);
    return s;
}

/* On the emulated device the portable path runs one case in three. */
static bool is_thinned_out(int i)
{
#ifdef TW_CUDA_EMULATED
    return device.path != TW_CUDA_HOPPER && !getenv("TW_EMU_ALL") && i % 3 != 0;
#else
    (void)i;
    return false;
#endif
}

/* Does the suite of this path leave the case to the portable one's? */
static bool is_left_out(const struct work *w)
{
    return device.path == TW_CUDA_HOPPER &&
           !twp_attention_wgmma_takes(&device, &w->args);
}

/* One query of one head. Weights and the result are rounded to 16 bits. */
static void check_query(const struct work *w, const float *y, int seq,
                        int query, int head)
{
    int dim = w->args.head_dim, first = w->offset[seq];
    int64_t stride = (int64_t)w->args.kv_heads * dim;
    int64_t at = ((int64_t)(first + query) * w->args.heads + head) * dim;
    int64_t kv = first * stride +
                 (int64_t)(head / (w->args.heads / w->args.kv_heads)) * dim;
    double unit = w->args.type == TW_F16 ? 0x1p-11 : 0x1p-8;
    double weight[1024], max = -INFINITY, sum = 0;
    int64_t begin = w->args.window ? query - w->args.window + 1 : 0;
    begin = begin > 0 ? begin : 0;
    for (int64_t key = begin; key <= query; key++) {
        weight[key] = score(w, w->q + at, w->k + kv + key * stride, head,
                            (int)key, query);
        max = fmax(max, weight[key]);
    }
    for (int64_t key = begin; key <= query; key++)
        sum += weight[key] = exp(weight[key] - max);
    for (int i = 0; i < dim; i++) {
        double want = 0, size = 0;
        for (int64_t key = begin; key <= query; key++) {
            double part =
                weight[key] / sum * (double)w->v[kv + key * stride + i];
            want += part;
            size += fabs(part);
        }
        double far = fabs((double)y[at + i] - want);
        ck_assert_msg(far <= 1.05 * unit * (size + fabs(want)) + SLACK,
                      "head size %d, sequence %d, row %d, head %d, %d: %g, "
                      "not %g",
                      dim, seq, query, head, i, (double)y[at + i], want);
    }
}

static void check(struct work *w)
{
    uint16_t *bits = work_run(w);
    float *y = tw_alloc((size_t)q_count(w), sizeof *y);
    ck_assert_ptr_nonnull(y);
    tw_widen(y, bits, w->args.type, (size_t)q_count(w));
    for (int s = 0; s < w->batch.seqs; s++)
        for (int t = 0; t < w->offset[s + 1] - w->offset[s]; t++)
            for (int h = 0; h < w->args.heads; h++)
                check_query(w, y, s, t, h);
    tw_free(y);
    tw_free(bits);
}

/* Each head size and mode; batch, heads and type by turns. */
START_TEST(equals_the_sums)
{
    if (is_thinned_out(_i))
        return;
    int dim = _i / COUNT(modes), mode = _i % COUNT(modes);
    for (int n = 0; n < COUNT(batches); n++) {
        struct work w;
        work_init(&w, batches[n], (dim + mode + n) % 2 ? TW_F16 : TW_BF16,
                  dims[dim], (dim + mode + n) % COUNT(groups), mode);
        if (!is_left_out(&w))
            check(&w);
        work_fini(&w);
    }
}
END_TEST

/* Many tiles of keys, whose scores grow for some rows and fall for others. */
START_TEST(scores_may_grow)
{
    static const int64_t length[FIX_SEQS] = {700};
    struct work w;
    work_init(&w, length, _i % 2 ? TW_F16 : TW_BF16, _i < 2 ? 64 : 128, 0, 0);
    int64_t width = (int64_t)w.args.kv_heads * w.args.head_dim;
    for (int64_t i = 0; i < k_count(&w); i++) {
        float x = w.k[i % w.args.head_dim] * (float)(i / width) * 0x1p-7f;
        w.k[i] = tw_round_bf16(x + 0.25f * w.k[i]);
    }
    free_device(&w);
    put_numbers(&w);
    uint16_t *bits = work_run(&w);
    float *y = tw_alloc((size_t)q_count(&w), sizeof *y);
    ck_assert_ptr_nonnull(y);
    tw_widen(y, bits, w.args.type, (size_t)q_count(&w));
    for (int t = 0; t < length[0]; t += 13)
        check_query(&w, y, 0, t, t % w.args.heads);
    tw_free(y);
    tw_free(bits);
    work_fini(&w);
}
END_TEST

/* ---- one row, one result ---- */

START_TEST(runs_are_equal)
{
    struct work w;
    work_init(&w, batches[_i % COUNT(batches)], _i % 2 ? TW_F16 : TW_BF16,
              dims[_i], 2, _i % COUNT(modes));
    bool is_out = is_left_out(&w);
    uint16_t *first = is_out ? NULL : work_run(&w);
    for (int n = 1; !is_out && n < REPEATS; n++) {
        uint16_t *again = work_run(&w);
        ck_assert_mem_eq(first, again, (size_t)q_count(&w) * 2);
        tw_free(again);
    }
    tw_free(first);
    work_fini(&w);
}
END_TEST

/* Rows `from` .. of another work are this one's. */
static void take_rows(struct work *w, const struct work *other, int from)
{
    int64_t q = q_count(w) / w->batch.rows * from;
    int64_t k = k_count(w) / w->batch.rows * from;
    memcpy(w->q, other->q + q, (size_t)q_count(w) * sizeof *w->q);
    memcpy(w->k, other->k + k, (size_t)k_count(w) * sizeof *w->k);
    memcpy(w->v, other->v + k, (size_t)k_count(w) * sizeof *w->v);
    free_device(w);
    put_numbers(w);
}

/* A sequence alone, and its beginning alone, has the bits that it has among
 * others. */
START_TEST(a_row_is_free_of_its_place_and_later_rows)
{
    static const int64_t all[FIX_SEQS] = {65, 1, 300, 129};
    int mode =
        device.path == TW_CUDA_HOPPER ? _i % 3 : (_i * 3 + 1) % COUNT(modes);
    struct work w, one;
    enum tw_dtype type = _i % 2 ? TW_BF16 : TW_F16;
    work_init(&w, all, type, dims[_i], 1, mode);
    uint16_t *y = is_left_out(&w) ? NULL : work_run(&w);
    for (int s = 0; y && s < w.batch.seqs; s++)
        for (int part = 0; part < 2; part++) {
            int64_t length[FIX_SEQS] = {part ? (all[s] + 1) / 2 : all[s]};
            work_init(&one, length, type, dims[_i], 1, mode);
            take_rows(&one, &w, w.offset[s]);
            uint16_t *own = work_run(&one);
            ck_assert_mem_eq(own, y + q_count(&w) / w.batch.rows * w.offset[s],
                             (size_t)q_count(&one) * 2);
            tw_free(own);
            work_fini(&one);
        }
    tw_free(y);
    work_fini(&w);
}
END_TEST

/* The numbers of all sequences but one are NaN. */
static void keep_only(struct work *w, const struct work *all, int seq)
{
    int64_t q = q_count(all) / all->batch.rows;
    int64_t k = k_count(all) / all->batch.rows;
    for (int64_t r = 0; r < all->batch.rows; r++) {
        bool is_kept = r >= all->offset[seq] && r < all->offset[seq + 1];
        for (int64_t i = r * q; i < (r + 1) * q; i++)
            w->q[i] = is_kept ? all->q[i] : NAN;
        for (int64_t i = r * k; i < (r + 1) * k; i++) {
            w->k[i] = is_kept ? all->k[i] : NAN;
            w->v[i] = is_kept ? all->v[i] : NAN;
        }
    }
    free_device(w);
    put_numbers(w);
}

START_TEST(a_row_is_free_of_other_sequences)
{
    static const int64_t all[FIX_SEQS] = {65, 1, 150, 129, 30};
    int mode = _i % 2 ? 2 : 0;
    struct work w, one;
    enum tw_dtype type = _i % 2 ? TW_BF16 : TW_F16;
    if (is_thinned_out(_i))
        return;
    work_init(&w, all, type, dims[_i], 2, mode);
    work_init(&one, all, type, dims[_i], 2, mode);
    uint16_t *y = is_left_out(&w) ? NULL : work_run(&w);
    for (int s = 0; y && s < w.batch.seqs; s++) {
        int64_t at = q_count(&w) / w.batch.rows * w.offset[s];
        int64_t end = q_count(&w) / w.batch.rows * w.offset[s + 1];
        keep_only(&one, &w, s);
        uint16_t *own = work_run(&one);
        ck_assert_mem_eq(own + at, y + at, (size_t)(end - at) * 2);
        tw_free(own);
    }
    tw_free(y);
    work_fini(&one);
    work_fini(&w);
}
END_TEST

START_TEST(what_it_cannot_is_named)
{
    struct tw_error err = {0};
    struct work w;
    work_init(&w, batches[1], TW_BF16, 64, 0, 0);
    w.args.head_dim = 264;
    TW_FAILS_WITH(tw_launch_attention(&device, &w.args, NULL, &err),
                  TW_ERR_UNSUPPORTED, "264", err);
    w.args.head_dim = 36;
    TW_FAILS_WITH(tw_launch_attention(&device, &w.args, NULL, &err),
                  TW_ERR_UNSUPPORTED, "36", err);
    w.args.head_dim = 64;
    work_fini(&w);
}
END_TEST

/* What Hopper's kernel doesn't take runs all the same. */
START_TEST(other_modes_are_portable)
{
    struct work w;
    work_init(&w, batches[0], TW_BF16, 64, 0, 3);
    ck_assert(is_left_out(&w));
    check(&w);
    work_fini(&w);
}
END_TEST

static Suite *make_suite(enum tw_cuda_path path)
{
    bool is_hopper = path == TW_CUDA_HOPPER;
    Suite *suite = suite_create(is_hopper ? "hopper" : "portable");
    TCase *tc = tcase_create("values");
    tcase_add_loop_test(tc, equals_the_sums, 0, COUNT(dims) * COUNT(modes));
    tcase_add_loop_test(tc, scores_may_grow, 0, 4);
    tcase_add_test(tc, what_it_cannot_is_named);
    if (is_hopper)
        tcase_add_test(tc, other_modes_are_portable);
    suite_add_tcase(suite, tc);
    tc = tcase_create("same");
    tcase_add_loop_test(tc, runs_are_equal, 0, COUNT(dims));
    tcase_add_loop_test(tc, a_row_is_free_of_its_place_and_later_rows, 0,
                        COUNT(dims));
    tcase_add_loop_test(tc, a_row_is_free_of_other_sequences, 0, COUNT(dims));
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    static const enum tw_cuda_path paths[] = {TW_CUDA_HOPPER, TW_CUDA_PORTABLE};
    struct tw_error err = {0};
    int failed = 0;
    if (twp_device_open(0, &device, &err) != TW_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    for (int i = 0; i < COUNT(paths); i++)
        if (twp_device_take_path(&device, paths[i], NULL) == TW_OK &&
            tw_run_suite_here(make_suite(paths[i])) != EXIT_SUCCESS)
            failed++;
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
