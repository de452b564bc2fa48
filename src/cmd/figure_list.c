/* What figures there are, and what one takes: text for stdout. */
#include <config.h>

#include <stdio.h>

#include "cmd/figure.h"

enum tw_status tw_figure_list(const struct tw_figure_dirs *dirs,
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
    tw_figure_names_free(names, count);
    return status;
}

enum tw_status tw_figure_help(const struct tw_figure_dirs *dirs,
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
