/* A feed-forward layer on the device beside the reference row, for the cuda
 * backend's tests. Weights and inputs are small integers, so that gate, up and
 * h are exact in fp32 whatever the order of the sums: counts and patterns must
 * then be equal, not close. Every device buffer starts as 0xff bytes and has a
 * band of them behind it that must stay. */
#ifndef TESTS_CUDA_CASE_H
#define TESTS_CUDA_CASE_H

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "kernels/cuda/cuda_internal.h"
#include "kernels/ops_ref.h"
#include "tests/tw_check.h"

#define BAND  4096 /* bytes behind each buffer */
#define OWNED 96

struct cuda_case {
    /* Chosen by the test. */
    int64_t rows, d, f;
    const char *act;
    bool is_gated, has_bias, has_residual, is_off; /* off: counts nothing */
    enum tw_ffn_path path;
    enum tw_dtype type;  /* TW_F32 (0): bf16 */
    const char *defs[6]; /* counted, NULL behind the last; none: hidden, gate */
    const char *apply;   /* or NULL */
    float shift;         /* taken off the gate: the larger, the sparser */
    float small;         /* a power of 2 that gates and up values are multiplied
                          * with; 0: 1 */
    int slots;           /* 0: the default */
    int row_limit;       /* -1: none */
    int skip_every;      /* every n-th row is skipped; 0: none */
    int variant;
    bool is_captured; /* into a graph that runs twice */
    /* Made. */
    float *x, *residual, *gate, *up, *down, *gate_bias, *up_bias, *down_bias;
    uint8_t *row_class;
    struct tw_ffn_desc desc;
    struct tw_active active[6], applied;
    struct tw_probes probes;
    struct tw_layer_obs obs, want;
    float *y, *want_y;
    uint16_t *y_bits;
    uint32_t *count, *entry; /* the packed tensor, on the host */
    struct tw_error err;
    void *owned[OWNED];
    int owned_count;
};

static struct twp_device the_device;

static inline uint32_t case_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline void *own(struct cuda_case *c, size_t count, size_t size)
{
    void *memory = tw_calloc(count, size);
    ck_assert_ptr_nonnull(memory);
    ck_assert_int_lt(c->owned_count, OWNED);
    c->owned[c->owned_count++] = memory;
    return memory;
}

/* Integers within +-span, one in `one_in` of them not zero. */
static inline float *integers(struct cuda_case *c, int64_t n, int span,
                              int one_in, uint32_t seed)
{
    float *v = own(c, (size_t)n, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        if (case_random(&seed) % (uint32_t)one_in == 0)
            v[i] =
                (float)((int)(case_random(&seed) % (uint32_t)(2 * span + 1)) -
                        span);
    return v;
}

static inline struct tw_matrix floats(const float *v, int64_t rows,
                                      int64_t cols)
{
    return (struct tw_matrix){v, TW_F32, rows, cols};
}

/* The `small` that leaves gates with a deviation near 1.5. */
static inline float small_for(int64_t d)
{
    return (float)exp2(-round(log2(sqrt(2 * (double)d) / 1.5)));
}

static inline void scale_all(float *v, int64_t n, float by)
{
    for (int64_t i = 0; i < n; i++)
        v[i] *= by;
}

/* What is counted and applied. */
static inline void make_probes(struct cuda_case *c)
{
    if (!c->defs[0]) {
        c->defs[0] = "hidden";
        c->defs[1] = "gate";
    }
    int n = 0;
    for (; n < 6 && c->defs[n]; n++)
        TW_OK_OR_FAIL(tw_active_parse(c->defs[n], &c->active[n], &c->err),
                      c->err);
    c->probes = (struct tw_probes){n, c->active};
    if (c->apply) {
        TW_OK_OR_FAIL(tw_active_parse(c->apply, &c->applied, &c->err), c->err);
        c->desc.apply = &c->applied;
    }
    TW_OK_OR_FAIL(tw_layer_obs_init(&c->obs, c->rows, c->f, n, 1, 0, &c->err),
                  c->err);
    TW_OK_OR_FAIL(tw_layer_obs_init(&c->want, c->rows, c->f, n, 1, 0, &c->err),
                  c->err);
}

/* Fills everything from the shape; a test may then change x and weights. */
static inline void case_make(struct cuda_case *c)
{
    c->type = c->type == TW_F16 ? TW_F16 : TW_BF16;
    int64_t d = c->d, f = c->f;
    c->x = integers(c, c->rows * d, 2, 1, 5);
    c->residual = integers(c, c->rows * d, 9, 2, 6);
    c->gate = integers(c, f * d, 2, 2, 1);
    c->up = integers(c, f * d, 2, d > 64 ? 8 : 2, 2);
    c->down = integers(c, f * d, 2, 2, 3);
    c->gate_bias = integers(c, f, 3, 1, 4);
    c->up_bias = integers(c, f, 2, 2, 8);
    c->down_bias = integers(c, d, 3, 1, 9);
    for (int64_t n = 0; n < f; n++) {
        c->gate_bias[n] -= c->shift;
        c->up_bias[n] -= c->is_gated ? 0 : c->shift;
    }
    if (c->small != 0) {
        scale_all(c->gate, f * d, c->small);
        scale_all(c->gate_bias, f, c->small);
        scale_all(c->up, f * d, c->small);
        scale_all(c->up_bias, f, c->small);
        scale_all(c->down, f * d, c->small);
    }
    c->row_class = own(c, (size_t)c->rows, 1);
    for (int64_t r = 0; c->skip_every && r < c->rows; r += c->skip_every)
        c->row_class[r] = TW_ROW_SKIPPED | TW_ROW_BOS;
    c->desc = (struct tw_ffn_desc){.d_model = d, .d_ff = f, .path = c->path};
    TW_OK_OR_FAIL(tw_activation_parse(c->act, &c->desc.activation, &c->err),
                  c->err);
    if (c->is_gated)
        c->desc.gate = floats(c->gate, f, d);
    c->desc.up = floats(c->up, f, d);
    c->desc.down = floats(c->down, d, f);
    if (c->has_bias) {
        if (c->is_gated)
            c->desc.gate_bias = floats(c->gate_bias, 1, f);
        c->desc.up_bias = floats(c->up_bias, 1, f);
        c->desc.down_bias = floats(c->down_bias, 1, d);
    }
    make_probes(c);
    c->y = own(c, (size_t)(c->rows * d), sizeof *c->y);
    c->want_y = own(c, (size_t)(c->rows * d), sizeof *c->want_y);
    c->y_bits = own(c, (size_t)(c->rows * d), sizeof *c->y_bits);
}

static inline void case_fini(struct cuda_case *c)
{
    tw_layer_obs_fini(&c->obs);
    tw_layer_obs_fini(&c->want);
    for (int i = 0; i < c->owned_count; i++)
        tw_free(c->owned[i]);
}

static inline void cuda_ok(cudaError_t error)
{
    ck_assert_msg(error == cudaSuccess, "%s", cudaGetErrorString(error));
}

static inline void *guarded(size_t bytes)
{
    void *memory = NULL;
    cuda_ok(cudaMalloc(&memory, bytes + BAND));
    cuda_ok(cudaMemset(memory, 0xff, bytes + BAND));
    return memory;
}

static inline void check_band(const void *memory, size_t bytes)
{
    uint8_t band[BAND];
    cuda_ok(cudaMemcpy(band, (const char *)memory + bytes, BAND,
                       cudaMemcpyDeviceToHost));
    for (int i = 0; i < BAND; i++)
        ck_assert_msg(band[i] == 0xff, "byte %d behind a buffer is written", i);
}

static inline void *upload(const float *v, int64_t n, enum tw_dtype type)
{
    uint16_t *bits = tw_alloc((size_t)n, sizeof *bits);
    ck_assert_ptr_nonnull(bits);
    twp_narrow(bits, v, type, (size_t)n);
    void *memory = guarded((size_t)n * 2);
    cuda_ok(cudaMemcpy(memory, bits, (size_t)n * 2, cudaMemcpyHostToDevice));
    tw_free(bits);
    return memory;
}

static inline void launch_once(struct cuda_case *c, const struct tw_ffn *ffn,
                               const struct twp_ffn_call *call,
                               cudaStream_t stream)
{
    if (call->counts.is_on)
        TW_OK_OR_FAIL(twp_counts_clear(&call->counts, call->rows, ffn->f,
                                       stream, &c->err),
                      c->err);
    TW_OK_OR_FAIL(twp_ffn_run(ffn, &the_device, call, stream, &c->err), c->err);
}

static inline void launch_call(struct cuda_case *c, const struct tw_ffn *ffn,
                               const struct twp_ffn_call *call)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda_ok(cudaDeviceSynchronize()); // the buffers are filled
    if (c->is_captured) {
        cuda_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        launch_once(c, ffn, call, stream);
        cuda_ok(cudaStreamEndCapture(stream, &graph));
        cuda_ok(cudaGraphInstantiate(&replay, graph, 0));
        for (int run = 0; run < 2; run++)
            cuda_ok(cudaGraphLaunch(replay, stream));
        cuda_ok(cudaStreamSynchronize(stream));
        cuda_ok(cudaGraphExecDestroy(replay));
        cuda_ok(cudaGraphDestroy(graph));
    } else {
        launch_once(c, ffn, call, stream);
    }
    cuda_ok(cudaStreamSynchronize(stream));
    cuda_ok(cudaStreamDestroy(stream));
}

/* A dense layer's counts as count words. */
static inline void case_read_parts(struct cuda_case *c,
                                   const struct twp_parts *parts)
{
    int64_t number = (c->f + TWP_PART - 1) / TWP_PART, tiles = (number + 1) / 2;
    size_t cells = (size_t)(number * parts->stride);
    uint16_t *part = tw_alloc(cells, sizeof *part);
    ck_assert_ptr_nonnull(part);
    cuda_ok(cudaMemcpy(part, parts->count, cells * sizeof *part,
                       cudaMemcpyDeviceToHost));
    memset(c->count, 0, (size_t)(c->rows * tiles) * sizeof *c->count);
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t i = 0; i < number; i++)
            c->count[r * tiles + i / 2] |= (uint32_t)part[i * parts->stride + r]
                                           << 16 * (i % 2);
    tw_free(part);
}

/* Runs the layer on the device into y, obs, count and entry. */
static inline void case_run(struct cuda_case *c)
{
    size_t rows = (size_t)c->rows, y_bytes = rows * (size_t)c->d * 2;
    struct tw_ffn *ffn = NULL;
    TW_OK_OR_FAIL(twp_ffn_create(&c->desc, c->type, &ffn, &c->err), c->err);
    ffn->slots = c->slots ? c->slots : ffn->slots;
    ffn->row_limit = c->row_limit >= 0 ? c->row_limit : INT32_MAX;
    ffn->variant = c->variant;
    int32_t m = (int32_t)c->rows, f = (int32_t)c->f;
    size_t work_bytes = twp_ffn_work_bytes(ffn, m);
    struct twp_counts defs = {.is_on = !c->is_off};
    if (!c->is_off)
        twp_counts_defs(&c->probes, &defs);
    size_t counts_bytes = twp_cuda_counts_bytes(m, f, defs.defs);
    void *x = upload(c->x, c->rows * c->d, c->type);
    void *residual = upload(c->residual, c->rows * c->d, c->type);
    void *y = guarded(y_bytes), *work = guarded(work_bytes);
    void *counts = guarded(counts_bytes), *skip = guarded(rows);
    cuda_ok(cudaMemcpy(skip, c->row_class, rows, cudaMemcpyHostToDevice));
    struct twp_ffn_call call = {.y = y,
                                .x = x,
                                .rows = m,
                                .counts = defs,
                                .residual = c->has_residual ? residual : NULL};
    for (size_t r = 0; r < rows; r++) // a flag is 0 or not
        ck_assert(!c->row_class[r] == !(c->row_class[r] & TW_ROW_SKIPPED));
    twp_ffn_work_carve(ffn, m, work, &call.work);
    if (!c->is_off) {
        twp_counts_carve(m, f, counts, &call.counts);
        call.counts.skip = skip;
    }
    launch_call(c, ffn, &call);
    cuda_ok(cudaDeviceSynchronize());
    check_band(y, y_bytes);
    check_band(work, work_bytes);
    check_band(counts, counts_bytes);
    check_band(x, y_bytes);
    cuda_ok(cudaMemcpy(c->y_bits, y, y_bytes, cudaMemcpyDeviceToHost));
    tw_widen(c->y, c->y_bits, c->type, (size_t)(c->rows * c->d));
    if (!c->is_off) {
        void *host = tw_alloc(counts_bytes, 1);
        ck_assert_ptr_nonnull(host);
        cuda_ok(cudaMemcpy(host, counts, counts_bytes, cudaMemcpyDeviceToHost));
        struct twp_counts on_host = defs;
        on_host.skip = c->row_class;
        twp_counts_carve(m, f, host, &on_host);
        tw_layer_obs_reset(&c->obs, c->rows);
        twp_cuda_counts_merge(&on_host, &c->probes, &c->obs);
        tw_free(host);
    }
    size_t cells = rows * (size_t)ffn->tiles;
    if (!c->count) {
        c->count = own(c, cells, 4);
        c->entry = own(c, cells * (size_t)TWP_TILE, 4);
    }
    if (ffn->is_dense)
        case_read_parts(c, &call.work.parts);
    else
        cuda_ok(cudaMemcpy(c->count, call.work.packed.count, cells * 4,
                           cudaMemcpyDeviceToHost));
    if (call.work.packed.entry)
        cuda_ok(cudaMemcpy(c->entry, call.work.packed.entry,
                           cells * (size_t)ffn->slots * 4,
                           cudaMemcpyDeviceToHost));
    c->slots = ffn->slots;
    void *all[] = {x, residual, y, work, counts, skip};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        cuda_ok(cudaFree(all[i]));
    twp_ffn_destroy(ffn);
}

/* Runs the reference into want_y and want. */
static inline void case_refer(struct cuda_case *c)
{
    int64_t offset[2] = {0, c->rows}, zero = 0;
    struct tw_batch batch = {.rows = c->rows,
                             .seqs = 1,
                             .offset = offset,
                             .document = &zero,
                             .start = &zero,
                             .row_class = c->row_class};
    const struct tw_ops *ref = &tw_ops_ref;
    void *ctx = NULL;
    struct tw_ffn *ffn = NULL;
    TW_OK_OR_FAIL(ref->init(&(struct tw_ops_config){0}, &ctx, &c->err), c->err);
    TW_OK_OR_FAIL(ref->start(ctx, &batch, &c->err), c->err);
    TW_OK_OR_FAIL(ref->ffn_load(ctx, &c->desc, &ffn, &c->err), c->err);
    tw_layer_obs_reset(&c->want, c->rows);
    TW_OK_OR_FAIL(ref->ffn(ctx, c->want_y, c->x,
                           c->has_residual ? c->residual : NULL, ffn,
                           &c->probes, &c->want, &c->err),
                  c->err);
    ref->ffn_free(ctx, ffn);
    TW_OK_OR_FAIL(ref->finish(ctx, &c->err), c->err);
    ref->fini(ctx);
}

/* Where the device is emulated (tests/emu), a path takes one case in `of`, the
 * next path another, unless TW_EMU_ALL is set. */
static int the_path;

static inline bool is_left_out(int i, int of)
{
#ifdef TW_CUDA_EMULATED
    return !getenv("TW_EMU_ALL") && (i + the_path) % of != 0;
#else
    (void)i, (void)of, (void)the_path;
    return false;
#endif
}

#endif
