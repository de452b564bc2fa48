/* Inside src/load: the entries of a zip archive whose members are stored, not
 * compressed, as PyTorch writes them; sizes past 4 GiB (zip64) included.
 * Source: PKWARE's APPNOTE 6.3. */
#ifndef TW_LOAD_ZIP_H
#define TW_LOAD_ZIP_H

#include <stdbool.h>
#include <stdint.h>

#include "load/load_internal.h"

#ifdef __cplusplus
extern "C" {
#endif

struct twp_zip_entry {
    const char *name; /* NUL-terminated, in the file's arena */
    const uint8_t *data;
    uint64_t size;
};

struct twp_zip {
    struct twp_zip_entry *entry; /* sorted by name; in the file's arena */
    size_t entries;
};

/* Whether the file starts as a zip archive does. */
bool twp_zip_is(const struct tw_file *map);
/* Reads a mapped file's directory; every entry lies within the file. Returns
 * TW_OK, TW_ERR_FORMAT or TW_ERR_UNSUPPORTED (compressed, encrypted). */
TW_MUST_USE enum tw_status twp_zip_open(struct tw_tensor_file *file,
                                        struct twp_zip *zip,
                                        struct tw_error *err);
/* NULL: no such entry. */
const struct twp_zip_entry *twp_zip_find(const struct twp_zip *zip,
                                         const char *name);

#ifdef __cplusplus
}
#endif
#endif
