/* Which runs a figure shows. */
#include <config.h>

#include <string.h>

#include "base/active.h"
#include "base/log.h"
#include "base/memory.h"
#include "cmd/figure.h"

void tw_figure_runs_free(struct tw_figure_run *runs, size_t count)
{
    for (size_t i = 0; runs && i < count; i++) {
        tw_free(runs[i].run);
        tw_free(runs[i].active);
        tw_free(runs[i].label);
    }
    tw_free(runs);
}

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

/* A new string of the current row, NULL where NULL. */
static char *copy_cell(struct tw_query *query, int column)
{
    const char *text = tw_query_text(query, column, NULL);
    return text ? tw_strdup(text) : NULL;
}

/* Two runs of one kind or more: the newest complete one; one: that. */
static enum tw_status default_run(struct tw_store *store, const char *kind,
                                  char **name, struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = false;
    enum tw_status status = tw_query_open(
        store,
        "SELECT run, status, count(*) OVER () FROM run_info WHERE kind = :kind"
        " ORDER BY status <> 'complete', finished DESC, started DESC, run DESC"
        " LIMIT 1", &query, err);
    if (status == TW_OK)
        status = tw_query_bind_text(query, ":kind", kind, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    if (status == TW_OK && !has_row)
        status = tw_error_set(err, TW_ERR_NOT_FOUND, "%s: no run of kind '%s'",
                              tw_store_path(store), kind);
    if (status == TW_OK) {
        int64_t others = tw_query_int(query, 2);
        char *copy = copy_cell(query, 0);
        if (!copy)
            status = no_memory(err);
        else if (others > 1)
            tw_log(TW_LOG_INFO, "run '%s', the newest %s one of %lld", copy,
                   tw_query_text(query, 1, NULL), (long long)others);
        else
            tw_log(TW_LOG_INFO, "run '%s'", copy);
        *name = copy;
    }
    tw_query_close(query);
    return status;
}

/* The run exists; *primary is its definition, NULL if it has none. */
static enum tw_status find_run(struct tw_store *store, const char *name,
                               char **primary, struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = false;
    enum tw_status status = tw_query_open(
        store, "SELECT active, status FROM run_info WHERE run = :run", &query,
        err);
    if (status == TW_OK)
        status = tw_query_bind_text(query, ":run", name, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    if (status == TW_OK && !has_row)
        status = tw_error_set(err, TW_ERR_NOT_FOUND, "%s: no run '%s'",
                              tw_store_path(store), name);
    if (status == TW_OK) {
        const char *state = tw_query_text(query, 1, NULL);
        if (state && strcmp(state, "complete") != 0)
            tw_log(TW_LOG_WARNING, "run '%s' is %s", name, state);
        *primary = copy_cell(query, 0);
    }
    tw_query_close(query);
    return status;
}

static enum tw_status check_active(struct tw_store *store, const char *run,
                                   const char *active, struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = false;
    enum tw_status status = tw_query_open(
        store,
        "SELECT max(active = :active), group_concat(DISTINCT active)"
        " FROM all_layer_stats WHERE run = :run", &query, err);
    if (status == TW_OK)
        status = tw_query_bind_text(query, ":active", active, err);
    if (status == TW_OK)
        status = tw_query_bind_text(query, ":run", run, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    if (status == TW_OK && !tw_query_int(query, 0)) {
        const char *known = tw_query_text(query, 1, NULL);
        status = tw_error_set(err, TW_ERR_NOT_FOUND,
                              "run '%s' has no definition '%s'; it has: %s",
                              run, active, known ? known : "none");
    }
    tw_query_close(query);
    return status;
}

/* Equal definitions have equal names: "abs:0.010" is "abs:0.01". */
static const char *canonical(const char *active, struct tw_active *parsed)
{
    return tw_active_parse(active, parsed, NULL) == TW_OK ? parsed->name
                                                          : active;
}

static enum tw_status pick(struct tw_store *store, const char *name,
                           const char *active, struct tw_figure_run *run,
                           struct tw_error *err)
{
    struct tw_active parsed;
    enum tw_status status = find_run(store, name, &run->active, err);
    if (status == TW_OK && active) {
        tw_free(run->active);
        run->active = tw_strdup(canonical(active, &parsed));
        status = run->active ? check_active(store, name, run->active, err)
                             : no_memory(err);
    }
    if (status != TW_OK)
        return status;
    run->run = tw_strdup(name);
    run->label = tw_strdup(name);
    return run->run && run->label ? TW_OK : no_memory(err);
}

enum tw_status tw_figure_runs(struct tw_store *store, const char *kind,
                              const char *const *names, size_t name_count,
                              const char *active, struct tw_figure_run **out,
                              size_t *count, struct tw_error *err)
{
    char *found = NULL;
    enum tw_status status = TW_OK;
    const char *only[1];
    if (name_count == 0) {
        status = default_run(store, kind, &found, err);
        only[0] = found;
        names = only;
        name_count = 1;
    }
    struct tw_figure_run *runs = NULL;
    if (status == TW_OK && !(runs = tw_calloc(name_count, sizeof *runs)))
        status = no_memory(err);
    for (size_t i = 0; i < name_count && status == TW_OK; i++)
        status = pick(store, names[i], active, &runs[i], err);
    tw_free(found);
    if (status != TW_OK) {
        tw_figure_runs_free(runs, name_count);
        return status;
    }
    *out = runs;
    *count = name_count;
    return TW_OK;
}
