/* The header of one safetensors file: eight bytes of length, a JSON object of
 * tensors, then their bytes. All of it is hostile until this file has checked
 * it: every tensor must lie inside the data, agree with its shape and type,
 * and the tensors must cover the data without hole or overlap, as the format
 * demands. */
#include <config.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "load/load_internal.h"

#define NO_WEIGHT TW_DTYPES

static const struct type {
    const char *name;
    int bits;
    enum tw_dtype dtype; /* NO_WEIGHT: size checked, kept out of the set */
} types[] = {
    {"F32", 32, TW_F32},       {"BF16", 16, TW_BF16},
    {"F16", 16, TW_F16},       {"I32", 32, TW_I32},
    {"I64", 64, TW_I64},       {"F64", 64, NO_WEIGHT},
    {"U64", 64, NO_WEIGHT},    {"C64", 64, NO_WEIGHT},
    {"U32", 32, NO_WEIGHT},    {"I16", 16, NO_WEIGHT},
    {"U16", 16, NO_WEIGHT},    {"I8", 8, NO_WEIGHT},
    {"U8", 8, NO_WEIGHT},      {"BOOL", 8, NO_WEIGHT},
    {"F8_E4M3", 8, NO_WEIGHT}, {"F8_E5M2", 8, NO_WEIGHT},
    {"F8_E8M0", 8, NO_WEIGHT}, {"F8_E4M3FNUZ", 8, NO_WEIGHT},
    {"F8_E5M2FNUZ", 8, NO_WEIGHT}, {"F6_E2M3", 6, NO_WEIGHT},
    {"F6_E3M2", 6, NO_WEIGHT}, {"F4", 4, NO_WEIGHT},
};

/* One entry of the header, before it is known to be sound. */
struct entry {
    struct tw_tensor tensor;
    const struct type *type;
    int64_t begin, end; /* bytes from the start of the data */
};

static enum tw_status bad_tensor(const struct tw_tensor_file *file,
                                 const char *tensor, const char *cause,
                                 struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_FORMAT, "%s: tensor '%.200s' %s",
                        file->name, tensor, cause);
}

static const struct type *find_type(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

static enum tw_status parse_shape(const struct tw_tensor_file *file,
                                  const json_t *shape, struct tw_tensor *tensor,
                                  struct tw_error *err)
{
    if (!json_is_array(shape))
        return bad_tensor(file, tensor->name, "has no shape", err);
    size_t dims = json_array_size(shape);
    if (dims > TW_MAX_DIMS)
        return bad_tensor(file, tensor->name, "has too many dimensions", err);
    tensor->dims = (int)dims;
    tensor->elements = 1;
    for (size_t d = 0; d < dims; d++) {
        const json_t *size = json_array_get(shape, d);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return bad_tensor(file, tensor->name,
                              "has a dimension that is no size", err);
        tensor->shape[d] = json_integer_value(size);
        if (__builtin_mul_overflow(tensor->elements, tensor->shape[d],
                                   &tensor->elements))
            return bad_tensor(file, tensor->name, "has more than 2^63 elements",
                              err);
    }
    return TW_OK;
}

/* data_offsets: [begin, end) with the length that shape and type ask for. */
static enum tw_status parse_range(const struct tw_tensor_file *file,
                                  const json_t *range, struct entry *entry,
                                  struct tw_error *err)
{
    const char *name = entry->tensor.name;
    const json_t *begin = json_array_get(range, 0);
    const json_t *end = json_array_get(range, 1);
    int64_t bits;
    if (json_array_size(range) != 2 || !json_is_integer(begin) ||
        !json_is_integer(end))
        return bad_tensor(file, name, "has no data_offsets", err);
    entry->begin = json_integer_value(begin);
    entry->end = json_integer_value(end);
    if (entry->begin < 0 || entry->end < entry->begin)
        return bad_tensor(file, name, "has data_offsets out of order", err);
    if (__builtin_mul_overflow(entry->tensor.elements,
                               (int64_t)entry->type->bits, &bits))
        return bad_tensor(file, name, "has more than 2^63 bits", err);
    if (bits % 8 != 0 || bits / 8 != entry->end - entry->begin)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: tensor '%.200s' has %lld bytes of data, its "
                            "shape and type %s make %lld",
                            file->name, name,
                            (long long)(entry->end - entry->begin),
                            entry->type->name, (long long)((bits + 7) / 8));
    return TW_OK;
}

static enum tw_status parse_entry(const struct tw_tensor_file *file,
                                  const char *name, const json_t *value,
                                  struct entry *entry, struct tw_error *err)
{
    *entry = (struct entry){.tensor = {.name = name, .file = file->name}};
    if (!json_is_object(value))
        return bad_tensor(file, name, "is no JSON object", err);
    const char *type = json_string_value(json_object_get(value, "dtype"));
    if (!type)
        return bad_tensor(file, name, "has no dtype", err);
    entry->type = find_type(type);
    if (!entry->type)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: tensor '%.200s' has the unknown type '%.40s'",
                            file->name, name, type);
    entry->tensor.dtype = entry->type->dtype;
    enum tw_status status = parse_shape(file, json_object_get(value, "shape"),
                                        &entry->tensor, err);
    if (status != TW_OK)
        return status;
    return parse_range(file, json_object_get(value, "data_offsets"), entry,
                       err);
}

static int by_offset(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return strcmp(a->tensor.name, b->tensor.name);
}

/* The entries, by offset, cover the data exactly and stand aligned. */
static enum tw_status place_entries(const struct tw_tensor_file *file,
                                    struct entry *entry, size_t count,
                                    size_t start, struct tw_error *err)
{
    int64_t at = 0, size = (int64_t)(file->map.size - start);
    qsort(entry, count, sizeof *entry, by_offset);
    for (size_t i = 0; i < count; i++) {
        const char *name = entry[i].tensor.name;
        if (entry[i].end > size)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "%s: tensor '%.200s' ends at data byte %lld, "
                                "the file at %lld: truncated?",
                                file->name, name, (long long)entry[i].end,
                                (long long)size);
        if (entry[i].begin < at)
            return bad_tensor(file, name, "overlaps another", err);
        if (entry[i].begin > at)
            return bad_tensor(file, name, "follows a hole in the data", err);
        at = entry[i].end;
        if (entry[i].type->dtype == NO_WEIGHT)
            continue;
        size_t place = start + (size_t)entry[i].begin;
        if (place % (size_t)(entry[i].type->bits / 8) != 0)
            return bad_tensor(file, name, "is misaligned", err);
        entry[i].tensor.data = file->map.data + place;
    }
    if (at != size)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: %lld bytes follow the last tensor",
                            file->name, (long long)(size - at));
    return TW_OK;
}

/* Copies the names into one block, for the JSON goes away. */
static enum tw_status copy_names(struct tw_tensor_file *file, json_t *header,
                                 struct tw_error *err)
{
    const char *name;
    json_t *value;
    size_t bytes = 0;
    json_object_foreach(header, name, value)
        bytes += strlen(name) + 1;
    file->names = tw_alloc(bytes, 1);
    if (!file->names)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", file->name);
    char *to = file->names;
    json_object_foreach(header, name, value) {
        size_t size = strlen(name) + 1;
        memcpy(to, name, size);
        to += size;
    }
    return TW_OK;
}

static enum tw_status parse_entries(struct tw_tensor_file *file, json_t *header,
                                    struct entry *entry, size_t *count,
                                    struct tw_error *err)
{
    enum tw_status status = copy_names(file, header, err);
    const char *key, *name = file->names;
    json_t *value;
    size_t n = 0;
    if (status != TW_OK)
        return status;
    json_object_foreach(header, key, value) {
        if (strcmp(key, "__metadata__") != 0)
            status = parse_entry(file, name, value, &entry[n++], err);
        if (status != TW_OK)
            return status;
        name += strlen(name) + 1;
    }
    *count = n;
    return TW_OK;
}

/* Splits the sound entries into weights and the rest. */
static enum tw_status keep_weights(struct tw_tensor_file *file,
                                   const struct entry *entry, size_t count,
                                   struct tw_tensor **out, size_t *out_count,
                                   struct tw_error *err)
{
    size_t n = 0;
    struct tw_tensor *tensor = tw_alloc(count, sizeof *tensor);
    file->other = tw_alloc(count, sizeof *file->other);
    if (!tensor || !file->other) {
        tw_free(tensor);
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", file->name);
    }
    for (size_t i = 0; i < count; i++) {
        if (entry[i].type->dtype != NO_WEIGHT) {
            tensor[n++] = entry[i].tensor;
            continue;
        }
        file->other[file->others++] = (struct tw_other_tensor){
            .name = entry[i].tensor.name, .type = entry[i].type->name};
        tw_log(TW_LOG_DEBUG, "%s: tensor '%.200s' of type %s left out",
               file->name, entry[i].tensor.name, entry[i].type->name);
    }
    *out = tensor;
    *out_count = n;
    return TW_OK;
}

static enum tw_status load_header(const struct tw_tensor_file *file,
                                  json_t **header, size_t *start,
                                  struct tw_error *err)
{
    uint64_t length;
    json_error_t cause;
    if (file->map.size < sizeof length)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: too short for a safetensors file", file->name);
    memcpy(&length, file->map.data, sizeof length);
    if (length > TW_HEADER_LIMIT || length > file->map.size - sizeof length)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: header of %llu bytes is past the end or the "
                            "format's limit: truncated, or no safetensors file",
                            file->name, (unsigned long long)length);
    const char *text = (const char *)file->map.data + sizeof length;
    *header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &cause);
    if (!*header)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: header: %s", file->name,
                            cause.text);
    *start = sizeof length + (size_t)length;
    if (json_is_object(*header))
        return TW_OK;
    json_decref(*header);
    return tw_error_set(err, TW_ERR_FORMAT, "%s: header is no JSON object",
                        file->name);
}

enum tw_status twp_header_parse(struct tw_tensor_file *file,
                                struct tw_tensor **tensors, size_t *count,
                                struct tw_error *err)
{
    json_t *header;
    size_t start, entries = 0;
    enum tw_status status = load_header(file, &header, &start, err);
    if (status != TW_OK)
        return status;
    struct entry *entry =
        tw_alloc(json_object_size(header), sizeof *entry);
    if (!entry)
        status = tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                              file->name);
    else
        status = parse_entries(file, header, entry, &entries, err);
    json_decref(header);
    if (status == TW_OK)
        status = place_entries(file, entry, entries, start, err);
    if (status == TW_OK)
        status = keep_weights(file, entry, entries, tensors, count, err);
    tw_free(entry);
    return status;
}
