/* A batch's rows on the device: one pinned block, filled here and copied in one
 * piece, so that starting a batch waits for nothing. */
#include <config.h>

#include "kernels/cuda/context.h"

#include <string.h>

static int64_t count_tiles(const struct tw_batch *batch)
{
    int64_t tiles = 0;
    for (int64_t s = 0; s < batch->seqs; s++)
        tiles +=
            (batch->offset[s + 1] - batch->offset[s] + TWP_ATTENTION_ROWS - 1) /
            TWP_ATTENTION_ROWS;
    return tiles;
}

#define COUNTERS 2

/* The parts of a block, in this order, all but the last in 4-byte steps. */
static size_t block_bytes(const struct tw_batch *batch, int64_t tiles)
{
    return sizeof(int32_t) * (size_t)(2 * batch->rows + batch->seqs + 1 +
                                      2 * tiles + COUNTERS) +
           (size_t)batch->rows;
}

static void carve(const struct tw_batch *batch, int64_t tiles, int32_t *memory,
                  struct twp_device_batch *to)
{
    *to = (struct twp_device_batch){.rows = (int32_t)batch->rows,
                                    .seqs = (int32_t)batch->seqs,
                                    .tiles = (int32_t)tiles,
                                    .token = memory};
    to->position = to->token + batch->rows;
    to->offset = to->position + batch->rows;
    to->tile_seq = to->offset + batch->seqs + 1;
    to->tile_place = to->tile_seq + tiles;
    to->work = memory + 2 * batch->rows + batch->seqs + 1 + 2 * tiles;
    to->skip = (const uint8_t *)(to->work + COUNTERS);
}

static void fill_tiles(const struct tw_batch *batch, int32_t *seq,
                       int32_t *place)
{
    for (int64_t s = 0; s < batch->seqs; s++) {
        int64_t rows = batch->offset[s + 1] - batch->offset[s];
        for (int64_t t = (rows - 1) / TWP_ATTENTION_ROWS; rows && t >= 0; t--) {
            *seq++ = (int32_t)s;
            *place++ = (int32_t)(t * TWP_ATTENTION_ROWS);
        }
    }
}

static void fill(const struct tw_batch *batch, int32_t *token, int64_t tiles)
{
    int32_t *position = token + batch->rows;
    int32_t *offset = position + batch->rows;
    int32_t *seq = offset + batch->seqs + 1;
    int32_t *work = seq + 2 * tiles;
    uint8_t *skip = (uint8_t *)(work + COUNTERS);
    memcpy(token, batch->token, (size_t)batch->rows * sizeof *token);
    for (int64_t s = 0; s < batch->seqs; s++)
        for (int64_t r = batch->offset[s]; r < batch->offset[s + 1]; r++)
            position[r] = (int32_t)(r - batch->offset[s]);
    for (int64_t s = 0; s <= batch->seqs; s++)
        offset[s] = (int32_t)batch->offset[s];
    fill_tiles(batch, seq, seq + tiles);
    memset(work, 0, COUNTERS * sizeof *work);
    for (int64_t r = 0; r < batch->rows; r++)
        skip[r] = (batch->row_class[r] & TW_ROW_SKIPPED) != 0;
}

enum tw_status twp_batch_send(struct twp_cuda *cuda, struct twp_flight *flight,
                              struct tw_error *err)
{
    const struct tw_batch *batch = flight->batch;
    if (batch->rows > INT32_MAX / 4)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "cuda: a batch of %lld rows",
                            (long long)batch->rows);
    int64_t tiles = count_tiles(batch);
    size_t bytes = block_bytes(batch, tiles);
    enum tw_status status =
        twp_memory_grow(cuda, &flight->rows_host, bytes, err);
    if (status == TW_OK)
        status = twp_memory_grow(cuda, &flight->rows_device, bytes, err);
    if (status != TW_OK)
        return status;
    fill(batch, flight->rows_host.at, tiles);
    carve(batch, tiles, flight->rows_device.at, &flight->on_device);
    return twp_cuda_check(cudaMemcpyAsync(flight->rows_device.at,
                                          flight->rows_host.at, bytes,
                                          cudaMemcpyHostToDevice, cuda->stream),
                          "batch", err);
}
