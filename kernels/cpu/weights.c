/* Matrices in their stored form and, while needed, as floats. A copy is made
 * at first use; it stays while the budget lasts, others go at layer_end. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>
#include <stdalign.h>

#include "base/memory.h"

static bool is_usable_in_place(const struct tw_matrix *matrix)
{
    return matrix->dtype == TW_F32 &&
           (uintptr_t)matrix->data % alignof(float) == 0;
}

enum tw_status twp_cpu_weight_load(void *ctx, const struct tw_matrix *matrix,
                                   struct tw_weight **weight,
                                   struct tw_error *err)
{
    (void)ctx;
    assert(matrix->data && matrix->rows > 0 && matrix->cols > 0);
    if (matrix->dtype != TW_F32 && matrix->dtype != TW_BF16 &&
        matrix->dtype != TW_F16)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "cpu: %s weights are not supported",
                            tw_dtype_name(matrix->dtype));
    struct tw_weight *loaded = tw_calloc(1, sizeof *loaded);
    if (!loaded)
        return tw_error_set(err, TW_ERR_NOMEM, "cpu: out of memory");
    loaded->matrix = *matrix;
    *weight = loaded;
    return TW_OK;
}

static int64_t wide_bytes(const struct tw_weight *weight)
{
    return weight->matrix.rows * weight->matrix.cols * (int64_t)sizeof(float);
}

void twp_cpu_weight_free(void *ctx, struct tw_weight *weight)
{
    struct twp_cpu *cpu = ctx;
    if (!weight)
        return;
    struct tw_weight **link = &cpu->transient;
    while (*link && *link != weight)
        link = &(*link)->next;
    if (*link)
        *link = weight->next;
    if (weight->is_kept)
        cpu->kept_bytes -= wide_bytes(weight);
    tw_free(weight->wide);
    tw_free(weight);
}

enum tw_status twp_weight_f32(struct twp_cpu *cpu, struct tw_weight *weight,
                              const float **wide, struct tw_error *err)
{
    const struct tw_matrix *matrix = &weight->matrix;
    if (is_usable_in_place(matrix)) {
        *wide = matrix->data;
        return TW_OK;
    }
    if (!weight->wide) {
        int64_t count = matrix->rows * matrix->cols;
        weight->wide = tw_alloc_aligned((size_t)count, sizeof(float));
        if (!weight->wide)
            return tw_error_set(err, TW_ERR_NOMEM,
                                "cpu: out of memory to widen a matrix of "
                                "%lld x %lld",
                                (long long)matrix->rows,
                                (long long)matrix->cols);
        twp_widen_parallel(cpu, weight->wide, matrix->data, matrix->dtype,
                           count);
        weight->is_kept =
            wide_bytes(weight) <= cpu->keep_bytes - cpu->kept_bytes;
        if (weight->is_kept) {
            cpu->kept_bytes += wide_bytes(weight);
        } else {
            weight->next = cpu->transient;
            cpu->transient = weight;
        }
    }
    *wide = weight->wide;
    return TW_OK;
}

void twp_weights_layer_end(struct twp_cpu *cpu)
{
    while (cpu->transient) {
        struct tw_weight *weight = cpu->transient;
        cpu->transient = weight->next;
        tw_free(weight->wide);
        weight->wide = NULL;
        weight->next = NULL;
    }
}

enum tw_status twp_vector_f32(struct twp_cpu *cpu,
                              const struct tw_matrix *vector, int slot,
                              const float **wide, struct tw_error *err)
{
    if (!vector || !vector->data || is_usable_in_place(vector)) {
        *wide = vector ? vector->data : NULL;
        return TW_OK;
    }
    int64_t count = vector->rows * vector->cols;
    enum tw_status status = twp_scratch_reserve(
        cpu, slot, (size_t)count * sizeof(float), err);
    if (status != TW_OK)
        return status;
    float *out = cpu->scratch[0].memory[slot];
    twp_widen(out, vector->data, vector->dtype, count);
    *wide = out;
    return TW_OK;
}
