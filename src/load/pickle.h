/* Inside src/load: Python's pickle format, cut down to what a PyTorch state
 * dictionary needs. Nothing is ever called: the few globals that may stand in
 * the stream are rows of a table, and every other opcode or global is refused
 * by name. Source: the opcode list of Python's pickletools; the form of
 * tensors is that of torch.save since PyTorch 1.6. */
#ifndef TW_LOAD_PICKLE_H
#define TW_LOAD_PICKLE_H

#include <stdbool.h>
#include <stdint.h>

#include "load/load_internal.h"

#ifdef __cplusplus
extern "C" {
#endif

enum twp_pickle_kind {
    TWP_PICKLE_NONE,
    TWP_PICKLE_BOOL,
    TWP_PICKLE_INT,
    TWP_PICKLE_REAL,
    TWP_PICKLE_TEXT,
    TWP_PICKLE_TUPLE,
    TWP_PICKLE_LIST,
    TWP_PICKLE_DICT,
    TWP_PICKLE_GLOBAL,
    TWP_PICKLE_STORAGE,
    TWP_PICKLE_TENSOR,
    TWP_PICKLE_MARK
};

struct twp_pickle_value {
    enum twp_pickle_kind kind;
    uint32_t size; /* TEXT: bytes; TUPLE: items */
    union {
        int64_t number;   /* BOOL, INT */
        const char *text; /* not NUL-terminated */
        const struct twp_pickle_value *item;
        struct twp_pickle_dict *dict;
        const struct twp_pickle_global *global;
        const struct twp_torch_storage *storage;
        const struct twp_torch_tensor *tensor;
    } as;
};

/* Keys and values in turn, in the order they were set. */
struct twp_pickle_dict {
    struct twp_pickle_value *pair; /* [2 * count] */
    size_t count, capacity;
};

/* A type of storage: its tensors' type. */
struct twp_torch_type {
    const char *name; /* "FloatStorage" */
    const char *type; /* "F32", for messages */
    int dtype;        /* enum tw_dtype, or -1: no weight */
    size_t size;      /* bytes of an element */
};

struct twp_torch_storage {
    const struct twp_torch_type *type;
    const uint8_t *data;
    uint64_t elements;
};

struct twp_torch_tensor {
    const struct twp_torch_storage *storage;
    uint64_t offset; /* elements */
    int dims;
    int64_t shape[TW_MAX_DIMS];
    int64_t elements;
    bool is_row_major; /* else a transposed or expanded view */
};

/* Finds the bytes of a storage by its key. */
struct twp_pickle_source {
    const uint8_t *(*find)(void *arg, const char *key, size_t key_size,
                           uint64_t *bytes);
    void *arg;
};

/* Runs the stream at bytes[size] and gives the object it makes; all memory is
 * the file's arena's. Returns TW_OK; TW_ERR_UNSUPPORTED naming an opcode or
 * global that is not for tensors; TW_ERR_FORMAT. */
TW_MUST_USE enum tw_status
twp_pickle_load(struct tw_tensor_file *file, const uint8_t *bytes, size_t size,
                const struct twp_pickle_source *source,
                struct twp_pickle_value *result, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
