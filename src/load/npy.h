/* Token ids from .npy files (NumPy format 1.0-3.0), and writing them. */
#ifndef TW_LOAD_NPY_H
#define TW_LOAD_NPY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A mapped array of integers: 1-D (one document) or 2-D (a document a row). */
struct tw_npy {
    int64_t rows, cols;   /* 1-D: rows = 1 */
    int item_bytes;       /* 1, 2, 4 or 8 */
    bool is_signed;
    const uint8_t *items; /* row-major, little-endian, maybe unaligned */
    struct tw_file file;
};

/* Refuses big-endian, Fortran order, other types, more than two dimensions,
 * a size other than the header's: TW_ERR_FORMAT naming path and cause. */
TW_MUST_USE enum tw_status tw_npy_open(const char *path, struct tw_npy *npy,
                                       struct tw_error *err);
void tw_npy_close(struct tw_npy *npy);
/* One item as a signed 64-bit number (u8 items past 2^63 saturate). */
int64_t tw_npy_at(const struct tw_npy *npy, int64_t row, int64_t col);

/* Writes count ids as a 1-D little-endian int32 array. */
TW_MUST_USE enum tw_status tw_npy_write(const char *path, const int32_t *ids,
                                        int64_t count, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
