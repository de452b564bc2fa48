/* The globals that a state dictionary may name, and what calling each of them
 * would give: dictionaries, storages and tensors that are views of storages.
 * They are recognised, never run. */
#include <config.h>

#include <string.h>

#include "base/dtype.h"
#include "load/pickle_internal.h"

enum { NO_WEIGHT = -1 };

static const struct twp_torch_type types[] = {
    {"FloatStorage", "F32", TW_F32, 4},
    {"HalfStorage", "F16", TW_F16, 2},
    {"BFloat16Storage", "BF16", TW_BF16, 2},
    {"IntStorage", "I32", TW_I32, 4},
    {"LongStorage", "I64", TW_I64, 8},
    {"DoubleStorage", "F64", NO_WEIGHT, 8},
    {"ShortStorage", "I16", NO_WEIGHT, 2},
    {"CharStorage", "I8", NO_WEIGHT, 1},
    {"ByteStorage", "U8", NO_WEIGHT, 1},
    {"BoolStorage", "BOOL", NO_WEIGHT, 1},
};
enum { TYPES = sizeof types / sizeof *types };

static bool is_kind(const struct twp_pickle_value *args, uint32_t i,
                    enum twp_pickle_kind kind)
{
    return i < args->size && args->as.item[i].kind == kind;
}

static enum tw_status call_dict(struct twp_pickle_machine *m,
                                const struct twp_pickle_value *args,
                                struct twp_pickle_value *result)
{
    if (args->size != 0)
        return twp_pickle_bad(m, "makes an OrderedDict of something");
    return twp_pickle_dict(m, result);
}

/* A Parameter is its tensor. */
static enum tw_status call_parameter(struct twp_pickle_machine *m,
                                     const struct twp_pickle_value *args,
                                     struct twp_pickle_value *result)
{
    if (args->size != 3 || !is_kind(args, 0, TWP_PICKLE_TENSOR))
        return twp_pickle_bad(m, "makes a Parameter of no tensor");
    *result = args->as.item[0];
    return TW_OK;
}

/* Sizes and strides: *is_row_major tells whether the elements follow each
 * other without gaps, *elements how many they are. False: absurd. */
static bool read_shape(const struct twp_pickle_value *shape,
                       const struct twp_pickle_value *strides,
                       struct twp_torch_tensor *tensor)
{
    int64_t elements = 1;
    bool is_row_major = true;
    for (uint32_t d = shape->size; d-- > 0;) {
        const struct twp_pickle_value *size = &shape->as.item[d];
        const struct twp_pickle_value *stride = &strides->as.item[d];
        if (size->kind != TWP_PICKLE_INT || stride->kind != TWP_PICKLE_INT ||
            size->as.number < 0)
            return false;
        if (size->as.number != 1 && stride->as.number != elements)
            is_row_major = false;
        tensor->shape[d] = size->as.number;
        if (__builtin_mul_overflow(elements, size->as.number, &elements))
            return false;
    }
    tensor->dims = (int)shape->size;
    tensor->elements = elements;
    tensor->is_row_major = is_row_major || elements == 0;
    return true;
}

static bool fits(const struct twp_torch_tensor *t)
{
    uint64_t size = t->storage->elements;
    return t->offset <= size && (uint64_t)t->elements <= size - t->offset;
}

/* storage, offset, size, stride, requires_grad, hooks(, metadata) */
static enum tw_status call_tensor(struct twp_pickle_machine *m,
                                  const struct twp_pickle_value *args,
                                  struct twp_pickle_value *result)
{
    struct twp_torch_tensor *t = NULL;
    if (args->size < 6 || args->size > 7 ||
        !is_kind(args, 0, TWP_PICKLE_STORAGE) ||
        !is_kind(args, 1, TWP_PICKLE_INT) ||
        !is_kind(args, 2, TWP_PICKLE_TUPLE) ||
        !is_kind(args, 3, TWP_PICKLE_TUPLE) || args->as.item[1].as.number < 0)
        return twp_pickle_bad(m, "rebuilds a tensor of odd arguments");
    const struct twp_pickle_value *shape = &args->as.item[2];
    if (shape->size > TW_MAX_DIMS || shape->size != args->as.item[3].size)
        return twp_pickle_bad(m, "rebuilds a tensor of odd dimensions");
    enum tw_status status =
        twp_arena_get(&m->file->arena, 1, sizeof *t, &t, m->err);
    if (status != TW_OK)
        return status;
    t->storage = args->as.item[0].as.storage;
    t->offset = (uint64_t)args->as.item[1].as.number;
    if (!read_shape(shape, &args->as.item[3], t))
        return twp_pickle_bad(m, "rebuilds a tensor of an absurd shape");
    if (t->is_row_major && !fits(t))
        return twp_pickle_bad(m, "rebuilds a tensor past its storage's end");
    *result =
        (struct twp_pickle_value){.kind = TWP_PICKLE_TENSOR, .as.tensor = t};
    return TW_OK;
}

#define STORAGE(row)                                                           \
    {                                                                          \
        "torch", NULL, NULL, &types[row]                                       \
    }

static const struct twp_pickle_global globals[] = {
    {"collections", "OrderedDict", call_dict, NULL},
    {"torch._utils", "_rebuild_tensor_v2", call_tensor, NULL},
    {"torch._utils", "_rebuild_parameter", call_parameter, NULL},
    STORAGE(0),
    STORAGE(1),
    STORAGE(2),
    STORAGE(3),
    STORAGE(4),
    STORAGE(5),
    STORAGE(6),
    STORAGE(7),
    STORAGE(8),
    STORAGE(9),
};
enum { GLOBALS = sizeof globals / sizeof *globals };

static bool is_text(const char *text, const char *bytes, size_t size)
{
    return strlen(text) == size && memcmp(text, bytes, size) == 0;
}

enum tw_status twp_pickle_global(struct twp_pickle_machine *m,
                                 const char *module, size_t module_size,
                                 const char *name, size_t name_size,
                                 struct twp_pickle_value *result)
{
    for (int i = 0; i < GLOBALS; i++) {
        const struct twp_pickle_global *g = &globals[i];
        if (is_text(g->module, module, module_size) &&
            is_text(g->type ? g->type->name : g->name, name, name_size)) {
            *result = (struct twp_pickle_value){.kind = TWP_PICKLE_GLOBAL,
                                                .as.global = g};
            return TW_OK;
        }
    }
    return tw_error_set(m->err, TW_ERR_UNSUPPORTED,
                        "%s: pickle: global '%.*s.%.*s' is no part of a "
                        "tensor: refused, nothing was run",
                        m->file->name,
                        module_size < 100 ? (int)module_size : 100, module,
                        name_size < 100 ? (int)name_size : 100, name);
}

static enum tw_status find_storage(struct twp_pickle_machine *m,
                                   const struct twp_pickle_value *key,
                                   struct twp_torch_storage *storage)
{
    uint64_t bytes = 0;
    storage->data =
        m->source->find(m->source->arg, key->as.text, key->size, &bytes);
    if (!storage->data)
        return tw_error_set(m->err, TW_ERR_FORMAT,
                            "%s: pickle: storage '%.*s' is not in the archive",
                            m->file->name, key->size < 60 ? (int)key->size : 60,
                            key->as.text);
    if (storage->elements > bytes / storage->type->size)
        return twp_pickle_bad(m, "has a storage larger than its entry");
    return TW_OK;
}

/* ("storage", class, key, place, elements) */
enum tw_status twp_pickle_storage(struct twp_pickle_machine *m,
                                  const struct twp_pickle_value *id,
                                  struct twp_pickle_value *result)
{
    struct twp_torch_storage *storage = NULL;
    const struct twp_pickle_value *item = id->as.item;
    if (id->kind != TWP_PICKLE_TUPLE || id->size != 5 ||
        item[0].kind != TWP_PICKLE_TEXT ||
        !is_text("storage", item[0].as.text, item[0].size) ||
        item[1].kind != TWP_PICKLE_GLOBAL || !item[1].as.global->type ||
        item[2].kind != TWP_PICKLE_TEXT || item[4].kind != TWP_PICKLE_INT ||
        item[4].as.number < 0)
        return twp_pickle_bad(m, "has a persistent id that is no storage");
    enum tw_status status =
        twp_arena_get(&m->file->arena, 1, sizeof *storage, &storage, m->err);
    if (status != TW_OK)
        return status;
    storage->type = item[1].as.global->type;
    storage->elements = (uint64_t)item[4].as.number;
    *result = (struct twp_pickle_value){.kind = TWP_PICKLE_STORAGE,
                                        .as.storage = storage};
    return find_storage(m, &item[2], storage);
}
