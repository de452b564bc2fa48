/* gnuplot as a program of its own. */
#ifndef TW_CMD_GNUPLOT_H
#define TW_CMD_GNUPLOT_H

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs "gnuplot -d script" in folder (without a shell, without the user's
 * start-up file) and waits. What it says goes to the file log; its first line
 * is the message of a failure, or a warning. Returns TW_OK, TW_ERR_NOT_FOUND
 * without gnuplot, TW_ERR_IO. */
TW_MUST_USE enum tw_status tw_gnuplot(const char *folder, const char *script,
                                      const char *log, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
