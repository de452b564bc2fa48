/* The machine: a stack, a memo, and a table of opcodes. Each opcode pushes at
 * most one value, so the stream's length bounds the stack, and a limit that no
 * state dictionary reaches bounds it for long streams. */
#include <config.h>

#include <string.h>

#include "load/pickle_internal.h"

enum { STACK_LIMIT = 16384 };

static enum tw_status op_nothing(struct twp_pickle_machine *m, int bytes)
{
    const uint8_t *skipped;
    return twp_pickle_take(m, (size_t)bytes, &skipped);
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
    enum tw_status status = twp_pickle_take_number(m, (size_t)bytes, &index);
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
    enum tw_status status = twp_pickle_take_number(m, (size_t)bytes, &index);
    if (status == TW_OK && index >= m->memos)
        status = twp_pickle_bad(m, "reads a memo that was not written");
    return status == TW_OK ? twp_pickle_push(m, m->memo[index]) : status;
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
    return status == TW_OK ? twp_pickle_push(m, global) : status;
}

static enum tw_status op_stack_global(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value module = {TWP_PICKLE_NONE, 0, {0}};
    struct twp_pickle_value name = module, global;
    (void)unused;
    enum tw_status status = twp_pickle_pop(m, &name);
    if (status == TW_OK)
        status = twp_pickle_pop(m, &module);
    if (status != TW_OK)
        return status;
    if (module.kind != TWP_PICKLE_TEXT || name.kind != TWP_PICKLE_TEXT)
        return twp_pickle_bad(m, "names a global by something else than text");
    status = twp_pickle_global(m, module.as.text, module.size, name.as.text,
                               name.size, &global);
    return status == TW_OK ? twp_pickle_push(m, global) : status;
}

static enum tw_status op_persistent(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value id, storage;
    (void)unused;
    enum tw_status status = twp_pickle_pop(m, &id);
    if (status == TW_OK)
        status = twp_pickle_storage(m, &id, &storage);
    return status == TW_OK ? twp_pickle_push(m, storage) : status;
}

static enum tw_status op_reduce(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value args, callee, result = {TWP_PICKLE_NONE, 0, {0}};
    (void)unused;
    enum tw_status status = twp_pickle_pop(m, &args);
    if (status == TW_OK)
        status = twp_pickle_pop(m, &callee);
    if (status != TW_OK)
        return status;
    if (callee.kind != TWP_PICKLE_GLOBAL || !callee.as.global->call ||
        args.kind != TWP_PICKLE_TUPLE)
        return tw_error_set(m->err, TW_ERR_UNSUPPORTED,
                            "%s: pickle: calls (REDUCE) something that "
                            "rebuilds no tensor: refused",
                            m->file->name);
    status = callee.as.global->call(m, &args, &result);
    return status == TW_OK ? twp_pickle_push(m, result) : status;
}

/* Attributes of a dictionary (a state dictionary's _metadata): dropped. */
static enum tw_status op_build(struct twp_pickle_machine *m, int unused)
{
    struct twp_pickle_value state;
    (void)unused;
    enum tw_status status = twp_pickle_pop(m, &state);
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
    return twp_pickle_take_number(m, 8, &size);
}

/* Opcodes by byte; those without a function are refused by their name. */
static const struct {
    const char *name;
    twp_pickle_op_fn *run;
    int arg;
} ops[256] = {
    [0x80] = {"PROTO", op_nothing, 1},
    [0x95] = {"FRAME", op_frame, 0},
    ['('] = {"MARK", twp_pickle_op_kind, TWP_PICKLE_MARK},
    ['N'] = {"NONE", twp_pickle_op_kind, TWP_PICKLE_NONE},
    [0x88] = {"NEWTRUE", twp_pickle_op_bool, 1},
    [0x89] = {"NEWFALSE", twp_pickle_op_bool, 0},
    ['J'] = {"BININT", twp_pickle_op_int, 4},
    ['K'] = {"BININT1", twp_pickle_op_int, 1},
    ['M'] = {"BININT2", twp_pickle_op_int, 2},
    [0x8a] = {"LONG1", twp_pickle_op_long, 0},
    ['G'] = {"BINFLOAT", twp_pickle_op_real, 0},
    ['X'] = {"BINUNICODE", twp_pickle_op_text, 4},
    [0x8c] = {"SHORT_BINUNICODE", twp_pickle_op_text, 1},
    [0x8d] = {"BINUNICODE8", twp_pickle_op_text, 8},
    ['U'] = {"SHORT_BINSTRING", twp_pickle_op_text, 1},
    ['T'] = {"BINSTRING", twp_pickle_op_text, 4},
    [')'] = {"EMPTY_TUPLE", twp_pickle_op_tuple_of, 0},
    ['t'] = {"TUPLE", twp_pickle_op_tuple, 0},
    [0x85] = {"TUPLE1", twp_pickle_op_tuple_of, 1},
    [0x86] = {"TUPLE2", twp_pickle_op_tuple_of, 2},
    [0x87] = {"TUPLE3", twp_pickle_op_tuple_of, 3},
    [']'] = {"EMPTY_LIST", twp_pickle_op_kind, TWP_PICKLE_LIST},
    ['a'] = {"APPEND", twp_pickle_op_append, 0},
    ['e'] = {"APPENDS", twp_pickle_op_appends, 0},
    ['}'] = {"EMPTY_DICT", twp_pickle_op_dict, 0},
    ['s'] = {"SETITEM", twp_pickle_op_set_item, 0},
    ['u'] = {"SETITEMS", twp_pickle_op_set_items, 0},
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
        enum tw_status status = twp_pickle_take(m, 1, &byte);
        if (status != TW_OK)
            return status;
        if (*byte == '.')
            return twp_pickle_pop(m, result);
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
