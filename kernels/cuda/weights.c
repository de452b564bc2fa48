/* Weights as the context's type, on the device or in a layer on the host, and
 * the small vectors (norms, biases, frequencies) that calls name by their place
 * in host memory: each is copied once. */
#include <config.h>

#include "kernels/cuda/context.h"
#include "kernels/cuda/layers.h"

#include <string.h>

#include "base/memory.h"

/* One stored row as `type`. */
static void narrow_row(uint16_t *out, enum tw_dtype type,
                       const struct tw_matrix *m, int64_t row, float *wide)
{
    size_t n = (size_t)m->cols, size = tw_dtype_size(m->dtype);
    const char *from = (const char *)m->data + (size_t)row * n * size;
    if (m->dtype == type) {
        memcpy(out, from, n * size);
        return;
    }
    tw_widen(wide, from, m->dtype, n);
    twp_narrow(out, wide, type, n);
}

/* All of it, rows `stride` apart, zeros between. */
static enum tw_status narrow_matrix(uint16_t *out, enum tw_dtype type,
                                    const struct tw_matrix *m, int64_t stride,
                                    struct tw_error *err)
{
    size_t n = (size_t)m->cols, between = (size_t)(stride - m->cols);
    float *wide = tw_alloc(n, sizeof *wide);
    if (!wide)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for weights");
    for (int64_t r = 0; r < m->rows; r++) {
        uint16_t *row = out + r * stride;
        narrow_row(row, type, m, r, wide);
        memset(row + n, 0, between * sizeof *row);
    }
    tw_free(wide);
    return TW_OK;
}

/* Room on the device; where there is none, in numbers. */
static enum tw_status make_room(const struct tw_matrix *m, size_t bytes,
                                void **out, struct tw_error *err)
{
    struct tw_error plain = {0};
    size_t free = 0, whole = 0;
    char wanted[TWP_SIZE_TEXT], there[TWP_SIZE_TEXT], all[TWP_SIZE_TEXT];
    enum tw_status status = twp_device_alloc(out, bytes, &plain);
    if (status == TW_OK)
        return TW_OK;
    if (status != TW_ERR_NOMEM)
        return tw_error_set(err, status, "%s", plain.text);
    enum tw_status known =
        twp_cuda_check(cudaMemGetInfo(&free, &whole), "memory", err);
    if (known != TW_OK)
        return known;
    return tw_error_set(err, status,
                        "cuda: out of memory for a matrix of %lld x %lld (%s): "
                        "%s of %s are free",
                        (long long)m->rows, (long long)m->cols,
                        twp_size_text(wanted, bytes),
                        twp_size_text(there, free), twp_size_text(all, whole));
}

enum tw_status twp_matrix_load(const struct tw_matrix *m, enum tw_dtype type,
                               int64_t stride, void **out, struct tw_error *err)
{
    if (!m->data)
        return TW_OK;
    size_t bytes = (size_t)(m->rows * stride) * sizeof(uint16_t);
    enum tw_status status = make_room(m, bytes, out, err);
    if (status != TW_OK)
        return status;
    uint16_t *host = tw_alloc(bytes, 1);
    status = host
                 ? narrow_matrix(host, type, m, stride, err)
                 : tw_error_set(err, TW_ERR_NOMEM, "out of memory for weights");
    if (status == TW_OK)
        status = twp_cuda_check(
            cudaMemcpy(*out, host, bytes, cudaMemcpyHostToDevice), "weights",
            err);
    tw_free(host);
    return status;
}

enum tw_status twp_layer_put(struct twp_layer *layer, const struct tw_matrix *m,
                             enum tw_dtype type, int64_t stride, size_t *offset,
                             struct tw_error *err)
{
    if (!m->data)
        return TW_OK;
    size_t bytes = (size_t)(m->rows * stride) * sizeof(uint16_t);
    if (bytes > layer->room - layer->used)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "cuda: a layer is larger than the first, and not "
                            "all fit into the device's memory");
    enum tw_status status = narrow_matrix(
        (uint16_t *)(void *)(layer->host + layer->used), type, m, stride, err);
    if (status == TW_OK) {
        *offset = layer->used;
        layer->used += twp_block_align(bytes);
    }
    return status;
}

enum tw_status twp_cuda_weight_load(void *ctx, const struct tw_matrix *matrix,
                                    struct tw_weight **weight,
                                    struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    struct tw_weight *w = tw_calloc(1, sizeof *w);
    if (!w)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a weight");
    w->rows = matrix->rows;
    w->cols = matrix->cols;
    w->layer = cuda->loading;
    enum tw_status status =
        w->layer ? twp_layer_put(w->layer, matrix, cuda->type, w->cols,
                                 &w->offset, err)
                 : twp_matrix_load(matrix, cuda->type, w->cols, &w->data, err);
    if (status == TW_OK)
        *weight = w;
    else
        twp_cuda_weight_free(ctx, w);
    return status;
}

void twp_cuda_weight_free(void *ctx, struct tw_weight *weight)
{
    (void)ctx;
    if (!weight)
        return;
    twp_device_free(weight->data);
    tw_free(weight);
}

enum tw_status twp_weight_data(struct twp_cuda *cuda, const struct tw_weight *w,
                               const void **data, struct tw_error *err)
{
    char *block = NULL;
    enum tw_status status = TW_OK;
    *data = w->data;
    if (w->layer)
        status = twp_ring_enter(cuda, w->layer, &block, err);
    if (status == TW_OK && w->layer)
        *data = block + w->offset;
    return status;
}

/* `count` numbers as fp32 or 16 bits to the device. */
static enum tw_status send_vector(struct twp_vector *v, struct tw_error *err)
{
    size_t n = (size_t)v->count, size = tw_dtype_size(v->type);
    float *wide = tw_alloc(n, sizeof *wide);
    uint16_t *narrow = tw_alloc(n, sizeof *narrow);
    enum tw_status status = TW_OK;
    if (!wide || !narrow) {
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory for a vector");
        goto out;
    }
    tw_widen(wide, v->host, v->from, n);
    if (v->type != TW_F32)
        twp_narrow(narrow, wide, v->type, n);
    status = twp_device_alloc(&v->device, n * size, err);
    if (status == TW_OK)
        status = twp_cuda_check(
            cudaMemcpy(v->device,
                       v->type == TW_F32 ? (void *)wide : (void *)narrow,
                       n * size, cudaMemcpyHostToDevice),
            "a vector", err);
out:
    tw_free(narrow);
    tw_free(wide);
    return status;
}

static enum tw_status add_vector(struct twp_cuda *cuda,
                                 const struct twp_vector *wanted,
                                 struct tw_error *err)
{
    void *array = cuda->vector;
    if (tw_grow(&array, &cuda->vector_room, cuda->vectors + 1,
                sizeof *cuda->vector) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for vectors");
    cuda->vector = array;
    struct twp_vector *v = &cuda->vector[cuda->vectors];
    *v = *wanted;
    enum tw_status status = send_vector(v, err);
    if (status == TW_OK)
        cuda->vectors++;
    else
        twp_device_free(v->device);
    return status;
}

static enum tw_status find_vector(struct twp_cuda *cuda,
                                  const struct twp_vector *wanted,
                                  const void **out, struct tw_error *err)
{
    *out = NULL;
    if (!wanted->host)
        return TW_OK;
    for (size_t i = 0; i < cuda->vectors; i++) {
        const struct twp_vector *v = &cuda->vector[i];
        if (v->host == wanted->host && v->type == wanted->type &&
            v->from == wanted->from && v->count == wanted->count) {
            *out = v->device;
            return TW_OK;
        }
    }
    enum tw_status status = add_vector(cuda, wanted, err);
    if (status == TW_OK)
        *out = cuda->vector[cuda->vectors - 1].device;
    return status;
}

enum tw_status twp_vector_of(struct twp_cuda *cuda,
                             const struct tw_matrix *vector, enum tw_dtype type,
                             const void **out, struct tw_error *err)
{
    const struct twp_vector wanted = {.host = vector->data,
                                      .from = vector->dtype,
                                      .type = type,
                                      .count = vector->rows * vector->cols};
    return find_vector(cuda, &wanted, out, err);
}

enum tw_status twp_floats_of(struct twp_cuda *cuda, const float *host,
                             int64_t count, const float **out,
                             struct tw_error *err)
{
    const struct twp_vector wanted = {
        .host = host, .from = TW_F32, .type = TW_F32, .count = count};
    const void *found = NULL;
    enum tw_status status = find_vector(cuda, &wanted, &found, err);
    *out = found;
    return status;
}

void twp_vectors_fini(struct twp_cuda *cuda)
{
    for (size_t i = 0; i < cuda->vectors; i++)
        twp_device_free(cuda->vector[i].device);
    tw_free(cuda->vector);
    cuda->vector = NULL;
    cuda->vectors = cuda->vector_room = 0;
}
