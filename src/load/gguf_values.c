/* Metadata values by key, as numbers and texts. */
#include <config.h>

#include <math.h>
#include <string.h>

#include "load/gguf_internal.h"

static const struct {
    uint8_t bytes;
    bool is_integer, is_signed;
} kinds[TWP_GGUF_KINDS] = {
    [TWP_GGUF_U8] = {1, true, false},    [TWP_GGUF_I8] = {1, true, true},
    [TWP_GGUF_U16] = {2, true, false},   [TWP_GGUF_I16] = {2, true, true},
    [TWP_GGUF_U32] = {4, true, false},   [TWP_GGUF_I32] = {4, true, true},
    [TWP_GGUF_U64] = {8, true, false},   [TWP_GGUF_I64] = {8, true, true},
    [TWP_GGUF_F32] = {4, false, true},   [TWP_GGUF_F64] = {8, false, true},
    [TWP_GGUF_BOOL] = {1, false, false},
};

size_t twp_gguf_kind_bytes(uint32_t kind)
{
    return kinds[kind].bytes;
}

const struct twp_gguf_value *twp_gguf_find(const struct twp_gguf_file *file,
                                           const char *key)
{
    size_t low = 0, high = file->values;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(key, file->value[middle].key);
        if (order == 0)
            return &file->value[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bool twp_gguf_int(const struct twp_gguf_value *value, int64_t *number)
{
    uint64_t raw = 0;
    if (!kinds[value->kind].is_integer)
        return false;
    size_t bytes = kinds[value->kind].bytes;
    memcpy(&raw, value->data, bytes);
    if (kinds[value->kind].is_signed) {
        uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
        *number = (int64_t)((raw ^ sign) - sign);
        return true;
    }
    *number = (int64_t)raw;
    return raw <= INT64_MAX;
}

bool twp_gguf_real(const struct twp_gguf_value *value, double *number)
{
    int64_t whole;
    float single;
    if (twp_gguf_int(value, &whole)) {
        *number = (double)whole;
        return true;
    }
    if (value->kind == TWP_GGUF_F32) {
        memcpy(&single, value->data, sizeof single);
        *number = single;
    } else if (value->kind == TWP_GGUF_F64) {
        memcpy(number, value->data, sizeof *number);
    } else {
        return false;
    }
    return isfinite(*number);
}

bool twp_gguf_bool(const struct twp_gguf_value *value, bool *is_true)
{
    if (value->kind != TWP_GGUF_BOOL)
        return false;
    *is_true = *value->data != 0;
    return true;
}

void twp_gguf_next_text(const uint8_t **at, const char **text, size_t *size)
{
    uint64_t length;
    memcpy(&length, *at, sizeof length);
    *text = (const char *)*at + sizeof length;
    *size = (size_t)length;
    *at += sizeof length + (size_t)length;
}

bool twp_gguf_text(const struct twp_gguf_value *value, const char **text,
                   size_t *size)
{
    const uint8_t *at = value->data;
    if (value->kind != TWP_GGUF_TEXT)
        return false;
    twp_gguf_next_text(&at, text, size);
    return true;
}

bool twp_gguf_item(const struct twp_gguf_value *array, uint64_t i,
                   struct twp_gguf_value *item)
{
    size_t bytes = kinds[array->item].bytes;
    if (array->kind != TWP_GGUF_ARRAY || i >= array->count || bytes == 0)
        return false;
    *item = (struct twp_gguf_value){.key = array->key,
                                    .kind = array->item,
                                    .item = array->item,
                                    .count = 1,
                                    .data = array->data + i * bytes};
    return true;
}
