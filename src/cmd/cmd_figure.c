/* twellscope figure: a figure of the runs in a database, drawn by gnuplot or
 * as its numbers. */
#include <config.h>

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/figure_show.h"
#include "cmd/options.h"
#include "cmd/output.h"

struct options {
    const char *db, *dirs;
    struct tw_figure_request request;
    bool is_list, wants_help;
};

static const struct option longs[] = {
    {"active", required_argument, NULL, 'a'},
    {"db", required_argument, NULL, 'd'},
    {"figures", required_argument, NULL, 'f'},
    {"help", no_argument, NULL, 'h'},
    {"keep", no_argument, NULL, 'k'},
    {"list", no_argument, NULL, 'l'},
    {"output", required_argument, NULL, 'o'},
    {"paper", no_argument, NULL, 'p'},
    {"run", required_argument, NULL, 'r'},
    {"set", required_argument, NULL, 's'},
    {0},
};

static enum tw_status take(struct options *options, int got, char **argv,
                           struct tw_error *err)
{
    if ((got == 'r' && options->request.run_count == TW_FIGURE_MANY) ||
        (got == 's' && options->request.setting_count == TW_FIGURE_MANY))
        return tw_error_set(err, TW_ERR_USAGE, "more than %d of one option",
                            TW_FIGURE_MANY);
    if (got == 'a')
        options->request.active = optarg;
    else if (got == 'd')
        options->db = optarg;
    else if (got == 'f')
        options->dirs = optarg;
    else if (got == 'o')
        options->request.out = optarg;
    else if (got == 'r')
        options->request.runs[options->request.run_count++] = optarg;
    else if (got == 's')
        options->request.settings[options->request.setting_count++] = optarg;
    else if (got == 'h')
        options->wants_help = true;
    else if (got == 'k')
        options->request.is_kept = true;
    else if (got == 'p')
        options->request.has_paper = true;
    else if (got == 'l')
        options->is_list = true;
    else
        return tw_options_error(argv, got, err);
    return TW_OK;
}

static enum tw_status check_out(const struct options *options,
                                struct tw_error *err)
{
    enum tw_graphic graphic;
    struct tw_output output;
    if (!options->request.out)
        return tw_error_set(err, TW_ERR_USAGE,
                            "-o says where the figure goes: OUT.pdf, .svg, "
                            ".png, .tex, .csv or .json");
    if (strcmp(options->request.name, "all") == 0 ||
        tw_graphic_find(options->request.out, &graphic) ||
        tw_output_parse(options->request.out, &output, NULL) == TW_OK)
        return TW_OK;
    return tw_error_set(err, TW_ERR_USAGE,
                        "-o %s: a figure's file ends in .pdf, .svg, .png, "
                        ".tex, .csv or .json", options->request.out);
}

static enum tw_status parse(int argc, char **argv, struct options *options,
                            struct tw_error *err)
{
    int got;
    tw_options_start();
    while ((got = getopt_long(argc, argv, ":o:h", longs, NULL)) != -1) {
        enum tw_status status = take(options, got, argv, err);
        if (status != TW_OK)
            return status;
    }
    if (optind < argc)
        options->request.name = argv[optind++];
    if (optind < argc)
        return tw_error_set(err, TW_ERR_USAGE,
                            "one figure at a time, or 'all'");
    if (options->is_list || options->wants_help)
        return TW_OK;
    if (!options->request.name)
        return tw_error_set(err, TW_ERR_USAGE,
                            "no figure named; --list shows them all");
    return check_out(options, err);
}

static enum tw_status answer(const struct options *options,
                             const struct tw_figure_dirs *dirs,
                             struct tw_error *err)
{
    struct tw_store *store = NULL;
    if (options->is_list)
        return tw_figure_list(dirs, err);
    if (options->wants_help)
        return tw_figure_help(dirs, options->request.name, err);
    enum tw_status status = tw_store_open(options->db, TW_STORE_READ, &store,
                                          err);
    if (status == TW_OK)
        status = tw_figure_show(store, dirs, &options->request, err);
    tw_store_close(store);
    return status;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct options options = {.db = tw_default_db()};
    struct tw_figure_dirs dirs;
    enum tw_status status = parse(argc, argv, &options, err);
    if (status != TW_OK)
        return status;
    if (options.wants_help && !options.request.name) {
        tw_print_help(&tw_command_figure);
        return TW_OK;
    }
    status = tw_figure_dirs_init(&dirs, options.dirs, err);
    if (status == TW_OK)
        status = answer(&options, &dirs, err);
    tw_figure_dirs_fini(&dirs);
    return status;
}

const struct tw_command tw_command_figure = {
    .name = "figure",
    .group = "Show",
    .summary = "draw a figure of the runs in a database",
    .usage = "NAME|NUMBER|all [options] -o OUT.{pdf,svg,png,tex,csv,json} | "
             "--list",
    .help =
        "  NAME            a figure of --list; NAME -h shows its parameters\n"
        "  NUMBER          the paper's figure of that number\n"
        "  all             every figure that has data; -o DIR/ or DIR/%s.svg\n"
        "  -o OUT          its ending picks the kind; csv and json (alone: on\n"
        "                  stdout) hold the numbers and need no gnuplot\n"
        "  --run RUN       more than once for several runs (default: the only\n"
        "                  one, else the newest complete one)\n"
        "  --active DEF    the definition of active (default: each run's\n"
        "                  primary)\n"
        "  --set KEY=VALUE a parameter of the figure (of 'all': of those that\n"
        "                  have it); columns=2: two columns\n"
        "  --paper         the paper's own points too, where it has such\n"
        "  --figures DIR   figures of your own, NAME.sql and NAME.gp\n"
        "  --keep          NAME.dat and NAME.gp stay beside OUT\n"
        "  --db FILE       the database (default $TWELLSCOPE_DB, else\n"
        "                  twellscope.sqlite)\n",
    .run = run,
};
