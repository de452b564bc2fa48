/* Facts about a run, its identity, its name, its failure. */
#include <config.h>

#include "run/record.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "db/query.h"
#include "load/checkpoint.h"

void tw_facts_text(struct tw_facts *facts, const char *column,
                   const char *option, const char *text)
{
    assert(facts->count < TW_MAX_FACTS);
    char *copy = text ? tw_strdup(text) : NULL;
    facts->is_short |= text && !copy;
    facts->fact[facts->count++] =
        (struct tw_fact){.column = column,
                         .option = option,
                         .text = copy,
                         .is_identity = option != NULL};
}

void tw_facts_int(struct tw_facts *facts, const char *column,
                  const char *option, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    tw_facts_text(facts, column, option, value == TW_NULL ? NULL : text);
}

void tw_facts_fini(struct tw_facts *facts)
{
    for (int i = 0; i < facts->count; i++)
        tw_free(facts->fact[i].text);
    *facts = (struct tw_facts){0};
}

/* Columns have the affinity of their type, so that numbers given as text are
 * stored as numbers. */
enum tw_status tw_facts_store(const struct tw_facts *facts,
                              struct tw_store *store, int64_t run,
                              struct tw_error *err)
{
    if (facts->is_short)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status = TW_OK;
    for (int i = 0; i < facts->count && status == TW_OK; i++)
        status = tw_store_set_text(store, run, facts->fact[i].column,
                                   facts->fact[i].text, err);
    return status;
}

enum tw_status tw_facts_compare(const struct tw_facts *facts,
                                struct tw_store *store, int64_t run,
                                const char *name, struct tw_error *err)
{
    if (facts->is_short)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status = TW_OK;
    for (int i = 0; i < facts->count && status == TW_OK; i++) {
        const struct tw_fact *fact = &facts->fact[i];
        if (!fact->is_identity)
            continue;
        char *stored = NULL;
        status = tw_store_get_text(store, run, fact->column, &stored, err);
        if (status == TW_OK &&
            strcmp(stored ? stored : "", fact->text ? fact->text : "") != 0)
            status = tw_error_set(
                err, TW_ERR_MISMATCH,
                "run '%s' has %s '%s', this is '%s': not the same run", name,
                fact->option, stored ? stored : "none",
                fact->text ? fact->text : "none");
        tw_free(stored);
    }
    return status;
}

enum tw_status tw_record_compare_list(struct tw_store *store, int64_t run,
                                      const char *name, enum tw_list list,
                                      const char *text, struct tw_error *err)
{
    static const struct {
        const char *what, *sql;
    } lists[] = {
        [TW_LIST_ACTIVE] = {"--active",
                            "SELECT group_concat(active, ' ') FROM (SELECT "
                            "active FROM definition_ WHERE run_id = :run ORDER "
                            "BY def_ord)"},
        [TW_LIST_CORPORA] = {"text (sha256)",
                             "SELECT group_concat(ifnull(sha256, ''), ' ') "
                             "FROM (SELECT sha256 FROM corpus_ WHERE run_id = "
                             ":run ORDER BY ord)"},
    };
    struct tw_query *query = NULL;
    bool has_row = false;
    enum tw_status status = tw_query_open(store, lists[list].sql, &query, err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":run", run, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    if (status == TW_OK) {
        size_t size;
        const char *stored = has_row ? tw_query_text(query, 0, &size) : "";
        if (strcmp(stored ? stored : "", text) != 0)
            status = tw_error_set(err, TW_ERR_MISMATCH,
                                  "run '%s' has %s '%s', this is '%s': not the "
                                  "same run",
                                  name, lists[list].what, stored ? stored : "",
                                  text);
    }
    tw_query_close(query);
    return status;
}

enum tw_status tw_record_finished(struct tw_store *store, int64_t run,
                                  struct tw_error *err)
{
    char now[32];
    time_t t = time(NULL);
    struct tm utc;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &utc));
    return tw_store_set_text(store, run, "finished", now, err);
}

enum tw_status tw_record_dense_rows(struct tw_store *store, int64_t run,
                                    int64_t *rows, struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = false;
    enum tw_status status = tw_query_open(
        store, "SELECT sum(dense_rows) FROM route_ WHERE run_id = :run", &query,
        err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":run", run, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    *rows = status == TW_OK && has_row ? tw_query_int(query, 0) : 0;
    tw_query_close(query);
    return status;
}

enum tw_status tw_record_free_name(struct tw_store *store, const char *wanted,
                                   char *name, size_t name_bytes,
                                   struct tw_error *err)
{
    snprintf(name, name_bytes, "%s", wanted);
    for (int n = 2;; n++) {
        int64_t run;
        struct tw_error absent = {0};
        enum tw_status status = tw_store_run_find(store, name, &run, &absent);
        if (status == TW_ERR_NOT_FOUND)
            return TW_OK;
        if (status != TW_OK)
            return tw_error_set(err, status, "%s", absent.text);
        snprintf(name, name_bytes, "%.200s-%d", wanted, n);
    }
}

enum tw_status tw_record_choose_name(const char *db, const char *given,
                                     const char *model, char *name,
                                     size_t name_bytes, struct tw_error *err)
{
    char *folder = NULL, *own = NULL;
    struct tw_store *store = NULL;
    enum tw_status status = TW_OK;
    if (!given)
        status = tw_checkpoint_find(model, &folder, &own, err);
    if (status == TW_OK)
        snprintf(name, name_bytes, "%s", given ? given : own);
    struct tw_error none = {0};
    if (status == TW_OK && !given)
        status = tw_store_open(db, TW_STORE_READ, &store, &none);
    if (status == TW_ERR_NOT_FOUND && *none.text)
        status = TW_OK;
    else if (*none.text)
        status = tw_error_set(err, status, "%s", none.text);
    if (status == TW_OK && store)
        status = tw_record_free_name(store, own, name, name_bytes, err);
    tw_store_close(store);
    tw_free(folder);
    tw_free(own);
    return status;
}

void tw_record_failure(struct tw_store *store, int64_t run, const char *writer,
                       const char *cause)
{
    struct tw_error ignored = {0};
    char *stored = NULL;
    tw_store_rollback(store);
    if (tw_store_begin(store, &ignored) != TW_OK)
        return;
    bool is_ours =
        tw_store_get_text(store, run, "writer", &stored, &ignored) == TW_OK &&
        stored && strcmp(stored, writer) == 0;
    tw_free(stored);
    if (!is_ours ||
        tw_store_set_text(store, run, "status", "failed", &ignored) != TW_OK ||
        tw_store_set_text(store, run, "cause", cause, &ignored) != TW_OK ||
        tw_store_commit(store, &ignored) != TW_OK)
        tw_store_rollback(store);
}
