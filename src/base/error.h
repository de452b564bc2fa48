/* The error object: filled by the function that first knows, passed up
 * unchanged, printed once by main as "twellscope COMMAND: text".
 *
 *     struct tw_error err = {0};
 *     if (tw_file_map(path, &file, &err) != TW_OK)
 *         puts(err.text);                  // "model.bin: No such file ..."
 */
#ifndef TW_BASE_ERROR_H
#define TW_BASE_ERROR_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Caller-owned, nothing to free. Zero-initialise before first use. */
struct tw_error {
    enum tw_status status;
    char text[1024]; /* one line: file or object, then the cause */
};

/* Fills *err (may be NULL) unless it holds an error already: the first error
 * wins. Control characters in the formatted text (names come from hostile
 * files) become '?'. Returns status, so that "return tw_error_set(...)" works.
 */
enum tw_status tw_error_set(struct tw_error *err, enum tw_status status,
                            const char *format, ...) TW_PRINTF(3, 4);

/* As tw_error_set, with ": " and strerror(error_number) appended; ENOSPC,
 * EDQUOT and EROFS give TW_ERR_FULL, ENOENT TW_ERR_NOT_FOUND, ENOMEM
 * TW_ERR_NOMEM, others TW_ERR_IO. Returns that status. */
enum tw_status tw_error_errno(struct tw_error *err, int error_number,
                              const char *format, ...) TW_PRINTF(3, 4);

/* Puts "prefix: " before the text of an error that is already set; for a
 * caller that knows the file's name where the callee could not. */
void tw_error_prefix(struct tw_error *err, const char *format, ...)
    TW_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
