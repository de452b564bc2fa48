/* A rank's work: its part of the run, or the whole that is there already. */
#include <config.h>

#include "run/ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "db/store.h"
#include "run/ranks_internal.h"
#include "run/record.h"
#include "run/scratch.h"

static enum tw_status check_options(const struct twp_team *team,
                                    struct tw_error *err)
{
    const struct tw_profile_options *o = team->o;
    for (int i = 0; i < o->n_files; i++)
        if (strcmp(o->files[i], "-") == 0)
            return tw_error_set(err, TW_ERR_USAGE,
                                "-f -: standard input reaches one rank only");
    if (o->compare)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--compare: not by ranks: an oracle is run whole");
    if (o->is_replace && !team->wire)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--replace: not by ranks that can't talk: one "
                            "could merge a part that another is to replace; "
                            "`runs --delete` first");
    return TW_OK;
}

/* The state of the run in --db, "" where there is none. */
static enum tw_status state_at_home(const struct twp_team *team, char state[32],
                                    struct tw_error *err)
{
    struct tw_store *store = NULL;
    struct tw_error own = {0};
    char *text = NULL;
    int64_t run;
    state[0] = '\0';
    enum tw_status status =
        tw_store_open(team->o->db, TW_STORE_READ, &store, &own);
    if (status == TW_ERR_NOT_FOUND)
        return TW_OK;
    if (status != TW_OK)
        return tw_error_set(err, status, "%s", own.text);
    status = tw_store_run_find(store, team->name, &run, &own);
    if (status == TW_OK)
        status = tw_store_get_text(store, run, "status", &text, &own);
    if (status == TW_OK)
        snprintf(state, 32, "%s", text ? text : "of no status");
    tw_free(text);
    tw_store_close(store);
    return status == TW_OK || status == TW_ERR_NOT_FOUND
               ? TW_OK
               : tw_error_set(err, status, "%s", own.text);
}

static enum tw_status count_part(struct twp_team *team, const char *path,
                                 struct tw_profile_report *report,
                                 struct tw_error *err)
{
    struct tw_profile_options part = *team->o;
    part.db = path;
    part.plan_db = team->o->db;
    part.name = team->name;
    part.shard = team->who->rank;
    part.shards = team->who->ranks;
    part.progress = twp_team_progress;
    part.progress_arg = team;
    if (part.threads == 0)
        part.threads = tw_ranks_threads(team->who);
    if (part.device == 0)
        part.device = tw_ranks_device(team->who);
    return tw_scratch_run(&part, report, err);
}

/* A run that is whole already is compared as one process would, and a part that
 * was left beside it goes. */
static enum tw_status check_whole(struct twp_team *team, const char *path,
                                  struct tw_profile_report *report,
                                  struct tw_error *err)
{
    struct tw_profile_options whole = *team->o;
    whole.name = team->name;
    enum tw_status status = tw_profile_run(&whole, report, err);
    if (report->was_complete)
        tw_database_remove(path);
    return status;
}

/* *is_whole: there was nothing to do, the run is in --db. */
static enum tw_status work(struct twp_team *team,
                           struct tw_profile_report *report, bool *is_whole,
                           struct tw_error *err)
{
    const struct tw_profile_options *o = team->o;
    char state[32];
    enum tw_status status = check_options(team, err);
    if (status == TW_OK)
        status = tw_record_choose_name(o->db, o->name, o->model, team->name,
                                       sizeof team->name, err);
    if (status == TW_OK)
        status = state_at_home(team, state, err);
    if (status == TW_OK && *state && !o->is_replace &&
        !(o->is_resume && strcmp(state, "complete") == 0))
        status = tw_error_set(err, TW_ERR_EXISTS,
                              "%s: run '%s' is there already, %s: %s", o->db,
                              team->name, state,
                              o->is_resume ? "one process began it and has to "
                                             "go on, without ranks"
                                           : "--resume or another --name");
    if (status == TW_OK && !*state)
        status = twp_parts_check_others(o->db, team->who->ranks, err);
    if (status != TW_OK)
        return status;
    char *path = twp_part_path(o->db, team->who->rank, team->who->ranks);
    if (!path)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    *is_whole = *state && !o->is_replace;
    status = *is_whole ? check_whole(team, path, report, err)
                       : count_part(team, path, report, err);
    tw_free(path);
    return status;
}

enum tw_status twp_team_merge(struct twp_team *team,
                              struct tw_profile_report *report,
                              struct tw_error *err)
{
    struct tw_strbuf missing = {0};
    bool is_merged = false;
    enum tw_status status = TW_OK;
    int lacking =
        twp_parts_missing(team->o->db, team->name, team->who->ranks, &missing);
    if (lacking == 0)
        status = twp_parts_merge(team->o, team->name, team->who->ranks,
                                 &is_merged, err);
    else if (team->wire)
        status = tw_error_set(err, TW_ERR_MISMATCH,
                              "%s: of %d parts missing here: %s: are these "
                              "ranks on one file system?",
                              team->o->db, team->who->ranks,
                              tw_strbuf_text(&missing));
    else
        tw_log(TW_LOG_INFO,
               "part %d of %d of run '%s' is complete; not yet: %s (who ends "
               "last merges)",
               team->who->rank, team->who->ranks, team->name,
               tw_strbuf_text(&missing));
    tw_strbuf_fini(&missing);
    report->is_complete = is_merged;
    report->was_complete = false;
    return status;
}

/* Without a wire: a part that is complete may be the last. */
static enum tw_status conclude(struct twp_team *team, enum tw_status status,
                               bool is_whole, struct tw_profile_report *report,
                               struct tw_error *err)
{
    bool is_complete = report->is_complete || report->was_complete;
    if (is_whole) {
        if (team->who->rank != 0)
            report->is_complete = report->was_complete = false;
        return status;
    }
    report->is_complete = report->was_complete = false;
    if (!is_complete || team->o->is_dry_run)
        return status;
    struct tw_error own = {0};
    enum tw_status merged = twp_team_merge(team, report, &own);
    if (merged != TW_OK && status == TW_OK)
        return tw_error_set(err, merged, "%s", own.text);
    return status;
}

static enum tw_status run_team(struct twp_team *team,
                               struct tw_profile_report *report,
                               struct tw_error *err)
{
    bool is_whole = false;
    enum tw_status status = twp_team_join(team, err);
    if (status != TW_OK)
        return status;
    status = work(team, report, &is_whole, err);
    team->done[team->who->rank].status = (int32_t)status;
    if (!team->wire)
        return conclude(team, status, is_whole, report, err);
    if (team->who->rank > 0)
        return twp_team_follow(team, status, report, err);
    return twp_team_lead(team, status, is_whole, report, err);
}

enum tw_status tw_ranks_run(const struct tw_ranks *ranks,
                            const struct tw_profile_options *options,
                            struct tw_profile_report *report,
                            struct tw_error *err)
{
    struct tw_error own = {0};
    struct twp_team team = {.who = ranks, .o = options};
    if (ranks->ranks < 2 || options->shards > 1)
        return tw_scratch_run(options, report, err);
    err = err ? err : &own;
    *report = (struct tw_profile_report){.mean_nll = NAN};
    team.progress = tw_calloc((size_t)ranks->ranks, sizeof *team.progress);
    team.done = tw_calloc((size_t)ranks->ranks, sizeof *team.done);
    enum tw_status status = TW_ERR_NOMEM;
    if (team.progress && team.done)
        status = run_team(&team, report, err);
    else
        tw_error_set(err, status, "out of memory");
    tw_error_prefix(err, "rank %d", ranks->rank);
    tw_free(team.progress);
    tw_free(team.done);
    return status;
}
