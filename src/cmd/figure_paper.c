/* The paper's numbers: figures/paper/NAME.csv as temporary tables paper_NAME.
 * Form of a file: lines that start with '#', a header, rows; cells are numbers
 * or plain words without quotes, an empty one is NULL. */
#include <config.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "cmd/figure.h"
#include "cmd/output.h"

enum { FILE_LIMIT = 1 << 20, MOST_COLUMNS = 64 };

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

static bool is_word(const char *text, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    return length > 0 && strspn(text, letters) >= length;
}

/* The file's place; NULL in *path if no folder has it. */
static enum tw_status find_file(const struct tw_figure_dirs *dirs,
                                const char *name, size_t length, char **path,
                                struct tw_error *err)
{
    for (int i = 0; i < dirs->count && !*path; i++) {
        struct tw_strbuf place = {0};
        tw_strbuf_printf(&place, "%s/paper/%.*s.csv", dirs->path[i],
                         (int)length, name);
        if (place.is_failed)
            return no_memory(err);
        if (access(tw_strbuf_text(&place), R_OK) == 0)
            *path = tw_strbuf_take(&place);
        else
            tw_strbuf_fini(&place);
    }
    if (!*path)
        return tw_error_set(err, TW_ERR_NOT_FOUND,
                            "paper/%.*s.csv: not found beside the figures",
                            (int)length, name);
    return TW_OK;
}

static void put_cell(struct tw_strbuf *sql, const char *cell, size_t length)
{
    char *end;
    double value = strtod(cell, &end);
    if (length == 0)
        tw_strbuf_puts(sql, "NULL");
    else if (end == cell + length && value - value == 0)
        tw_strbuf_append(sql, cell, length);
    else
        tw_put_sql_quoted(sql, cell, length, '\'');
}

/* Its cells, each preceded by a comma but the first. Returns their number. */
static int put_line(struct tw_strbuf *sql, const char *line, size_t length,
                    bool is_header, bool *is_bad)
{
    int cells = 0;
    for (const char *at = line; at <= line + length; cells++) {
        size_t left = (size_t)(line + length - at), cell = 0;
        while (cell < left && at[cell] != ',')
            cell++;
        tw_strbuf_puts(sql, cells ? "," : "");
        if (!is_header)
            put_cell(sql, at, cell);
        else if (is_word(at, cell))
            tw_strbuf_append(sql, at, cell);
        else
            *is_bad = true;
        at += cell + 1;
    }
    return cells;
}

/* Statements that make the table, filled if wanted. */
static enum tw_status put_table(struct tw_strbuf *sql, const char *name,
                                size_t length, const char *text, bool is_filled,
                                const char *path, struct tw_error *err)
{
    int columns = 0, number = 0;
    bool is_bad = false;
    tw_strbuf_printf(sql, "DROP TABLE IF EXISTS temp.paper_%.*s;", (int)length,
                     name);
    while (*text && !is_bad) {
        size_t end = strcspn(text, "\r\n");
        const char *line = text;
        text += end + strspn(text + end, "\r\n");
        if (*line == '#')
            continue;
        bool is_header = number++ == 0;
        if (!is_header && !is_filled)
            break;
        tw_strbuf_printf(sql,
                         is_header ? "CREATE TEMP TABLE paper_%.*s("
                                   : "INSERT INTO paper_%.*s VALUES(",
                         (int)length, name);
        int cells = put_line(sql, line, end, is_header, &is_bad);
        tw_strbuf_puts(sql, ");");
        if (is_header)
            columns = cells;
        is_bad |= cells != columns || cells > MOST_COLUMNS;
    }
    if (is_bad || number == 0)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: line %d is no row of the header's columns",
                            path, number);
    return TW_OK;
}

enum tw_status tw_figure_paper(struct tw_store *store,
                               const struct tw_figure_dirs *dirs,
                               const struct tw_figure *figure, bool is_filled,
                               struct tw_error *err)
{
    struct tw_strbuf sql = {0};
    enum tw_status status = TW_OK;
    const char *at = figure->paper_data ? figure->paper_data : "";
    at += strspn(at, " ");
    while (*at && status == TW_OK) {
        size_t length = strcspn(at, " "), size;
        char *path = NULL, *text = NULL;
        if (!is_word(at, length))
            status = tw_error_set(err, TW_ERR_FORMAT,
                                  "%s: '%.*s' names no data of the paper",
                                  figure->sql_path, (int)length, at);
        if (status == TW_OK)
            status = find_file(dirs, at, length, &path, err);
        if (status == TW_OK)
            status = tw_file_read(path, FILE_LIMIT, &text, &size, err);
        if (status == TW_OK)
            status = put_table(&sql, at, length, text, is_filled, path, err);
        tw_free(path);
        tw_free(text);
        at += length;
        at += strspn(at, " ");
    }
    if (status == TW_OK && sql.is_failed)
        status = no_memory(err);
    if (status == TW_OK && sql.length)
        status = tw_query_exec(store, tw_strbuf_text(&sql), err);
    tw_strbuf_fini(&sql);
    return status;
}
