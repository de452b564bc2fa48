/* Help, usage and man pages, all printed from the table of commands. */
#ifndef TW_CMD_HELP_H
#define TW_CMD_HELP_H

#include <stdio.h>

#include "cmd/command.h"

#ifdef __cplusplus
extern "C" {
#endif

void tw_help_all(FILE *out);
void tw_help_command(FILE *out, const struct tw_command *command);
/* A man page in man(7) macros; NULL: twellscope(1) itself. */
void tw_help_man(FILE *out, const struct tw_command *command);
/* Version, compiler and libraries: what a bug report needs. */
void tw_help_version(FILE *out);

#ifdef __cplusplus
}
#endif
#endif
