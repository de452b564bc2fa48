/* Options that every command shares, and what getopt_long leaves to say. */
#ifndef TW_CMD_OPTIONS_H
#define TW_CMD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cmd/command.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --db without a value: $TWELLSCOPE_DB, else "twellscope.sqlite". */
const char *tw_default_db(void);

/* "4096", "4Ki", "1.5M": a whole number >= 0 after its suffix (k, M, G, Ki,
 * Mi, Gi). option names it in the message. TW_OK or TW_ERR_USAGE. */
TW_MUST_USE enum tw_status tw_parse_size(const char *option, const char *text,
                                         int64_t *value, struct tw_error *err);

/* Starts getopt_long anew, silent: our errors are printed by main. Give it an
 * option string that starts with ':' (or "+:"). */
void tw_options_start(void);
/* What getopt_long's '?' or ':' meant, as TW_ERR_USAGE. */
TW_MUST_USE enum tw_status tw_options_error(char **argv, int got,
                                            struct tw_error *err);
/* -h: usage and help on stdout. */
void tw_print_help(const struct tw_command *command);

#ifdef __cplusplus
}
#endif
#endif
