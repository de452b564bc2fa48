/* twellscope merge: parts of runs into whole ones. */
#include <config.h>

#include "cmd/command.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "base/memory.h"
#include "cmd/arguments.h"
#include "cmd/options.h"
#include "run/merge.h"

enum { MAX_FILES = 4096 };

struct request {
    const char *output;
    bool allows_missing, wants_help;
};

static const struct tw_argument arguments[] = {
    {"output", 'o', TW_ARG_TEXT, offsetof(struct request, output), 0},
    {"allow-missing", 0, TW_ARG_FLAG, offsetof(struct request, allows_missing),
     0},
    {NULL, 0, TW_ARG_FLAG, 0, 0}};

static enum tw_status merge(const struct request *r, const char **files,
                            const char *command, struct tw_error *err)
{
    struct tw_merge_options options = {.out = r->output,
                                       .in = files,
                                       .allows_missing = r->allows_missing,
                                       .command = command};
    struct tw_merge_report report;
    while (options.n_in < MAX_FILES && files[options.n_in])
        options.n_in++;
    if (!r->output || options.n_in == 0)
        return tw_error_set(err, TW_ERR_USAGE, "%s",
                            r->output ? "no file to merge" : "-o is missing");
    enum tw_status status = tw_merge_run(&options, &report, err);
    if (status == TW_OK)
        tw_log(TW_LOG_INFO,
               "%s: %d runs of %d parts, %lld tokens; %d runs copied",
               r->output, report.merged, report.parts, (long long)report.tokens,
               report.copied);
    return status;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {0};
    const char **files = tw_calloc(MAX_FILES + 1, sizeof *files);
    if (!files)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status = tw_arguments_parse(
        argc, argv, arguments, &r, &r.wants_help, files, MAX_FILES, err);
    if (status == TW_OK && r.wants_help) {
        tw_print_help(&tw_command_merge);
    } else if (status == TW_OK) {
        struct tw_strbuf line = {0};
        tw_command_line(&line, argc, argv);
        status = merge(&r, files, tw_strbuf_text(&line), err);
        tw_strbuf_fini(&line);
    }
    tw_free(files);
    return status;
}

const struct tw_command tw_command_merge = {
    .name = "merge",
    .group = "Measure",
    .summary = "put the parts of a run together",
    .usage = "-o OUT.sqlite IN.sqlite... [--allow-missing]",
    .help =
        "Adds up parts that `profile --shard I/N` counted, on one machine or "
        "many, each\nin its own database. The result is what one process would "
        "have counted, bit\nfor bit, in whatever order the files are named. "
        "Parts must agree in everything\nthat decides a count (model, text, "
        "definitions, context, ...): the first field\nthat differs is named. A "
        "part given twice is refused, and so are missing or\nunfinished ones, "
        "by number. Runs that are no parts are laid side by side.\n\n"
        "  -o, --output FILE   database to write; it may hold other runs "
        "already\n"
        "      --allow-missing merge the parts that are there: the run is "
        "'partial', the\n"
        "                      others are named, exit 3\n",
    .run = run,
};
