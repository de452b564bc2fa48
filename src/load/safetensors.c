/* A checkpoint's set of tensors: one file or shards, by name. */
#include <config.h>

#include "load/safetensors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "load/load_internal.h"

static int by_name(const void *left, const void *right)
{
    const struct tw_tensor *a = left, *b = right;
    return strcmp(a->name, b->name);
}

static void close_file(struct tw_tensor_file *file)
{
    tw_file_unmap(&file->map);
    tw_free(file->name);
    tw_free(file->names);
    tw_free(file->other);
    twp_arena_fini(&file->arena);
}

void tw_tensors_close(struct tw_tensors *tensors)
{
    for (size_t i = 0; i < tensors->files; i++)
        close_file(&tensors->file[i]);
    for (size_t i = 0; i < tensors->count; i++)
        tw_free(tensors->tensor[i].owned);
    tw_free(tensors->file);
    tw_free(tensors->tensor);
    *tensors = (struct tw_tensors){0};
}

static bool ends_in(const char *text, const char *ending)
{
    size_t a = strlen(text), b = strlen(ending);
    return a >= b && strcmp(text + a - b, ending) == 0;
}

bool twp_is_torch(const char *name)
{
    return ends_in(name, ".bin") || ends_in(name, ".pt") ||
           ends_in(name, ".pth");
}

bool twp_is_weights(const char *name)
{
    return ends_in(name, ".safetensors") || twp_is_torch(name);
}

enum tw_status twp_tensors_add(struct tw_tensors *tensors, const char *path,
                               struct tw_error *err)
{
    struct tw_tensor *more = NULL;
    size_t count = 0;
    struct tw_tensor_file *file = &tensors->file[tensors->files];
    *file = (struct tw_tensor_file){0};
    enum tw_status status = tw_file_map(path, &file->map, err);
    if (status != TW_OK)
        return status;
    tensors->files++;
    file->name = tw_strdup(tw_path_base(path));
    if (!file->name)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    twp_arena_init(&file->arena, file->name, file->map.size);
    status = twp_is_torch(path) ? twp_torch_parse(file, &more, &count, err)
                                : twp_header_parse(file, &more, &count, err);
    if (status != TW_OK)
        return status;
    struct tw_tensor *all =
        tw_realloc(tensors->tensor, tensors->count + count, sizeof *all);
    if (all) {
        memcpy(all + tensors->count, more, count * sizeof *more);
        tensors->tensor = all;
        tensors->count += count;
    } else {
        for (size_t i = 0; i < count; i++)
            tw_free(more[i].owned);
        status = tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    }
    tw_free(more);
    return status;
}

enum tw_status twp_tensors_sort(struct tw_tensors *tensors,
                                struct tw_error *err)
{
    struct tw_tensor *t = tensors->tensor;
    qsort(t, tensors->count, sizeof *t, by_name);
    for (size_t i = 1; i < tensors->count; i++)
        if (strcmp(t[i - 1].name, t[i].name) == 0)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "%s: tensor '%.200s' stands in %s as well",
                                t[i].file, t[i].name, t[i - 1].file);
    return TW_OK;
}

enum tw_status tw_tensors_open_file(const char *path,
                                    struct tw_tensors *tensors,
                                    struct tw_error *err)
{
    struct tw_tensors set = {0};
    set.file = tw_calloc(1, sizeof *set.file);
    if (!set.file)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    enum tw_status status = twp_tensors_add(&set, path, err);
    if (status == TW_OK)
        status = twp_tensors_sort(&set, err);
    if (status != TW_OK)
        tw_tensors_close(&set);
    else
        *tensors = set;
    return status;
}

static struct tw_tensor *find(const struct tw_tensors *tensors,
                              const char *name)
{
    struct tw_tensor key = {.name = name};
    if (tensors->count == 0)
        return NULL;
    return bsearch(&key, tensors->tensor, tensors->count, sizeof key, by_name);
}

const struct tw_tensor *tw_tensors_find(const struct tw_tensors *tensors,
                                        const char *name)
{
    return find(tensors, name);
}

const char *twp_tensors_other(const struct tw_tensors *tensors,
                              const char *name, const char **file)
{
    for (size_t f = 0; f < tensors->files; f++)
        for (size_t i = 0; i < tensors->file[f].others; i++)
            if (strcmp(tensors->file[f].other[i].name, name) == 0) {
                *file = tensors->file[f].name;
                return tensors->file[f].other[i].type;
            }
    return NULL;
}

static enum tw_status absent(const struct tw_tensors *tensors, const char *name,
                             struct tw_error *err)
{
    const char *file, *type = twp_tensors_other(tensors, name, &file);
    if (type)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "%s: tensor '%s' has type %s, expected F32, BF16 "
                            "or F16",
                            file, name, type);
    return tw_error_set(err, TW_ERR_NOT_FOUND, "%s: no tensor '%s'",
                        tensors->index ? tensors->index : tensors->file[0].name,
                        name);
}

/* "[a, b]" */
static const char *shape_text(char *text, size_t size, int dims,
                              const int64_t *shape)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < dims; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld",
                                 d ? ", " : "", (long long)shape[d]);
    snprintf(text + used, size - used, "]");
    return text;
}

static bool is_shape(const struct tw_tensor *tensor, int dims,
                     const int64_t *shape)
{
    if (tensor->dims != dims)
        return false;
    for (int d = 0; d < dims; d++)
        if (tensor->shape[d] != shape[d])
            return false;
    return true;
}

enum tw_status tw_tensors_take(struct tw_tensors *tensors, const char *name,
                               int dims, const int64_t *shape, bool is_optional,
                               const struct tw_tensor **out,
                               struct tw_error *err)
{
    char has[TW_MAX_DIMS * 24], wanted[TW_MAX_DIMS * 24];
    assert(dims >= 0 && dims <= TW_MAX_DIMS);
    struct tw_tensor *t = find(tensors, name);
    if (!t && is_optional) {
        *out = NULL;
        return TW_OK;
    }
    if (!t)
        return absent(tensors, name, err);
    if (!is_shape(t, dims, shape))
        return tw_error_set(
            err, TW_ERR_MISMATCH, "%s: tensor '%s' has shape %s, expected %s",
            t->file, name, shape_text(has, sizeof has, t->dims, t->shape),
            shape_text(wanted, sizeof wanted, dims, shape));
    if (t->dtype != TW_F32 && t->dtype != TW_BF16 && t->dtype != TW_F16)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "%s: tensor '%s' has type %s, expected F32, BF16 "
                            "or F16",
                            t->file, name, tw_dtype_name(t->dtype));
    t->is_used = true;
    *out = t;
    return TW_OK;
}
