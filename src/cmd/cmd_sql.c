/* twellscope sql: one statement over the published views, read-only. */
#include <config.h>

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/output.h"
#include "db/query.h"

struct options {
    const char *db, *sql, *table;
    struct tw_output output;
    bool wants_help;
};

static enum tw_status parse(int argc, char **argv, struct options *options,
                            struct tw_error *err)
{
    static const struct option longs[] = {
        {"db", required_argument, NULL, 'd'},
        {"output", required_argument, NULL, 'o'},
        {"table", required_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    enum tw_status status = TW_OK;
    int got;
    tw_options_start();
    while (status == TW_OK &&
           (got = getopt_long(argc, argv, ":o:h", longs, NULL)) != -1) {
        if (got == 'd')
            options->db = optarg;
        else if (got == 't')
            options->table = optarg;
        else if (got == 'o')
            status = tw_output_parse(optarg, &options->output, err);
        else if (got == 'h')
            options->wants_help = true;
        else
            status = tw_options_error(argv, got, err);
    }
    if (status != TW_OK || options->wants_help)
        return status;
    if (optind + 1 != argc)
        return tw_error_set(err, TW_ERR_USAGE,
                            optind < argc
                                ? "one SQL statement, in one argument, please"
                                : "no SQL statement given");
    options->sql = argv[optind];
    return TW_OK;
}

static enum tw_status read_stdin(struct tw_strbuf *sql, struct tw_error *err)
{
    char bytes[4096];
    size_t got;
    while ((got = fread(bytes, 1, sizeof bytes, stdin)) > 0)
        tw_strbuf_append(sql, bytes, got);
    if (ferror(stdin))
        return tw_error_set(err, TW_ERR_IO, "standard input: cannot read");
    if (sql->is_failed)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    return TW_OK;
}

/* A file is opened only when the statement is known to be good. */
static enum tw_status show(struct tw_store *store, struct options *options,
                           struct tw_error *err)
{
    struct tw_query *query = NULL;
    enum tw_status status = tw_query_open(store, options->sql, &query, err);
    if (status != TW_OK)
        return status;
    status = tw_output_open(&options->output, err);
    if (status == TW_OK)
        status = tw_output_query(query, options->output.format, options->table,
                                 options->output.file, err);
    enum tw_status closed = tw_output_close(&options->output, err);
    tw_query_close(query);
    return status != TW_OK ? status : closed;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct options options = {.db = tw_default_db(), .table = "result"};
    struct tw_strbuf from_stdin = {0};
    struct tw_store *store = NULL;
    enum tw_status status = parse(argc, argv, &options, err);
    if (status == TW_OK && options.wants_help) {
        tw_print_help(&tw_command_sql);
        return TW_OK;
    }
    if (status == TW_OK && strcmp(options.sql, "-") == 0) {
        status = read_stdin(&from_stdin, err);
        options.sql = tw_strbuf_text(&from_stdin);
    }
    if (status == TW_OK)
        status = tw_store_open(options.db, TW_STORE_READ, &store, err);
    if (status == TW_OK)
        status = show(store, &options, err);
    tw_store_close(store);
    tw_strbuf_fini(&from_stdin);
    return status;
}

const struct tw_command tw_command_sql = {
    .name = "sql",
    .group = "Show",
    .summary = "answer one SQL statement over the runs in a database",
    .usage = "[--db FILE] [-o FORMAT|FILE] [--table NAME] \"SELECT ...\" | -",
    .help =
        "  --db FILE       the database (default $TWELLSCOPE_DB, else\n"
        "                  twellscope.sqlite); opened read-only\n"
        "  -o FORMAT       table (default), csv, json, jsonl, md, latex, sql\n"
        "  -o FILE         a file whose ending picks the format: .txt .csv\n"
        "                  .json .jsonl .md .tex .sql\n"
        "  --table NAME    the table that -o sql fills (default result)\n"
        "  -               reads the statement from standard input\n"
        "\n"
        "The published views are listed by\n"
        "  twellscope sql \"SELECT name FROM sqlite_schema WHERE "
        "type='view'\"\n",
    .run = run,
};
