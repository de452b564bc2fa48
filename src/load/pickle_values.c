/* The values of a pickle, and what is done with them on the machine's stack:
 * constants, texts, tuples, dictionaries, lists. */
#include <config.h>

#include <string.h>

#include "load/pickle_internal.h"

enum tw_status twp_pickle_bad(struct twp_pickle_machine *m, const char *cause)
{
    return tw_error_set(m->err, TW_ERR_FORMAT, "%s: pickle: %s", m->file->name,
                        cause);
}

enum tw_status twp_pickle_take(struct twp_pickle_machine *m, size_t size,
                               const uint8_t **bytes)
{
    if ((size_t)(m->end - m->at) < size)
        return twp_pickle_bad(m, "ends too early");
    *bytes = m->at;
    m->at += size;
    return TW_OK;
}

/* A little-endian number of `size` bytes. */
enum tw_status twp_pickle_take_number(struct twp_pickle_machine *m, size_t size,
                                      uint64_t *number)
{
    const uint8_t *bytes = NULL;
    enum tw_status status = twp_pickle_take(m, size, &bytes);
    *number = 0;
    if (status != TW_OK)
        return status;
    for (size_t i = 0; i < size; i++)
        *number |= (uint64_t)bytes[i] << (8 * i);
    return TW_OK;
}

enum tw_status twp_pickle_push(struct twp_pickle_machine *m,
                               struct twp_pickle_value value)
{
    if (m->depth == m->stack_limit)
        return twp_pickle_bad(m, "is nested too deeply");
    m->stack[m->depth++] = value;
    return TW_OK;
}

/* The topmost value, which no mark may be. */
enum tw_status twp_pickle_pop(struct twp_pickle_machine *m,
                              struct twp_pickle_value *value)
{
    if (m->depth == 0 || m->stack[m->depth - 1].kind == TWP_PICKLE_MARK)
        return twp_pickle_bad(m, "takes from an empty stack");
    *value = m->stack[--m->depth];
    return TW_OK;
}

/* Values above the newest mark, which goes; they stay valid until a push. */
static enum tw_status pop_mark(struct twp_pickle_machine *m,
                               const struct twp_pickle_value **items,
                               size_t *count)
{
    size_t at = m->depth;
    while (at > 0 && m->stack[at - 1].kind != TWP_PICKLE_MARK)
        at--;
    if (at == 0)
        return twp_pickle_bad(m, "has no mark where one is needed");
    *items = &m->stack[at];
    *count = m->depth - at;
    m->depth = at - 1;
    return TW_OK;
}

enum tw_status twp_pickle_op_kind(struct twp_pickle_machine *m, int kind)
{
    return twp_pickle_push(
        m, (struct twp_pickle_value){.kind = (enum twp_pickle_kind)kind});
}

enum tw_status twp_pickle_op_bool(struct twp_pickle_machine *m, int is_true)
{
    return twp_pickle_push(m, (struct twp_pickle_value){.kind = TWP_PICKLE_BOOL,
                                                        .as.number = is_true});
}

static enum tw_status push_int(struct twp_pickle_machine *m, int64_t number)
{
    return twp_pickle_push(m, (struct twp_pickle_value){.kind = TWP_PICKLE_INT,
                                                        .as.number = number});
}

/* BININT's four bytes are signed, the shorter forms are not. */
enum tw_status twp_pickle_op_int(struct twp_pickle_machine *m, int bytes)
{
    uint64_t raw;
    enum tw_status status = twp_pickle_take_number(m, (size_t)bytes, &raw);
    if (status != TW_OK)
        return status;
    return push_int(m, bytes == 4 ? (int64_t)(int32_t)(uint32_t)raw
                                  : (int64_t)raw);
}

enum tw_status twp_pickle_op_long(struct twp_pickle_machine *m, int unused)
{
    uint64_t size = 0, raw = 0;
    (void)unused;
    enum tw_status status = twp_pickle_take_number(m, 1, &size);
    if (status == TW_OK && size > 8)
        status = twp_pickle_bad(m, "holds an integer of more than 64 bits");
    if (status == TW_OK)
        status = twp_pickle_take_number(m, (size_t)size, &raw);
    if (status != TW_OK)
        return status;
    if (size > 0 && size < 8 && raw >> (8 * size - 1))
        raw |= UINT64_MAX << (8 * size);
    return push_int(m, (int64_t)raw);
}

enum tw_status twp_pickle_op_real(struct twp_pickle_machine *m, int unused)
{
    const uint8_t *bytes;
    (void)unused;
    enum tw_status status = twp_pickle_take(m, 8, &bytes);
    return status == TW_OK ? twp_pickle_op_kind(m, TWP_PICKLE_REAL) : status;
}

enum tw_status twp_pickle_op_text(struct twp_pickle_machine *m, int size_bytes)
{
    uint64_t size;
    const uint8_t *bytes = NULL;
    enum tw_status status =
        twp_pickle_take_number(m, (size_t)size_bytes, &size);
    if (status == TW_OK && size > UINT32_MAX)
        status = twp_pickle_bad(m, "ends too early");
    if (status == TW_OK)
        status = twp_pickle_take(m, (size_t)size, &bytes);
    if (status != TW_OK)
        return status;
    return twp_pickle_push(
        m, (struct twp_pickle_value){.kind = TWP_PICKLE_TEXT,
                                     .size = (uint32_t)size,
                                     .as.text = (const char *)bytes});
}

static enum tw_status push_tuple(struct twp_pickle_machine *m,
                                 const struct twp_pickle_value *items,
                                 size_t count)
{
    struct twp_pickle_value *copy = NULL;
    enum tw_status status =
        twp_arena_get(&m->file->arena, count, sizeof *copy, &copy, m->err);
    if (status != TW_OK)
        return status;
    memcpy(copy, items, count * sizeof *copy);
    return twp_pickle_push(m,
                           (struct twp_pickle_value){.kind = TWP_PICKLE_TUPLE,
                                                     .size = (uint32_t)count,
                                                     .as.item = copy});
}

enum tw_status twp_pickle_op_tuple(struct twp_pickle_machine *m, int unused)
{
    size_t count;
    const struct twp_pickle_value *items;
    (void)unused;
    enum tw_status status = pop_mark(m, &items, &count);
    return status == TW_OK ? push_tuple(m, items, count) : status;
}

enum tw_status twp_pickle_op_tuple_of(struct twp_pickle_machine *m, int count)
{
    struct twp_pickle_value items[3];
    for (int i = count - 1; i >= 0; i--) {
        enum tw_status status = twp_pickle_pop(m, &items[i]);
        if (status != TW_OK)
            return status;
    }
    return push_tuple(m, items, (size_t)count);
}

enum tw_status twp_pickle_dict(struct twp_pickle_machine *m,
                               struct twp_pickle_value *result)
{
    *result = (struct twp_pickle_value){.kind = TWP_PICKLE_DICT};
    return twp_arena_get(&m->file->arena, 1, sizeof *result->as.dict,
                         &result->as.dict, m->err);
}

enum tw_status twp_pickle_op_dict(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value dict;
    (void)unused;
    enum tw_status status = twp_pickle_dict(m, &dict);
    return status == TW_OK ? twp_pickle_push(m, dict) : status;
}

static enum tw_status add_pairs(struct twp_pickle_machine *m,
                                const struct twp_pickle_value *items,
                                size_t count)
{
    if (m->depth == 0 || m->stack[m->depth - 1].kind != TWP_PICKLE_DICT ||
        count % 2 != 0)
        return twp_pickle_bad(m, "sets items of something else than a "
                                 "dictionary");
    struct twp_pickle_dict *dict = m->stack[m->depth - 1].as.dict;
    size_t wanted = dict->count + count / 2;
    if (wanted > dict->capacity) {
        struct twp_pickle_value *grown = NULL;
        size_t capacity = wanted + dict->count / 2;
        enum tw_status status = twp_arena_get(
            &m->file->arena, capacity, 2 * sizeof *grown, &grown, m->err);
        if (status != TW_OK)
            return status;
        if (dict->count > 0)
            memcpy(grown, dict->pair, 2 * dict->count * sizeof *grown);
        dict->pair = grown;
        dict->capacity = capacity;
    }
    if (count > 0)
        memcpy(dict->pair + 2 * dict->count, items, count * sizeof *items);
    dict->count = wanted;
    return TW_OK;
}

enum tw_status twp_pickle_op_set_items(struct twp_pickle_machine *m, int unused)
{
    size_t count;
    const struct twp_pickle_value *items;
    (void)unused;
    enum tw_status status = pop_mark(m, &items, &count);
    return status == TW_OK ? add_pairs(m, items, count) : status;
}

enum tw_status twp_pickle_op_set_item(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value pair[2];
    (void)unused;
    enum tw_status status = twp_pickle_pop(m, &pair[1]);
    if (status == TW_OK)
        status = twp_pickle_pop(m, &pair[0]);
    return status == TW_OK ? add_pairs(m, pair, 2) : status;
}

/* Lists stand in what is not used: their items are dropped. */
static enum tw_status check_list(struct twp_pickle_machine *m)
{
    if (m->depth > 0 && m->stack[m->depth - 1].kind == TWP_PICKLE_LIST)
        return TW_OK;
    return twp_pickle_bad(m, "appends to something else than a list");
}

enum tw_status twp_pickle_op_appends(struct twp_pickle_machine *m, int unused)
{
    size_t count;
    const struct twp_pickle_value *items;
    (void)unused;
    enum tw_status status = pop_mark(m, &items, &count);
    return status == TW_OK ? check_list(m) : status;
}

enum tw_status twp_pickle_op_append(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value item;
    (void)unused;
    enum tw_status status = twp_pickle_pop(m, &item);
    return status == TW_OK ? check_list(m) : status;
}
