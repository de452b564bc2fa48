/* twellscope figure: a figure of the runs in a database, drawn by gnuplot or
 * as its numbers. */
#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/memory.h"
#include "cmd/command.h"
#include "cmd/figure.h"
#include "cmd/options.h"
#include "cmd/output.h"

enum { MANY = 64 };

struct options {
    const char *db, *active, *dirs, *out, *name;
    const char *runs[MANY], *settings[MANY];
    size_t run_count, setting_count;
    bool is_list, is_kept, wants_help;
};

static const struct option longs[] = {
    {"active", required_argument, NULL, 'a'},
    {"db", required_argument, NULL, 'd'},
    {"figures", required_argument, NULL, 'f'},
    {"help", no_argument, NULL, 'h'},
    {"keep", no_argument, NULL, 'k'},
    {"list", no_argument, NULL, 'l'},
    {"output", required_argument, NULL, 'o'},
    {"run", required_argument, NULL, 'r'},
    {"set", required_argument, NULL, 's'},
    {0},
};

static enum tw_status take(struct options *options, int got, char **argv,
                           struct tw_error *err)
{
    if ((got == 'r' && options->run_count == MANY) ||
        (got == 's' && options->setting_count == MANY))
        return tw_error_set(err, TW_ERR_USAGE, "more than %d of one option",
                            MANY);
    if (got == 'a')
        options->active = optarg;
    else if (got == 'd')
        options->db = optarg;
    else if (got == 'f')
        options->dirs = optarg;
    else if (got == 'o')
        options->out = optarg;
    else if (got == 'r')
        options->runs[options->run_count++] = optarg;
    else if (got == 's')
        options->settings[options->setting_count++] = optarg;
    else if (got == 'h')
        options->wants_help = true;
    else if (got == 'k')
        options->is_kept = true;
    else if (got == 'l')
        options->is_list = true;
    else
        return tw_options_error(argv, got, err);
    return TW_OK;
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
        options->name = argv[optind++];
    if (optind < argc)
        return tw_error_set(err, TW_ERR_USAGE, "one figure at a time, or 'all'");
    if (options->is_list || options->wants_help)
        return TW_OK;
    if (!options->name)
        return tw_error_set(err, TW_ERR_USAGE,
                            "no figure named; --list shows them all");
    if (!options->out)
        return tw_error_set(err, TW_ERR_USAGE,
                            "-o says where the figure goes: OUT.pdf, .svg, "
                            ".png, .tex, .csv or .json");
    return TW_OK;
}

static enum tw_status write_rows(struct tw_query *query, const char *name,
                                 struct tw_output *output,
                                 struct tw_error *err)
{
    enum tw_status status = tw_output_open(output, err);
    if (status == TW_OK)
        status = tw_output_query(query, output->format, name, output->file,
                                 err);
    enum tw_status closed = tw_output_close(output, err);
    return status != TW_OK ? status : closed;
}

static enum tw_status show_runs(struct tw_store *store,
                                const struct tw_figure_dirs *dirs,
                                const struct options *options,
                                const struct tw_figure *figure,
                                const struct tw_figure_run *runs, size_t count,
                                const char *out, struct tw_error *err)
{
    enum tw_graphic graphic;
    if (tw_graphic_find(out, &graphic)) {
        struct tw_figure_data data;
        enum tw_status status =
            tw_figure_data(store, figure, runs, count,
                           graphic == TW_GRAPHIC_TEX, &data, err);
        if (status != TW_OK)
            return status;
        status = tw_figure_plot(dirs, figure, &data, graphic, out,
                                options->is_kept, err);
        tw_figure_data_fini(&data);
        return status;
    }
    struct tw_output output;
    struct tw_query *query = NULL;
    enum tw_status status = tw_output_parse(out, &output, err);
    if (status == TW_OK)
        status = tw_figure_query(store, figure, runs, count, &query, err);
    if (status == TW_OK)
        status = write_rows(query, figure->name, &output, err);
    tw_query_close(query);
    return status;
}

static enum tw_status show(struct tw_store *store,
                           const struct tw_figure_dirs *dirs,
                           const struct options *options,
                           struct tw_figure *figure, const char *out,
                           struct tw_error *err)
{
    struct tw_figure_run *runs = NULL;
    size_t count = 0;
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < options->setting_count && status == TW_OK; i++)
        status = tw_figure_set(figure, options->settings[i], err);
    if (status == TW_OK)
        status = tw_figure_runs(store, figure->kind, options->runs,
                                options->run_count, options->active, &runs,
                                &count, err);
    if (status == TW_OK)
        status = show_runs(store, dirs, options, figure, runs, count, out, err);
    tw_figure_runs_free(runs, count);
    return status;
}

/* "figures/" and "figures/%s.svg" (or '*') with the name put in. */
static char *place_of(const char *pattern, const char *name)
{
    struct tw_strbuf path = {0};
    const char *mark = strstr(pattern, "%s");
    size_t skip = 2;
    if (!mark && (mark = strchr(pattern, '*')))
        skip = 1;
    if (mark) {
        tw_strbuf_append(&path, pattern, (size_t)(mark - pattern));
        tw_strbuf_printf(&path, "%s%s", name, mark + skip);
    } else
        tw_strbuf_printf(&path, "%s%s%s.pdf", pattern,
                         pattern[strlen(pattern) - 1] == '/' ? "" : "/", name);
    return tw_strbuf_take(&path);
}

static enum tw_status check_pattern(const char *pattern, struct tw_error *err)
{
    struct stat info;
    bool is_folder = stat(pattern, &info) == 0 && S_ISDIR(info.st_mode);
    size_t length = strlen(pattern);
    if (is_folder || strstr(pattern, "%s") || strchr(pattern, '*'))
        return TW_OK;
    if (length == 0 || pattern[length - 1] != '/')
        return tw_error_set(err, TW_ERR_USAGE,
                            "-o %s: for 'all' a folder, DIR/, or a pattern, "
                            "DIR/%%s.svg", pattern);
    return mkdir(pattern, 0777) == 0 ? TW_OK
                                     : tw_error_errno(err, errno, "%s",
                                                      pattern);
}

static enum tw_status show_one(struct tw_store *store,
                               const struct tw_figure_dirs *dirs,
                               const struct options *options, const char *name,
                               const char *out, struct tw_error *err)
{
    struct tw_figure *figure = NULL;
    enum tw_status status = tw_figure_load(dirs, name, &figure, err);
    if (status == TW_OK)
        status = show(store, dirs, options, figure, out, err);
    tw_figure_free(figure);
    return status;
}

/* Figures without data are named in the log and left out. */
static enum tw_status show_each(struct tw_store *store,
                                const struct tw_figure_dirs *dirs,
                                const struct options *options,
                                const char *name, size_t *drawn,
                                struct tw_error *err)
{
    struct tw_error why = {0};
    char *out = place_of(options->out, name);
    if (!out)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status = show_one(store, dirs, options, name, out, &why);
    tw_free(out);
    if (status == TW_OK)
        ++*drawn;
    if (status == TW_ERR_NOT_FOUND && !strstr(why.text, "gnuplot not found")) {
        tw_log(TW_LOG_WARNING, "skipped: %s", why.text);
        return TW_OK;
    }
    return status == TW_OK ? TW_OK : tw_error_set(err, status, "%s", why.text);
}

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tw_free(names[i]);
    tw_free(names);
}

static enum tw_status show_all(struct tw_store *store,
                               const struct tw_figure_dirs *dirs,
                               const struct options *options,
                               struct tw_error *err)
{
    char **names = NULL;
    size_t count = 0, drawn = 0;
    enum tw_status status = check_pattern(options->out, err);
    if (status == TW_OK)
        status = tw_figure_names(dirs, &names, &count, err);
    for (size_t i = 0; i < count && status == TW_OK; i++)
        status = show_each(store, dirs, options, names[i], &drawn, err);
    free_names(names, count);
    if (status == TW_OK && drawn == 0)
        return tw_error_set(err, TW_ERR_NOT_FOUND, "no figure has data");
    return status;
}

static enum tw_status list(const struct tw_figure_dirs *dirs,
                           struct tw_error *err)
{
    char **names = NULL;
    size_t count = 0;
    enum tw_status status = tw_figure_names(dirs, &names, &count, err);
    printf("%-14s %-9s %s\n", "name", "paper", "what it shows");
    for (size_t i = 0; i < count && status == TW_OK; i++) {
        struct tw_figure *figure = NULL;
        status = tw_figure_load(dirs, names[i], &figure, err);
        if (status == TW_OK)
            printf("%-14s %-9s %s\n", figure->name,
                   figure->paper ? figure->paper : "",
                   figure->summary ? figure->summary : "");
        tw_figure_free(figure);
    }
    free_names(names, count);
    return status;
}

static enum tw_status help_of(const struct tw_figure_dirs *dirs,
                              const char *name, struct tw_error *err)
{
    static const char *const types[] = {[TW_CELL_INT] = "INTEGER",
                                        [TW_CELL_REAL] = "REAL",
                                        [TW_CELL_TEXT] = "TEXT"};
    struct tw_figure *figure = NULL;
    enum tw_status status = tw_figure_load(dirs, name, &figure, err);
    if (status != TW_OK)
        return status;
    printf("figure %s: %s\n", figure->name,
           figure->summary ? figure->summary : "");
    if (figure->paper)
        printf("the paper's figure %s\n", figure->paper);
    printf("\n--set KEY=VALUE:\n");
    for (int i = 0; i < figure->param_count; i++) {
        const struct tw_figure_param *param = &figure->params[i];
        printf("  %-14s %-8s %s (default %s)\n", param->name,
               types[param->type], param->help,
               param->value ? param->value : "none");
    }
    printf("\ncolumns of its data:\n");
    for (int i = 0; i < figure->column_count; i++)
        printf("  %-14s %s\n", figure->column_name[i], figure->column_help[i]);
    tw_figure_free(figure);
    return TW_OK;
}

static enum tw_status answer(const struct options *options,
                             const struct tw_figure_dirs *dirs,
                             struct tw_error *err)
{
    struct tw_store *store = NULL;
    if (options->is_list)
        return list(dirs, err);
    if (options->wants_help)
        return help_of(dirs, options->name, err);
    enum tw_status status = tw_store_open(options->db, TW_STORE_READ, &store,
                                          err);
    if (status == TW_OK && strcmp(options->name, "all") == 0)
        status = show_all(store, dirs, options, err);
    else if (status == TW_OK)
        status = show_one(store, dirs, options, options->name, options->out,
                          err);
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
    if (options.wants_help && !options.name) {
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
    .group = "show",
    .summary = "Draws a figure of the runs in a database.",
    .usage = "NAME|NUMBER|all [options] -o OUT.{pdf,svg,png,tex,csv,json} | "
             "--list",
    .help =
        "  NAME            a figure of --list; NAME -h shows its parameters\n"
        "  NUMBER          the paper's figure of that number\n"
        "  all             every figure that has data; -o DIR/ or DIR/%s.svg\n"
        "  -o OUT          its ending picks the kind; csv and json (also alone:\n"
        "                  stdout) hold the numbers and need no gnuplot\n"
        "  --run RUN       more than once for several runs (default: the only\n"
        "                  one, else the newest complete one)\n"
        "  --active DEF    the definition of active (default: each run's\n"
        "                  primary)\n"
        "  --set KEY=VALUE a parameter of the figure; columns=2 for two columns\n"
        "  --figures DIR   figures of your own, NAME.sql and NAME.gp\n"
        "  --keep          NAME.dat and NAME.gp stay beside OUT\n"
        "  --db FILE       the database (default $TWELLSCOPE_DB, else\n"
        "                  twellscope.sqlite)\n",
    .run = run,
};
