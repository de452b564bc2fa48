/* Talk (stderr) leaves the rooms through one function that src/cmd installs;
 * without one, messages are dropped. Never data, never the final error. */
#ifndef TW_BASE_LOG_H
#define TW_BASE_LOG_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tw_log_level { TW_LOG_WARNING, TW_LOG_INFO, TW_LOG_DEBUG };

typedef void tw_log_fn(void *arg, enum tw_log_level level, const char *text);

/* Installs the sink; NULL drops all. Process-wide, set once by main. */
void tw_log_sink(tw_log_fn *sink, void *arg);
/* One line without its newline. */
void tw_log(enum tw_log_level level, const char *format, ...) TW_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
