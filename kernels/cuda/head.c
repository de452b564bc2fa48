/* The loss head. On Hopper product and loss are one kernel, for as many rows at
 * once as its sums of tiles have room in the head's memory. Elsewhere, and
 * where a row's numbers aren't a multiple of 8, logits in chunks of ROWS x
 * COLS, each a product in fp32 that the loss kernel reads from the L2 right
 * behind it. So logits are never all in memory. A row's sum runs over tiles or
 * chunks in their order, and they are the same for every batch. */
#include <config.h>

#include "kernels/cuda/context.h"

/* 32 MiB of logits: of an H200's L2 (50 MB, two halves) as much as stays. */
#define ROWS   2048
#define COLS   4096
#define LOGITS ((size_t)ROWS * COLS)

/* Rows of the fused product that share what the L2 has of the weights. */
#define GROUP (8 * TWP_HEAD_ROWS)

size_t twp_head_bytes(void)
{
    return (LOGITS + 3 * ROWS) * sizeof(float);
}

static enum tw_status check_tokens(const struct tw_batch *batch, int64_t vocab,
                                   struct tw_error *err)
{
    for (int64_t s = 0; s < batch->seqs; s++)
        for (int64_t r = batch->offset[s] + 1; r < batch->offset[s + 1]; r++)
            if (batch->token[r] < 0 || batch->token[r] >= vocab)
                return tw_error_set(err, TW_ERR_MISMATCH,
                                    "token %lld is not among the loss head's "
                                    "rows",
                                    (long long)batch->token[r]);
    return TW_OK;
}

/* Numbers and memory of the rows whose logits are wanted. */
static enum tw_status want(struct twp_cuda *cuda, const struct tw_head *head,
                           int64_t vocab, struct twp_loss_args *args,
                           struct tw_error *err)
{
    struct twp_flight *flight = cuda->now;
    size_t rows = (size_t)head->logit_rows, bytes = rows * sizeof(int32_t);
    if (rows == 0)
        return TW_OK;
    flight->logits_bytes = rows * (size_t)vocab * sizeof(float);
    enum tw_status status =
        twp_memory_grow(cuda, &flight->wanted_host, bytes, err);
    if (status == TW_OK)
        status = twp_memory_grow(cuda, &flight->wanted_device, bytes, err);
    if (status == TW_OK)
        status = twp_memory_grow(cuda, &flight->kept_device,
                                 flight->logits_bytes, err);
    if (status != TW_OK)
        return status;
    int32_t *number = flight->wanted_host.at;
    for (size_t i = 0; i < rows; i++) {
        number[i] = (int32_t)head->logit_row[i];
        if (i > 0 && number[i] <= number[i - 1])
            return tw_error_set(err, TW_ERR_UNSUPPORTED,
                                "cuda: wanted rows have to ascend");
    }
    flight->logits = head->logits;
    args->wanted = flight->wanted_device.at;
    args->n_wanted = (int32_t)rows;
    args->kept = flight->kept_device.at;
    return twp_cuda_check(cudaMemcpyAsync(flight->wanted_device.at, number,
                                          bytes, cudaMemcpyHostToDevice,
                                          cuda->stream),
                          "wanted rows", err);
}

static enum tw_status chunk(struct twp_cuda *cuda, const void *x,
                            const struct tw_weight *w,
                            struct twp_loss_args *args, struct tw_error *err)
{
    struct twp_product product = {
        .y = cuda->head.at,
        .x = (const uint16_t *)x + args->first_row * w->cols,
        .w = (const uint16_t *)w->data + args->first * w->cols,
        .m = args->rows,
        .n = args->cols,
        .k = w->cols,
        .ld = args->stride,
        .is_wide = true};
    enum tw_status status = twp_multiply(cuda, &product, err);
    return status == TW_OK ? tw_launch_loss(args, cuda->stream, err) : status;
}

static int32_t smaller(int64_t a, int64_t b)
{
    return (int32_t)(a < b ? a : b);
}

/* All rows by chunks of logits. */
static enum tw_status chunked(struct twp_cuda *cuda, const void *x,
                              const struct tw_weight *w,
                              struct twp_loss_args *args, struct tw_error *err)
{
    int64_t rows = args->batch->rows;
    enum tw_status status =
        twp_memory_grow(cuda, &cuda->head, twp_head_bytes(), err);
    args->logits = cuda->head.at;
    args->state = (float *)cuda->head.at + LOGITS;
    for (int64_t row = 0; row < rows; row += ROWS)
        for (int64_t col = 0; col < w->rows && status == TW_OK; col += COLS) {
            args->first_row = (int32_t)row;
            args->rows = smaller(rows - row, ROWS);
            args->first = (int32_t)col;
            args->cols = smaller(w->rows - col, COLS);
            args->stride = (args->cols + 3) / 4 * 4;
            status = chunk(cuda, x, w, args, err);
        }
    return status;
}

static bool can_fuse(const struct twp_cuda *cuda, const void *x,
                     const struct tw_weight *w)
{
    uintptr_t address = (uintptr_t)x | (uintptr_t)w->data;
    return cuda->device.path == TW_CUDA_HOPPER && w->cols % 8 == 0 &&
           address % 16 == 0;
}

/* How many rows at once. */
static int64_t fused_rows(int64_t rows, int64_t vocab)
{
    int64_t room = (int64_t)(twp_head_bytes() / tw_head_part_bytes(1, vocab));
    int64_t unit = room < GROUP ? TWP_HEAD_ROWS : GROUP;
    room = room < unit ? unit : room / unit * unit;
    return rows < room ? rows : room;
}

/* All rows by the fused product. */
static enum tw_status fused(struct twp_cuda *cuda, const void *x,
                            const struct tw_weight *w,
                            const struct twp_loss_args *a, struct tw_error *err)
{
    int64_t rows = a->batch->rows, step = fused_rows(rows, w->rows);
    size_t bytes = tw_head_part_bytes(step, w->rows), most = twp_head_bytes();
    struct twp_map map[2];
    enum tw_status status =
        twp_memory_grow(cuda, &cuda->head, bytes > most ? bytes : most, err);
    if (status == TW_OK)
        status =
            twp_map_encode(&map[0], cuda->type, x, rows, w->cols, w->cols, err);
    if (status == TW_OK)
        status = twp_map_encode(&map[1], cuda->type, w->data, w->rows, w->cols,
                                w->cols, err);
    struct twp_head_args args = {.type = cuda->type,
                                 .x = &map[0],
                                 .w = &map[1],
                                 .k = (int32_t)w->cols,
                                 .vocab = a->vocab,
                                 .bias = a->bias,
                                 .scale = a->scale,
                                 .soft_cap = a->soft_cap,
                                 .part = cuda->head.at,
                                 .nll = a->nll,
                                 .wanted = a->wanted,
                                 .n_wanted = a->n_wanted,
                                 .kept = a->kept,
                                 .batch = a->batch};
    for (int64_t row = 0; row < rows && status == TW_OK; row += step) {
        args.first_row = (int32_t)row;
        args.rows = smaller(rows - row, step);
        status = tw_launch_head(&cuda->device, &args, cuda->stream, err);
    }
    return status;
}

enum tw_status twp_cuda_head_nll(void *ctx, const void *x,
                                 const struct tw_weight *w,
                                 const struct tw_head *head,
                                 struct tw_head_obs *obs, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    struct twp_flight *flight = cuda->now;
    int64_t rows = flight->batch->rows, vocab = w->rows;
    size_t nll = (size_t)rows * sizeof(float);
    struct twp_loss_args args = {.vocab = (int32_t)vocab,
                                 .scale = head->scale,
                                 .soft_cap = head->soft_cap,
                                 .batch = &flight->on_device};
    bool is_lossy = obs && obs->nll;
    const void *bias = NULL;
    enum tw_status status =
        is_lossy ? check_tokens(flight->batch, vocab, err) : TW_OK;
    if (status == TW_OK)
        status = twp_vector_of(cuda, &head->bias, TW_F32, &bias, err);
    if (status == TW_OK)
        status = want(cuda, head, vocab, &args, err);
    if (status == TW_OK && is_lossy)
        status = twp_memory_grow(cuda, &flight->nll_device, nll, err);
    if (status == TW_OK && is_lossy)
        status = twp_memory_grow(cuda, &flight->nll_host, nll, err);
    if (status != TW_OK)
        return status;
    args.bias = bias;
    args.nll = is_lossy ? flight->nll_device.at : NULL;
    status = can_fuse(cuda, x, w) ? fused(cuda, x, w, &args, err)
                                  : chunked(cuda, x, w, &args, err);
    if (is_lossy)
        flight->nll = obs->nll;
    return status;
}
