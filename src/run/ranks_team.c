/* What ranks do together: rank 0 sums up the others' progress and, when all are
 * done, decides and merges; the others wait for its word. */
#include <config.h>

#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/module.h"
#include "run/ranks_internal.h"

enum { POLL_MS = 20, LEAVE_SECONDS = 10 };

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
}

/* MPI's module, where mpirun started us and it was built. Which rank this is
 * comes from the environment; MPI has to agree. */
enum tw_status twp_team_join(struct twp_team *team, struct tw_error *err)
{
    void *handle = NULL;
    struct tw_error own = {0};
    int rank, ranks;
    if (!team->who->is_mpi)
        return TW_OK;
    if (tw_module_open("twellscope-mpi.so", &handle, &own) != TW_OK) {
        if (team->who->rank == 0)
            tw_log(TW_LOG_INFO,
                   "%s: ranks can't talk: the one that ends last merges",
                   own.text);
        return TW_OK;
    }
    const struct tw_wire *wire = dlsym(handle, TW_WIRE_SYMBOL);
    if (!wire || strcmp(wire->version, PACKAGE_VERSION) != 0)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "twellscope-mpi.so is not of version %s",
                            PACKAGE_VERSION);
    if (!wire->start(&rank, &ranks) || rank != team->who->rank ||
        ranks != team->who->ranks)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "MPI does not answer as mpirun said, rank %d of "
                            "%d: started by another MPI? TW_RANKS=1 goes "
                            "without ranks",
                            team->who->rank, team->who->ranks);
    team->wire = wire;
    return TW_OK;
}

/* Rank 0: what has come in from the others. */
static void drain(struct twp_team *team)
{
    struct tw_note note;
    while (team->wire && team->wire->take(&note)) {
        if (note.rank < 0 || note.rank >= team->who->ranks)
            continue;
        if (note.kind == TW_NOTE_PROGRESS) {
            team->progress[note.rank] = note;
        } else if (note.kind == TW_NOTE_DONE) {
            team->done[note.rank] = note;
            team->n_done++;
        }
    }
}

/* Every rank reads the whole text and counts its documents: fractions are of
 * the same whole, tokens add up. */
static void show_sum(struct twp_team *team)
{
    struct tw_progress sum = {0};
    int ranks = team->who->ranks;
    for (int i = 0; i < ranks; i++) {
        const struct tw_note *p = &team->progress[i];
        sum.tokens += p->tokens;
        sum.mean_nnz += p->mean_nnz * (double)p->tokens;
        sum.seconds = fmax(sum.seconds, p->seconds);
        sum.fraction += fmax(p->fraction, 0) / ranks;
    }
    if (sum.tokens > 0)
        sum.mean_nnz /= (double)sum.tokens;
    if (team->o->progress && sum.tokens > 0)
        team->o->progress(team->o->progress_arg, &sum);
}

void twp_team_progress(void *arg, const struct tw_progress *p)
{
    struct twp_team *team = arg;
    double now = now_seconds();
    const struct tw_note note = {.kind = TW_NOTE_PROGRESS,
                                 .rank = team->who->rank,
                                 .tokens = p->tokens,
                                 .seconds = p->seconds,
                                 .fraction = p->fraction,
                                 .mean_nnz = p->mean_nnz};
    if (team->who->rank == 0 && !team->wire) {
        if (team->o->progress)
            team->o->progress(team->o->progress_arg, p);
    } else if (team->who->rank == 0) {
        team->progress[0] = note;
        drain(team);
        show_sum(team);
    } else if (team->wire && now - team->last_post > 0.5) {
        team->last_post = now;
        team->wire->post(0, &note);
    }
}

/* Waits while `is_there` is false, but not for long once a signal came: who
 * would answer may be dead. */
static bool await(struct twp_team *team, bool (*is_there)(struct twp_team *))
{
    double stopped = 0;
    while (!is_there(team)) {
        nap();
        if (!team->o->stop || !*team->o->stop)
            continue;
        if (stopped == 0)
            stopped = now_seconds();
        if (now_seconds() - stopped > LEAVE_SECONDS)
            return false;
    }
    return true;
}

static bool are_all_done(struct twp_team *team)
{
    drain(team);
    if (team->n_done < team->who->ranks - 1)
        show_sum(team);
    return team->n_done >= team->who->ranks - 1;
}

static bool is_post_out(struct twp_team *team)
{
    return team->wire->is_posted();
}

static bool has_end(struct twp_team *team)
{
    struct tw_note note;
    bool is_end = team->wire->take(&note) && note.kind == TW_NOTE_END;
    if (is_end)
        team->done[0] = note;
    return is_end;
}

static bool is_failure(enum tw_status status)
{
    return status != TW_OK && status != TW_ERR_LOST && status != TW_ERR_STOPPED;
}

/* Rank 0's verdict over all ranks, before there is anything to merge. */
static enum tw_status judge(const struct twp_team *team, struct tw_error *err)
{
    int failed = 0, stopped = 0, ranks = team->who->ranks;
    struct tw_strbuf who = {0};
    for (int i = 0; i < ranks; i++) {
        bool is_failed = is_failure(team->done[i].status);
        bool is_stopped = team->done[i].status == TW_ERR_STOPPED;
        failed += is_failed;
        stopped += is_stopped;
        if (is_failed || is_stopped)
            tw_strbuf_printf(&who, "%s%d %s", who.length ? ", " : "", i,
                             is_failed ? "failed" : "stopped");
    }
    enum tw_status status = failed    ? TW_ERR_MISMATCH
                            : stopped ? TW_ERR_STOPPED
                                      : TW_OK;
    if (status != TW_OK)
        status = tw_error_set(err, status,
                              "of %d ranks %s: the parts are kept; go on with "
                              "--name %s --resume",
                              ranks, tw_strbuf_text(&who), team->name);
    tw_strbuf_fini(&who);
    return status;
}

/* Rank 0, once all are done: merges, and lets the others go. */
enum tw_status twp_team_lead(struct twp_team *team, enum tw_status status,
                             bool is_whole, struct tw_profile_report *report,
                             struct tw_error *err)
{
    if (!await(team, are_all_done))
        return tw_error_set(err, TW_ERR_STOPPED,
                            "interrupted, and not every rank answers: go on "
                            "with --name %s --resume",
                            team->name);
    struct tw_error own = {0};
    enum tw_status job = judge(team, &own);
    if (job == TW_OK && !is_whole && !team->o->is_dry_run)
        job = twp_team_merge(team, report, &own);
    for (int i = 0; i < team->who->ranks && job == TW_OK; i++)
        if (team->done[i].status == TW_ERR_LOST)
            job = tw_error_set(&own, TW_ERR_LOST, "rank %d: see there", i);
    bool has_run = job == TW_OK || job == TW_ERR_LOST;
    report->is_complete &= has_run && !team->o->is_dry_run;
    report->was_complete &= has_run;
    const struct tw_note end = {.kind = TW_NOTE_END, .status = (int32_t)job};
    for (int i = 1; i < team->who->ranks; i++)
        if (await(team, is_post_out))
            team->wire->post(i, &end);
    bool is_out = await(team, is_post_out);
    if (is_out)
        team->wire->stop();
    if (job != TW_OK && status == TW_OK)
        return tw_error_set(err, job, "%s", own.text);
    return is_failure(job) ? job : status;
}

/* The others: say how it went, wait for the end. The job has one exit status,
 * rank 0's: mpirun kills all who still run once one process ends in failure, so
 * another's own would take from rank 0 the time to say how the job ended. */
enum tw_status twp_team_follow(struct twp_team *team, enum tw_status status,
                               struct tw_profile_report *report,
                               const struct tw_error *err)
{
    const struct tw_note note = {.kind = TW_NOTE_DONE,
                                 .rank = team->who->rank,
                                 .status = (int32_t)status};
    const char *text = *err->text ? err->text : tw_status_text(status);
    if (is_failure(status))
        tw_log(TW_LOG_WARNING, "%s: the other ranks go on", text);
    else if (status != TW_OK)
        tw_log(TW_LOG_INFO, "%s", text);
    report->is_complete = report->was_complete = false;
    if (!await(team, is_post_out))
        return status;
    team->wire->post(0, &note);
    if (!await(team, has_end))
        return status == TW_OK ? TW_ERR_STOPPED : status;
    team->wire->stop();
    return TW_OK;
}
