/* gnuplot as a program of its own, by posix_spawnp. */
#include <config.h>

#include "cmd/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

extern char **environ;

/* An absolute name, because the child changes its folder before it opens. */
static char *absolute(const char *path)
{
    char folder[4096];
    if (*path == '/' || !getcwd(folder, sizeof folder))
        return tw_strdup(path);
    return tw_path_join(folder, path);
}

static int spawn(const char *folder, const char *script, const char *log,
                 pid_t *child)
{
    posix_spawn_file_actions_t actions;
    char *argv[] = {"gnuplot", "-d", (char *)(uintptr_t)script, NULL};
    int code = posix_spawn_file_actions_init(&actions);
    if (code)
        return code;
    code = posix_spawn_file_actions_addchdir_np(&actions, folder);
    if (!code)
        code = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null",
                                                O_RDONLY, 0);
    if (!code)
        code = posix_spawn_file_actions_addopen(
            &actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!code)
        code = posix_spawn_file_actions_adddup2(&actions, 2, 1);
    if (!code)
        code = posix_spawnp(child, "gnuplot", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* What gnuplot said: of a failure the last line (those before show the place
 * in the script), of warnings the first. */
static char *pick_line(const char *log, bool is_failure)
{
    char *text, *line = NULL;
    size_t size;
    if (tw_file_read(log, 1 << 20, &text, &size, NULL) != TW_OK)
        return NULL;
    for (char *at = text; *at && (is_failure || !line);) {
        size_t length = strcspn(at, "\n");
        size_t blank = strspn(at, " \t^");
        if (blank < length) {
            tw_free(line);
            line = tw_strndup(at, length);
        }
        at += length + (at[length] == '\n');
    }
    tw_free(text);
    return line;
}

static enum tw_status judge(int code, const char *log, struct tw_error *err)
{
    bool is_failure = !WIFEXITED(code) || WEXITSTATUS(code) != 0;
    char *line = pick_line(log, is_failure);
    enum tw_status status = TW_OK;
    if (WIFEXITED(code) && WEXITSTATUS(code) == 127)
        status = tw_error_set(err, TW_ERR_NOT_FOUND,
                              "gnuplot not found: install the package "
                              "gnuplot-nox");
    else if (is_failure)
        status = tw_error_set(err, TW_ERR_IO, "gnuplot failed: %s",
                              line ? line : "it did not say why");
    else if (line)
        tw_log(TW_LOG_WARNING, "gnuplot: %s", line);
    tw_free(line);
    return status;
}

enum tw_status tw_gnuplot(const char *folder, const char *script,
                          const char *log, struct tw_error *err)
{
    pid_t child;
    int code = 0;
    char *log_path = absolute(log);
    if (!log_path)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    int failure = spawn(folder, script, log_path, &child);
    while (!failure && waitpid(child, &code, 0) < 0)
        if (errno != EINTR)
            failure = errno;
    enum tw_status status = TW_OK;
    if (failure == ENOENT && access(folder, X_OK) == 0)
        status = tw_error_set(err, TW_ERR_NOT_FOUND,
                              "gnuplot not found: install the package "
                              "gnuplot-nox");
    else if (failure)
        status = tw_error_errno(err, failure, "%s: cannot run gnuplot there",
                                folder);
    else
        status = judge(code, log_path, err);
    tw_free(log_path);
    return status;
}
