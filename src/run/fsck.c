/* Runs the checks of a database, one after another. An SQL error inside a check
 * (a sum that overflows, a damaged page) violates it; only a failure of this
 * machine ends the run. */
#include <config.h>

#include "run/fsck.h"

#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "run/fsck_internal.h"

enum tw_status twp_fsck_say(struct twp_fsck *f, struct tw_fsck_finding finding,
                            struct tw_error *err)
{
    finding.run = f->run ? f->name : NULL;
    f->report->checks++;
    f->report->violated += finding.result == TW_FSCK_VIOLATED;
    f->report->not_checked += finding.result == TW_FSCK_NOT_CHECKED;
    return f->fn(f->arg, &finding, err);
}

enum tw_status twp_fsck_judge(enum tw_status status,
                              const struct tw_error *found, char **text,
                              struct tw_error *err)
{
    if (status != TW_ERR_DB && status != TW_ERR_FORMAT &&
        status != TW_ERR_MISMATCH && status != TW_ERR_OVERFLOW &&
        status != TW_ERR_NUMERIC)
        return tw_error_set(err, status, "%s", found->text);
    *text = tw_strdup(found->text);
    return *text ? TW_OK : tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

enum tw_status twp_fsck_query(struct twp_fsck *f, const char *sql,
                              struct tw_query **query, struct tw_error *err)
{
    *query = NULL;
    enum tw_status status = tw_query_open(f->store, sql, query, err);
    return status == TW_OK ? tw_query_bind_int(*query, ":run", f->run, err)
                           : status;
}

enum tw_status twp_fsck_fact(struct twp_fsck *f, const char *column,
                             int64_t *value, struct tw_error *err)
{
    enum tw_status status =
        tw_store_get_int(f->store, f->run, column, value, err);
    if (status == TW_OK && *value == TW_NULL)
        *value = 0;
    return status;
}

/* The current cell as a new text; NULL where NULL. */
static enum tw_status copy_cell(const struct tw_query *query, int column,
                                char **text, struct tw_error *err)
{
    const char *cell = tw_query_text(query, column, NULL);
    *text = cell ? tw_strdup(cell) : NULL;
    return cell && !*text ? tw_error_set(err, TW_ERR_NOMEM, "out of memory")
                          : TW_OK;
}

static enum tw_status ask_need(struct twp_fsck *f, enum tw_fsck_need need,
                               char **why, struct tw_error *err)
{
    struct tw_query *query;
    bool has_row = false;
    enum tw_status status =
        twp_fsck_query(f, tw_fsck_need_sql(need), &query, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    if (status == TW_OK && has_row)
        status = copy_cell(query, 0, why, err);
    tw_query_close(query);
    return status;
}

enum tw_status twp_fsck_why_not(struct twp_fsck *f, unsigned needs, char **why,
                                struct tw_error *err)
{
    enum tw_status status = TW_OK;
    *why = NULL;
    for (int i = 0; i < TW_FSCK_NEEDS && status == TW_OK && !*why; i++)
        if (needs & TW_FSCK_BIT(i))
            status = ask_need(f, (enum tw_fsck_need)i, why, err);
    return status;
}

/* What a check's rows say: the first, and how many. */
struct answer {
    char *text[3]; /* cell, stored, expected */
    int64_t rows;
};

static enum tw_status ask(struct twp_fsck *f, const char *sql,
                          struct answer *answer, struct tw_error *err)
{
    struct tw_query *query;
    bool has_row = true;
    enum tw_status status = twp_fsck_query(f, sql, &query, err);
    while (status == TW_OK) {
        status = tw_query_next(query, &has_row, err);
        if (status != TW_OK || !has_row)
            break;
        for (int i = 0; i < 3 && answer->rows == 0 && status == TW_OK; i++)
            status = copy_cell(query, i, &answer->text[i], err);
        answer->rows++;
    }
    tw_query_close(query);
    return status;
}

/* Needs of checks that are about nothing where they are lacking. */
#define SILENT                                                                 \
    (TW_FSCK_BIT(TW_FSCK_PART) | TW_FSCK_BIT(TW_FSCK_TIMES) |                  \
     TW_FSCK_BIT(TW_FSCK_TRAINING) | TW_FSCK_BIT(TW_FSCK_EXAMPLES))

/* What an older file has not got is no fault of it. */
static bool is_of_a_newer_schema(struct twp_fsck *f, const char *text)
{
    return tw_store_schema(f->store) < TW_SCHEMA_VERSION &&
           (strstr(text, "no such table") || strstr(text, "no such column"));
}

static enum tw_status check(struct twp_fsck *f, const struct tw_fsck_check *c,
                            struct tw_error *err)
{
    struct answer answer = {0};
    struct tw_error found = {0};
    struct tw_fsck_finding finding = {.check = c->name};
    char *why = NULL, *fault = NULL;
    enum tw_status status = twp_fsck_why_not(f, c->needs, &why, &found);
    if (status == TW_OK && !why)
        status = ask(f, c->sql, &answer, &found);
    if (status != TW_OK)
        status = twp_fsck_judge(status, &found, &fault, err);
    if (status == TW_OK && fault && is_of_a_newer_schema(f, fault)) {
        tw_free(why);
        if (!(why = tw_strdup("the file's schema is older: --migrate")))
            status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    if (why) {
        finding.result = TW_FSCK_NOT_CHECKED;
        finding.why = why;
    } else if (fault || answer.rows > 0) {
        finding.result = TW_FSCK_VIOLATED;
        finding.cell = fault ? fault : answer.text[0];
        finding.stored = fault ? NULL : answer.text[1];
        finding.expected = fault ? NULL : answer.text[2];
        finding.violations = fault ? 1 : answer.rows;
    }
    if (status == TW_OK && !(why && c->needs & SILENT))
        status = twp_fsck_say(f, finding, err);
    for (int i = 0; i < 3; i++)
        tw_free(answer.text[i]);
    tw_free(why);
    tw_free(fault);
    return status;
}

static enum tw_status check_schema(struct twp_fsck *f, struct tw_error *err)
{
    struct tw_fsck_finding finding = {.check = "tables and views are published"
                                               " ones"};
    char *cell = NULL;
    enum tw_status status = TW_OK;
    if (tw_store_schema(f->store) < TW_SCHEMA_VERSION) {
        finding.result = TW_FSCK_NOT_CHECKED;
        finding.why = "the file's schema is older: --migrate";
    } else {
        status = tw_fsck_schema(f->store, &cell, &finding.violations, err);
        finding.cell = cell;
        if (cell)
            finding.result = TW_FSCK_VIOLATED;
    }
    if (status == TW_OK)
        status = twp_fsck_say(f, finding, err);
    tw_free(cell);
    return status;
}

static enum tw_status check_file(struct twp_fsck *f, struct tw_error *err)
{
    const struct tw_fsck_check *c;
    enum tw_status status = check_schema(f, err);
    for (int i = 0; status == TW_OK && (c = tw_fsck_file_check(i)); i++)
        status = check(f, c, err);
    return status;
}

/* Says once for a whole group that the run has nothing of it; *is_there. */
static enum tw_status ask_group(struct twp_fsck *f, enum tw_fsck_need need,
                                const char *name, bool *is_there,
                                struct tw_error *err)
{
    struct tw_error found = {0};
    char *why = NULL;
    enum tw_status status =
        twp_fsck_why_not(f, TW_FSCK_BIT(need), &why, &found);
    if (status != TW_OK) /* a column or table that the file has not got */
        status = twp_fsck_judge(status, &found, &why, err);
    *is_there = !why;
    if (status == TW_OK && why)
        status = twp_fsck_say(
            f,
            (struct tw_fsck_finding){
                .check = name, .result = TW_FSCK_NOT_CHECKED, .why = why},
            err);
    tw_free(why);
    return status;
}

static enum tw_status check_run(struct twp_fsck *f, struct tw_error *err)
{
    const struct tw_fsck_check *c;
    bool has_counts = false, has_ledger = false;
    enum tw_status status =
        ask_group(f, TW_FSCK_COUNTS, "counts and sums", &has_counts, err);
    if (status == TW_OK && has_counts)
        status = ask_group(f, TW_FSCK_LEDGER, "the per-token ledger",
                           &has_ledger, err);
    unsigned lacking = has_counts ? 0 : TW_FSCK_BIT(TW_FSCK_COUNTS);
    lacking |= has_ledger ? 0 : TW_FSCK_BIT(TW_FSCK_LEDGER);
    for (int i = 0; status == TW_OK && (c = tw_fsck_check(i)); i++)
        if (!(c->needs & lacking))
            status = check(f, c, err);
    if (status == TW_OK && has_counts)
        status = twp_fsck_derived(f, err);
    return status == TW_OK && has_ledger ? twp_fsck_ledger(f, err) : status;
}

static enum tw_status check_named(struct twp_fsck *f, const char *name,
                                  struct tw_error *err)
{
    f->name = name;
    enum tw_status status = tw_store_run_find(f->store, name, &f->run, err);
    return status == TW_OK ? check_run(f, err) : status;
}

static enum tw_status check_all(struct twp_fsck *f, struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = true;
    enum tw_status status = tw_query_open(
        f->store, "SELECT run FROM run_info ORDER BY started, run", &query,
        err);
    while (status == TW_OK) {
        char *name = NULL;
        status = tw_query_next(query, &has_row, err);
        if (status != TW_OK || !has_row)
            break;
        status = copy_cell(query, 0, &name, err);
        if (status == TW_OK)
            status = check_named(f, name, err);
        tw_free(name);
    }
    tw_query_close(query);
    return status;
}

enum tw_status tw_fsck_run(struct tw_store *store, const char *const *runs,
                           int count, tw_fsck_fn *fn, void *arg,
                           struct tw_fsck_report *report, struct tw_error *err)
{
    struct twp_fsck f = {
        .store = store, .fn = fn, .arg = arg, .report = report};
    int64_t run;
    enum tw_status status = TW_OK;
    *report = (struct tw_fsck_report){0};
    for (int i = 0; i < count && status == TW_OK; i++)
        status = tw_store_run_find(store, runs[i], &run, err);
    if (status == TW_OK)
        status = check_file(&f, err);
    if (status == TW_OK && count == 0)
        status = check_all(&f, err);
    for (int i = 0; i < count && status == TW_OK; i++)
        status = check_named(&f, runs[i], err);
    return status;
}
