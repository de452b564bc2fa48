/* Life of a cpu context, activation buffers and the started batch's blocks. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/simd.h"

#include <assert.h>
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

#define KEEP_MOST ((int64_t)2 << 30) /* widened weights kept by default */

static int64_t default_keep_bytes(void)
{
    int64_t quarter = tw_memory_available() / 4;
    return quarter < KEEP_MOST ? quarter : KEEP_MOST;
}

enum tw_status twp_cpu_init(const struct tw_ops_config *config, void **ctx,
                            struct tw_error *err)
{
    struct twp_cpu *cpu = tw_calloc(1, sizeof *cpu);
    if (!cpu)
        return tw_error_set(err, TW_ERR_NOMEM, "cpu: out of memory");
    cpu->workers =
        config->threads > 0 ? config->threads : tw_threads_available();
    cpu->keep_bytes =
        config->keep_bytes > 0 ? config->keep_bytes : default_keep_bytes();
    openblas_set_num_threads(1); /* R2 */
    /* The processor type as results know it; never the number of threads. */
    snprintf(cpu->device, sizeof cpu->device, "OpenBLAS %s, kernels %s",
             openblas_get_corename(), twp_simd_find()->name);
    enum tw_status status = TW_OK;
    cpu->scratch = tw_calloc((size_t)cpu->workers, sizeof *cpu->scratch);
    if (!cpu->scratch)
        status = tw_error_set(err, TW_ERR_NOMEM, "cpu: out of memory");
    else
        status = tw_threads_create(cpu->workers, &cpu->threads, err);
    if (status != TW_OK) {
        twp_cpu_fini(cpu);
        return status;
    }
    *ctx = cpu;
    return TW_OK;
}

void twp_cpu_fini(void *ctx)
{
    struct twp_cpu *cpu = ctx;
    if (!cpu)
        return;
    if (cpu->scratch)
        twp_cpu_layer_end(cpu);
    tw_threads_destroy(cpu->threads);
    for (int w = 0; cpu->scratch && w < cpu->workers; w++)
        for (int slot = 0; slot < TWP_SCRATCH_SLOTS; slot++)
            tw_free(cpu->scratch[w].memory[slot]);
    tw_free(cpu->scratch);
    twp_rope_fini(cpu);
    tw_free(cpu->head_chunk);
    twp_marks_fini(&cpu->marks);
    tw_free(cpu->block);
    tw_free(cpu);
}

const char *twp_cpu_device(void *ctx)
{
    struct twp_cpu *cpu = ctx;
    return cpu->device;
}

enum tw_status twp_cpu_alloc(void *ctx, int64_t elements, void **buffer,
                             struct tw_error *err)
{
    (void)ctx;
    assert(elements >= 0);
    void *memory = tw_alloc_aligned((size_t)elements, sizeof(float));
    if (!memory)
        return tw_error_set(err, TW_ERR_NOMEM,
                            "cpu: out of memory for a buffer of %lld floats",
                            (long long)elements);
    *buffer = memory;
    return TW_OK;
}

void twp_cpu_free(void *ctx, void *buffer)
{
    (void)ctx;
    tw_free(buffer);
}

enum tw_status twp_cpu_upload(void *ctx, void *buffer, const float *host,
                              int64_t elements, struct tw_error *err)
{
    (void)ctx, (void)err;
    memcpy(buffer, host, (size_t)elements * sizeof *host);
    return TW_OK;
}

enum tw_status twp_cpu_download(void *ctx, float *host, const void *buffer,
                                int64_t elements, struct tw_error *err)
{
    (void)ctx, (void)err;
    memcpy(host, buffer, (size_t)elements * sizeof *host);
    return TW_OK;
}

static int64_t count_blocks(const struct tw_batch *batch)
{
    int64_t blocks = 0;
    for (int64_t s = 0; s < batch->seqs; s++) {
        int64_t rows = batch->offset[s + 1] - batch->offset[s];
        blocks += (rows + TWP_BLOCK - 1) / TWP_BLOCK;
    }
    return blocks;
}

/* R1: the blocks of each sequence, from its first row on. */
static void list_blocks(struct twp_cpu *cpu, const struct tw_batch *batch)
{
    struct twp_block *block = cpu->block;
    for (int64_t s = 0; s < batch->seqs; s++) {
        int64_t first = batch->offset[s], end = batch->offset[s + 1];
        for (int64_t row = first; row < end; row += TWP_BLOCK) {
            int64_t left = end - row;
            *block++ = (struct twp_block){
                .row = row,
                .position = row - first,
                .rows = (int32_t)(left < TWP_BLOCK ? left : TWP_BLOCK),
                .seq = (int32_t)s,
            };
        }
    }
}

enum tw_status twp_cpu_start(void *ctx, const struct tw_batch *batch,
                             struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    int64_t blocks = count_blocks(batch);
    void *array = cpu->block;
    if (tw_grow(&array, &cpu->block_capacity, (size_t)blocks,
                sizeof *cpu->block))
        return tw_error_set(err, TW_ERR_NOMEM,
                            "cpu: out of memory for a batch of %lld rows",
                            (long long)batch->rows);
    cpu->block = array;
    cpu->blocks = blocks;
    cpu->batch = batch;
    list_blocks(cpu, batch);
    return TW_OK;
}

enum tw_status twp_cpu_finish(void *ctx, struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    (void)err; /* nothing is in flight here */
    cpu->batch = NULL;
    cpu->blocks = 0;
    return TW_OK;
}

enum tw_status twp_cpu_mark(void *ctx, int index, struct tw_error *err)
{
    return twp_marks_put(&((struct twp_cpu *)ctx)->marks, index, err);
}

enum tw_status twp_cpu_mark_ns(void *ctx, int from, int to, double *ns,
                               struct tw_error *err)
{
    return twp_marks_ns(&((struct twp_cpu *)ctx)->marks, from, to, ns, err);
}

void twp_cpu_layer_end(void *ctx)
{
    struct twp_cpu *cpu = ctx;
    twp_weights_layer_end(cpu);
    twp_cpu_ffn_layer_end(cpu);
}

int64_t twp_longest_sequence(const struct twp_cpu *cpu)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < cpu->blocks; i++) {
        int64_t end = cpu->block[i].position + cpu->block[i].rows;
        if (end > longest)
            longest = end;
    }
    return longest;
}
