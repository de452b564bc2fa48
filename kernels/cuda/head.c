/* The loss head: logits in chunks of ROWS x COLS, each a product in fp32 that
 * the loss kernel reads from the L2 right behind it, so that logits are never
 * all in memory. A row's sum runs over the chunks in their order, and COLS is
 * the same for every batch. */
#include <config.h>

#include "kernels/cuda/context.h"

/* 32 MiB of logits: of an H200's L2 (50 MB, two halves) as much as stays. */
#define ROWS   2048
#define COLS   4096
#define LOGITS ((size_t)ROWS * COLS)

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

enum tw_status twp_cuda_head_nll(void *ctx, const void *x,
                                 const struct tw_weight *w,
                                 const struct tw_head *head,
                                 struct tw_head_obs *obs, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    struct twp_flight *flight = cuda->now;
    int64_t rows = flight->batch->rows, vocab = w->rows;
    size_t logits = LOGITS, nll = (size_t)rows * sizeof(float);
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
    if (status == TW_OK)
        status = twp_memory_grow(cuda, &cuda->head, twp_head_bytes(), err);
    if (status == TW_OK && is_lossy)
        status = twp_memory_grow(cuda, &flight->nll_device, nll, err);
    if (status == TW_OK && is_lossy)
        status = twp_memory_grow(cuda, &flight->nll_host, nll, err);
    if (status != TW_OK)
        return status;
    args.bias = bias;
    args.logits = cuda->head.at;
    args.state = (float *)cuda->head.at + logits;
    args.nll = is_lossy ? flight->nll_device.at : NULL;
    for (int64_t row = 0; row < rows; row += ROWS)
        for (int64_t col = 0; col < vocab && status == TW_OK; col += COLS) {
            args.first_row = (int32_t)row;
            args.rows = smaller(rows - row, ROWS);
            args.first = (int32_t)col;
            args.cols = smaller(vocab - col, COLS);
            args.stride = (args.cols + 3) / 4 * 4;
            status = chunk(cuda, x, w, &args, err);
        }
    if (is_lossy)
        flight->nll = obs->nll;
    return status;
}
