/* One command of the program: cmd_NAME.c exports one, commands.c lists them;
 * help, usage and completion are printed from these fields. */
#ifndef TW_CMD_COMMAND_H
#define TW_CMD_COMMAND_H

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* run gets argv[0] = the command's name, then its own arguments; it writes
 * data to stdout and returns a status that main turns into the exit code. */
struct tw_command {
    const char *name, *group, *summary, *usage, *help;
    enum tw_status (*run)(int argc, char **argv, struct tw_error *err);
};

extern const struct tw_command tw_command_sql;
extern const struct tw_command tw_command_figure;

#ifdef __cplusplus
}
#endif
#endif
