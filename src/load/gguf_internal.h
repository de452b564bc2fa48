/* Inside src/load: one GGUF file's header, metadata and tensor list, validated
 * in full; and what is made of them. Source: the GGUF specification, versions
 * 2 and 3. */
#ifndef TW_LOAD_GGUF_INTERNAL_H
#define TW_LOAD_GGUF_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "load/arena.h"
#include "load/checkpoint.h"
#include "load/gguf.h"
#include "load/gguf_quants.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The format's value types. */
enum twp_gguf_kind {
    TWP_GGUF_U8,
    TWP_GGUF_I8,
    TWP_GGUF_U16,
    TWP_GGUF_I16,
    TWP_GGUF_U32,
    TWP_GGUF_I32,
    TWP_GGUF_F32,
    TWP_GGUF_BOOL,
    TWP_GGUF_TEXT,
    TWP_GGUF_ARRAY,
    TWP_GGUF_U64,
    TWP_GGUF_I64,
    TWP_GGUF_F64,
    TWP_GGUF_KINDS
};

/* A key and its value; kind ARRAY: count items of kind `item`. */
struct twp_gguf_value {
    const char *key; /* in the arena */
    enum twp_gguf_kind kind, item;
    uint64_t count;
    const uint8_t *data; /* in the map: the (first) value */
};

struct twp_gguf_tensor {
    const char *name; /* in the arena */
    const struct tw_gguf_type *type;
    int dims;
    int64_t shape[4]; /* row-major: the file's order turned round */
    int64_t elements;
    const uint8_t *data; /* in the map, within the file */
    uint64_t bytes;
};

/* One file, mapped. */
struct twp_gguf_file {
    struct tw_file map;
    char *name; /* base name */
    struct tw_arena arena;
    struct twp_gguf_value *value;
    size_t values;
    struct twp_gguf_tensor *tensor;
    size_t tensors;
};

/* A model's files in order; metadata stand in the first. */
struct tw_gguf {
    struct twp_gguf_file *file;
    size_t files;
};

/* Maps a file and validates all of it but the weights' values. Close with
 * twp_gguf_file_close after failures too. */
TW_MUST_USE enum tw_status twp_gguf_file_open(const char *path,
                                              struct twp_gguf_file *file,
                                              struct tw_error *err);
void twp_gguf_file_close(struct twp_gguf_file *file);

/* Bytes of one value; 0 for texts and arrays. */
size_t twp_gguf_kind_bytes(uint32_t kind);

/* The value of a key, or NULL. */
const struct twp_gguf_value *twp_gguf_find(const struct twp_gguf_file *file,
                                           const char *key);
/* As integer, number or truth value; false where the kind is another or the
 * number does not fit. */
bool twp_gguf_int(const struct twp_gguf_value *value, int64_t *number);
bool twp_gguf_real(const struct twp_gguf_value *value, double *number);
bool twp_gguf_bool(const struct twp_gguf_value *value, bool *is_true);
/* A text's bytes, not NUL-terminated; false where it is none. */
bool twp_gguf_text(const struct twp_gguf_value *value, const char **text,
                   size_t *size);
/* Item i of an array as a value of its own; false past its end. Slow for
 * texts: use the iterator below. */
bool twp_gguf_item(const struct twp_gguf_value *array, uint64_t i,
                   struct twp_gguf_value *item);
/* Texts of an array in turn: *at starts as array->data. */
void twp_gguf_next_text(const uint8_t **at, const char **text, size_t *size);

/* NAME-00002-of-00003.gguf: its numbers. */
bool twp_gguf_is_part(const char *name, int *part, int *count);

/* The tensor of that name in any of the files, or NULL. */
const struct twp_gguf_tensor *twp_gguf_tensor(const struct tw_gguf *gguf,
                                              const char *name);

#ifdef __cplusplus
}
#endif
#endif
