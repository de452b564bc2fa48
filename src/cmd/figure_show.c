/* One figure, or all that have data, into their files. */
#include <config.h>

#include "cmd/figure_show.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/memory.h"
#include "cmd/output.h"

/* What one figure of 'all' leaves for the next. */
struct progress {
    char *kind, *run; /* the run that was picked for this kind */
    bool is_empty;    /* the last figure had no data */
    size_t drawn;
    bool is_all;      /* settings are for the figures that declare them */
};

static enum tw_status write_rows(struct tw_query *query, const char *name,
                                 struct tw_output *output,
                                 struct tw_error *err)
{
    enum tw_status status = tw_output_open(output, err);
    if (status == TW_OK)
        status = tw_output_query(query, output->format, name, output->file,
                                 err);
    enum tw_status closed = tw_output_close(output, err);
    return status != TW_OK ? status : closed;
}

static enum tw_status show_runs(struct tw_store *store,
                                const struct tw_figure_dirs *dirs,
                                const struct tw_figure_request *request,
                                const struct tw_figure *figure,
                                const struct tw_figure_run *runs, size_t count,
                                const char *out, bool *is_empty,
                                struct tw_error *err)
{
    enum tw_graphic graphic;
    if (tw_graphic_find(out, &graphic)) {
        struct tw_figure_data data;
        enum tw_status status =
            tw_figure_data(store, figure, runs, count,
                           graphic == TW_GRAPHIC_TEX, &data, err);
        *is_empty = status == TW_ERR_NOT_FOUND;
        if (status != TW_OK)
            return status;
        status = tw_figure_plot(dirs, figure, &data, graphic, out,
                                request->is_kept, err);
        tw_figure_data_fini(&data);
        return status;
    }
    struct tw_output output;
    struct tw_query *query = NULL;
    enum tw_status status = tw_output_parse(out, &output, err);
    if (status == TW_OK) {
        status = tw_figure_check_rows(store, figure, runs, count, err);
        *is_empty = status == TW_ERR_NOT_FOUND;
    }
    if (status == TW_OK)
        status = tw_figure_query(store, figure, runs, count, &query, err);
    if (status == TW_OK)
        status = write_rows(query, figure->name, &output, err);
    tw_query_close(query);
    return status;
}

/* --run, or one that is picked once for each kind. */
static enum tw_status choose(struct tw_store *store,
                             const struct tw_figure_request *request,
                             const char *kind, struct progress *progress,
                             struct tw_figure_run **runs, size_t *count,
                             struct tw_error *err)
{
    const char *again[1] = {progress->run};
    bool is_known = progress->kind && strcmp(progress->kind, kind) == 0;
    if (request->run_count > 0 || is_known)
        return tw_figure_runs(store, kind, is_known ? again : request->runs,
                              is_known ? 1 : request->run_count,
                              request->active, runs, count, err);
    enum tw_status status = tw_figure_runs(store, kind, NULL, 0,
                                           request->active, runs, count, err);
    if (status != TW_OK)
        return status;
    tw_free(progress->kind);
    tw_free(progress->run);
    progress->kind = tw_strdup(kind);
    progress->run = tw_strdup((*runs)[0].run);
    if (progress->kind && progress->run)
        return TW_OK;
    tw_figure_runs_free(*runs, *count);
    *runs = NULL;
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

static enum tw_status show(struct tw_store *store,
                           const struct tw_figure_dirs *dirs,
                           const struct tw_figure_request *request,
                           struct tw_figure *figure, const char *out,
                           struct progress *progress, struct tw_error *err)
{
    struct tw_figure_run *runs = NULL;
    size_t count = 0;
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < request->setting_count && status == TW_OK; i++)
        if (!progress->is_all ||
            tw_figure_declares(figure, request->settings[i]))
            status = tw_figure_set(figure, request->settings[i], err);
    if (status == TW_OK) {
        status = choose(store, request, figure->kind, progress, &runs, &count,
                        err);
        /* no run of its kind */
        progress->is_empty =
            status == TW_ERR_NOT_FOUND && request->run_count == 0;
    }
    if (status == TW_OK)
        status = tw_figure_paper(store, dirs, figure, request->has_paper, err);
    if (status == TW_OK)
        status = show_runs(store, dirs, request, figure, runs, count, out,
                           &progress->is_empty, err);
    tw_figure_runs_free(runs, count);
    return status;
}

/* "figures/" and "figures/%s.svg" (or '*') with the name put in. */
static char *place_of(const char *pattern, const char *name)
{
    struct tw_strbuf path = {0};
    const char *mark = strstr(pattern, "%s");
    size_t skip = 2;
    if (!mark && (mark = strchr(pattern, '*')))
        skip = 1;
    if (mark) {
        tw_strbuf_append(&path, pattern, (size_t)(mark - pattern));
        tw_strbuf_printf(&path, "%s%s", name, mark + skip);
    } else
        tw_strbuf_printf(&path, "%s%s%s.pdf", pattern,
                         pattern[strlen(pattern) - 1] == '/' ? "" : "/", name);
    return tw_strbuf_take(&path);
}

static enum tw_status check_pattern(const char *pattern, struct tw_error *err)
{
    struct stat info;
    bool is_folder = stat(pattern, &info) == 0 && S_ISDIR(info.st_mode);
    size_t length = strlen(pattern);
    if (is_folder || strstr(pattern, "%s") || strchr(pattern, '*'))
        return TW_OK;
    if (length == 0 || pattern[length - 1] != '/')
        return tw_error_set(err, TW_ERR_USAGE,
                            "-o %s: for 'all' a folder, DIR/, or a pattern, "
                            "DIR/%%s.svg", pattern);
    return mkdir(pattern, 0777) == 0 ? TW_OK
                                     : tw_error_errno(err, errno, "%s",
                                                      pattern);
}

static enum tw_status show_one(struct tw_store *store,
                               const struct tw_figure_dirs *dirs,
                               const struct tw_figure_request *request,
                               const char *name, const char *out,
                               struct progress *progress,
                               struct tw_error *err)
{
    struct tw_figure *figure = NULL;
    enum tw_status status = tw_figure_load(dirs, name, &figure, err);
    progress->is_empty = false;
    if (status == TW_OK)
        status = show(store, dirs, request, figure, out, progress, err);
    tw_figure_free(figure);
    return status;
}

/* Figures without data are named in the log and left out. */
static enum tw_status show_each(struct tw_store *store,
                                const struct tw_figure_dirs *dirs,
                                const struct tw_figure_request *request,
                                const char *name, struct progress *progress,
                                struct tw_error *err)
{
    struct tw_error why = {0};
    char *out = place_of(request->out, name);
    if (!out)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status =
        show_one(store, dirs, request, name, out, progress, &why);
    tw_free(out);
    if (progress->is_empty) {
        tw_log(TW_LOG_WARNING, "skipped: %s", why.text);
        return TW_OK;
    }
    if (status != TW_OK)
        return tw_error_set(err, status, "%s", why.text);
    progress->drawn++;
    return TW_OK;
}

/* Of 'all', before any is drawn: a figure declares it, and takes the value. */
static enum tw_status check_setting(const struct tw_figure_dirs *dirs,
                                    char *const *names, size_t count,
                                    const char *setting, struct tw_error *err)
{
    bool is_known = strchr(setting, '=') == NULL; /* tw_figure_set says so */
    for (size_t i = 0; i < count; i++) {
        struct tw_figure *figure = NULL;
        enum tw_status status = tw_figure_load(dirs, names[i], &figure, err);
        if (status == TW_OK &&
            (is_known || tw_figure_declares(figure, setting))) {
            status = tw_figure_set(figure, setting, err);
            is_known = true;
        }
        tw_figure_free(figure);
        if (status != TW_OK)
            return status;
    }
    return is_known ? TW_OK
                    : tw_error_set(err, TW_ERR_USAGE,
                                   "--set %s: no figure has such a parameter; "
                                   "'figure NAME -h' shows them", setting);
}

static enum tw_status show_all(struct tw_store *store,
                               const struct tw_figure_dirs *dirs,
                               const struct tw_figure_request *request,
                               struct progress *progress, struct tw_error *err)
{
    char **names = NULL;
    size_t count = 0;
    enum tw_status status = check_pattern(request->out, err);
    if (status == TW_OK)
        status = tw_figure_names(dirs, &names, &count, err);
    for (size_t i = 0; i < request->setting_count && status == TW_OK; i++)
        status = check_setting(dirs, names, count, request->settings[i], err);
    progress->is_all = true;
    for (size_t i = 0; i < count && status == TW_OK; i++)
        status = show_each(store, dirs, request, names[i], progress, err);
    tw_figure_names_free(names, count);
    if (status == TW_OK && progress->drawn == 0)
        return tw_error_set(err, TW_ERR_NOT_FOUND, "no figure has data");
    return status;
}

enum tw_status tw_figure_show(struct tw_store *store,
                              const struct tw_figure_dirs *dirs,
                              const struct tw_figure_request *request,
                              struct tw_error *err)
{
    struct progress progress = {0};
    enum tw_status status =
        strcmp(request->name, "all") == 0
            ? show_all(store, dirs, request, &progress, err)
            : show_one(store, dirs, request, request->name, request->out,
                       &progress, err);
    tw_free(progress.kind);
    tw_free(progress.run);
    return status;
}
