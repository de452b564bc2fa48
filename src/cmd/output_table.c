/* Formats for eyes: table, md, latex. All cells are kept as text until the
 * columns' widths and kinds are known; a column of numbers only is aligned to
 * the right. */
#include <config.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "cmd/output_internal.h"
#include "cmd/utf8.h"

struct cell {
    size_t start, length; /* in grid.text */
    int width;            /* terminal columns */
};

struct grid {
    int columns;
    struct cell *cells; /* [rows + 1][columns], the heads first */
    size_t count, capacity;
    int *widths;      /* [columns] */
    bool *is_numeric; /* [columns] */
    struct tw_strbuf text;
};

static void grid_fini(struct grid *grid)
{
    tw_free(grid->cells);
    tw_free(grid->widths);
    tw_free(grid->is_numeric);
    tw_strbuf_fini(&grid->text);
}

static int columns_of(const char *text, size_t size)
{
    int width = 0;
    for (size_t i = 0; i < size;) {
        uint32_t code;
        int length = tw_utf8_next(text + i, size - i, &code);
        width += length ? tw_utf8_columns(code) : 1;
        i += length ? (size_t)length : 1;
    }
    return width;
}

static const char *md_escape(char c)
{
    switch (c) {
    case '|':
        return "\\|";
    case '\\':
        return "\\\\";
    case '`':
        return "\\`";
    case '*':
        return "\\*";
    case '_':
        return "\\_";
    case '<':
        return "&lt;";
    case '&':
        return "&amp;";
    default:
        return NULL;
    }
}

static void put_md(struct tw_strbuf *text, const char *plain)
{
    for (const char *c = plain; *c; c++) {
        const char *escape = md_escape(*c);
        if (escape)
            tw_strbuf_puts(text, escape);
        else
            tw_strbuf_append(text, c, 1);
    }
}

/* Printable first, then what the format gives a meaning to. */
static void put_text(struct grid *grid, const char *text, size_t size,
                     enum tw_format format)
{
    if (format == TW_FORMAT_TABLE) {
        tw_put_printable(&grid->text, text, size);
        return;
    }
    struct tw_strbuf plain = {0};
    tw_put_printable(&plain, text, size);
    grid->text.is_failed |= plain.is_failed;
    if (format == TW_FORMAT_LATEX)
        tw_put_latex(&grid->text, tw_strbuf_text(&plain));
    else
        put_md(&grid->text, tw_strbuf_text(&plain));
    tw_strbuf_fini(&plain);
}

static void put_real(struct tw_strbuf *text, double value)
{
    double size = fabs(value);
    tw_strbuf_printf(text, size >= 1e5 && size < 1e15 ? "%.1f" : "%.6g", value);
}

static int end_cell(struct grid *grid, size_t start)
{
    void *cells = grid->cells;
    if (grid->text.is_failed || tw_grow(&cells, &grid->capacity,
                                        grid->count + 1, sizeof(struct cell)))
        return -1;
    grid->cells = cells;
    int column = (int)(grid->count % (size_t)grid->columns);
    size_t length = grid->text.length - start;
    int width = columns_of(grid->text.data ? grid->text.data + start : "",
                           length);
    grid->cells[grid->count++] =
        (struct cell){.start = start, .length = length, .width = width};
    if (width > grid->widths[column])
        grid->widths[column] = width;
    return 0;
}

static int add_cell(struct grid *grid, struct tw_query *query, int column,
                    enum tw_format format)
{
    size_t start = grid->text.length, size = 0;
    enum tw_cell type = tw_query_type(query, column);
    if (type == TW_CELL_INT)
        tw_strbuf_printf(&grid->text, "%lld",
                         (long long)tw_query_int(query, column));
    else if (type == TW_CELL_REAL)
        put_real(&grid->text, tw_query_real(query, column));
    else if (type != TW_CELL_NULL) {
        const char *text = tw_query_text(query, column, &size);
        grid->is_numeric[column] = false;
        if (type == TW_CELL_BLOB)
            tw_put_hex(&grid->text, text, size);
        else if (text)
            put_text(grid, text, size, format);
    }
    return end_cell(grid, start);
}

static enum tw_status fill(struct grid *grid, struct tw_query *query,
                           enum tw_format format, struct tw_error *err)
{
    int bad = 0;
    for (int c = 0; c < grid->columns && !bad; c++) {
        size_t start = grid->text.length;
        const char *name = tw_query_name(query, c);
        put_text(grid, name, strlen(name), format);
        bad = end_cell(grid, start);
    }
    bool has_row = true;
    while (!bad) {
        enum tw_status status = tw_query_next(query, &has_row, err);
        if (status != TW_OK)
            return status;
        if (!has_row)
            return TW_OK;
        for (int c = 0; c < grid->columns && !bad; c++)
            bad = add_cell(grid, query, c, format);
    }
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

static void spaces(struct tw_strbuf *line, int count)
{
    for (int i = 0; i < count; i++)
        tw_strbuf_puts(line, " ");
}

/* What stands before each cell, between cells and at a line's end. */
static const struct {
    const char *start, *between, *end;
} marks[TW_FORMATS] = {
    [TW_FORMAT_TABLE] = {"", "  ", "\n"},
    [TW_FORMAT_MD] = {"| ", " | ", " |\n"},
    [TW_FORMAT_LATEX] = {"", " & ", " \\\\\n"},
};

static void put_line(struct grid *grid, size_t row, enum tw_format format,
                     struct tw_strbuf *line)
{
    const struct cell *cells = grid->cells + row * (size_t)grid->columns;
    tw_strbuf_puts(line, marks[format].start);
    for (int c = 0; c < grid->columns; c++) {
        int pad = grid->widths[c] - cells[c].width;
        bool is_last = c == grid->columns - 1 && format == TW_FORMAT_TABLE;
        if (c)
            tw_strbuf_puts(line, marks[format].between);
        if (grid->is_numeric[c])
            spaces(line, pad);
        tw_strbuf_append(line, tw_strbuf_text(&grid->text) + cells[c].start,
                         cells[c].length);
        if (!grid->is_numeric[c] && !is_last)
            spaces(line, pad);
    }
    tw_strbuf_puts(line, marks[format].end);
}

static void put_rule(struct grid *grid, enum tw_format format,
                     struct tw_strbuf *line)
{
    if (format == TW_FORMAT_LATEX) {
        tw_strbuf_puts(line, "\\midrule\n");
        return;
    }
    tw_strbuf_puts(line, marks[format].start);
    for (int c = 0; c < grid->columns; c++) {
        bool has_colon = format == TW_FORMAT_MD && grid->is_numeric[c];
        if (c)
            tw_strbuf_puts(line, marks[format].between);
        for (int i = has_colon; i < grid->widths[c]; i++)
            tw_strbuf_puts(line, "-");
        if (has_colon)
            tw_strbuf_puts(line, ":");
    }
    tw_strbuf_puts(line, marks[format].end);
}

static void put_latex_head(struct grid *grid, struct tw_strbuf *line)
{
    tw_strbuf_puts(line, "\\begin{tabular}{");
    for (int c = 0; c < grid->columns; c++)
        tw_strbuf_puts(line, grid->is_numeric[c] ? "r" : "l");
    tw_strbuf_puts(line, "}\n\\toprule\n");
}

static enum tw_status print(struct grid *grid, enum tw_format format, FILE *out,
                            struct tw_error *err)
{
    struct tw_strbuf line = {0};
    size_t rows = grid->count / (size_t)grid->columns;
    enum tw_status status = TW_OK;
    if (format == TW_FORMAT_LATEX)
        put_latex_head(grid, &line);
    for (size_t row = 0; row < rows && status == TW_OK; row++) {
        put_line(grid, row, format, &line);
        if (row == 0)
            put_rule(grid, format, &line);
        status = twp_output_flush(&line, out, err);
    }
    if (format == TW_FORMAT_LATEX)
        tw_strbuf_puts(&line, "\\bottomrule\n\\end{tabular}\n");
    if (status == TW_OK)
        status = twp_output_flush(&line, out, err);
    tw_strbuf_fini(&line);
    return status;
}

enum tw_status twp_output_aligned(struct tw_query *query,
                                  enum tw_format format, FILE *out,
                                  struct tw_error *err)
{
    struct grid grid = {.columns = tw_query_columns(query)};
    size_t columns = (size_t)grid.columns;
    enum tw_status status = TW_OK;
    grid.widths = tw_calloc(columns, sizeof *grid.widths);
    grid.is_numeric = tw_calloc(columns, sizeof *grid.is_numeric);
    if (!grid.widths || !grid.is_numeric)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    for (size_t c = 0; c < columns && status == TW_OK; c++) {
        grid.is_numeric[c] = true;
        grid.widths[c] = format == TW_FORMAT_MD ? 3 : 0; /* "--:" at least */
    }
    if (status == TW_OK)
        status = fill(&grid, query, format, err);
    if (status == TW_OK)
        status = print(&grid, format, out, err);
    grid_fini(&grid);
    return status;
}
