/* A figure's two files and their heads. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "cmd/figure.h"

enum { FILE_LIMIT = 1 << 20 };

/* Every figure has these. */
static const char common_head[] =
    "-- param columns INTEGER 1 columns of the paper: 1 (3.3 in) or 2 (6.9)\n"
    "-- param height REAL NULL inches (default: the figure's own)\n";

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

/* The next word of a line, *line moved behind it; NULL at its end. */
static char *next_word(const char **line)
{
    const char *start = *line + strspn(*line, " \t");
    size_t length = strcspn(start, " \t\n");
    *line = start + length;
    return length ? tw_strndup(start, length) : NULL;
}

static char *rest(const char *line)
{
    line += strspn(line, " \t");
    return tw_strndup(line, strcspn(line, "\r\n"));
}

static bool find_type(const char *word, enum tw_cell *type)
{
    *type = strcmp(word, "INTEGER") == 0 ? TW_CELL_INT
            : strcmp(word, "REAL") == 0  ? TW_CELL_REAL
                                         : TW_CELL_TEXT;
    return *type != TW_CELL_TEXT || strcmp(word, "TEXT") == 0;
}

static enum tw_status add_param(struct tw_figure *figure, const char *line,
                                struct tw_error *err)
{
    if (figure->param_count == TW_FIGURE_PARAMS)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: more than %d params",
                            figure->sql_path, TW_FIGURE_PARAMS);
    struct tw_figure_param *param = &figure->params[figure->param_count++];
    param->name = next_word(&line);
    char *type = next_word(&line);
    param->value = next_word(&line);
    param->help = rest(line);
    bool is_good = param->name && type && param->value && param->help &&
                   find_type(type, &param->type);
    tw_free(type);
    if (!is_good)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: a param line is NAME INTEGER|REAL|TEXT "
                            "DEFAULT HELP", figure->sql_path);
    if (strcmp(param->value, "NULL") == 0) {
        tw_free(param->value);
        param->value = NULL;
    }
    return TW_OK;
}

static enum tw_status add_column(struct tw_figure *figure, const char *line,
                                 struct tw_error *err)
{
    int at = figure->column_count;
    if (at == TW_FIGURE_COLUMNS)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: too many columns",
                            figure->sql_path);
    figure->column_name[at] = next_word(&line);
    figure->column_help[at] = rest(line);
    figure->column_count++;
    return figure->column_name[at] && figure->column_help[at] ? TW_OK
                                                              : no_memory(err);
}

static enum tw_status set_text(char **field, const char *line,
                               struct tw_error *err)
{
    tw_free(*field);
    *field = rest(line);
    return *field ? TW_OK : no_memory(err);
}

/* Notes are one query, cut into lines. */
static enum tw_status add_note(struct tw_figure *figure, const char *line,
                               struct tw_error *err)
{
    struct tw_strbuf note = {0};
    char *part = rest(line);
    tw_strbuf_printf(&note, "%s%s\n", figure->note ? figure->note : "",
                     part ? part : "");
    note.is_failed |= part == NULL;
    tw_free(part);
    tw_free(figure->note);
    figure->note = tw_strbuf_take(&note);
    tw_strbuf_fini(&note);
    return figure->note ? TW_OK : no_memory(err);
}

static const char *after(const char *line, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(line, prefix, length) == 0 ? line + length : NULL;
}

static enum tw_status read_head_line(struct tw_figure *figure, const char *line,
                                     struct tw_error *err)
{
    const char *text;
    if ((text = after(line, "-- figure ")))
        return set_text(&figure->summary, text, err);
    if ((text = after(line, "-- paper ")))
        return set_text(&figure->paper, text, err);
    if ((text = after(line, "-- paper-data ")))
        return set_text(&figure->paper_data, text, err);
    if ((text = after(line, "-- kind ")))
        return set_text(&figure->kind, text, err);
    if ((text = after(line, "-- note ")))
        return add_note(figure, text, err);
    if ((text = after(line, "-- param ")))
        return add_param(figure, text, err);
    if ((text = after(line, "-- column ")))
        return add_column(figure, text, err);
    return TW_OK;
}

/* Leading comment lines only. */
static enum tw_status read_head(struct tw_figure *figure, const char *text,
                                struct tw_error *err)
{
    enum tw_status status = TW_OK;
    while (status == TW_OK && strncmp(text, "--", 2) == 0) {
        status = read_head_line(figure, text, err);
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return status;
}

static void read_height(struct tw_figure *figure)
{
    const char *at = figure->gp ? strstr(figure->gp, "# height ") : NULL;
    char *end = NULL;
    double inches = at ? strtod(at + 9, &end) : 0;
    figure->height_inches = inches > 0 && inches < 30 ? inches : 2.2;
    bool has_more = end && strncmp(end, " + ", 3) == 0;
    double more = has_more ? strtod(end + 3, &end) : figure->height_inches;
    bool is_per_run = end && strncmp(end, " a run", 6) == 0;
    figure->more_inches = is_per_run && more > 0 && more < 30 ? more : 0;
}

static enum tw_status read_files(struct tw_figure *figure, struct tw_error *err)
{
    size_t size;
    enum tw_status status =
        tw_file_read(figure->sql_path, FILE_LIMIT, &figure->sql, &size, err);
    if (status == TW_OK && access(figure->gp_path, R_OK) == 0)
        status = tw_file_read(figure->gp_path, FILE_LIMIT, &figure->gp, &size,
                              err);
    if (status == TW_OK)
        status = set_text(&figure->kind, "profile", err);
    if (status == TW_OK)
        status = read_head(figure, common_head, err);
    if (status == TW_OK)
        status = read_head(figure, figure->sql, err);
    read_height(figure);
    return status;
}

static char *file_of(const char *folder, const char *name, const char *ending)
{
    struct tw_strbuf path = {0};
    tw_strbuf_printf(&path, "%s/%s%s", folder, name, ending);
    return tw_strbuf_take(&path);
}

static enum tw_status load_from(const char *folder, const char *name,
                                struct tw_figure **out, struct tw_error *err)
{
    struct tw_figure *figure = tw_calloc(1, sizeof *figure);
    if (!figure)
        return no_memory(err);
    figure->name = tw_strdup(name);
    figure->sql_path = file_of(folder, name, ".sql");
    figure->gp_path = file_of(folder, name, ".gp");
    enum tw_status status =
        figure->name && figure->sql_path && figure->gp_path
            ? read_files(figure, err)
            : no_memory(err);
    if (status == TW_OK)
        *out = figure;
    else
        tw_figure_free(figure);
    return status;
}

static bool is_plain_name(const char *name)
{
    return *name && strspn(name, "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789_-") == strlen(name);
}

/* *figure stays NULL if there is none of that name. */
static enum tw_status load_by_name(const struct tw_figure_dirs *dirs,
                                   const char *name, struct tw_figure **figure,
                                   struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (int i = 0; i < dirs->count && status == TW_OK && !*figure; i++) {
        char *path = file_of(dirs->path[i], name, ".sql");
        if (!path)
            return no_memory(err);
        if (access(path, F_OK) == 0)
            status = load_from(dirs->path[i], name, figure, err);
        tw_free(path);
    }
    return status;
}

static bool has_number(const struct tw_figure *figure, const char *number)
{
    const char *at = figure->paper ? figure->paper : "";
    while (*at) {
        size_t length = strcspn(at, " ");
        if (length == strlen(number) && strncmp(at, number, length) == 0)
            return true;
        at += length + strspn(at + length, " ");
    }
    return false;
}

static enum tw_status load_by_number(const struct tw_figure_dirs *dirs,
                                     const char *number,
                                     struct tw_figure **figure,
                                     struct tw_error *err)
{
    char **names = NULL;
    size_t count = 0;
    enum tw_status status = tw_figure_names(dirs, &names, &count, err);
    for (size_t i = 0; i < count && status == TW_OK && !*figure; i++) {
        status = load_by_name(dirs, names[i], figure, err);
        if (*figure && !has_number(*figure, number)) {
            tw_figure_free(*figure);
            *figure = NULL;
        }
    }
    tw_figure_names_free(names, count);
    return status;
}

enum tw_status tw_figure_load(const struct tw_figure_dirs *dirs,
                              const char *name, struct tw_figure **figure,
                              struct tw_error *err)
{
    struct tw_figure *found = NULL;
    enum tw_status status = TW_OK;
    if (is_plain_name(name))
        status = load_by_name(dirs, name, &found, err);
    if (status == TW_OK && !found && *name >= '0' && *name <= '9')
        status = load_by_number(dirs, name, &found, err);
    if (status == TW_OK && !found)
        return tw_error_set(err, TW_ERR_USAGE,
                            "no figure '%s'; --list shows them all", name);
    if (status == TW_OK)
        *figure = found;
    return status;
}

void tw_figure_free(struct tw_figure *figure)
{
    if (!figure)
        return;
    for (int i = 0; i < figure->param_count; i++) {
        tw_free(figure->params[i].name);
        tw_free(figure->params[i].help);
        tw_free(figure->params[i].value);
    }
    for (int i = 0; i < figure->column_count; i++) {
        tw_free(figure->column_name[i]);
        tw_free(figure->column_help[i]);
    }
    char *texts[] = {figure->name,       figure->summary,  figure->paper,
                     figure->paper_data, figure->kind,     figure->sql,
                     figure->gp,         figure->sql_path, figure->gp_path,
                     figure->note};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        tw_free(texts[i]);
    tw_free(figure);
}
