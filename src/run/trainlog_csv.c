/* CSV with a head line, as wandb exports it: a run's history, or a chart whose
 * columns are "RUN - METRIC" with "__MIN" and "__MAX" beside each. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "run/trainlog_internal.h"

enum { MAX_COLUMNS = 1 << 16 };

struct head {
    struct twp_column *column;
    char **name;
    size_t count, room, names_room;
    size_t step; /* its column */
};

/* One cell, unquoted in place; *text moves behind its comma or line end and
 * *is_last tells which. NULL: an open quote. */
static char *take_cell(char **text, bool *is_last)
{
    char *cell = *text, *in = cell, *out = cell;
    bool is_quoted = *in == '"';
    if (is_quoted)
        in++;
    while (*in && (is_quoted || (*in != ',' && *in != '\n'))) {
        if (is_quoted && *in == '"') {
            if (in[1] != '"') {
                is_quoted = false;
                in++;
                continue;
            }
            in++;
        }
        *out++ = *in++;
    }
    if (is_quoted)
        return NULL;
    *is_last = *in != ',';
    *text = *in ? in + 1 : in;
    if (*is_last && out > cell && out[-1] == '\r')
        out--;
    *out = '\0';
    return cell;
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), size = strlen(end);
    return length >= size && strcmp(name + length - size, end) == 0;
}

static enum tw_status add_column(struct twp_reader *r, struct head *head,
                                 char *name, struct tw_error *err)
{
    char *metric = name;
    for (char *at = name; (at = strstr(at, " - ")); at++)
        metric = at + 3;
    if (head->count >= MAX_COLUMNS)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: more than %d columns",
                            r->path, MAX_COLUMNS);
    if (tw_grow((void **)&head->column, &head->room, head->count + 1,
                sizeof *head->column) != 0 ||
        tw_grow((void **)&head->name, &head->names_room, head->count + 1,
                sizeof *head->name) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", r->path);
    struct twp_column column = twp_column_find(metric);
    if (ends_with(metric, "__MIN") || ends_with(metric, "__MAX"))
        column.is = TWP_IS_IGNORED;
    for (size_t i = 0; i < head->count && column.is == TWP_IS_VALUE; i++)
        if (head->column[i].is == TWP_IS_VALUE &&
            head->column[i].field == column.field &&
            head->column[i].layer == column.layer)
            return tw_error_set(
                err, TW_ERR_FORMAT,
                "%s: columns '%s' and '%s' are the same: a file "
                "of one run, please",
                r->path, head->name[i], name);
    if (column.is == TWP_IS_UNKNOWN)
        twp_reader_unknown(r, metric);
    if (column.is == TWP_IS_STEP && head->step == SIZE_MAX)
        head->step = head->count;
    head->name[head->count] = name;
    head->column[head->count++] = column;
    return TW_OK;
}

static enum tw_status open_quote(const struct twp_reader *r,
                                 struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_FORMAT,
                        "%s: row %lld: a quote is not "
                        "closed",
                        r->path, (long long)r->row);
}

static enum tw_status read_head(struct twp_reader *r, struct head *head,
                                char **text, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    bool is_last = false;
    while (status == TW_OK && !is_last) {
        char *cell = take_cell(text, &is_last);
        status = cell ? add_column(r, head, cell, err) : open_quote(r, err);
    }
    if (status == TW_OK && head->step == SIZE_MAX)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: no column of steps (step, _step, Step, "
                            "global_step)",
                            r->path);
    return status;
}

/* *value NaN for an empty cell. */
static enum tw_status read_number(const struct twp_reader *r, const char *name,
                                  const char *cell, double *value,
                                  struct tw_error *err)
{
    char *end;
    *value = strtod(*cell ? cell : "nan", &end);
    if (*cell && (end == cell || *end))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: row %lld: '%s' is '%.40s', no number", r->path,
                            (long long)r->row, name, cell);
    return TW_OK;
}

/* cells[count] of one row. */
static enum tw_status take_row(struct twp_reader *r, const struct head *head,
                               char **cells, struct tw_error *err)
{
    double value;
    int64_t step;
    enum tw_status status = TW_OK;
    if (!*cells[head->step]) {
        r->log->without_step++;
        return TW_OK;
    }
    status =
        read_number(r, head->name[head->step], cells[head->step], &value, err);
    if (status == TW_OK)
        status = twp_reader_step(r, value, &step, err);
    for (size_t i = 0; i < head->count && status == TW_OK; i++) {
        if (head->column[i].is != TWP_IS_VALUE)
            continue;
        status = read_number(r, head->name[i], cells[i], &value, err);
        if (status == TW_OK)
            status = twp_reader_add(r, step, &head->column[i], value, err);
    }
    return status;
}

static enum tw_status read_row(struct twp_reader *r, const struct head *head,
                               char **cells, char **text, struct tw_error *err)
{
    bool is_last = false;
    size_t count = 0;
    while (!is_last) {
        char *cell = take_cell(text, &is_last);
        if (!cell)
            return open_quote(r, err);
        if (count < head->count)
            cells[count] = cell;
        count++;
    }
    if (count == 1 && !*cells[0]) /* an empty line */
        return TW_OK;
    if (count != head->count)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: row %lld has %zu columns, not %zu", r->path,
                            (long long)r->row, count, head->count);
    return take_row(r, head, cells, err);
}

enum tw_status twp_read_csv(struct twp_reader *r, char *text, size_t size,
                            struct tw_error *err)
{
    struct head head = {.step = SIZE_MAX};
    char **cells = NULL, *end = text + size;
    text += strspn(text, " \t\r\n");
    r->row = 1;
    enum tw_status status = read_head(r, &head, &text, err);
    if (status == TW_OK && !(cells = tw_alloc(head.count, sizeof *cells)))
        status = tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", r->path);
    while (status == TW_OK && text < end) {
        r->row++;
        status = read_row(r, &head, cells, &text, err);
    }
    tw_free(cells);
    tw_free(head.column);
    tw_free(head.name);
    return status;
}
