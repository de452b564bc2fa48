/* twellscope fsck: does a database hold together; older schemas brought up. */
#include <config.h>

#include "cmd/command.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "cmd/arguments.h"
#include "cmd/options.h"
#include "cmd/output.h"
#include "db/query.h"
#include "db/store.h"
#include "run/fsck.h"

struct request {
    const char *db, *output;
    struct tw_text_list runs;
    bool is_migration, wants_help;
};

static const struct tw_argument arguments[] = {
    {"db", 0, TW_ARG_TEXT, offsetof(struct request, db), 0},
    {"run", 0, TW_ARG_LIST, offsetof(struct request, runs), 0},
    {"migrate", 0, TW_ARG_FLAG, offsetof(struct request, is_migration), 0},
    {"output", 'o', TW_ARG_TEXT, offsetof(struct request, output), 0},
    {NULL, 0, TW_ARG_FLAG, 0, 0}};

/* Findings wait in a temporary table, so that they print in every format. */
struct findings {
    struct tw_store *store;
    char first[300]; /* the first violation, for the error */
};

static const char table[] =
    "CREATE TEMP TABLE finding(run, \"check\", result, cell, stored, expected,"
    " violations, why)";

static void put(struct tw_strbuf *sql, const char *text)
{
    tw_strbuf_puts(sql, ", ");
    if (text)
        tw_put_sql_quoted(sql, text, strlen(text), '\'');
    else
        tw_strbuf_puts(sql, "NULL");
}

static enum tw_status say(void *arg, const struct tw_fsck_finding *finding,
                          struct tw_error *err)
{
    static const char *const results[] = {[TW_FSCK_OK] = "ok",
                                          [TW_FSCK_VIOLATED] = "violated",
                                          [TW_FSCK_NOT_CHECKED] =
                                              "not checked"};
    struct findings *f = arg;
    struct tw_strbuf sql = {0};
    tw_strbuf_puts(&sql, "INSERT INTO temp.finding SELECT ");
    if (finding->run)
        tw_put_sql_quoted(&sql, finding->run, strlen(finding->run), '\'');
    else
        tw_strbuf_puts(&sql, "NULL");
    put(&sql, finding->check);
    put(&sql, results[finding->result]);
    put(&sql, finding->cell);
    put(&sql, finding->stored);
    put(&sql, finding->expected);
    tw_strbuf_printf(&sql, ", nullif(%lld, 0)", (long long)finding->violations);
    put(&sql, finding->why);
    if (finding->result == TW_FSCK_VIOLATED && !f->first[0])
        snprintf(f->first, sizeof f->first, "%s: %s",
                 finding->run ? finding->run : "the file", finding->check);
    enum tw_status status =
        sql.is_failed ? tw_error_set(err, TW_ERR_NOMEM, "out of memory")
                      : tw_query_exec(f->store, tw_strbuf_text(&sql), err);
    tw_strbuf_fini(&sql);
    return status;
}

static enum tw_status print(struct findings *f, struct tw_output *output,
                            struct tw_error *err)
{
    struct tw_query *query = NULL;
    enum tw_status status = tw_query_open(
        f->store, "SELECT * FROM temp.finding ORDER BY rowid", &query, err);
    if (status == TW_OK)
        status = tw_output_open(output, err);
    if (status == TW_OK) {
        status =
            tw_output_query(query, output->format, "fsck", output->file, err);
        enum tw_status closed = tw_output_close(output, err);
        status = status == TW_OK ? closed : status;
    }
    tw_query_close(query);
    return status;
}

static enum tw_status migrate(const char *db, struct tw_error *err)
{
    int from = 0;
    enum tw_status status = tw_store_migrate(db, &from, err);
    if (status == TW_OK && from < TW_SCHEMA_VERSION)
        tw_log(TW_LOG_INFO,
               "%s: schema %d is now %d; the old file is %s.v%d-"
               "backup",
               db, from, TW_SCHEMA_VERSION, db, from);
    else if (status == TW_OK)
        tw_log(TW_LOG_INFO, "%s: schema %d, nothing to migrate", db, from);
    return status;
}

static enum tw_status examine(const struct request *r, struct tw_output *output,
                              struct tw_error *err)
{
    struct findings f = {0};
    struct tw_fsck_report report;
    enum tw_status status = r->is_migration ? migrate(r->db, err) : TW_OK;
    if (status == TW_OK)
        status = tw_store_open(r->db, TW_STORE_READ, &f.store, err);
    if (status == TW_OK)
        status = tw_query_exec(f.store, table, err);
    if (status == TW_OK)
        status = tw_fsck_run(f.store, r->runs.item, r->runs.count, say, &f,
                             &report, err);
    if (status == TW_OK)
        status = print(&f, output, err);
    tw_store_close(f.store);
    if (status != TW_OK)
        return status;
    tw_log(TW_LOG_INFO, "%d checks: %d ok, %d violated, %d not checked",
           report.checks, report.checks - report.violated - report.not_checked,
           report.violated, report.not_checked);
    return report.violated == 0
               ? TW_OK
               : tw_error_set(err, TW_ERR_MISMATCH,
                              "%s: %d checks are violated, first %s", r->db,
                              report.violated, f.first);
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.db = tw_default_db(), .output = "table"};
    struct tw_output output;
    enum tw_status status = tw_arguments_parse(argc, argv, arguments, &r,
                                               &r.wants_help, NULL, 0, err);
    if (status == TW_OK && r.wants_help) {
        tw_print_help(&tw_command_fsck);
    } else {
        if (status == TW_OK)
            status = tw_output_parse(r.output, &output, err);
        if (status == TW_OK)
            status = examine(&r, &output, err);
    }
    tw_free(r.runs.item);
    return status;
}

const struct tw_command tw_command_fsck = {
    .name = "fsck",
    .group = "Show",
    .summary = "check what must hold between a database's tables",
    .usage = "[--db FILE] [--run RUN]... [--migrate] [-o FORMAT|FILE]",
    .help =
        "Recomputes every sum, extreme and derived column from finer rows, and "
        "from the\nper-token ledger, where there is one, all that it "
        "determines. One line a check:\nok; violated, with the first cell, "
        "what is stored there and what was expected, and\nhow many cells "
        "differ; or not checked, and why. Exit 1 if one is violated.\n\n"
        "  --db FILE       database ($TWELLSCOPE_DB, else twellscope.sqlite)\n"
        "  --run RUN       this run alone; may be given again\n"
        "  --migrate       first bring a file of an older schema up to this "
        "program's;\n"
        "                  a copy, FILE.vN-backup, is made before\n"
        "  -o, --output X  table, csv, json, jsonl, md, latex, sql, or a file "
        "whose\n"
        "                  ending picks the format\n",
    .run = run,
};
