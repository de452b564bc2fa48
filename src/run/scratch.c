/* A run's way to a scratch folder and home again. */
#include <config.h>

#include "run/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/move.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "db/store.h"
#include "run/record.h"

/* Tries to write where others read or write; each waits for 10 s itself. */
enum { PATIENCE = 30 };

struct trip {
    const struct tw_profile_options *o;
    char name[256];
    char *path;     /* in the scratch folder */
    char *at_home;  /* the run in --db before, uuid and writer; NULL: none */
    char *at_start; /* the same in the scratch file; NULL: none */
    bool is_left;   /* the file was there already */
};

/* A journal without its file must not meet another file of that name. */
static void remove_journal(const char *path)
{
    struct tw_strbuf journal = {0};
    tw_strbuf_printf(&journal, "%s-journal", path);
    unlink(tw_strbuf_text(&journal));
    tw_strbuf_fini(&journal);
}

void tw_database_remove(const char *path)
{
    unlink(path);
    remove_journal(path);
}

/* One file for each database and run, so that --resume finds it again. */
static enum tw_status choose_path(struct trip *t, struct tw_error *err)
{
    char hex[65];
    struct tw_sha256 hash;
    struct tw_strbuf path = {0};
    const char *base = tw_path_base(t->o->db);
    char *folder = base == t->o->db
                       ? tw_strdup(".")
                       : tw_strndup(t->o->db, (size_t)(base - t->o->db));
    char *resolved = folder ? realpath(folder, NULL) : NULL;
    tw_strbuf_printf(&path, "%s/%s\n%s", resolved ? resolved : "", base,
                     t->name);
    tw_sha256_init(&hash);
    tw_sha256_update(&hash, tw_strbuf_text(&path), path.length);
    tw_sha256_hex(&hash, hex);
    tw_strbuf_clear(&path);
    tw_strbuf_printf(&path, "%s/%s.%.12s", t->o->scratch, base, hex);
    t->path = tw_strdup(tw_strbuf_text(&path));
    tw_strbuf_fini(&path);
    free(resolved); /* realpath's own */
    tw_free(folder);
    return t->path ? TW_OK : tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

/* What tells one state of a run from another: "UUID WRITER". */
static enum tw_status identify(struct tw_store *store, int64_t run, char **id,
                               struct tw_error *err)
{
    char *uuid = NULL, *writer = NULL;
    struct tw_strbuf both = {0};
    enum tw_status status = tw_store_get_text(store, run, "uuid", &uuid, err);
    if (status == TW_OK)
        status = tw_store_get_text(store, run, "writer", &writer, err);
    tw_strbuf_printf(&both, "%s %s", uuid ? uuid : "", writer ? writer : "");
    if (status == TW_OK && !(*id = tw_strdup(tw_strbuf_text(&both))))
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    tw_strbuf_fini(&both);
    tw_free(uuid);
    tw_free(writer);
    return status;
}

/* *run 0 and *id NULL: no run of that name. */
static enum tw_status find(struct tw_store *store, const char *name,
                           int64_t *run, char **id, struct tw_error *err)
{
    struct tw_error own = {0};
    *run = 0;
    *id = NULL;
    enum tw_status status = tw_store_run_find(store, name, run, &own);
    if (status == TW_ERR_NOT_FOUND)
        return TW_OK;
    return status == TW_OK ? identify(store, *run, id, err)
                           : tw_error_set(err, status, "%s", own.text);
}

static enum tw_status find_in_file(const char *path, const char *name,
                                   char **id, struct tw_error *err)
{
    struct tw_store *store = NULL;
    struct tw_error own = {0};
    int64_t run;
    enum tw_status status = tw_store_open(path, TW_STORE_READ, &store, &own);
    if (status == TW_ERR_NOT_FOUND) /* or empty: killed in its first commit */
        return TW_OK;
    if (status != TW_OK)
        return tw_error_set(err, status, "%s", own.text);
    if (status == TW_OK)
        status = find(store, name, &run, id, err);
    tw_store_close(store);
    return status;
}

/* The run `name` of file `from` into `to`, in place of `replaced` there (as
 * find names it; NULL: none). */
static enum tw_status copy_run(const char *from, const char *to,
                               const char *name, const char *replaced,
                               struct tw_error *err)
{
    struct tw_store *source = NULL, *target = NULL;
    int64_t run, old = 0, copied;
    char *id = NULL, *there = NULL;
    enum tw_status status = tw_store_open(from, TW_STORE_READ, &source, err);
    if (status == TW_OK)
        status = find(source, name, &run, &id, err);
    if (status == TW_OK)
        status = tw_store_open(to, TW_STORE_WRITE, &target, err);
    if (status == TW_OK)
        status = tw_store_begin(target, err);
    if (status == TW_OK)
        status = find(target, name, &old, &there, err);
    if (status == TW_OK &&
        strcmp(there ? there : "", replaced ? replaced : "") != 0)
        status = tw_error_set(err, TW_ERR_MISMATCH,
                              "%s: run '%s' was changed by another process", to,
                              name);
    if (status == TW_OK && old)
        status = tw_store_run_delete(target, old, err);
    if (status == TW_OK && run)
        status =
            tw_store_run_copy(target, source, run, TW_COPY_ALL, &copied, err);
    if (status == TW_OK)
        status = tw_store_commit(target, err);
    if (status == TW_OK)
        status = tw_store_analyze(target, err);
    tw_store_close(target);
    tw_store_close(source);
    tw_free(id);
    tw_free(there);
    return status;
}

/* Whether the file that was left is of the run in --db: a requeued job may have
 * begun anew on another node, and come back. */
static bool is_same_run(const struct trip *t)
{
    size_t uuid = t->at_home ? strcspn(t->at_home, " ") + 1 : 0;
    return strncmp(t->at_home ? t->at_home : "", t->at_start, uuid) == 0;
}

/* A file without the run was left by a process killed before its first
 * commit: it is as good as none. */
static enum tw_status look_at_scratch(struct trip *t, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (!t->o->is_replace)
        status = find_in_file(t->path, t->name, &t->at_start, err);
    if (status != TW_OK)
        return status;
    if (t->at_start && !t->o->is_resume)
        return tw_error_set(err, TW_ERR_EXISTS,
                            "%s is left of run '%s' that was killed: --resume "
                            "goes on with it; or delete it",
                            t->path, t->name);
    if (t->at_start && !is_same_run(t)) {
        tw_log(TW_LOG_WARNING,
               "%s: of another start of run '%s' than %s: deleted", t->path,
               t->name, t->o->db);
        tw_free(t->at_start);
        t->at_start = NULL;
    }
    t->is_left = t->at_start != NULL;
    if (!t->is_left)
        tw_database_remove(t->path);
    return TW_OK;
}

static enum tw_status fetch(struct trip *t, struct tw_error *err)
{
    enum tw_status status = copy_run(t->o->db, t->path, t->name, NULL, err);
    if (status == TW_OK)
        status = find_in_file(t->path, t->name, &t->at_start, err);
    if (status != TW_OK)
        tw_database_remove(t->path);
    return status;
}

static enum tw_status depart(struct trip *t, struct tw_error *err)
{
    const struct tw_profile_options *o = t->o;
    if (access(o->scratch, W_OK | X_OK) != 0)
        return tw_error_errno(err, errno, "--scratch %s", o->scratch);
    enum tw_status status = choose_path(t, err);
    if (status == TW_OK)
        status = find_in_file(o->db, t->name, &t->at_home, err);
    if (status != TW_OK)
        return status;
    if (t->at_home && !o->is_resume && !o->is_replace)
        return tw_error_set(err, TW_ERR_EXISTS,
                            "%s: run '%s' is there already: --resume, "
                            "--replace or another --name",
                            o->db, t->name);
    status = look_at_scratch(t, err);
    if (status == TW_OK && !t->is_left && t->at_home && o->is_resume)
        status = fetch(t, err);
    return status;
}

/* R1, R2. The scratch file stays where that fails. */
static enum tw_status bring_home(struct trip *t, struct tw_error *err)
{
    struct tw_error own = {0};
    enum tw_status status = TW_ERR_EXISTS;
    if (access(t->o->db, F_OK) != 0) {
        remove_journal(t->o->db);
        status = tw_file_move_new(t->path, t->o->db, &own);
        if (status == TW_OK)
            remove_journal(t->path);
    }
    if (status == TW_ERR_EXISTS) {
        for (int i = 0; i == 0 || (status == TW_ERR_BUSY && i < PATIENCE);
             i++) {
            own = (struct tw_error){0};
            status = copy_run(t->path, t->o->db, t->name, t->at_home, &own);
        }
        if (status == TW_OK)
            tw_database_remove(t->path);
    }
    if (status == TW_OK)
        return TW_OK;
    return tw_error_set(err, status,
                        "%s; the run stays in %s: --resume brings it home",
                        own.text, t->path);
}

/* Only what this process wrote last, or what a killed one had finished, goes
 * home: another may have taken the run over and be counting in the file. */
static enum tw_status arrive(struct trip *t,
                             const struct tw_profile_report *report,
                             struct tw_error *err)
{
    char *now = NULL;
    enum tw_status status = find_in_file(t->path, t->name, &now, err);
    const char *writer = now ? strchr(now, ' ') + 1 : "";
    bool is_begun = *report->writer != '\0';
    if (status == TW_OK && ((is_begun && strcmp(writer, report->writer) == 0) ||
                            (t->is_left && report->was_complete)))
        status = bring_home(t, err);
    else if (status == TW_OK && !is_begun && !t->is_left)
        tw_database_remove(t->path);
    tw_free(now);
    return status;
}

enum tw_status tw_scratch_run(const struct tw_profile_options *options,
                              struct tw_profile_report *report,
                              struct tw_error *err)
{
    struct trip t = {.o = options};
    if (!options->scratch || options->is_dry_run)
        return tw_profile_run(options, report, err);
    *report = (struct tw_profile_report){0};
    enum tw_status status = tw_record_choose_name(
        options->db, options->name, options->model, t.name, sizeof t.name, err);
    if (status == TW_OK)
        status = depart(&t, err);
    if (status == TW_OK) {
        struct tw_profile_options there = *options;
        struct tw_error own = {0};
        there.db = t.path;
        there.name = t.name;
        if (!there.plan_db)
            there.plan_db = options->db;
        status = tw_profile_run(&there, report, err);
        enum tw_status home = arrive(&t, report, &own);
        bool is_lost = home != TW_OK;
        report->is_complete &= !is_lost;
        report->was_complete &= !is_lost;
        if (is_lost && (status == TW_OK || status == TW_ERR_STOPPED)) {
            status = home;
            if (err)
                *err = own;
        } else if (is_lost) {
            tw_log(TW_LOG_WARNING, "%s", own.text);
        }
    }
    tw_free(t.path);
    tw_free(t.at_home);
    tw_free(t.at_start);
    return status;
}
