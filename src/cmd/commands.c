/* The table of subcommands, in the order in which help lists them. */
#include <config.h>

#include "cmd/command.h"

#include <string.h>

const struct tw_command *const tw_commands[] = {
    &tw_command_info,
    &tw_command_tokenize,
    &tw_command_profile,
    &tw_command_merge,
    &tw_command_bench,
    &tw_command_import,
    &tw_command_runs,
    &tw_command_sql,
    &tw_command_figure,
    &tw_command_diff,
    &tw_command_neuron,
    &tw_command_fsck,
    NULL,
};

const struct tw_command *tw_command_find(const char *name)
{
    for (int i = 0; tw_commands[i]; i++)
        if (strcmp(tw_commands[i]->name, name) == 0)
            return tw_commands[i];
    return NULL;
}
