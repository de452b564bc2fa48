/* Checkpoint tensors from safetensors files or PyTorch's pytorch_model.bin: one
 * file, or shards with an index. Memory-mapped; the header (or the pickle) is
 * validated in full before any use, for the file may be hostile. Sources: the
 * safetensors format description; for pytorch_model.bin see torch_bin.c. */
#ifndef TW_LOAD_SAFETENSORS_H
#define TW_LOAD_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_MAX_DIMS 8

struct tw_tensor {
    const char *name; /* owned by the set */
    enum tw_dtype dtype;
    int dims;
    int64_t shape[TW_MAX_DIMS]; /* row-major, each >= 0 */
    int64_t elements;
    const void *data;   /* mapped or owned, aligned to the element's
                         * size */
    const char *file;   /* base name of the file it stands in */
    const char *stored; /* its type there ("Q4_K", static) where that
                         * is another than dtype, else NULL */
    void *owned;        /* private: data's memory, NULL: mapped */
    bool is_used;       /* set by tw_tensors_take */
};

/* All tensors of a checkpoint, sorted by name. */
struct tw_tensors {
    struct tw_tensor *tensor;
    size_t count;
    struct tw_tensor_file *file; /* private: maps and names */
    size_t files;
    const char *index; /* the index that names them, else NULL */
};

/* Opens DIRECTORY's model.safetensors, else the shards that
 * model.safetensors.index.json names, else pytorch_model.bin, else the shards
 * of pytorch_model.bin.index.json. Tensors of types that are no weights (BOOL,
 * U8, F64, ...) are kept out, with a debug message. Returns TW_OK;
 * TW_ERR_NOT_FOUND without any of them; TW_ERR_FORMAT naming file, tensor and
 * cause (truncated, header past the end, overlapping, misaligned or short
 * data, sizes past 2^63, present twice, index naming a file outside, ...);
 * TW_ERR_UNSUPPORTED for a pickle that does more than rebuild tensors. */
TW_MUST_USE enum tw_status tw_tensors_open(const char *directory,
                                           struct tw_tensors *tensors,
                                           struct tw_error *err);
/* One file by path (oracles): .bin, .pt and .pth are PyTorch's. */
TW_MUST_USE enum tw_status tw_tensors_open_file(const char *path,
                                                struct tw_tensors *tensors,
                                                struct tw_error *err);
void tw_tensors_close(struct tw_tensors *tensors);

/* The type it is stored in: "Q4_K", "float32", ... Static. */
const char *tw_tensor_type(const struct tw_tensor *tensor);

/* By name, NULL if absent; borrowed. */
const struct tw_tensor *tw_tensors_find(const struct tw_tensors *tensors,
                                        const char *name);
/* As find, marking it used; checks that its shape is shape[dims] and its type
 * F32, BF16 or F16. Absent: TW_ERR_NOT_FOUND naming it, or with is_optional
 * TW_OK and *tensor NULL. Wrong: TW_ERR_MISMATCH in the form "FILE: tensor
 * 'NAME' has shape [a, b], expected [c, d]". */
TW_MUST_USE enum tw_status
tw_tensors_take(struct tw_tensors *tensors, const char *name, int dims,
                const int64_t *shape, bool is_optional,
                const struct tw_tensor **tensor, struct tw_error *err);

/* SHA-256 over names, types, shapes and bytes in name order (one digest a
 * tensor, then one over those, so that threads can share the work), and in
 * the same pass a check that every value is finite: NaN or Inf is
 * TW_ERR_NUMERIC naming file, tensor and index. threads >= 1. */
TW_MUST_USE enum tw_status tw_tensors_hash(const struct tw_tensors *tensors,
                                           int threads, char hex[65],
                                           struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
