/* Whole files: read-only memory maps and small reads. */
#ifndef TW_BASE_FILE_H
#define TW_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_file {
    const uint8_t *data; /* read-only; NULL when size is 0 */
    size_t size;         /* bytes */
};

/* Maps a regular file read-only. Returns TW_OK, TW_ERR_NOT_FOUND or
 * TW_ERR_IO naming path. Unmap with tw_file_unmap. */
TW_MUST_USE enum tw_status tw_file_map(const char *path, struct tw_file *file,
                                       struct tw_error *err);
void tw_file_unmap(struct tw_file *file);

/* The whole file as one NUL-terminated string (tw_free); *size without the
 * NUL. Files over limit bytes are refused (TW_ERR_FORMAT). */
TW_MUST_USE enum tw_status tw_file_read(const char *path, size_t limit,
                                        char **text, size_t *size,
                                        struct tw_error *err);

/* Directory + "/" + name in a new string (tw_free), NULL without memory. */
char *tw_path_join(const char *directory, const char *name);
/* The part of a path after its last '/', borrowed. */
const char *tw_path_base(const char *path);

#ifdef __cplusplus
}
#endif
#endif
