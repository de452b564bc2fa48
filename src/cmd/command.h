/* One subcommand: one file cmd_NAME.c exports one entry, commands.c lists
 * them. Usage, help and man pages are printed from the entry. */
#ifndef TW_CMD_COMMAND_H
#define TW_CMD_COMMAND_H

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_command {
    const char *name;
    const char *group;   /* heading in the list of commands */
    const char *summary; /* one line, no full stop */
    const char *usage;   /* what follows "twellscope NAME" */
    const char *help;    /* paragraphs; an option starts a line with "  -" */
    /* argv[0] is the command's name. The error is printed by main, once. */
    enum tw_status (*run)(int argc, char **argv, struct tw_error *err);
};

/* The table, ended by a NULL pointer. */
extern const struct tw_command *const tw_commands[];

/* By name, NULL if there is none. */
const struct tw_command *tw_command_find(const char *name);

extern const struct tw_command tw_command_sql;
extern const struct tw_command tw_command_figure;
extern const struct tw_command tw_command_info;
extern const struct tw_command tw_command_tokenize;
extern const struct tw_command tw_command_profile;
extern const struct tw_command tw_command_merge;
extern const struct tw_command tw_command_runs;
extern const struct tw_command tw_command_bench;
extern const struct tw_command tw_command_fsck;
extern const struct tw_command tw_command_import;
extern const struct tw_command tw_command_diff;
extern const struct tw_command tw_command_neuron;

#ifdef __cplusplus
}
#endif
#endif
