/* Matrices made of stored ones: views of rows that lie together, and copies of
 * those that don't (fused by head, transposed), which the model owns. A copy is
 * never larger than what it is made of, so a file can't ask for more memory
 * than it has bytes. */
#include <config.h>

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "model/family.h"

static size_t row_bytes(const struct tw_matrix *m)
{
    return (size_t)m->cols * tw_dtype_size(m->dtype);
}

struct tw_matrix twp_rows(const struct tw_matrix *from, int64_t first,
                          int64_t rows)
{
    assert(first >= 0 && rows >= 1 && first + rows <= from->rows);
    struct tw_matrix view = *from;
    view.data = (const char *)from->data + (size_t)first * row_bytes(from);
    view.rows = rows;
    return view;
}

struct tw_matrix twp_part(const struct tw_matrix *from, int64_t first,
                          int64_t count)
{
    assert(from->rows == 1 && first >= 0 && first + count <= from->cols);
    struct tw_matrix view = *from;
    view.data =
        (const char *)from->data + (size_t)first * tw_dtype_size(from->dtype);
    view.cols = count;
    return view;
}

/* Memory of the model for a matrix of that form. */
static enum tw_status own(struct tw_model *model, struct tw_matrix *matrix,
                          char **data, struct tw_error *err)
{
    size_t bytes = (size_t)matrix->rows * row_bytes(matrix);
    void **grown =
        tw_realloc(model->owned, model->owned_count + 1, sizeof *grown);
    if (grown)
        model->owned = grown;
    *data = grown ? tw_alloc_aligned(bytes, 1) : NULL;
    if (!*data)
        return tw_error_set(err, TW_ERR_NOMEM,
                            "out of memory for a copy of "
                            "fused weights");
    model->owned[model->owned_count++] = *data;
    model->owned_bytes += (int64_t)bytes;
    matrix->data = *data;
    return TW_OK;
}

enum tw_status twp_gather(struct tw_model *model, const struct tw_matrix *from,
                          int64_t groups, int64_t stride, int64_t first,
                          int64_t rows, struct tw_matrix *out,
                          struct tw_error *err)
{
    bool is_vector = from->rows == 1;
    struct tw_matrix copy = *from, source = *from;
    if (is_vector) {
        source.rows = from->cols;
        source.cols = 1;
    }
    assert(groups * stride == source.rows && first + rows <= stride);
    copy.rows = groups * rows;
    copy.cols = source.cols;
    size_t bytes = row_bytes(&source);
    char *data;
    enum tw_status status = own(model, &copy, &data, err);
    if (status != TW_OK)
        return status;
    for (int64_t g = 0; g < groups; g++)
        memcpy(data + (size_t)(g * rows) * bytes,
               (const char *)source.data + (size_t)(g * stride + first) * bytes,
               (size_t)rows * bytes);
    if (is_vector) {
        copy.cols = copy.rows;
        copy.rows = 1;
    }
    *out = copy;
    return TW_OK;
}

#define EDGE 32 /* a square of it stays in the first-level cache */

static void flip(char *to, const char *from, int64_t rows, int64_t cols,
                 size_t size)
{
    for (int64_t r0 = 0; r0 < rows; r0 += EDGE)
        for (int64_t c0 = 0; c0 < cols; c0 += EDGE)
            for (int64_t r = r0; r < rows && r < r0 + EDGE; r++)
                for (int64_t c = c0; c < cols && c < c0 + EDGE; c++)
                    memcpy(to + (size_t)(c * rows + r) * size,
                           from + (size_t)(r * cols + c) * size, size);
}

enum tw_status twp_transpose(struct tw_model *model,
                             const struct tw_matrix *from,
                             struct tw_matrix *out, struct tw_error *err)
{
    struct tw_matrix copy = {
        .dtype = from->dtype, .rows = from->cols, .cols = from->rows};
    char *data;
    enum tw_status status = own(model, &copy, &data, err);
    if (status != TW_OK)
        return status;
    flip(data, from->data, from->rows, from->cols, tw_dtype_size(from->dtype));
    *out = copy;
    return TW_OK;
}

enum tw_status twp_stack(struct tw_model *model, const struct tw_matrix *from,
                         int64_t count, struct tw_matrix *out,
                         struct tw_error *err)
{
    struct tw_matrix copy = from[0];
    char *data;
    for (int64_t i = 1; i < count; i++)
        if (from[i].dtype != copy.dtype)
            return tw_error_set(err, TW_ERR_UNSUPPORTED,
                                "the heads' norms are of several types");
    copy.rows = count;
    enum tw_status status = own(model, &copy, &data, err);
    if (status != TW_OK)
        return status;
    for (int64_t i = 0; i < count; i++)
        memcpy(data + (size_t)i * row_bytes(&copy), from[i].data,
               row_bytes(&copy));
    *out = copy;
    return TW_OK;
}
