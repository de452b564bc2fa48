/* A feed-forward layer, a batch and a naive reference, for test_ffn.c. Weights
 * and inputs are small integers, so that gate, up and h are exact in float
 * whatever the order of the sums: counts and l1 must then be equal, not close.
 */
#ifndef TESTS_FFN_CASE_H
#define TESTS_FFN_CASE_H

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "kernels/cpu/ffn_internal.h"
#include "tests/tw_check.h"

struct ffn_case {
    int64_t d, f, rows;
    int64_t seqs, offset[8];
    uint8_t *row_class;
    struct tw_batch batch;
    float *x, *residual, *y;
    struct tw_ffn_desc desc;
    struct twp_cpu cpu;
    struct tw_ffn *ffn;
    struct tw_layer_obs obs;
    struct tw_active active[8];
    struct tw_probes probes;
    struct tw_error err;
    void *owned[48];
    int owned_count;
    float *gate, *up, *down, *gate_bias, *up_bias, *down_bias; /* as floats */
};

static inline uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline void *own(struct ffn_case *c, size_t count, size_t size)
{
    void *memory = tw_calloc(count, size);
    ck_assert_ptr_nonnull(memory);
    ck_assert_int_lt(c->owned_count, 48);
    c->owned[c->owned_count++] = memory;
    return memory;
}

static inline uint16_t half_of(float v)
{
    if (v == 0)
        return 0;
    int e;
    float m = frexpf(fabsf(v), &e);
    return (uint16_t)((v < 0) << 15 | (e + 14) << 10 |
                      ((int)(m * 2048) & 1023));
}

/* Stores floats (exact in the type) as a matrix. */
static inline struct tw_matrix store_matrix(struct ffn_case *c, const float *v,
                                            enum tw_dtype dtype, int64_t rows,
                                            int64_t cols)
{
    size_t n = (size_t)(rows * cols);
    void *data = own(c, n, tw_dtype_size(dtype));
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], 4);
        if (dtype == TW_F32)
            ((float *)data)[i] = v[i];
        else if (dtype == TW_BF16)
            ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
        else
            ((uint16_t *)data)[i] = half_of(v[i]);
    }
    return (struct tw_matrix){data, dtype, rows, cols};
}

static inline float *integers(struct ffn_case *c, int64_t n, int span,
                              int one_in, uint32_t seed)
{
    float *v = own(c, (size_t)n, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        if (next_random(&seed) % (uint32_t)one_in == 0)
            v[i] =
                (float)((int)(next_random(&seed) % (uint32_t)(2 * span + 1)) -
                        span);
    return v;
}

static inline void case_cpu(struct ffn_case *c, int threads)
{
    c->cpu = (struct twp_cpu){
        .workers = threads, .batch = &c->batch, .keep_bytes = INT64_C(1) << 32};
    TW_OK_OR_FAIL(tw_threads_create(threads, &c->cpu.threads, &c->err), c->err);
    c->cpu.scratch = tw_calloc((size_t)threads, sizeof *c->cpu.scratch);
    ck_assert_ptr_nonnull(c->cpu.scratch);
}

static inline void case_cpu_end(struct ffn_case *c)
{
    twp_cpu_ffn_free(&c->cpu, c->ffn);
    c->ffn = NULL;
    ck_assert_int_eq(c->cpu.kept_bytes, 0);
    ck_assert_ptr_null(c->cpu.ffn);
    for (int w = 0; w < c->cpu.workers; w++)
        for (int s = 0; s < TWP_SCRATCH_SLOTS; s++)
            tw_free(c->cpu.scratch[w].memory[s]);
    tw_free(c->cpu.scratch);
    tw_threads_destroy(c->cpu.threads);
}

static inline void case_rows(struct ffn_case *c, int64_t rows)
{
    c->rows = rows;
    c->seqs = rows >= 7 ? 3 : 1;
    for (int64_t s = 0; s <= c->seqs; s++)
        c->offset[s] = rows * s * s / (c->seqs * c->seqs);
    c->row_class = own(c, (size_t)rows, 1);
    c->batch = (struct tw_batch){.rows = rows,
                                 .seqs = c->seqs,
                                 .offset = c->offset,
                                 .row_class = c->row_class};
    c->x = integers(c, rows * c->d, 2, 1, 5);
    c->residual = integers(c, rows * c->d, 9, 2, 6);
    c->y = own(c, (size_t)(rows * c->d), sizeof *c->y);
}

struct case_kind {
    const char *act;
    enum tw_dtype gate, up, down;
    bool is_gated, has_bias;
    float shift; /* taken off the gate: the larger, the sparser */
    enum tw_ffn_path path;
    bool is_up_activated;
};

static inline void case_weights(struct ffn_case *c, const struct case_kind *k)
{
    int64_t d = c->d, f = c->f;
    int one_in = d > 64 ? 8 : 2;
    c->gate = integers(c, f * d, 2, 2, 1);
    c->up = integers(c, f * d, 2, one_in, 2);
    c->down = integers(c, f * d, 2, 2, 3);
    c->gate_bias = integers(c, f, 3, 1, 4);
    c->up_bias = integers(c, f, 2, 2, 8);
    c->down_bias = integers(c, d, 3, 1, 9);
    struct tw_ffn_desc *desc = &c->desc;
    *desc = (struct tw_ffn_desc){.d_model = d,
                                 .d_ff = f,
                                 .path = k->path,
                                 .is_up_activated = k->is_up_activated};
    TW_OK_OR_FAIL(tw_activation_parse(k->act, &desc->activation, &c->err),
                  c->err);
    for (int64_t n = 0; n < f; n++) {
        c->gate_bias[n] -= k->shift;
        c->up_bias[n] -= k->is_gated ? 0 : k->shift;
    }
    if (k->is_gated)
        desc->gate = store_matrix(c, c->gate, k->gate, f, d);
    desc->up = store_matrix(c, c->up, k->up, f, d);
    desc->down = store_matrix(c, c->down, k->down, d, f);
    if (!k->has_bias)
        return;
    if (k->is_gated)
        desc->gate_bias = (struct tw_matrix){c->gate_bias, TW_F32, 1, f};
    desc->up_bias = (struct tw_matrix){c->up_bias, TW_F32, 1, f};
    desc->down_bias = (struct tw_matrix){c->down_bias, TW_F32, 1, d};
}

static inline void case_probes(struct ffn_case *c, int count,
                               const char *const *text)
{
    for (int p = 0; p < count; p++)
        TW_OK_OR_FAIL(tw_active_parse(text[p], &c->active[p], &c->err), c->err);
    c->probes = (struct tw_probes){count, c->active};
    tw_layer_obs_fini(&c->obs);
    TW_OK_OR_FAIL(
        tw_layer_obs_init(&c->obs, c->rows, c->f, count, 1, 1, &c->err),
        c->err);
    TW_OK_OR_FAIL(tw_layer_obs_want_sets(&c->obs, c->rows, &c->err), c->err);
}

/* Poisons what the call must fill, then runs it. */
static inline enum tw_status case_run(struct ffn_case *c)
{
    memset(c->y, 0xff, (size_t)(c->rows * c->d) * sizeof *c->y);
    for (int w = 0; w < c->cpu.workers; w++)
        for (int s = 0; s < TWP_SCRATCH_SLOTS; s++)
            if (c->cpu.scratch[w].memory[s])
                memset(c->cpu.scratch[w].memory[s], 0xff,
                       c->cpu.scratch[w].bytes[s]);
    if (!c->ffn) {
        enum tw_status status =
            twp_cpu_ffn_load(&c->cpu, &c->desc, &c->ffn, &c->err);
        if (status != TW_OK)
            return status;
    }
    tw_layer_obs_reset(&c->obs, c->rows);
    return twp_cpu_ffn(&c->cpu, c->y, c->x, c->residual, c->ffn, &c->probes,
                       &c->obs, &c->err);
}

static inline void case_fini(struct ffn_case *c)
{
    case_cpu_end(c);
    tw_layer_obs_fini(&c->obs);
    for (int i = 0; i < c->owned_count; i++)
        tw_free(c->owned[i]);
}

/* The reference: one row's act(gate), h and pattern; y in double. */
struct reference {
    float *a, *h;
    bool *pattern, *is_active;
};

static inline float reference_dot(const float *x, const float *w, int64_t n,
                                  const float *bias)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)w[i];
    return (float)(sum + (bias ? (double)*bias : 0));
}

static inline void reference_active(const struct tw_active *def, const float *a,
                                    const float *h, const bool *pattern,
                                    int64_t f, bool *out)
{
    double total = 0, sum = 0;
    for (int64_t n = 0; n < f; n++) {
        total += fabs((double)h[n]);
        out[n] = def->kind == TW_ACTIVE_HIDDEN ? h[n] != 0
                 : def->kind == TW_ACTIVE_GATE ? pattern[n]
                 : def->kind == TW_ACTIVE_ABS  ? fabs((double)h[n]) > def->arg
                 : def->kind == TW_ACTIVE_GATE_ABS
                     ? fabs((double)a[n]) > def->arg
                     : false;
    }
    bool is_top_p = def->kind == TW_ACTIVE_TOPP;
    if (!is_top_p && def->kind != TW_ACTIVE_TOPK)
        return;
    for (int64_t taken = 0;; taken++) {
        if (is_top_p ? !(sum < def->arg * total) : taken >= (int64_t)def->arg)
            return;
        int64_t best = -1;
        for (int64_t n = 0; n < f; n++)
            if (!out[n] && fabsf(h[n]) > (best < 0 ? 0 : fabsf(h[best])))
                best = n;
        if (best < 0)
            return;
        out[best] = true;
        sum += fabs((double)h[best]);
    }
}

static inline void reference_row(const struct ffn_case *c, int64_t r,
                                 struct reference *ref)
{
    bool is_gated = c->desc.gate.data != NULL;
    const float *x = c->x + r * c->d;
    for (int64_t n = 0; n < c->f; n++) {
        float up = reference_dot(x, c->up + n * c->d, c->d,
                                 c->desc.up_bias.data ? c->up_bias + n : NULL);
        if (c->desc.is_up_activated)
            up = (float)tw_activation_apply(&c->desc.activation, (double)up);
        float in = up;
        if (is_gated)
            in =
                reference_dot(x, c->gate + n * c->d, c->d,
                              c->desc.gate_bias.data ? c->gate_bias + n : NULL);
        ref->a[n] = (float)tw_activation_apply(&c->desc.activation, (double)in);
        ref->pattern[n] = ref->a[n] != 0;
        ref->h[n] = is_gated ? ref->a[n] * up : ref->a[n];
    }
    if (!c->desc.apply)
        return;
    reference_active(c->desc.apply, ref->a, ref->h, ref->pattern, c->f,
                     ref->is_active);
    for (int64_t n = 0; n < c->f; n++) {
        ref->pattern[n] = ref->is_active[n];
        if (!ref->is_active[n])
            ref->h[n] = 0;
    }
}

#endif
