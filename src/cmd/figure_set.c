/* --set KEY=VALUE, checked against what the figure declares. */
#include <config.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cmd/figure.h"

/* Its place among the parameters, or -1. */
static int find(const struct tw_figure *figure, const char *name, size_t length)
{
    for (int i = 0; i < figure->param_count; i++)
        if (strlen(figure->params[i].name) == length &&
            strncmp(figure->params[i].name, name, length) == 0)
            return i;
    return -1;
}

bool tw_figure_declares(const struct tw_figure *figure, const char *setting)
{
    const char *equals = strchr(setting, '=');
    return equals && find(figure, setting, (size_t)(equals - setting)) >= 0;
}

const char *tw_figure_value(const struct tw_figure *figure, const char *name)
{
    int at = find(figure, name, strlen(name));
    return at >= 0 ? figure->params[at].value : NULL;
}

static bool has_type(const char *value, enum tw_cell type)
{
    char *end = NULL;
    bool starts_well = *value == '-' || (*value >= '0' && *value <= '9') ||
                       *value == '.';
    errno = 0;
    if (type == TW_CELL_TEXT)
        return true;
    if (!starts_well || strpbrk(value, "xXnN"))
        return false;
    if (type == TW_CELL_INT)
        (void)strtoll(value, &end, 10);
    else if (!isfinite(strtod(value, &end)))
        return false;
    return end != value && *end == '\0' && errno == 0;
}

enum tw_status tw_figure_set(struct tw_figure *figure, const char *setting,
                             struct tw_error *err)
{
    static const char *const type_names[] = {[TW_CELL_INT] = "an INTEGER",
                                             [TW_CELL_REAL] = "a REAL",
                                             [TW_CELL_TEXT] = "TEXT"};
    const char *equals = strchr(setting, '=');
    if (!equals)
        return tw_error_set(err, TW_ERR_USAGE, "--set %s: not KEY=VALUE",
                            setting);
    int at = find(figure, setting, (size_t)(equals - setting));
    if (at < 0)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--set %s: figure %s has no such parameter; "
                            "'figure %s -h' shows them", setting, figure->name,
                            figure->name);
    struct tw_figure_param *param = &figure->params[at];
    bool is_null = strcmp(equals + 1, "NULL") == 0;
    if (!is_null && !has_type(equals + 1, param->type))
        return tw_error_set(err, TW_ERR_USAGE, "--set %s: %s is %s", setting,
                            param->name, type_names[param->type]);
    char *value = is_null ? NULL : tw_strdup(equals + 1);
    if (!is_null && !value)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    tw_free(param->value);
    param->value = value;
    return TW_OK;
}
