/* A finished file to its place. */
#ifndef TW_BASE_MOVE_H
#define TW_BASE_MOVE_H

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `from` becomes `to`, which must not be there: at once, or not at all. On one
 * file system it is renamed; else it is copied beside `to`, flushed to the disk,
 * and given its name. Returns TW_OK, TW_ERR_EXISTS where `to` is there,
 * TW_ERR_FULL, TW_ERR_NOT_FOUND or TW_ERR_IO naming the file; then `from` is as
 * it was. */
TW_MUST_USE enum tw_status tw_file_move_new(const char *from, const char *to,
                                            struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
