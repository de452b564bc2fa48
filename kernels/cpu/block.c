/* The two things every product of the backend needs: a BLAS call of one fixed
 * shape, and worker-private memory that is there before the region starts. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>
#include <cblas.h>
#include <string.h>

#include "base/memory.h"

enum tw_status twp_scratch_reserve(struct twp_cpu *cpu, int slot, size_t bytes,
                                   struct tw_error *err)
{
    assert(slot >= 0 && slot < TWP_SCRATCH_SLOTS);
    for (int w = 0; w < cpu->workers; w++) {
        struct twp_scratch *s = &cpu->scratch[w];
        if (s->memory[slot] && s->bytes[slot] >= bytes)
            continue;
        void *memory = tw_alloc_aligned(bytes, 1);
        if (!memory)
            return tw_error_set(err, TW_ERR_NOMEM,
                                "out of memory for a worker (%zu bytes)",
                                bytes);
        tw_free(s->memory[slot]);
        s->memory[slot] = memory;
        s->bytes[slot] = bytes;
    }
    return TW_OK;
}

void twp_block_product(float *c, int64_t ldc, const float *a, int64_t lda,
                       int rows, const float *b, int64_t n, int64_t k,
                       float *pad, float *out)
{
    assert(rows >= 1 && rows <= TWP_BLOCK);
    bool is_short = rows < TWP_BLOCK;
    size_t row_bytes = (size_t)k * sizeof *a;
    if (is_short) {
        for (int r = 0; r < rows; r++)
            memcpy(pad + r * k, a + r * lda, row_bytes);
        memset(pad + rows * k, 0, (size_t)(TWP_BLOCK - rows) * row_bytes);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, TWP_BLOCK, (int)n,
                (int)k, 1.0f, is_short ? pad : a, (int)(is_short ? k : lda), b,
                (int)k, 0.0f, is_short ? out : c, (int)(is_short ? n : ldc));
    if (is_short)
        for (int r = 0; r < rows; r++)
            memcpy(c + r * ldc, out + r * n, (size_t)n * sizeof *c);
}
