/* The machine: a stack, a memo, and a table of opcodes. Each opcode pushes at
 * most one value, so the stream's length bounds the stack, and a limit that no
 * state dictionary reaches bounds it for long streams. */
#include <config.h>

#include <string.h>

#include "load/pickle_internal.h"

enum { STACK_LIMIT = 16384 };

typedef enum tw_status op_fn(struct twp_pickle_machine *m, int arg);

enum tw_status twp_pickle_bad(struct twp_pickle_machine *m, const char *cause)
{
    return tw_error_set(m->err, TW_ERR_FORMAT, "%s: pickle: %s", m->file->name,
                        cause);
}

static enum tw_status take(struct twp_pickle_machine *m, size_t size,
                           const uint8_t **bytes)
{
    if ((size_t)(m->end - m->at) < size)
        return twp_pickle_bad(m, "ends too early");
    *bytes = m->at;
    m->at += size;
    return TW_OK;
}

/* A little-endian number of `size` bytes. */
static enum tw_status take_number(struct twp_pickle_machine *m, size_t size,
                                  uint64_t *number)
{
    const uint8_t *bytes = NULL;
    enum tw_status status = take(m, size, &bytes);
    *number = 0;
    if (status != TW_OK)
        return status;
    for (size_t i = 0; i < size; i++)
        *number |= (uint64_t)bytes[i] << (8 * i);
    return TW_OK;
}

static enum tw_status push(struct twp_pickle_machine *m,
                           struct twp_pickle_value value)
{
    if (m->depth == m->stack_limit)
        return twp_pickle_bad(m, "is nested too deeply");
    m->stack[m->depth++] = value;
    return TW_OK;
}

/* The topmost value, which no mark may be. */
static enum tw_status pop(struct twp_pickle_machine *m,
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

static enum tw_status op_nothing(struct twp_pickle_machine *m, int bytes)
{
    const uint8_t *skipped;
    return take(m, (size_t)bytes, &skipped);
}

static enum tw_status op_kind(struct twp_pickle_machine *m, int kind)
{
    return push(m,
                (struct twp_pickle_value){.kind = (enum twp_pickle_kind)kind});
}

static enum tw_status op_bool(struct twp_pickle_machine *m, int is_true)
{
    return push(m, (struct twp_pickle_value){.kind = TWP_PICKLE_BOOL,
                                             .as.number = is_true});
}

static enum tw_status push_int(struct twp_pickle_machine *m, int64_t number)
{
    return push(m, (struct twp_pickle_value){.kind = TWP_PICKLE_INT,
                                             .as.number = number});
}

/* BININT's four bytes are signed, the shorter forms are not. */
static enum tw_status op_int(struct twp_pickle_machine *m, int bytes)
{
    uint64_t raw;
    enum tw_status status = take_number(m, (size_t)bytes, &raw);
    if (status != TW_OK)
        return status;
    return push_int(m, bytes == 4 ? (int64_t)(int32_t)(uint32_t)raw
                                  : (int64_t)raw);
}

static enum tw_status op_long(struct twp_pickle_machine *m, int unused)
{
    uint64_t size = 0, raw = 0;
    (void)unused;
    enum tw_status status = take_number(m, 1, &size);
    if (status == TW_OK && size > 8)
        status = twp_pickle_bad(m, "holds an integer of more than 64 bits");
    if (status == TW_OK)
        status = take_number(m, (size_t)size, &raw);
    if (status != TW_OK)
        return status;
    if (size > 0 && size < 8 && raw >> (8 * size - 1))
        raw |= UINT64_MAX << (8 * size);
    return push_int(m, (int64_t)raw);
}

static enum tw_status op_real(struct twp_pickle_machine *m, int unused)
{
    const uint8_t *bytes;
    (void)unused;
    enum tw_status status = take(m, 8, &bytes);
    return status == TW_OK ? op_kind(m, TWP_PICKLE_REAL) : status;
}

static enum tw_status op_text(struct twp_pickle_machine *m, int size_bytes)
{
    uint64_t size;
    const uint8_t *bytes = NULL;
    enum tw_status status = take_number(m, (size_t)size_bytes, &size);
    if (status == TW_OK && size > UINT32_MAX)
        status = twp_pickle_bad(m, "ends too early");
    if (status == TW_OK)
        status = take(m, (size_t)size, &bytes);
    if (status != TW_OK)
        return status;
    return push(m, (struct twp_pickle_value){.kind = TWP_PICKLE_TEXT,
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
    return push(m, (struct twp_pickle_value){.kind = TWP_PICKLE_TUPLE,
                                             .size = (uint32_t)count,
                                             .as.item = copy});
}

static enum tw_status op_tuple(struct twp_pickle_machine *m, int unused)
{
    size_t count;
    const struct twp_pickle_value *items;
    (void)unused;
    enum tw_status status = pop_mark(m, &items, &count);
    return status == TW_OK ? push_tuple(m, items, count) : status;
}

static enum tw_status op_tuple_of(struct twp_pickle_machine *m, int count)
{
    struct twp_pickle_value items[3];
    for (int i = count - 1; i >= 0; i--) {
        enum tw_status status = pop(m, &items[i]);
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

static enum tw_status op_dict(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value dict;
    (void)unused;
    enum tw_status status = twp_pickle_dict(m, &dict);
    return status == TW_OK ? push(m, dict) : status;
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

static enum tw_status op_set_items(struct twp_pickle_machine *m, int unused)
{
    size_t count;
    const struct twp_pickle_value *items;
    (void)unused;
    enum tw_status status = pop_mark(m, &items, &count);
    return status == TW_OK ? add_pairs(m, items, count) : status;
}

static enum tw_status op_set_item(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value pair[2];
    (void)unused;
    enum tw_status status = pop(m, &pair[1]);
    if (status == TW_OK)
        status = pop(m, &pair[0]);
    return status == TW_OK ? add_pairs(m, pair, 2) : status;
}

/* Lists stand in what is not used: their items are dropped. */
static enum tw_status check_list(struct twp_pickle_machine *m)
{
    if (m->depth > 0 && m->stack[m->depth - 1].kind == TWP_PICKLE_LIST)
        return TW_OK;
    return twp_pickle_bad(m, "appends to something else than a list");
}

static enum tw_status op_appends(struct twp_pickle_machine *m, int unused)
{
    size_t count;
    const struct twp_pickle_value *items;
    (void)unused;
    enum tw_status status = pop_mark(m, &items, &count);
    return status == TW_OK ? check_list(m) : status;
}

static enum tw_status op_append(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value item;
    (void)unused;
    enum tw_status status = pop(m, &item);
    return status == TW_OK ? check_list(m) : status;
}

static enum tw_status put_memo(struct twp_pickle_machine *m, uint64_t index)
{
    if (m->depth == 0 || index >= m->memo_limit)
        return twp_pickle_bad(m, "has a memo that its length cannot need");
    m->memo[index] = m->stack[m->depth - 1];
    if (index >= m->memos)
        m->memos = (size_t)index + 1;
    return TW_OK;
}

static enum tw_status op_put(struct twp_pickle_machine *m, int bytes)
{
    uint64_t index;
    enum tw_status status = take_number(m, (size_t)bytes, &index);
    return status == TW_OK ? put_memo(m, index) : status;
}

static enum tw_status op_memoize(struct twp_pickle_machine *m, int unused)
{
    (void)unused;
    return put_memo(m, m->memos);
}

static enum tw_status op_get(struct twp_pickle_machine *m, int bytes)
{
    uint64_t index;
    enum tw_status status = take_number(m, (size_t)bytes, &index);
    if (status == TW_OK && index >= m->memos)
        status = twp_pickle_bad(m, "reads a memo that was not written");
    return status == TW_OK ? push(m, m->memo[index]) : status;
}

/* A line of text without its end. */
static enum tw_status take_line(struct twp_pickle_machine *m, const char **text,
                                size_t *size)
{
    const uint8_t *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!end)
        return twp_pickle_bad(m, "ends too early");
    *text = (const char *)m->at;
    *size = (size_t)(end - m->at);
    m->at = end + 1;
    return TW_OK;
}

static enum tw_status op_global(struct twp_pickle_machine *m, int unused)
{
    const char *module = NULL, *name = NULL;
    size_t module_size = 0, name_size = 0;
    struct twp_pickle_value global;
    (void)unused;
    enum tw_status status = take_line(m, &module, &module_size);
    if (status == TW_OK)
        status = take_line(m, &name, &name_size);
    if (status == TW_OK)
        status =
            twp_pickle_global(m, module, module_size, name, name_size, &global);
    return status == TW_OK ? push(m, global) : status;
}

static enum tw_status op_stack_global(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value module = {TWP_PICKLE_NONE, 0, {0}};
    struct twp_pickle_value name = module, global;
    (void)unused;
    enum tw_status status = pop(m, &name);
    if (status == TW_OK)
        status = pop(m, &module);
    if (status != TW_OK)
        return status;
    if (module.kind != TWP_PICKLE_TEXT || name.kind != TWP_PICKLE_TEXT)
        return twp_pickle_bad(m, "names a global by something else than text");
    status = twp_pickle_global(m, module.as.text, module.size, name.as.text,
                               name.size, &global);
    return status == TW_OK ? push(m, global) : status;
}

static enum tw_status op_persistent(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value id, storage;
    (void)unused;
    enum tw_status status = pop(m, &id);
    if (status == TW_OK)
        status = twp_pickle_storage(m, &id, &storage);
    return status == TW_OK ? push(m, storage) : status;
}

static enum tw_status op_reduce(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value args, callee, result = {TWP_PICKLE_NONE, 0, {0}};
    (void)unused;
    enum tw_status status = pop(m, &args);
    if (status == TW_OK)
        status = pop(m, &callee);
    if (status != TW_OK)
        return status;
    if (callee.kind != TWP_PICKLE_GLOBAL || !callee.as.global->call ||
        args.kind != TWP_PICKLE_TUPLE)
        return tw_error_set(m->err, TW_ERR_UNSUPPORTED,
                            "%s: pickle: calls (REDUCE) something that "
                            "rebuilds no tensor: refused",
                            m->file->name);
    status = callee.as.global->call(m, &args, &result);
    return status == TW_OK ? push(m, result) : status;
}

/* Attributes of a dictionary (a state dictionary's _metadata): dropped. */
static enum tw_status op_build(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value state;
    (void)unused;
    enum tw_status status = pop(m, &state);
    if (status != TW_OK)
        return status;
    if (m->depth > 0 && m->stack[m->depth - 1].kind == TWP_PICKLE_DICT &&
        state.kind == TWP_PICKLE_DICT)
        return TW_OK;
    return tw_error_set(m->err, TW_ERR_UNSUPPORTED,
                        "%s: pickle: sets attributes (BUILD) of something "
                        "else than a dictionary: refused",
                        m->file->name);
}

static enum tw_status op_frame(struct twp_pickle_machine *m, int unused)
{
    uint64_t size;
    (void)unused;
    return take_number(m, 8, &size);
}

/* Opcodes by byte; those without a function are refused by their name. */
static const struct {
    const char *name;
    op_fn *run;
    int arg;
} ops[256] = {
    [0x80] = {"PROTO", op_nothing, 1},
    [0x95] = {"FRAME", op_frame, 0},
    ['('] = {"MARK", op_kind, TWP_PICKLE_MARK},
    ['N'] = {"NONE", op_kind, TWP_PICKLE_NONE},
    [0x88] = {"NEWTRUE", op_bool, 1},
    [0x89] = {"NEWFALSE", op_bool, 0},
    ['J'] = {"BININT", op_int, 4},
    ['K'] = {"BININT1", op_int, 1},
    ['M'] = {"BININT2", op_int, 2},
    [0x8a] = {"LONG1", op_long, 0},
    ['G'] = {"BINFLOAT", op_real, 0},
    ['X'] = {"BINUNICODE", op_text, 4},
    [0x8c] = {"SHORT_BINUNICODE", op_text, 1},
    [0x8d] = {"BINUNICODE8", op_text, 8},
    ['U'] = {"SHORT_BINSTRING", op_text, 1},
    ['T'] = {"BINSTRING", op_text, 4},
    [')'] = {"EMPTY_TUPLE", op_tuple_of, 0},
    ['t'] = {"TUPLE", op_tuple, 0},
    [0x85] = {"TUPLE1", op_tuple_of, 1},
    [0x86] = {"TUPLE2", op_tuple_of, 2},
    [0x87] = {"TUPLE3", op_tuple_of, 3},
    [']'] = {"EMPTY_LIST", op_kind, TWP_PICKLE_LIST},
    ['a'] = {"APPEND", op_append, 0},
    ['e'] = {"APPENDS", op_appends, 0},
    ['}'] = {"EMPTY_DICT", op_dict, 0},
    ['s'] = {"SETITEM", op_set_item, 0},
    ['u'] = {"SETITEMS", op_set_items, 0},
    ['q'] = {"BINPUT", op_put, 1},
    ['r'] = {"LONG_BINPUT", op_put, 4},
    [0x94] = {"MEMOIZE", op_memoize, 0},
    ['h'] = {"BINGET", op_get, 1},
    ['j'] = {"LONG_BINGET", op_get, 4},
    ['c'] = {"GLOBAL", op_global, 0},
    [0x93] = {"STACK_GLOBAL", op_stack_global, 0},
    ['Q'] = {"BINPERSID", op_persistent, 0},
    ['R'] = {"REDUCE", op_reduce, 0},
    ['b'] = {"BUILD", op_build, 0},
    ['0'] = {"POP", NULL, 0},
    ['1'] = {"POP_MARK", NULL, 0},
    ['2'] = {"DUP", NULL, 0},
    ['F'] = {"FLOAT", NULL, 0},
    ['I'] = {"INT", NULL, 0},
    ['L'] = {"LONG", NULL, 0},
    ['P'] = {"PERSID", NULL, 0},
    ['S'] = {"STRING", NULL, 0},
    ['V'] = {"UNICODE", NULL, 0},
    ['d'] = {"DICT", NULL, 0},
    ['g'] = {"GET", NULL, 0},
    ['i'] = {"INST", NULL, 0},
    ['l'] = {"LIST", NULL, 0},
    ['o'] = {"OBJ", NULL, 0},
    ['p'] = {"PUT", NULL, 0},
    ['B'] = {"BINBYTES", NULL, 0},
    ['C'] = {"SHORT_BINBYTES", NULL, 0},
    [0x81] = {"NEWOBJ", NULL, 0},
    [0x82] = {"EXT1", NULL, 0},
    [0x83] = {"EXT2", NULL, 0},
    [0x84] = {"EXT4", NULL, 0},
    [0x8b] = {"LONG4", NULL, 0},
    [0x8e] = {"BINBYTES8", NULL, 0},
    [0x8f] = {"EMPTY_SET", NULL, 0},
    [0x90] = {"ADDITEMS", NULL, 0},
    [0x91] = {"FROZENSET", NULL, 0},
    [0x92] = {"NEWOBJ_EX", NULL, 0},
    [0x96] = {"BYTEARRAY8", NULL, 0},
    [0x97] = {"NEXT_BUFFER", NULL, 0},
    [0x98] = {"READONLY_BUFFER", NULL, 0},
};

static enum tw_status run(struct twp_pickle_machine *m,
                          struct twp_pickle_value *result)
{
    for (;;) {
        const uint8_t *byte = NULL;
        enum tw_status status = take(m, 1, &byte);
        if (status != TW_OK)
            return status;
        if (*byte == '.')
            return pop(m, result);
        if (!ops[*byte].run)
            return tw_error_set(m->err, TW_ERR_UNSUPPORTED,
                                "%s: pickle: opcode %s (0x%02x) rebuilds no "
                                "tensor: refused",
                                m->file->name,
                                ops[*byte].name ? ops[*byte].name : "unknown",
                                *byte);
        status = ops[*byte].run(m, ops[*byte].arg);
        if (status != TW_OK)
            return status;
    }
}

enum tw_status twp_pickle_load(struct tw_tensor_file *file,
                               const uint8_t *bytes, size_t size,
                               const struct twp_pickle_source *source,
                               struct twp_pickle_value *result,
                               struct tw_error *err)
{
    struct twp_pickle_machine m = {
        .file = file,
        .source = source,
        .at = bytes,
        .end = bytes + size,
        .stack_limit = size < STACK_LIMIT ? size + 1 : STACK_LIMIT,
        .memo_limit = size / 2 + 1,
        .err = err};
    enum tw_status status = twp_arena_get(&file->arena, m.stack_limit,
                                          sizeof *m.stack, &m.stack, err);
    if (status == TW_OK)
        status = twp_arena_get(&file->arena, m.memo_limit, sizeof *m.memo,
                               &m.memo, err);
    if (status == TW_OK)
        status = run(&m, result);
    return status;
}
