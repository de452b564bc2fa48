/* Shared inside src/load and with its tests: one mapped file of tensors. */
#ifndef TW_LOAD_INTERNAL_H
#define TW_LOAD_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "load/arena.h"
#include "load/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints are mapped as they are: little-endian hosts only"
#endif

/* The format's own limit on a header. */
#define TW_HEADER_LIMIT 100000000u

/* A tensor of a type that is no weight: kept out of the set, remembered for
 * messages. */
struct tw_other_tensor {
    const char *name, *type; /* name: in the file's names, type: static */
};

struct tw_tensor_file {
    struct tw_file map;
    char *name;  /* base name, what tensors' `file` points to */
    char *names; /* all tensor names, each NUL-terminated; or in the arena */
    struct tw_arena arena; /* of a pickle */
    struct tw_other_tensor *other;
    size_t others;
};

/* Validates the header of a mapped file (file->map and file->name are set) and
 * gives its tensors in a new array (tw_free), in no order. Fills file->names
 * and file->other, which the caller frees in every case. */
TW_MUST_USE enum tw_status twp_header_parse(struct tw_tensor_file *file,
                                            struct tw_tensor **tensors,
                                            size_t *count,
                                            struct tw_error *err);

/* As twp_header_parse, for PyTorch's zip form (torch_bin.c). */
TW_MUST_USE enum tw_status twp_torch_parse(struct tw_tensor_file *file,
                                           struct tw_tensor **tensors,
                                           size_t *count, struct tw_error *err);

/* Whether a name ends as a file of tensors does, and as PyTorch's. */
bool twp_is_weights(const char *name);
bool twp_is_torch(const char *name);
/* Whether a directory holds a file or index that tw_tensors_open reads. */
bool twp_has_weights(const char *directory);

/* Appends a file's tensors; tensors->file has room for it. After a failure
 * tw_tensors_close frees all, the file included. */
TW_MUST_USE enum tw_status twp_tensors_add(struct tw_tensors *tensors,
                                           const char *path,
                                           struct tw_error *err);
/* Sorts by name; a name that stands twice is refused. */
TW_MUST_USE enum tw_status twp_tensors_sort(struct tw_tensors *tensors,
                                            struct tw_error *err);
/* The type ("BOOL", static) of a tensor that was kept out, and its file's base
 * name; NULL if there is none of that name. */
const char *twp_tensors_other(const struct tw_tensors *tensors,
                              const char *name, const char **file);

#ifdef __cplusplus
}
#endif
#endif
