/* What the cuda backend's tests compare: counts and patterns with the
 * reference, equal; values, close. */
#ifndef TESTS_CUDA_CHECK_H
#define TESTS_CUDA_CHECK_H

#include "tests/cuda_case.h"

/* y is rounded to 16 bits once (2^-9), and on the dense path h too: relative to
 * the norm of the row's sums. */
#define Y_BOUND 6e-3
/* A gate beyond 256 is rounded to bf16. */
#define L1_BOUND 4e-3

static inline void check_y(const struct cuda_case *c)
{
    for (int64_t r = 0; r < c->rows; r++) {
        double far = 0, size = 0;
        bool is_finite = true;
        for (int64_t i = 0; i < c->d; i++)
            is_finite &= isfinite(c->want_y[r * c->d + i]) != 0;
        for (int64_t i = 0; i < c->d; i++) {
            double want = (double)c->want_y[r * c->d + i];
            double got = (double)c->y[r * c->d + i];
            if (!is_finite) {
                ck_assert_msg(!isfinite(got), "y[%lld][%lld] = %g, not %g",
                              (long long)r, (long long)i, got, want);
                continue;
            }
            far += (got - want) * (got - want);
            size += want * want;
        }
        ck_assert_msg(!is_finite || far <= Y_BOUND * Y_BOUND * size + 1e-12,
                      "row %lld: y is %g of %g away", (long long)r, sqrt(far),
                      sqrt(size));
    }
}

#define SAME(field, n)                                                         \
    for (int64_t i_ = 0; i_ < (int64_t)(n); i_++)                              \
    ck_assert_msg(c->obs.field[i_] == c->want.field[i_],                       \
                  #field "[%lld] = %lld, not %lld (f %lld, rows %lld)",        \
                  (long long)i_, (long long)c->obs.field[i_],                  \
                  (long long)c->want.field[i_], (long long)c->f,               \
                  (long long)c->rows)

static inline void check_obs_but_bad(const struct cuda_case *c)
{
    SAME(nnz, c->probes.count * c->rows);
    SAME(fired, c->probes.count * c->f);
    SAME(first, c->probes.count * c->f);
    SAME(last, c->probes.count * c->f);
    SAME(seen, 1);
    SAME(tiles[0], 65);
    SAME(tiles[1], 129);
    SAME(tiles[2], 257);
    for (int64_t r = 0; r < c->rows; r++) {
        double want = (double)c->want.l1[r], got = (double)c->obs.l1[r];
        ck_assert_msg(isfinite(want) ? fabs(got - want) <= L1_BOUND * want
                                     : !isfinite(got),
                      "l1[%lld] = %g, not %g", (long long)r, got, want);
    }
}

static inline void check_obs(const struct cuda_case *c)
{
    check_obs_but_bad(c);
    ck_assert_int_eq(c->obs.bad_row, c->want.bad_row);
    ck_assert_int_eq(c->obs.bad_neuron, c->want.bad_neuron);
}

static inline int count_of(const struct cuda_case *c, int64_t cell)
{
    uint32_t w = c->count[cell];
    return (int)((w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24));
}

/* Counts of quarters, and where a tile fits its entries, against the
 * reference's act(gate). Also what overflows. */
static inline void check_packed(const struct cuda_case *c)
{
    int64_t tiles = (c->f + 255) / 256;
    uint64_t tiles_over = 0, rows_over = 0, routed = 0;
    float *a = tw_alloc((size_t)(tiles * 256), sizeof *a);
    for (int64_t r = 0; r < c->rows; r++) {
        int64_t sum = 0;
        bool is_over = false;
        for (int64_t n = 0; n < tiles * 256; n++) {
            double in = 0;
            const float *w = c->is_gated ? c->gate : c->up;
            const float *b = c->is_gated ? c->gate_bias : c->up_bias;
            for (int64_t i = 0; n < c->f && i < c->d; i++)
                in += (double)c->x[r * c->d + i] * (double)w[n * c->d + i];
            if (c->has_bias && n < c->f)
                in += (double)b[n];
            a[n] = 0;
            if (n < c->f)
                a[n] = (float)tw_activation_apply(&c->desc.activation, in);
        }
        for (int64_t t = 0; t < tiles; t++) {
            int64_t cell = r * tiles + t;
            int all = count_of(c, cell), place = 0;
            uint32_t want = 0;
            for (int n = 0; n < 256; n++)
                want += (uint32_t)(a[t * 256 + n] != 0) << 8 * (n / 64);
            ck_assert_msg(want == c->count[cell], "count %08x, not %08x",
                          (unsigned)c->count[cell], (unsigned)want);
            sum += all;
            tiles_over += all > c->slots;
            is_over |= all > c->slots;
            if (all > c->slots || c->path == TW_FFN_DENSE)
                continue;
            for (int n = 0; n < 256; n++) {
                if (a[t * 256 + n] == 0)
                    continue;
                uint32_t entry = c->entry[cell * c->slots + place++];
                uint32_t bits = entry & 0xffffff00u;
                float value;
                memcpy(&value, &bits, 4);
                ck_assert_int_eq(entry & 255, n);
                ck_assert(isnan(a[t * 256 + n])
                              ? isnan(value)
                              : !(fabsf(value - a[t * 256 + n]) >
                                  8e-3f * fabsf(a[t * 256 + n])));
            }
            ck_assert_int_eq(place, all);
        }
        rows_over += is_over;
        routed += is_over || (c->row_limit >= 0 && sum > c->row_limit);
    }
    tw_free(a);
    bool is_dense = c->path == TW_FFN_DENSE;
    ck_assert_int_eq(c->obs.overflow_tiles, is_dense ? 0 : tiles_over);
    ck_assert_int_eq(c->obs.overflow_rows, is_dense ? 0 : rows_over);
    ck_assert_int_eq(c->obs.dense_rows, is_dense ? (uint64_t)c->rows : routed);
}

static inline void check_all(struct cuda_case *c)
{
    case_run(c);
    case_refer(c);
    if (!c->apply) // else the histograms tell
        check_packed(c);
    check_obs(c);
    check_y(c);
}

#ifdef TW_CUDA_EMULATED
#define REPEATED 4
#else
#define REPEATED 20
#endif

/* Runs a suite on each path that the device can run, also with smaller devices'
 * shared memory and on few multiprocessors: CK_RUN_SUITE takes these names. Exits 77
 * without a GPU; no forks: a CUDA context doesn't survive one. */
static inline int cuda_main(Suite *(*make_suite)(const char *path))
{
    static const struct {
        const char *name;
        enum tw_cuda_path path;
        int shared_kib, multiprocessors; /* 0: what the device has */
    } paths[] = {{"hopper", TW_CUDA_HOPPER, 0, 0},
                 {"portable", TW_CUDA_PORTABLE, 0, 0},
                 {"portable_163", TW_CUDA_PORTABLE, 163, 0}, // as 8.0
                 {"portable_99", TW_CUDA_PORTABLE, 99, 0},   // as 8.6, 8.9, 12.0
                 // many tiles a block in small cases; the emulated device has 4
                 {"hopper_2", TW_CUDA_HOPPER, 0, 2},
                 {"portable_1", TW_CUDA_PORTABLE, 0, 1}};
    struct tw_error err = {0};
    int failed = 0;
    if (twp_device_open(0, &the_device, &err) != TW_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    struct twp_device whole = the_device;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
#ifdef TW_CUDA_EMULATED
        if (paths[i].multiprocessors)
            continue;
#endif
        the_device = whole;
        the_path = (int)i;
        if (twp_device_take_path(&the_device, paths[i].path, NULL) != TW_OK)
            continue;
        if (paths[i].shared_kib &&
            paths[i].shared_kib < whole.shared_bytes / 1024)
            the_device.shared_bytes = paths[i].shared_kib * 1024;
        if (paths[i].multiprocessors)
            the_device.multiprocessors = paths[i].multiprocessors;
        if (tw_run_suite_here(make_suite(paths[i].name)) != EXIT_SUCCESS)
            failed++;
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
