/* A figure's numbers: picked and arg as temporary tables, the SELECT's rows as
 * NAME.dat. Text is quoted the way gnuplot's `with labels` reads a column: '"'
 * and '\' doubled; what is not printable is escaped before. */
#include <config.h>

#include <string.h>

#include "cmd/figure.h"
#include "cmd/output.h"

void tw_figure_data_fini(struct tw_figure_data *data)
{
    tw_strbuf_fini(&data->text);
    tw_strbuf_fini(&data->series);
    tw_strbuf_fini(&data->labels);
    *data = (struct tw_figure_data){0};
}

static void put_sql(struct tw_strbuf *sql, const char *text)
{
    if (text)
        tw_put_sql_quoted(sql, text, strlen(text), '\'');
    else
        tw_strbuf_puts(sql, "NULL");
}

static void fill_arg(struct tw_strbuf *sql, const struct tw_figure_param *param)
{
    static const char *const types[] = {[TW_CELL_INT] = "INTEGER",
                                        [TW_CELL_REAL] = "REAL",
                                        [TW_CELL_TEXT] = "TEXT"};
    tw_strbuf_puts(sql, "INSERT INTO arg VALUES(");
    put_sql(sql, param->name);
    tw_strbuf_puts(sql, ",");
    if (param->value) {
        tw_strbuf_puts(sql, "CAST(");
        put_sql(sql, param->value);
        tw_strbuf_printf(sql, " AS %s));", types[param->type]);
    } else
        tw_strbuf_puts(sql, "NULL);");
}

static enum tw_status make_tables(struct tw_store *store,
                                  const struct tw_figure *figure,
                                  const struct tw_figure_run *runs,
                                  size_t count, struct tw_error *err)
{
    struct tw_strbuf sql = {0};
    tw_strbuf_puts(&sql, "DROP TABLE IF EXISTS temp.picked;"
                         "DROP TABLE IF EXISTS temp.arg;"
                         "CREATE TEMP TABLE picked(ord INTEGER PRIMARY KEY,"
                         " run TEXT, active TEXT, label TEXT);"
                         "CREATE TEMP TABLE arg(name TEXT PRIMARY KEY,"
                         " value);");
    for (size_t i = 0; i < count; i++) {
        tw_strbuf_printf(&sql, "INSERT INTO picked VALUES(%zu,", i);
        put_sql(&sql, runs[i].run);
        tw_strbuf_puts(&sql, ",");
        put_sql(&sql, runs[i].active);
        tw_strbuf_puts(&sql, ",");
        put_sql(&sql, runs[i].label);
        tw_strbuf_puts(&sql, ");");
    }
    for (int i = 0; i < figure->param_count; i++)
        fill_arg(&sql, &figure->params[i]);
    enum tw_status status =
        sql.is_failed ? tw_error_set(err, TW_ERR_NOMEM, "out of memory")
                      : tw_query_exec(store, sql.data, err);
    tw_strbuf_fini(&sql);
    return status;
}

enum tw_status tw_figure_query(struct tw_store *store,
                               const struct tw_figure *figure,
                               const struct tw_figure_run *runs, size_t count,
                               struct tw_query **query, struct tw_error *err)
{
    enum tw_status status = make_tables(store, figure, runs, count, err);
    if (status != TW_OK)
        return status;
    status = tw_query_open(store, figure->sql, query, err);
    if (status != TW_OK)
        tw_error_prefix(err, "figure %s", figure->name);
    return status;
}

static enum tw_status no_rows(const struct tw_figure *figure,
                              const struct tw_figure_run *runs, size_t count,
                              struct tw_error *err)
{
    if (count > 1)
        return tw_error_set(err, TW_ERR_NOT_FOUND,
                            "figure %s: none of the %zu runs has data for it",
                            figure->name, count);
    return tw_error_set(err, TW_ERR_NOT_FOUND,
                        "figure %s: run '%s' has no data for it", figure->name,
                        runs[0].run);
}

enum tw_status tw_figure_check_rows(struct tw_store *store,
                                    const struct tw_figure *figure,
                                    const struct tw_figure_run *runs,
                                    size_t count, struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = false;
    enum tw_status status =
        tw_figure_query(store, figure, runs, count, &query, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    tw_query_close(query);
    return status == TW_OK && !has_row ? no_rows(figure, runs, count, err)
                                       : status;
}

/* Escaped for gnuplot, and for LaTeX before that. */
static void put_text(struct tw_strbuf *out, const char *text, size_t size,
                     bool is_tex)
{
    struct tw_strbuf printable = {0}, escaped = {0};
    tw_put_printable(&printable, text, size);
    if (is_tex)
        tw_put_latex(&escaped, tw_strbuf_text(&printable));
    else
        tw_strbuf_puts(&escaped, tw_strbuf_text(&printable));
    out->is_failed |= printable.is_failed | escaped.is_failed;
    tw_strbuf_puts(out, "\"");
    for (const char *c = tw_strbuf_text(&escaped); *c; c++) {
        if (*c == '"' || *c == '\\')
            tw_strbuf_append(out, c, 1);
        tw_strbuf_append(out, c, 1);
    }
    tw_strbuf_puts(out, "\"");
    tw_strbuf_fini(&printable);
    tw_strbuf_fini(&escaped);
}

static void put_cell(struct tw_strbuf *out, struct tw_query *query, int column,
                     bool is_tex)
{
    size_t size = 0;
    enum tw_cell type = tw_query_type(query, column);
    if (type == TW_CELL_NULL)
        tw_strbuf_puts(out, "NaN");
    else if (type == TW_CELL_INT)
        tw_strbuf_printf(out, "%lld", (long long)tw_query_int(query, column));
    else if (type == TW_CELL_REAL)
        tw_put_real(out, tw_query_real(query, column));
    else {
        const char *text = tw_query_text(query, column, &size);
        if (type == TW_CELL_BLOB)
            tw_put_hex(out, text, size);
        else if (text)
            put_text(out, text, size, is_tex);
        else
            out->is_failed = true;
    }
}

/* A gnuplot string in single quotes, for a title without enhanced text. */
static void put_gp_string(struct tw_strbuf *list, const char *text, bool is_tex)
{
    struct tw_strbuf printable = {0}, escaped = {0};
    if (list->length)
        tw_strbuf_puts(list, ", ");
    tw_put_printable(&printable, text, strlen(text));
    if (is_tex)
        tw_put_latex(&escaped, tw_strbuf_text(&printable));
    else
        tw_strbuf_puts(&escaped, tw_strbuf_text(&printable));
    list->is_failed |= printable.is_failed | escaped.is_failed;
    tw_strbuf_puts(list, "'");
    for (const char *c = tw_strbuf_text(&escaped); *c; c++)
        tw_strbuf_append(list, *c == '\'' ? "''" : c, *c == '\'' ? 2 : 1);
    tw_strbuf_puts(list, "'");
    tw_strbuf_fini(&printable);
    tw_strbuf_fini(&escaped);
}

/* name=value of every column that is not NULL. */
static void put_facts(struct tw_strbuf *out, struct tw_query *query)
{
    for (int c = 0; c < tw_query_columns(query); c++) {
        size_t size = 0;
        if (tw_query_type(query, c) == TW_CELL_NULL)
            continue;
        const char *text = tw_query_text(query, c, &size);
        tw_strbuf_printf(out, "%s %s=", c ? "," : "", tw_query_name(query, c));
        tw_put_printable(out, text ? text : "", text ? size : 0);
    }
    tw_strbuf_puts(out, "\n");
}

static enum tw_status put_runs(struct tw_store *store, struct tw_strbuf *out,
                               struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = true;
    enum tw_status status = tw_query_open(
        store,
        "SELECT p.run, p.active, r.tokens, r.ctx, r.split, r.model,"
        " r.activation, r.apply, r.skip, r.backend, r.compute_dtype, r.status,"
        " r.uuid, r.version"
        " FROM picked p JOIN run_info r ON r.run = p.run ORDER BY p.ord",
        &query, err);
    while (status == TW_OK) {
        status = tw_query_next(query, &has_row, err);
        if (status != TW_OK || !has_row)
            break;
        tw_strbuf_puts(out, "#");
        put_facts(out, query);
    }
    tw_query_close(query);
    return status;
}

/* What the figure's head asks about its own rows. */
static enum tw_status put_notes(struct tw_store *store, struct tw_strbuf *out,
                                const struct tw_figure *figure,
                                struct tw_error *err)
{
    struct tw_query *query = NULL;
    struct tw_strbuf sql = {0};
    bool has_row = true;
    if (!figure->note)
        return TW_OK;
    tw_strbuf_printf(&sql, "WITH figure AS (\n%s\n) %s", figure->sql,
                     figure->note);
    enum tw_status status =
        sql.is_failed ? tw_error_set(err, TW_ERR_NOMEM, "out of memory")
                      : tw_query_open(store, sql.data, &query, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    while (status == TW_OK && has_row) {
        tw_strbuf_puts(out, "#");
        put_facts(out, query);
        status = tw_query_next(query, &has_row, err);
    }
    if (status != TW_OK)
        tw_error_prefix(err, "figure %s: note", figure->name);
    tw_query_close(query);
    tw_strbuf_fini(&sql);
    return status;
}

static const char *help_of(const struct tw_figure *figure, const char *column)
{
    for (int i = 0; i < figure->column_count; i++)
        if (strcmp(figure->column_name[i], column) == 0)
            return figure->column_help[i];
    return "";
}

static void put_head(struct tw_strbuf *out, const struct tw_figure *figure,
                     struct tw_query *query)
{
    for (int i = 0; i < figure->param_count; i++)
        tw_strbuf_printf(out, "# set %s=%s\n", figure->params[i].name,
                         figure->params[i].value ? figure->params[i].value
                                                 : "NULL");
    tw_strbuf_puts(out, "# query\n");
    for (const char *line = figure->sql; *line;) {
        size_t length = strcspn(line, "\n");
        tw_strbuf_puts(out, "#   ");
        tw_strbuf_append(out, line, length);
        tw_strbuf_puts(out, "\n");
        line += length + (line[length] == '\n');
    }
    tw_strbuf_puts(out, "# columns\n");
    for (int c = 0; c < tw_query_columns(query); c++) {
        const char *name = tw_query_name(query, c);
        tw_strbuf_printf(out, "#   %d %s  %s\n", c + 1, name,
                         help_of(figure, name));
    }
}

static int find_column(struct tw_query *query, const char *name)
{
    for (int c = 0; c < tw_query_columns(query); c++)
        if (strcmp(tw_query_name(query, c), name) == 0)
            return c;
    return -1;
}

/* A new value in column `block` starts a gnuplot block: two empty lines. */
static void start_block(struct tw_figure_data *data, struct tw_query *query,
                        int series, bool is_tex)
{
    if (data->blocks++)
        tw_strbuf_puts(&data->text, "\n\n");
    const char *name = series >= 0 ? tw_query_text(query, series, NULL) : NULL;
    put_gp_string(&data->series, name ? name : "", is_tex);
}

static enum tw_status put_rows(struct tw_figure_data *data,
                               struct tw_query *query, bool is_tex,
                               struct tw_error *err)
{
    int block = find_column(query, "block");
    int series = find_column(query, "series");
    int64_t last = 0;
    bool has_row = true;
    for (;;) {
        enum tw_status status = tw_query_next(query, &has_row, err);
        if (status != TW_OK || !has_row)
            return status;
        int64_t at = block >= 0 ? tw_query_int(query, block) : 0;
        if (data->rows == 0 || at != last)
            start_block(data, query, series, is_tex);
        last = at;
        for (int c = 0; c < tw_query_columns(query); c++) {
            tw_strbuf_puts(&data->text, c ? "\t" : "");
            put_cell(&data->text, query, c, is_tex);
        }
        tw_strbuf_puts(&data->text, "\n");
        data->rows++;
    }
}

enum tw_status tw_figure_data(struct tw_store *store,
                              const struct tw_figure *figure,
                              const struct tw_figure_run *runs, size_t count,
                              bool is_tex, struct tw_figure_data *data,
                              struct tw_error *err)
{
    struct tw_query *query = NULL;
    *data = (struct tw_figure_data){.runs = count};
    enum tw_status status =
        tw_figure_query(store, figure, runs, count, &query, err);
    if (status != TW_OK)
        return status;
    tw_strbuf_printf(&data->text, "# %s %s, figure %s%s\n", PACKAGE_NAME,
                     PACKAGE_VERSION, figure->name,
                     is_tex ? ", text escaped for LaTeX" : "");
    status = put_runs(store, &data->text, err);
    if (status == TW_OK)
        status = put_notes(store, &data->text, figure, err);
    put_head(&data->text, figure, query);
    for (size_t i = 0; i < count; i++)
        put_gp_string(&data->labels, runs[i].label, is_tex);
    if (status == TW_OK)
        status = put_rows(data, query, is_tex, err);
    tw_query_close(query);
    if (status == TW_OK && data->rows == 0)
        status = no_rows(figure, runs, count, err);
    if (status == TW_OK && (data->text.is_failed || data->series.is_failed ||
                            data->labels.is_failed))
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (status != TW_OK)
        tw_figure_data_fini(data);
    return status;
}
