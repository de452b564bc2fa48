/* Dispatch, the one place that prints an error, and the exit status. */
#include <config.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/help.h"
#include "cmd/talk.h"

static int exit_status(enum tw_status status)
{
    switch (status) {
    case TW_OK:
        return 0;
    case TW_ERR_USAGE:
        return 2;
    case TW_ERR_LOST:
        return 3;
    case TW_ERR_STOPPED:
        return 75;
    default:
        return 1;
    }
}

/* A full disk or a closed pipe shows only when stdout is flushed. */
static int close_stdout(const char *command)
{
    int failed = ferror(stdout);
    if (fclose(stdout) != 0 && errno != EBADF)
        failed = 1;
    if (failed && errno != EPIPE)
        fprintf(stderr, "twellscope %s: standard output: %s\n", command,
                strerror(errno));
    return failed;
}

static int run_command(const struct tw_command *command, int argc, char **argv)
{
    struct tw_error err = {0};
    if (argc > 1 &&
        (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        tw_help_command(stdout, command);
        return close_stdout(command->name);
    }
    tw_talk_start(command->name);
    enum tw_status status = command->run(argc, argv, &err);
    tw_talk_progress_end();
    int failed = close_stdout(command->name);
    if (status != TW_OK)
        fprintf(stderr, "twellscope %s: %s\n", command->name,
                *err.text ? err.text : tw_status_text(status));
    if (status == TW_ERR_USAGE)
        fprintf(stderr, "Try 'twellscope %s -h'.\n", command->name);
    return status == TW_OK && failed ? 1 : exit_status(status);
}

/* help [COMMAND] | help --man [COMMAND] */
static int help(int argc, char **argv)
{
    int is_man = argc > 1 && strcmp(argv[1], "--man") == 0;
    const char *name = argc > 1 + is_man ? argv[1 + is_man] : NULL;
    const struct tw_command *command = name ? tw_command_find(name) : NULL;
    if (name && !command) {
        fprintf(stderr, "twellscope help: no command '%s'\n", name);
        return 2;
    }
    if (is_man)
        tw_help_man(stdout, command);
    else if (command)
        tw_help_command(stdout, command);
    else
        tw_help_all(stdout);
    return close_stdout("help");
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--version") == 0) {
        tw_help_version(stdout);
        return close_stdout(name);
    }
    if (argc < 2 || strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0) {
        tw_help_all(argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : close_stdout("help");
    }
    if (strcmp(name, "help") == 0)
        return help(argc - 1, argv + 1);
    const struct tw_command *command = tw_command_find(name);
    if (!command) {
        fprintf(stderr, "twellscope: no command '%s'; see 'twellscope help'\n",
                name);
        return 2;
    }
    return run_command(command, argc - 1, argv + 1);
}
