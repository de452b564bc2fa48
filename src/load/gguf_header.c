/* Reading one GGUF file's header. The file is hostile: each length is held
 * against the bytes left before it is used, each tensor against the file. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "load/gguf_internal.h"

enum { LEAST_VALUE_BYTES = 13, LEAST_TENSOR_BYTES = 32, NAME_LIMIT = 65535 };

/* What is still to be read. */
struct cursor {
    struct twp_gguf_file *file;
    const uint8_t *at, *end;
    struct tw_error *err;
};

static enum tw_status bad(const struct cursor *c, const char *cause)
{
    return tw_error_set(c->err, TW_ERR_FORMAT, "%s: %s", c->file->name, cause);
}

static enum tw_status take(struct cursor *c, void *out, size_t size)
{
    if ((size_t)(c->end - c->at) < size)
        return bad(c, "header is past the end: truncated, or no GGUF file");
    memcpy(out, c->at, size);
    c->at += size;
    return TW_OK;
}

static enum tw_status skip(struct cursor *c, uint64_t size)
{
    if ((uint64_t)(c->end - c->at) < size)
        return bad(c, "metadata are past the end: truncated, or no GGUF file");
    c->at += size;
    return TW_OK;
}

/* A key's or tensor's name, copied with a NUL behind it. */
static enum tw_status take_name(struct cursor *c, const char **name)
{
    uint64_t size = 0;
    enum tw_status status = take(c, &size, sizeof size);
    if (status != TW_OK)
        return status;
    const uint8_t *text = c->at;
    if (size == 0 || size > NAME_LIMIT)
        return bad(c, "a key or tensor has a name of no or absurd length");
    status = skip(c, size);
    if (status != TW_OK)
        return status;
    if (memchr(text, 0, (size_t)size))
        return bad(c, "a key or tensor has a name with a zero byte");
    return twp_arena_text(&c->file->arena, text, (size_t)size, name, c->err);
}

static enum tw_status skip_text(struct cursor *c)
{
    uint64_t size = 0;
    enum tw_status status = take(c, &size, sizeof size);
    return status == TW_OK ? skip(c, size) : status;
}

static enum tw_status wrong_kind(const struct cursor *c, const char *key,
                                 uint32_t kind)
{
    return tw_error_set(c->err, TW_ERR_FORMAT,
                        "%s: key '%.200s' has the unknown value type %u",
                        c->file->name, key, kind);
}

/* Past count values of one kind. */
static enum tw_status skip_items(struct cursor *c, const char *key,
                                 uint32_t kind, uint64_t count)
{
    enum tw_status status = TW_OK;
    if (kind >= TWP_GGUF_KINDS || kind == TWP_GGUF_ARRAY)
        return wrong_kind(c, key, kind);
    if (kind == TWP_GGUF_TEXT) {
        for (uint64_t i = 0; i < count && status == TW_OK; i++)
            status = skip_text(c);
        return status;
    }
    uint64_t bytes;
    if (__builtin_mul_overflow(count, (uint64_t)twp_gguf_kind_bytes(kind),
                               &bytes))
        return bad(c, "an array's length is absurd");
    return skip(c, bytes);
}

static enum tw_status take_value(struct cursor *c, struct twp_gguf_value *v)
{
    uint32_t kind = 0;
    enum tw_status status = take_name(c, &v->key);
    if (status == TW_OK)
        status = take(c, &kind, sizeof kind);
    if (status != TW_OK)
        return status;
    if (kind >= TWP_GGUF_KINDS)
        return wrong_kind(c, v->key, kind);
    v->kind = v->item = (enum twp_gguf_kind)kind;
    v->count = 1;
    if (kind == TWP_GGUF_ARRAY) {
        status = take(c, &kind, sizeof kind);
        if (status == TW_OK)
            status = take(c, &v->count, sizeof v->count);
        if (status != TW_OK)
            return status;
        if (kind >= TWP_GGUF_KINDS || kind == TWP_GGUF_ARRAY)
            return wrong_kind(c, v->key, kind);
        v->item = (enum twp_gguf_kind)kind;
    }
    v->data = c->at;
    return skip_items(c, v->key, kind, v->count);
}

static int by_key(const void *left, const void *right)
{
    const struct twp_gguf_value *a = left, *b = right;
    return strcmp(a->key, b->key);
}

static enum tw_status take_values(struct cursor *c, uint64_t count)
{
    struct twp_gguf_file *f = c->file;
    if (count > (uint64_t)(c->end - c->at) / LEAST_VALUE_BYTES)
        return bad(c, "more metadata than the file has room for");
    enum tw_status status = twp_arena_get(&f->arena, (size_t)count,
                                          sizeof *f->value, &f->value, c->err);
    for (uint64_t i = 0; i < count && status == TW_OK; i++)
        status = take_value(c, &f->value[i]);
    if (status != TW_OK)
        return status;
    f->values = (size_t)count;
    if (count > 0)
        qsort(f->value, f->values, sizeof *f->value, by_key);
    for (size_t i = 1; i < f->values; i++)
        if (strcmp(f->value[i - 1].key, f->value[i].key) == 0)
            return tw_error_set(c->err, TW_ERR_FORMAT,
                                "%s: key '%.200s' stands there twice", f->name,
                                f->value[i].key);
    return TW_OK;
}

static enum tw_status bad_tensor(const struct cursor *c,
                                 const struct twp_gguf_tensor *t,
                                 const char *cause)
{
    return tw_error_set(c->err, TW_ERR_FORMAT, "%s: tensor '%.200s' %s",
                        c->file->name, t->name, cause);
}

static enum tw_status take_shape(struct cursor *c, struct twp_gguf_tensor *t)
{
    uint32_t dims = 0;
    enum tw_status status = take(c, &dims, sizeof dims);
    if (status != TW_OK)
        return status;
    if (dims < 1 || dims > 4)
        return bad_tensor(c, t, "has not 1 to 4 dimensions");
    t->dims = (int)dims;
    t->elements = 1;
    for (int d = t->dims - 1; d >= 0; d--) {
        uint64_t size = 0;
        status = take(c, &size, sizeof size);
        if (status != TW_OK)
            return status;
        if (size < 1 || size > INT64_MAX ||
            __builtin_mul_overflow(t->elements, (int64_t)size, &t->elements))
            return bad_tensor(c, t, "has an empty or absurd shape");
        t->shape[d] = (int64_t)size;
    }
    return TW_OK;
}

static enum tw_status take_type(struct cursor *c, struct twp_gguf_tensor *t)
{
    uint32_t type = 0;
    char list[160];
    enum tw_status status = take(c, &type, sizeof type);
    if (status != TW_OK)
        return status;
    t->type = twp_gguf_type(type);
    twp_gguf_types(list, sizeof list);
    if (!t->type)
        return tw_error_set(c->err, TW_ERR_UNSUPPORTED,
                            "%s: tensor '%.200s' has type %s (%u), which is "
                            "not supported; supported: %s",
                            c->file->name, t->name, twp_gguf_type_name(type),
                            type, list);
    if (t->shape[t->dims - 1] % t->type->values != 0)
        return bad_tensor(c, t, "has rows that are no whole blocks");
    return TW_OK;
}

/* data holds the offset until the place of the data is known. */
static enum tw_status take_tensor(struct cursor *c, struct twp_gguf_tensor *t,
                                  uint64_t *offset)
{
    enum tw_status status = take_name(c, &t->name);
    if (status == TW_OK)
        status = take_shape(c, t);
    if (status == TW_OK)
        status = take_type(c, t);
    if (status == TW_OK)
        status = take(c, offset, sizeof *offset);
    if (status != TW_OK)
        return status;
    uint64_t blocks = (uint64_t)(t->elements / t->type->values);
    if (__builtin_mul_overflow(blocks, (uint64_t)t->type->bytes, &t->bytes))
        return bad_tensor(c, t, "has an empty or absurd shape");
    return TW_OK;
}

static enum tw_status find_alignment(const struct cursor *c, uint64_t *bytes)
{
    int64_t number = 32;
    const struct twp_gguf_value *value =
        twp_gguf_find(c->file, "general.alignment");
    if (value && (!twp_gguf_int(value, &number) || number < 8 ||
                  number > 1 << 24 || (number & (number - 1)) != 0))
        return bad(c, "general.alignment is no power of two from 8 on");
    *bytes = (uint64_t)number;
    return TW_OK;
}

static int by_place(const void *left, const void *right)
{
    const struct twp_gguf_tensor *a = left, *b = right;
    return a->data < b->data ? -1 : a->data > b->data;
}

static enum tw_status check_overlap(const struct cursor *c)
{
    struct twp_gguf_file *f = c->file;
    if (f->tensors > 0)
        qsort(f->tensor, f->tensors, sizeof *f->tensor, by_place);
    for (size_t i = 1; i < f->tensors; i++)
        if (f->tensor[i].data < f->tensor[i - 1].data + f->tensor[i - 1].bytes)
            return bad_tensor(c, &f->tensor[i], "overlaps another one");
    return TW_OK;
}

/* The data start at the next multiple of the alignment. */
static enum tw_status place_tensors(struct cursor *c, const uint64_t *offset)
{
    struct twp_gguf_file *f = c->file;
    uint64_t step = 0;
    enum tw_status status = find_alignment(c, &step);
    if (status != TW_OK || f->tensors == 0)
        return status;
    uint64_t header = (uint64_t)(c->at - f->map.data);
    uint64_t start = (header + step - 1) / step * step;
    for (size_t i = 0; i < f->tensors; i++) {
        struct twp_gguf_tensor *t = &f->tensor[i];
        if (start > f->map.size || offset[i] > f->map.size - start ||
            t->bytes > f->map.size - start - offset[i])
            return bad_tensor(c, t, "is past the end: truncated?");
        if (offset[i] % step != 0)
            return bad_tensor(c, t, "is misaligned");
        t->data = f->map.data + start + offset[i];
    }
    return check_overlap(c);
}

static enum tw_status take_tensors(struct cursor *c, uint64_t count)
{
    struct twp_gguf_file *f = c->file;
    uint64_t *offset = NULL;
    if (count > (uint64_t)(c->end - c->at) / LEAST_TENSOR_BYTES)
        return bad(c, "more tensors than the file has room for");
    enum tw_status status = twp_arena_get(
        &f->arena, (size_t)count, sizeof *f->tensor, &f->tensor, c->err);
    if (status == TW_OK)
        status = twp_arena_get(&f->arena, (size_t)count, sizeof *offset,
                               &offset, c->err);
    for (uint64_t i = 0; i < count && status == TW_OK; i++)
        status = take_tensor(c, &f->tensor[i], &offset[i]);
    if (status != TW_OK)
        return status;
    f->tensors = (size_t)count;
    return place_tensors(c, offset);
}

static enum tw_status check_version(const struct cursor *c, uint32_t version)
{
    if (version == 2 || version == 3)
        return TW_OK;
    if (version != 0 && version % 65536 == 0)
        return bad(c, "a big-endian GGUF file, which is not supported");
    return tw_error_set(c->err, TW_ERR_UNSUPPORTED,
                        "%s: GGUF version %u is not supported; supported: 2, 3",
                        c->file->name, version);
}

static enum tw_status parse(struct cursor *c)
{
    char magic[4];
    uint32_t version = 0;
    uint64_t tensors = 0, values = 0;
    if (take(c, magic, sizeof magic) != TW_OK ||
        memcmp(magic, "GGUF", sizeof magic) != 0)
        return bad(c, "no GGUF file");
    enum tw_status status = take(c, &version, sizeof version);
    if (status == TW_OK)
        status = check_version(c, version);
    if (status == TW_OK)
        status = take(c, &tensors, sizeof tensors);
    if (status == TW_OK)
        status = take(c, &values, sizeof values);
    if (status == TW_OK)
        status = take_values(c, values);
    if (status == TW_OK)
        status = take_tensors(c, tensors);
    return status;
}

enum tw_status twp_gguf_file_open(const char *path, struct twp_gguf_file *file,
                                  struct tw_error *err)
{
    *file = (struct twp_gguf_file){0};
    enum tw_status status = tw_file_map(path, &file->map, err);
    if (status != TW_OK)
        return status;
    file->name = tw_strdup(tw_path_base(path));
    if (!file->name)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    twp_arena_init(&file->arena, file->name, file->map.size);
    struct cursor cursor = {.file = file,
                            .at = file->map.data,
                            .end = file->map.data + file->map.size,
                            .err = err};
    return parse(&cursor);
}

void twp_gguf_file_close(struct twp_gguf_file *file)
{
    twp_arena_fini(&file->arena);
    tw_free(file->name);
    tw_file_unmap(&file->map);
    *file = (struct twp_gguf_file){0};
}
