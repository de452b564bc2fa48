/* The parts beside the database. */
#include <config.h>

#include "run/ranks_internal.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "db/store.h"
#include "run/merge.h"
#include "run/scratch.h"

char *twp_part_path(const char *db, int rank, int ranks)
{
    struct tw_strbuf path = {0};
    tw_strbuf_printf(&path, "%s.part%d-of-%d", db, rank, ranks);
    char *copy = tw_strdup(tw_strbuf_text(&path));
    tw_strbuf_fini(&path);
    return copy;
}

static bool is_part_complete(const char *path, const char *name)
{
    struct tw_store *store = NULL;
    struct tw_error ignored = {0};
    char *state = NULL;
    int64_t run;
    bool is_complete =
        tw_store_open(path, TW_STORE_READ, &store, &ignored) == TW_OK &&
        tw_store_run_find(store, name, &run, &ignored) == TW_OK &&
        tw_store_get_text(store, run, "status", &state, &ignored) == TW_OK &&
        state && strcmp(state, "complete") == 0;
    tw_free(state);
    tw_store_close(store);
    return is_complete;
}

int twp_parts_missing(const char *db, const char *name, int ranks,
                      struct tw_strbuf *list)
{
    int missing = 0;
    for (int i = 0; i < ranks; i++) {
        char *path = twp_part_path(db, i, ranks);
        if (!path || !is_part_complete(path, name))
            tw_strbuf_printf(list, "%s%d", missing++ ? ", " : "", i);
        tw_free(path);
    }
    return missing;
}

/* The number of ranks in "BASE.partI-of-N"; 0: another file. */
static int ranks_of(const char *file, const char *base)
{
    int rank, ranks, end = 0;
    size_t length = strlen(base);
    if (strncmp(file, base, length) != 0 ||
        sscanf(file + length, ".part%d-of-%d%n", &rank, &ranks, &end) != 2 ||
        file[length + (size_t)end] != '\0')
        return 0;
    return ranks;
}

enum tw_status twp_parts_check_others(const char *db, int ranks,
                                      struct tw_error *err)
{
    const char *base = tw_path_base(db);
    char *folder =
        base == db ? tw_strdup(".") : tw_strndup(db, (size_t)(base - db));
    DIR *entries = folder ? opendir(folder) : NULL;
    enum tw_status status = TW_OK;
    for (struct dirent *e; entries && status == TW_OK;) {
        if (!(e = readdir(entries)))
            break;
        int others = ranks_of(e->d_name, base);
        if (others > 1 && others != ranks)
            status = tw_error_set(err, TW_ERR_MISMATCH,
                                  "%s is a part of %d, these are %d ranks: go "
                                  "on with %d, or delete the parts",
                                  e->d_name, others, ranks, others);
    }
    if (entries)
        closedir(entries);
    tw_free(folder);
    return status;
}

static enum tw_status list_parts(const char *db, int ranks, char **path,
                                 struct tw_error *err)
{
    for (int i = 0; i < ranks; i++) {
        path[i] = twp_part_path(db, i, ranks);
        if (!path[i])
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    return TW_OK;
}

/* A write lock on part 0 says who merges: it ends with the process. *claim is
 * NULL where another has it, or has merged and removed the part. */
static enum tw_status claim_parts(const char *first, struct tw_store **claim,
                                  struct tw_error *err)
{
    struct tw_error own = {0};
    struct tw_store *store = NULL;
    enum tw_status status = tw_store_open(first, TW_STORE_CHANGE, &store, &own);
    if (status == TW_OK)
        status = tw_store_begin(store, &own);
    if (status == TW_OK) {
        *claim = store;
        return TW_OK;
    }
    tw_store_close(store);
    *claim = NULL;
    return status == TW_ERR_BUSY || status == TW_ERR_NOT_FOUND
               ? TW_OK
               : tw_error_set(err, status, "%s", own.text);
}

static enum tw_status merge_claimed(const struct tw_profile_options *options,
                                    const char *name, int ranks, char **path,
                                    bool *is_merged, struct tw_error *err)
{
    struct tw_strbuf missing = {0};
    struct tw_merge_report report;
    const struct tw_merge_options merge = {
        .out = options->db,
        .in = (const char *const *)path,
        .n_in = ranks,
        .replaced = options->is_replace ? name : NULL,
        .command = options->command};
    enum tw_status status = TW_OK;
    if (twp_parts_missing(options->db, name, ranks, &missing) == 0) {
        status = tw_merge_run(&merge, &report, err);
        *is_merged = status == TW_OK;
        for (int i = 0; i < ranks && status == TW_OK; i++)
            tw_database_remove(path[i]);
    }
    tw_strbuf_fini(&missing);
    return status;
}

enum tw_status twp_parts_merge(const struct tw_profile_options *options,
                               const char *name, int ranks, bool *is_merged,
                               struct tw_error *err)
{
    struct tw_store *claim = NULL;
    char **path = tw_calloc((size_t)ranks, sizeof *path);
    *is_merged = false;
    if (!path)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status = list_parts(options->db, ranks, path, err);
    if (status == TW_OK)
        status = claim_parts(path[0], &claim, err);
    if (status == TW_OK && claim)
        status = merge_claimed(options, name, ranks, path, is_merged, err);
    tw_store_close(claim);
    for (int i = 0; i < ranks; i++)
        tw_free(path[i]);
    tw_free(path);
    return status;
}
