/* A figure is NAME.sql (its numbers) and NAME.gp (its drawing), found in one of
 * a few folders; adding one adds two files and no code (DESIGN section 6).
 *
 *     tw_figure_dirs_init(&dirs, given, &err);
 *     tw_figure_load(&dirs, "layers", &figure, &err);
 *     tw_figure_set(figure, "columns=2", &err);
 *     tw_figure_data(store, figure, runs, count, &data, is_tex, &err);
 *     tw_figure_plot(&dirs, figure, &data, TW_GRAPHIC_PDF, "layers.pdf",
 *                    false, &err);
 *
 * The head of NAME.sql, in comment lines:
 *     -- figure SUMMARY
 *     -- paper 6 10 11                   numbers of the paper's figures
 *     -- paper-data fig03 fig04          its data, for --paper
 *     -- kind profile                    the kind of run it shows (default)
 *     -- param NAME INTEGER|REAL|TEXT DEFAULT|NULL WHAT IT IS
 *     -- column NAME WHAT IT IS AND ITS UNIT
 *     -- note SELECT ...                a query over the SELECT's rows as table
 *                                       `figure`: each of its rows is a line
 *                                       of NAME.dat's head; may take lines
 * Its SELECT reads picked(ord, run, active, label) and arg(name, value), and
 * the paper's data as paper_NAME, which are empty without --paper. A
 * first column `block` cuts the rows into gnuplot's data blocks, a column
 * `series` names each. The head of NAME.gp says "# height INCHES", "# height
 * INCHES a run", or "# height INCHES + MORE a run" for all after the first. */
#ifndef TW_CMD_FIGURE_H
#define TW_CMD_FIGURE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "db/query.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where figures are looked for, first match wins: --figures, the variable
 * TWELLSCOPE_FIGURES, the build tree's or its source's, the installed. */
struct tw_figure_dirs {
    char *path[6];
    int count;
};
TW_MUST_USE enum tw_status tw_figure_dirs_init(struct tw_figure_dirs *dirs,
                                               const char *given,
                                               struct tw_error *err);
void tw_figure_dirs_fini(struct tw_figure_dirs *dirs);
/* The names of all figures, sorted; free with tw_figure_names_free. */
TW_MUST_USE enum tw_status tw_figure_names(const struct tw_figure_dirs *dirs,
                                           char ***names, size_t *count,
                                           struct tw_error *err);
void tw_figure_names_free(char **names, size_t count);

enum { TW_FIGURE_PARAMS = 16, TW_FIGURE_COLUMNS = 24 };

struct tw_figure_param {
    char *name, *help;
    char *value; /* text of the default or of --set; NULL is SQL's NULL */
    enum tw_cell type;
};

struct tw_figure {
    char *name, *summary, *paper, *paper_data, *kind;
    char *note;               /* SQL; NULL: none */
    char *sql, *gp;           /* the files */
    char *sql_path, *gp_path; /* where they stood; gp NULL without a .gp */
    struct tw_figure_param params[TW_FIGURE_PARAMS];
    int param_count;
    char *column_name[TW_FIGURE_COLUMNS], *column_help[TW_FIGURE_COLUMNS];
    int column_count;
    double height_inches, more_inches; /* more: for each run after the first */
};

/* name: a figure's name or a number of the paper. Free with tw_figure_free. */
TW_MUST_USE enum tw_status tw_figure_load(const struct tw_figure_dirs *dirs,
                                          const char *name,
                                          struct tw_figure **figure,
                                          struct tw_error *err);
void tw_figure_free(struct tw_figure *figure);
/* KEY=VALUE of --set: the key must be declared, the value of its type. */
TW_MUST_USE enum tw_status tw_figure_set(struct tw_figure *figure,
                                         const char *setting,
                                         struct tw_error *err);
/* Whether the KEY of KEY=VALUE is declared; false too without a '='. */
bool tw_figure_declares(const struct tw_figure *figure, const char *setting);
const char *tw_figure_value(const struct tw_figure *figure, const char *name);

struct tw_figure_run {
    char *run, *active, *label;
};
/* The chosen runs (--run), or the only one of that kind, or the newest
 * complete one, said in the log. active NULL: each run's primary definition.
 * Free with tw_figure_runs_free. */
TW_MUST_USE enum tw_status tw_figure_runs(struct tw_store *store,
                                          const char *kind,
                                          const char *const *names,
                                          size_t name_count, const char *active,
                                          struct tw_figure_run **runs,
                                          size_t *count, struct tw_error *err);
void tw_figure_runs_free(struct tw_figure_run *runs, size_t count);

/* Makes the tables of the figure's paper-data, from the folders' paper/NAME.csv;
 * is_filled: with their rows. Before tw_figure_query. */
TW_MUST_USE enum tw_status tw_figure_paper(struct tw_store *store,
                                           const struct tw_figure_dirs *dirs,
                                           const struct tw_figure *figure,
                                           bool is_filled,
                                           struct tw_error *err);

/* The text of NAME.dat and what the prologue tells of it. */
struct tw_figure_data {
    struct tw_strbuf text;
    struct tw_strbuf series; /* gnuplot strings, a comma between */
    struct tw_strbuf labels; /* as series, of the runs */
    size_t rows, blocks, runs;
};
/* Makes picked and arg, then prepares the SELECT. */
TW_MUST_USE enum tw_status tw_figure_query(struct tw_store *store,
                                           const struct tw_figure *figure,
                                           const struct tw_figure_run *runs,
                                           size_t count,
                                           struct tw_query **query,
                                           struct tw_error *err);
/* TW_ERR_NOT_FOUND, with the error that every format gives, if the SELECT has
 * no rows. */
TW_MUST_USE enum tw_status tw_figure_check_rows(
    struct tw_store *store, const struct tw_figure *figure,
    const struct tw_figure_run *runs, size_t count, struct tw_error *err);
/* is_tex: text is escaped for LaTeX. TW_ERR_NOT_FOUND if there are no rows.
 * Free with tw_figure_data_fini. */
TW_MUST_USE enum tw_status tw_figure_data(struct tw_store *store,
                                          const struct tw_figure *figure,
                                          const struct tw_figure_run *runs,
                                          size_t count, bool is_tex,
                                          struct tw_figure_data *data,
                                          struct tw_error *err);
void tw_figure_data_fini(struct tw_figure_data *data);

enum tw_graphic { TW_GRAPHIC_PDF, TW_GRAPHIC_SVG, TW_GRAPHIC_PNG,
                  TW_GRAPHIC_TEX, TW_GRAPHICS };
/* By the file's ending; false if it is none of gnuplot's. */
bool tw_graphic_find(const char *path, enum tw_graphic *graphic);

/* Runs gnuplot. is_kept: NAME.dat and NAME.gp stay beside the output. */
TW_MUST_USE enum tw_status tw_figure_plot(const struct tw_figure_dirs *dirs,
                                          const struct tw_figure *figure,
                                          const struct tw_figure_data *data,
                                          enum tw_graphic graphic,
                                          const char *path, bool is_kept,
                                          struct tw_error *err);

/* --list, and NAME -h: text on stdout. */
TW_MUST_USE enum tw_status tw_figure_list(const struct tw_figure_dirs *dirs,
                                          struct tw_error *err);
TW_MUST_USE enum tw_status tw_figure_help(const struct tw_figure_dirs *dirs,
                                          const char *name,
                                          struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
