/* The drawing: prologue + theme.gp + NAME.gp as one script, run by gnuplot
 * without a shell, in a folder where files have no paths (so that a .tex names
 * its picture without one and a kept script runs again). */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "cmd/figure.h"
#include "cmd/gnuplot.h"

/* Inches. */
static const double one_column = 3.3, two_columns = 6.9;

static const char *const endings[TW_GRAPHICS] = {
    [TW_GRAPHIC_PDF] = ".pdf", [TW_GRAPHIC_SVG] = ".svg",
    [TW_GRAPHIC_PNG] = ".png", [TW_GRAPHIC_TEX] = ".tex",
};

bool tw_graphic_find(const char *path, enum tw_graphic *graphic)
{
    const char *dot = strrchr(tw_path_base(path), '.');
    for (int i = 0; i < TW_GRAPHICS && dot; i++)
        if (strcmp(dot, endings[i]) == 0) {
            *graphic = (enum tw_graphic)i;
            return true;
        }
    return false;
}

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

static void put_quoted(struct tw_strbuf *script, const char *text)
{
    tw_strbuf_puts(script, "'");
    for (const char *c = text; *c; c++)
        tw_strbuf_append(script, *c == '\'' ? "''" : c, *c == '\'' ? 2 : 1);
    tw_strbuf_puts(script, "'");
}

/* 8 pt text at the figure's printed size: svg counts in 1/96 in, png in dots
 * of 1/300 in; gnuplot's cairo takes a point for 1/96 in. */
static void put_terminal(struct tw_strbuf *script, enum tw_graphic graphic,
                         double width, double height)
{
    switch (graphic) {
    case TW_GRAPHIC_SVG:
        tw_strbuf_printf(script,
                         "set terminal svg size %.0f,%.0f font "
                         "'Helvetica,10.7' background 'white'\n",
                         width * 96, height * 96);
        break;
    case TW_GRAPHIC_PNG:
        tw_strbuf_printf(script,
                         "set terminal pngcairo size %.0f,%.0f font "
                         "'Helvetica,8' fontscale 3.125 linewidth 3.125 "
                         "pointscale 3.125\n", width * 300, height * 300);
        break;
    case TW_GRAPHIC_TEX:
        tw_strbuf_printf(script,
                         "set terminal cairolatex pdf size %.3fin,%.3fin font "
                         "',8' header '\\footnotesize'\n", width, height);
        break;
    default:
        tw_strbuf_printf(script,
                         "set terminal pdfcairo size %.3fin,%.3fin font "
                         "'Helvetica,8' fontscale 0.75 linewidth 1.3\n",
                         width, height);
    }
}

static void put_params(struct tw_strbuf *script, const struct tw_figure *figure)
{
    for (int i = 0; i < figure->param_count; i++) {
        const struct tw_figure_param *param = &figure->params[i];
        tw_strbuf_printf(script, "arg_%s = ", param->name);
        if (!param->value)
            tw_strbuf_puts(script, "NaN");
        else if (param->type == TW_CELL_TEXT)
            put_quoted(script, param->value);
        else
            tw_strbuf_puts(script, param->value);
        tw_strbuf_puts(script, "\n");
    }
}

static double width_of(const struct tw_figure *figure)
{
    const char *columns = tw_figure_value(figure, "columns");
    return columns && strcmp(columns, "2") == 0 ? two_columns : one_column;
}

static double height_of(const struct tw_figure *figure,
                        const struct tw_figure_data *data)
{
    const char *given = tw_figure_value(figure, "height");
    double inches = given ? strtod(given, NULL) : 0;
    if (inches >= 0.5 && inches <= 60)
        return inches;
    return figure->height_inches +
           figure->more_inches * (double)(data->runs - 1);
}

/* All is made in a folder of its own beside the output, which is renamed at
 * the end: a failure leaves the old output as it was, and no part of a new. */
struct files {
    char *folder;  /* the output's */
    char *scratch; /* where gnuplot runs; NULL before it is made */
    char *dat, *gp, *log, *out; /* in scratch */
    char *theme;   /* text of theme.gp */
};

static void put_script(struct tw_strbuf *script, const struct tw_figure *figure,
                       const struct tw_figure_data *data,
                       enum tw_graphic graphic, const struct files *files)
{
    double width = width_of(figure), height = height_of(figure, data);
    tw_strbuf_printf(script, "# %s %s, figure %s\n", PACKAGE_NAME,
                     PACKAGE_VERSION, figure->name);
    put_terminal(script, graphic, width, height);
    tw_strbuf_puts(script, "set output ");
    put_quoted(script, tw_path_base(files->out));
    tw_strbuf_puts(script, "\ndata = ");
    put_quoted(script, tw_path_base(files->dat));
    tw_strbuf_printf(script,
                     "\nis_tex = %d\nwidth = %.3f\nheight = %.3f\n"
                     "rows = %zu\nblocks = %zu\nruns = %zu\n"
                     "array series[%zu] = [%s]\narray label[%zu] = [%s]\n",
                     graphic == TW_GRAPHIC_TEX, width, height, data->rows,
                     data->blocks, data->runs, data->blocks,
                     tw_strbuf_text(&data->series), data->runs,
                     tw_strbuf_text(&data->labels));
    put_params(script, figure);
    tw_strbuf_puts(script, files->theme);
    tw_strbuf_puts(script, figure->gp);
}

static enum tw_status write_file(const char *path, const char *text,
                                 struct tw_error *err)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return tw_error_errno(err, errno, "%s", path);
    int bad = fputs(text, file) < 0;
    bad |= fclose(file) != 0;
    return bad ? tw_error_errno(err, errno, "%s", path) : TW_OK;
}

static enum tw_status find_theme(const struct tw_figure_dirs *dirs,
                                 char **theme, struct tw_error *err)
{
    size_t size;
    for (int i = 0; i < dirs->count; i++) {
        char *path = tw_path_join(dirs->path[i], "theme.gp");
        bool is_there = path && access(path, R_OK) == 0;
        enum tw_status status =
            !path      ? no_memory(err)
            : is_there ? tw_file_read(path, 1 << 20, theme, &size, err)
                       : TW_OK;
        tw_free(path);
        if (status != TW_OK || is_there)
            return status;
    }
    return tw_error_set(err, TW_ERR_NOT_FOUND, "theme.gp not found");
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat one, two;
    return stat(a, &one) == 0 && stat(b, &two) == 0 &&
           one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

static char *beside(const char *folder, const char *name, const char *ending)
{
    struct tw_strbuf path = {0};
    tw_strbuf_printf(&path, "%s/%s%s", folder, name, ending);
    return tw_strbuf_take(&path);
}

static enum tw_status make_scratch(struct files *files, struct tw_error *err)
{
    char *scratch = beside(files->folder, ".twellscope", "XXXXXX");
    if (!scratch)
        return no_memory(err);
    if (mkdtemp(scratch)) {
        files->scratch = scratch;
        return TW_OK;
    }
    enum tw_status status =
        tw_error_errno(err, errno, "%s: cannot write there", files->folder);
    tw_free(scratch);
    return status;
}

static void remove_scratch(const char *scratch)
{
    struct dirent *entry;
    DIR *folder = opendir(scratch);
    while (folder && (entry = readdir(folder)) != NULL) {
        char *path = tw_path_join(scratch, entry->d_name);
        if (path)
            unlink(path); /* not "." and ".." */
        tw_free(path);
    }
    if (folder)
        closedir(folder);
    rmdir(scratch);
}

static void files_fini(struct files *files)
{
    if (files->scratch)
        remove_scratch(files->scratch);
    char *texts[] = {files->folder, files->scratch, files->dat,  files->gp,
                     files->log,    files->out,     files->theme};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        tw_free(texts[i]);
}

static enum tw_status check_kept(const struct files *files,
                                 const struct tw_figure *figure,
                                 struct tw_error *err)
{
    char *path = beside(files->folder, figure->name, ".gp");
    if (!path)
        return no_memory(err);
    enum tw_status status =
        is_same_file(path, figure->gp_path)
            ? tw_error_set(err, TW_ERR_EXISTS,
                           "--keep would overwrite the figure's own %s", path)
            : TW_OK;
    tw_free(path);
    return status;
}

static enum tw_status name_files(struct files *files,
                                 const struct tw_figure *figure,
                                 const char *output, struct tw_error *err)
{
    size_t length = (size_t)(tw_path_base(output) - output);
    files->folder = length ? tw_strndup(output, length) : tw_strdup(".");
    enum tw_status status =
        files->folder ? make_scratch(files, err) : no_memory(err);
    if (status != TW_OK)
        return status;
    files->dat = beside(files->scratch, figure->name, ".dat");
    files->gp = beside(files->scratch, figure->name, ".gp");
    files->log = beside(files->scratch, figure->name, ".gp.log");
    files->out = tw_path_join(files->scratch, tw_path_base(output));
    return files->dat && files->gp && files->log && files->out
               ? TW_OK
               : no_memory(err);
}

/* From scratch to where it belongs. */
static enum tw_status move(const struct files *files, const char *path,
                           struct tw_error *err)
{
    char *place = tw_path_join(files->folder, tw_path_base(path));
    if (!place)
        return no_memory(err);
    enum tw_status status = rename(path, place) == 0
                                ? TW_OK
                                : tw_error_errno(err, errno, "%s", place);
    tw_free(place);
    return status;
}

/* A .tex names a .pdf, which is there first. */
static enum tw_status move_output(const struct files *files,
                                  enum tw_graphic graphic,
                                  struct tw_error *err)
{
    struct stat info;
    enum tw_status status = TW_OK;
    if (stat(files->out, &info) != 0 || info.st_size == 0)
        return tw_error_set(err, TW_ERR_IO, "%s: gnuplot wrote nothing",
                            tw_path_base(files->out));
    if (graphic == TW_GRAPHIC_TEX) {
        struct tw_strbuf picture = {0};
        tw_strbuf_append(&picture, files->out, strlen(files->out) - 4);
        tw_strbuf_puts(&picture, endings[TW_GRAPHIC_PDF]);
        status = picture.is_failed
                     ? no_memory(err)
                     : move(files, tw_strbuf_text(&picture), err);
        tw_strbuf_fini(&picture);
    }
    return status == TW_OK ? move(files, files->out, err) : status;
}

static enum tw_status draw(const struct tw_figure *figure,
                           const struct tw_figure_data *data,
                           enum tw_graphic graphic, const struct files *files,
                           bool is_kept, struct tw_error *err)
{
    struct tw_strbuf script = {0};
    put_script(&script, figure, data, graphic, files);
    enum tw_status status = script.is_failed ? no_memory(err) : TW_OK;
    if (status == TW_OK)
        status = write_file(files->dat, tw_strbuf_text(&data->text), err);
    if (status == TW_OK)
        status = write_file(files->gp, tw_strbuf_text(&script), err);
    tw_strbuf_fini(&script);
    if (status != TW_OK)
        return status;
    status = tw_gnuplot(files->scratch, tw_path_base(files->gp), files->log,
                        err);
    if (status == TW_OK)
        status = move_output(files, graphic, err);
    if (status != TW_OK)
        tw_error_prefix(err, "figure %s", figure->name);
    if (!is_kept)
        return status;
    enum tw_status kept = move(files, files->dat, status == TW_OK ? err : NULL);
    if (kept == TW_OK)
        kept = move(files, files->gp, status == TW_OK ? err : NULL);
    return status != TW_OK ? status : kept;
}

enum tw_status tw_figure_plot(const struct tw_figure_dirs *dirs,
                              const struct tw_figure *figure,
                              const struct tw_figure_data *data,
                              enum tw_graphic graphic, const char *path,
                              bool is_kept, struct tw_error *err)
{
    struct files files = {0};
    if (!figure->gp)
        return tw_error_set(err, TW_ERR_NOT_FOUND, "%s: no such file",
                            figure->gp_path);
    enum tw_status status = find_theme(dirs, &files.theme, err);
    if (status == TW_OK)
        status = name_files(&files, figure, path, err);
    if (status == TW_OK && is_kept)
        status = check_kept(&files, figure, err);
    if (status == TW_OK)
        status = draw(figure, data, graphic, &files, is_kept, err);
    files_fini(&files);
    return status;
}
