/* GGUF's tensor types: blocks of values that share scales. Source: the ggml
 * type list and the layouts that the `gguf` Python package documents, with
 * which the results agree bit for bit. */
#ifndef TW_LOAD_GGUF_QUANTS_H
#define TW_LOAD_GGUF_QUANTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One block to values[] floats. */
typedef void tw_gguf_dequant_fn(const uint8_t *block, float *out);

struct tw_gguf_type {
    uint32_t id;
    const char *name;            /* "Q4_K": static */
    int values, bytes;           /* of a block */
    tw_gguf_dequant_fn *dequant; /* NULL: stored as dtype */
    enum tw_dtype dtype;         /* after loading */
};

/* The row of a type that is read, else NULL. */
const struct tw_gguf_type *twp_gguf_type(uint32_t id);
/* "IQ2_XXS": of every type that ggml names, else "unknown". Static. */
const char *twp_gguf_type_name(uint32_t id);
/* "F32, F16, BF16, Q8_0, ...": the types that are read. */
void twp_gguf_types(char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
