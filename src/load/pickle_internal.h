/* Inside the pickle reader: its machine, and what calls of the few allowed
 * globals give. */
#ifndef TW_LOAD_PICKLE_INTERNAL_H
#define TW_LOAD_PICKLE_INTERNAL_H

#include "load/pickle.h"

#ifdef __cplusplus
extern "C" {
#endif

struct twp_pickle_machine {
    struct tw_tensor_file *file;
    const struct twp_pickle_source *source;
    const uint8_t *at, *end;
    struct twp_pickle_value *stack, *memo;
    size_t depth, stack_limit, memos, memo_limit;
    struct tw_error *err;
};

/* What a call of a global makes of its arguments, a tuple. */
typedef enum tw_status twp_pickle_call_fn(struct twp_pickle_machine *m,
                                          const struct twp_pickle_value *args,
                                          struct twp_pickle_value *result);

struct twp_pickle_global {
    const char *module, *name;
    twp_pickle_call_fn *call;          /* NULL: not to be called */
    const struct twp_torch_type *type; /* of a storage class, else NULL */
};

/* "FILE: pickle: CAUSE", TW_ERR_FORMAT. */
enum tw_status twp_pickle_bad(struct twp_pickle_machine *m, const char *cause);
/* The stream's next bytes, or the little-endian number in them. */
TW_MUST_USE enum tw_status twp_pickle_take(struct twp_pickle_machine *m,
                                           size_t size, const uint8_t **bytes);
TW_MUST_USE enum tw_status twp_pickle_take_number(struct twp_pickle_machine *m,
                                                  size_t size,
                                                  uint64_t *number);
/* The stack. */
TW_MUST_USE enum tw_status twp_pickle_push(struct twp_pickle_machine *m,
                                           struct twp_pickle_value value);
TW_MUST_USE enum tw_status twp_pickle_pop(struct twp_pickle_machine *m,
                                          struct twp_pickle_value *value);
/* An opcode's work; arg is its row's. */
typedef enum tw_status twp_pickle_op_fn(struct twp_pickle_machine *m, int arg);
twp_pickle_op_fn twp_pickle_op_kind, twp_pickle_op_bool, twp_pickle_op_int,
    twp_pickle_op_long, twp_pickle_op_real, twp_pickle_op_text,
    twp_pickle_op_tuple, twp_pickle_op_tuple_of, twp_pickle_op_dict,
    twp_pickle_op_set_items, twp_pickle_op_set_item, twp_pickle_op_appends,
    twp_pickle_op_append;
/* A new empty dictionary. */
TW_MUST_USE enum tw_status twp_pickle_dict(struct twp_pickle_machine *m,
                                           struct twp_pickle_value *result);
/* The row of module.name, or TW_ERR_UNSUPPORTED naming it. */
TW_MUST_USE enum tw_status twp_pickle_global(struct twp_pickle_machine *m,
                                             const char *module,
                                             size_t module_size,
                                             const char *name, size_t name_size,
                                             struct twp_pickle_value *result);
/* The storage that a persistent id, a tuple, names. */
TW_MUST_USE enum tw_status twp_pickle_storage(struct twp_pickle_machine *m,
                                              const struct twp_pickle_value *id,
                                              struct twp_pickle_value *result);

#ifdef __cplusplus
}
#endif
#endif
