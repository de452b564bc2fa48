/* Rows of 16-bit numbers and batches on the device, for the tests of the cuda
 * backend's launchers: buffers of every alignment, NaN within where they are
 * outputs and around them, where it must stay. */
#ifndef TESTS_CUDA_ROWS_H
#define TESTS_CUDA_ROWS_H

#include "tests/cuda_case.h"
#include "tests/ops_fixture.h"

#include "kernels/cuda/launch_model.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))
#define VOCAB        23
#define EDGE         8 /* elements around a buffer's own */
#define REPEATS      4

static const enum tw_dtype types[] = {TW_BF16, TW_F16};
static const int64_t lengths[4][FIX_SEQS] = {
    {1}, {5, 1, 12}, {2, 2, 3, 1, 1, 4}, {40, 27}};

/* Numbers of 16 bits on the device, EDGE + shift elements behind its start. */
struct buffer {
    enum tw_dtype type;
    int64_t n;
    int shift;
    uint16_t *base, *at;
    float *value; /* what it held at first */
};

static inline size_t all_of(const struct buffer *b)
{
    return (size_t)(b->n + 3 * EDGE);
}

static inline uint16_t *new_bits(size_t n)
{
    uint16_t *bits = tw_alloc(n, sizeof *bits);
    ck_assert_ptr_nonnull(bits);
    memset(bits, 0xff, n * sizeof *bits);
    return bits;
}

static inline void put(const struct buffer *b)
{
    uint16_t *bits = new_bits(all_of(b));
    if (b->value)
        twp_narrow(bits + EDGE + b->shift, b->value, b->type, (size_t)b->n);
    cuda_ok(cudaMemcpy(b->base, bits, all_of(b) * sizeof *bits,
                       cudaMemcpyHostToDevice));
    tw_free(bits);
}

/* Of those floats (its own from here on), rounded; NULL: all NaN. */
static inline struct buffer buffer_of(enum tw_dtype type, int64_t n, int shift,
                                      float *value)
{
    struct buffer b = {.type = type, .n = n, .shift = shift, .value = value};
    uint16_t *bits = new_bits((size_t)n);
    if (value) {
        twp_narrow(bits, value, type, (size_t)n);
        tw_widen(value, bits, type, (size_t)n);
    }
    tw_free(bits);
    b.base = guarded(all_of(&b) * sizeof *b.base);
    b.at = b.base + EDGE + shift;
    put(&b);
    return b;
}

static inline void buffer_free(struct buffer *b)
{
    cuda_ok(cudaFree(b->base));
    tw_free(b->value);
}

/* Its elements (tw_free); those around them are as they were. */
static inline uint16_t *bits_of(const struct buffer *b)
{
    size_t all = all_of(b), first = (size_t)(EDGE + b->shift);
    uint16_t *bits = new_bits(all);
    cuda_ok(cudaDeviceSynchronize());
    cuda_ok(
        cudaMemcpy(bits, b->base, all * sizeof *bits, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < all; i++)
        ck_assert_msg(i - first < (size_t)b->n || bits[i] == 0xffff,
                      "element %lld of %lld is written",
                      (long long)i - (long long)first, (long long)b->n);
    memmove(bits, bits + first, (size_t)b->n * sizeof *bits);
    check_band(b->base, all * sizeof *bits);
    return bits;
}

/* Within one rounding and `slack`. Frees want. */
static inline void check(const struct buffer *b, double *want, double slack)
{
    uint16_t *bits = bits_of(b);
    float *got = fix_poison(b->n);
    tw_widen(got, bits, b->type, (size_t)b->n);
    double unit = b->type == TW_F16 ? 0x1.02p-11 : 0x1.02p-8;
    if (b->type == TW_F16)
        slack += 0x1p-25; /* half a step of its subnormal numbers */
    for (int64_t i = 0; i < b->n; i++) {
        double far = fabs((double)got[i] - want[i]);
        bool is_same = isnan(want[i]) ? isnan(got[i]) != 0
                                      : far <= unit * fabs(want[i]) + slack ||
                                            (double)got[i] == want[i];
        ck_assert_msg(is_same, "element %lld of %lld: %g, not %g", (long long)i,
                      (long long)b->n, (double)got[i], want[i]);
    }
    tw_free(got);
    tw_free(bits);
    tw_free(want);
}

static inline double *new_doubles(int64_t n)
{
    double *d = tw_alloc((size_t)n, sizeof *d);
    ck_assert_ptr_nonnull(d);
    return d;
}

static inline float *device_floats(const float *v, int64_t n)
{
    float *p = guarded((size_t)n * sizeof *p);
    cuda_ok(cudaMemcpy(p, v, (size_t)n * sizeof *p, cudaMemcpyHostToDevice));
    return p;
}

/* ---- batches ---- */

struct rows {
    struct fix_batch fix;
    int32_t *position;
    struct twp_device_batch on_device;
};

static inline void rows_init(struct rows *r, const int64_t length[FIX_SEQS])
{
    fix_batch_init(&r->fix, length, VOCAB);
    size_t n = (size_t)r->fix.batch.rows, bytes = n * sizeof(int32_t);
    r->position = tw_alloc(n, sizeof *r->position);
    ck_assert_ptr_nonnull(r->position);
    for (int64_t s = 0; s < r->fix.batch.seqs; s++)
        for (int64_t i = r->fix.offset[s]; i < r->fix.offset[s + 1]; i++)
            r->position[i] = (int32_t)(i - r->fix.offset[s]);
    int32_t *token = guarded(bytes), *position = guarded(bytes);
    cuda_ok(
        cudaMemcpy(token, r->fix.batch.token, bytes, cudaMemcpyHostToDevice));
    cuda_ok(cudaMemcpy(position, r->position, bytes, cudaMemcpyHostToDevice));
    r->on_device = (struct twp_device_batch){.rows = (int32_t)n,
                                             .seqs = (int32_t)r->fix.batch.seqs,
                                             .token = token,
                                             .position = position};
}

static inline void rows_fini(struct rows *r)
{
    cuda_ok(cudaFree((void *)(uintptr_t)r->on_device.token));
    cuda_ok(cudaFree((void *)(uintptr_t)r->on_device.position));
    tw_free(r->position);
    fix_batch_fini(&r->fix);
}

/* Runs the suite if there is a device; a context survives no fork. */
static inline int rows_main(Suite *(*make_suite)(void))
{
    struct tw_error err = {0};
    if (twp_device_open(0, &the_device, &err) != TW_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    SRunner *runner = srunner_create(make_suite());
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
