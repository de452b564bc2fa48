/* Two runs copied side by side. Only what the comparison needs is copied:
 * layers and neurons of one definition. */
#include <config.h>

#include "run/diff.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/active.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "db/query.h"

const char tw_diff_layers_sql[] =
    "WITH n AS (SELECT a.layer, sum(a.fired > 0 AND b.fired = 0) AS newly_dead,"
    " sum(a.fired = 0 AND b.fired > 0) AS revived,"
    " avg(abs(1.0 * b.fired / b.tokens - 1.0 * a.fired / a.tokens)) AS drift,"
    " max(abs(1.0 * b.fired / b.tokens - 1.0 * a.fired / a.tokens)) AS"
    " max_drift FROM neuron_ a JOIN neuron_ b ON b.run_id = 2 AND b.def_ord = 0"
    " AND b.layer = a.layer AND b.expert = a.expert AND b.neuron = a.neuron"
    " WHERE a.run_id = 1 AND a.def_ord = 0 GROUP BY a.layer)"
    " SELECT a.layer, a.tokens AS tokens_a, b.tokens AS tokens_b,"
    " a.mean_nnz AS mean_a, b.mean_nnz AS mean_b,"
    " b.mean_nnz - a.mean_nnz AS difference,"
    " combined_se(a.se_nnz, b.se_nnz) AS se,"
    " (b.mean_nnz - a.mean_nnz) / nullif(combined_se(a.se_nnz, b.se_nnz), 0)"
    " AS z, a.dead AS dead_a, b.dead AS dead_b, n.newly_dead, n.revived,"
    " n.drift, n.max_drift FROM layer_ a JOIN layer_ b ON b.run_id = 2 AND"
    " b.def_ord = 0 AND b.layer = a.layer LEFT JOIN n ON n.layer = a.layer"
    " WHERE a.run_id = 1 AND a.def_ord = 0 ORDER BY a.layer";

const char tw_diff_neurons_sql[] =
    "SELECT a.layer, CASE WHEN r.experts IS NULL THEN NULL ELSE a.expert END AS"
    " expert, a.neuron, a.fired AS fired_a, b.fired AS fired_b,"
    " 1.0 * a.fired / a.tokens AS rate_a, 1.0 * b.fired / b.tokens AS rate_b,"
    " 1.0 * b.fired / b.tokens - 1.0 * a.fired / a.tokens AS difference,"
    " CASE WHEN a.fired > 0 AND b.fired = 0 THEN 'newly dead' WHEN a.fired = 0"
    " AND b.fired > 0 THEN 'revived' END AS change FROM neuron_ a JOIN neuron_"
    " b ON b.run_id = 2 AND b.def_ord = 0 AND b.layer = a.layer AND b.expert ="
    " a.expert AND b.neuron = a.neuron JOIN run_ r ON r.run_id = 1 WHERE"
    " a.run_id = 1 AND a.def_ord = 0 AND a.tokens > 0 AND b.tokens > 0"
    " ORDER BY abs(difference) DESC, a.layer, a.neuron LIMIT :limit";

/* One of the two runs where it stands. */
struct side {
    struct tw_store *from;
    char *file; /* NULL: options.db */
    const char *name;
    int64_t run, def;
    char *active;
    int64_t layers, width, experts;
};

struct diff {
    struct side side[2];
    struct tw_store *to;
    int64_t into; /* run_id there */
    int64_t def;  /* the definition that is being copied */
};

/* --- Finding a run --- */

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* "FILE:RUN": at the first ':' before which a file's name ends. Else a run. */
static enum tw_status split(const char *text, struct side *side,
                            struct tw_error *err)
{
    side->name = text;
    for (const char *colon = text; (colon = strchr(colon, ':')); colon++) {
        char *file = tw_strndup(text, (size_t)(colon - text));
        if (!file)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
        if (is_file(file)) {
            side->file = file;
            side->name = colon + 1;
            return TW_OK;
        }
        tw_free(file);
    }
    return TW_OK;
}

static enum tw_status ask(struct side *side, const char *sql,
                          const char *active, int64_t *number, char **text,
                          struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = false;
    enum tw_status status = tw_query_open(side->from, sql, &query, err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":run", side->run, err);
    if (status == TW_OK)
        status = tw_query_bind_text(query, ":active", active, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    if (status == TW_OK && !has_row)
        status = tw_error_set(err, TW_ERR_NOT_FOUND, "nothing");
    if (status == TW_OK && number)
        *number = tw_query_int(query, 0);
    if (status == TW_OK && text) {
        const char *cell = tw_query_text(query, 1, NULL);
        *text = tw_strdup(cell ? cell : "");
        if (!*text)
            status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    tw_query_close(query);
    return status;
}

static enum tw_status find_definition(struct side *side, const char *active,
                                      struct tw_error *err)
{
    struct tw_active parsed;
    struct tw_error found = {0};
    if (active && tw_active_parse(active, &parsed, NULL) == TW_OK)
        active = parsed.name;
    enum tw_status status = ask(side,
                                "SELECT def_ord, active FROM definition_ WHERE"
                                " run_id = :run AND active = ifnull(:active,"
                                " active) ORDER BY def_ord LIMIT 1",
                                active, &side->def, &side->active, &found);
    if (status == TW_ERR_NOT_FOUND)
        return tw_error_set(err, status, "%s: run '%s' counts no %s%s",
                            tw_store_path(side->from), side->name,
                            active ? "definition " : "neurons",
                            active ? active : "");
    return status == TW_OK ? TW_OK
                           : tw_error_set(err, status, "%s", found.text);
}

static enum tw_status read_shape(struct side *side, struct tw_error *err)
{
    enum tw_status status =
        tw_store_get_int(side->from, side->run, "layers", &side->layers, err);
    if (status == TW_OK)
        status =
            tw_store_get_int(side->from, side->run, "d_ff", &side->width, err);
    if (status == TW_OK)
        status = tw_store_get_int(side->from, side->run, "experts",
                                  &side->experts, err);
    return status;
}

static enum tw_status open_side(struct side *side, const char *db,
                                const char *text, const char *active,
                                struct tw_error *err)
{
    struct tw_error other = {0};
    enum tw_status status = TW_OK;
    side->name = text;
    if (!is_file(db)) /* every run has to name its file */
        status = split(text, side, err);
    if (status == TW_OK)
        status = tw_store_open(side->file ? side->file : db, TW_STORE_READ,
                               &side->from, err);
    if (status == TW_OK &&
        tw_store_run_find(side->from, side->name, &side->run, &other) == TW_OK)
        return find_definition(side, active, err);
    if (status == TW_OK && !side->file) {
        status = split(text, side, err);
        if (status == TW_OK && side->file) {
            tw_store_close(side->from);
            side->from = NULL;
            status = tw_store_open(side->file, TW_STORE_READ, &side->from, err);
        }
    }
    if (status == TW_OK)
        status = tw_store_run_find(side->from, side->name, &side->run, err);
    return status == TW_OK ? find_definition(side, active, err) : status;
}

/* --- May they be compared? --- */

static enum tw_status check_shapes(const struct side *a, const struct side *b,
                                   struct tw_error *err)
{
    if (a->layers != b->layers || a->width != b->width ||
        a->experts != b->experts)
        return tw_error_set(
            err, TW_ERR_MISMATCH,
            "run '%s' has %lld layers of %lld neurons, run '%s' %lld of %lld: "
            "no neuron of one is a neuron of the other",
            a->name, (long long)a->layers, (long long)a->width, b->name,
            (long long)b->layers, (long long)b->width);
    if (strcmp(a->active, b->active) != 0)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "run '%s' counts '%s' first, run '%s' '%s': choose "
                            "a definition that both have by --active",
                            a->name, a->active, b->name, b->active);
    return TW_OK;
}

/* Facts in which the two differ, in one line. */
static enum tw_status say_differences(struct diff *d, struct tw_error *err)
{
    static const struct {
        const char *name, *sql;
    } facts[] = {
        {"model", "SELECT 0, model_hash FROM run_ WHERE run_id = :run"},
        {"text", "SELECT 0, group_concat(sha256) FROM (SELECT sha256 FROM"
                 " corpus_ WHERE run_id = :run ORDER BY ord)"},
        {"activation", "SELECT 0, activation FROM run_ WHERE run_id = :run"},
        {"--apply", "SELECT 0, apply FROM run_ WHERE run_id = :run"},
        {"-c", "SELECT 0, ctx FROM run_ WHERE run_id = :run"},
        {"--split", "SELECT 0, split FROM run_ WHERE run_id = :run"},
        {"--bos", "SELECT 0, bos FROM run_ WHERE run_id = :run"},
        {"--skip", "SELECT 0, skip FROM run_ WHERE run_id = :run"},
        {"--limit", "SELECT 0, token_limit FROM run_ WHERE run_id = :run"},
        {"backend", "SELECT 0, backend || compute_dtype FROM run_ WHERE run_id"
                    " = :run"},
    };
    struct tw_strbuf line = {0};
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < sizeof facts / sizeof *facts && status == TW_OK;
         i++) {
        char *a = NULL, *b = NULL;
        status = ask(&d->side[0], facts[i].sql, NULL, NULL, &a, err);
        if (status == TW_OK)
            status = ask(&d->side[1], facts[i].sql, NULL, NULL, &b, err);
        if (status == TW_OK && strcmp(a, b) != 0)
            tw_strbuf_printf(&line, "%s%s", line.length ? ", " : "",
                             facts[i].name);
        tw_free(a);
        tw_free(b);
    }
    if (status == TW_OK && line.length)
        tw_log(TW_LOG_INFO, "the runs differ in: %s", tw_strbuf_text(&line));
    tw_strbuf_fini(&line);
    return status;
}

/* --- The copy --- */

static enum tw_status put_neuron(void *arg, const int64_t *values,
                                 struct tw_error *err)
{
    enum { COLUMNS = 15 };
    struct diff *d = arg;
    int64_t row[COLUMNS];
    if (values[1] != d->def)
        return TW_OK;
    memcpy(row, values, sizeof row);
    row[0] = d->into;
    row[1] = 0;
    return tw_store_put(d->to, TW_TABLE_NEURON, row, err);
}

static double real_cell(const struct tw_query *query, int column)
{
    return tw_query_type(query, column) == TW_CELL_NULL
               ? NAN
               : tw_query_real(query, column);
}

/* What has not ended has no derived columns; its mean needs none. */
static enum tw_status put_layer(struct diff *d, const struct tw_query *query,
                                struct tw_error *err)
{
    int64_t layer = tw_query_int(query, 0);
    int64_t row[] = {d->into,
                     0,
                     layer,
                     tw_query_int(query, 1),
                     tw_query_int(query, 2),
                     tw_query_int(query, 3),
                     TW_NULL,
                     TW_NULL,
                     0};
    const double none[4] = {NAN, NAN, NAN, NAN};
    enum tw_status status = tw_store_put(d->to, TW_TABLE_LAYER, row, err);
    if (status == TW_OK)
        status = tw_store_put_derived(
            d->to, d->into, 0, layer, real_cell(query, 4), real_cell(query, 5),
            NAN, none, tw_query_int(query, 6), TW_NULL, TW_NULL, err);
    return status;
}

static enum tw_status copy_layers(struct diff *d, struct side *side,
                                  struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = true;
    enum tw_status status = tw_query_open(
        side->from,
        "SELECT layer, width, tokens, sum_nnz, 1.0 * sum_nnz / nullif(tokens,"
        " 0), se_nnz, (SELECT sum(fired = 0) FROM neuron_ n WHERE n.run_id ="
        " l.run_id AND n.def_ord = l.def_ord AND n.layer = l.layer) FROM layer_"
        " l WHERE run_id = :run AND def_ord = :def",
        &query, err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":run", side->run, err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":def", side->def, err);
    while (status == TW_OK) {
        status = tw_query_next(query, &has_row, err);
        if (status != TW_OK || !has_row)
            break;
        status = put_layer(d, query, err);
    }
    tw_query_close(query);
    return status;
}

static enum tw_status copy_side(struct diff *d, int i, struct tw_error *err)
{
    struct side *side = &d->side[i];
    enum tw_status status =
        tw_store_run_create(d->to, i == 0 ? "a" : "b", "diff", &d->into, err);
    if (status == TW_OK)
        status =
            tw_store_set_int(d->to, d->into, "experts", side->experts, err);
    if (status == TW_OK)
        status = copy_layers(d, side, err);
    d->def = side->def;
    if (status == TW_OK)
        status = tw_store_scan(side->from, TW_TABLE_NEURON, side->run,
                               put_neuron, d, err);
    return status;
}

static enum tw_status lay_out(struct diff *d, struct tw_error *err)
{
    enum tw_status status =
        tw_store_open(":memory:", TW_STORE_WRITE, &d->to, err);
    if (status == TW_OK)
        status = tw_store_begin(d->to, err);
    for (int i = 0; i < 2 && status == TW_OK; i++)
        status = copy_side(d, i, err);
    return status == TW_OK ? tw_store_commit(d->to, err) : status;
}

enum tw_status tw_diff_open(const struct tw_diff_options *options,
                            struct tw_store **store, struct tw_error *err)
{
    struct diff d = {0};
    enum tw_status status = TW_OK;
    for (int i = 0; i < 2 && status == TW_OK; i++) {
        status = open_side(&d.side[i], options->db, options->run[i],
                           options->active, err);
        if (status == TW_OK)
            status = read_shape(&d.side[i], err);
    }
    if (status == TW_OK)
        status = check_shapes(&d.side[0], &d.side[1], err);
    if (status == TW_OK)
        status = say_differences(&d, err);
    if (status == TW_OK)
        status = lay_out(&d, err);
    for (int i = 0; i < 2; i++) {
        tw_store_close(d.side[i].from);
        tw_free(d.side[i].file);
        tw_free(d.side[i].active);
    }
    if (status == TW_OK)
        *store = d.to;
    else
        tw_store_close(d.to);
    return status;
}
