/* twellscope neuron: what one neuron does. Counts stand in every profile;
 * tokens and contexts only where its ledger kept the firings. */
#include <config.h>

#include "cmd/command.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/arguments.h"
#include "cmd/figure.h"
#include "cmd/options.h"
#include "cmd/output.h"
#include "db/query.h"
#include "db/store.h"

struct request {
    const char *db, *run, *active, *output, *part;
    int64_t top, layer, neuron;
    bool wants_help;
};

static const struct tw_argument arguments[] = {
    {"db", 0, TW_ARG_TEXT, offsetof(struct request, db), 0},
    {"run", 0, TW_ARG_TEXT, offsetof(struct request, run), 0},
    {"active", 0, TW_ARG_TEXT, offsetof(struct request, active), 0},
    {"top", 0, TW_ARG_COUNT, offsetof(struct request, top), 1},
    {"part", 0, TW_ARG_TEXT, offsetof(struct request, part), 0},
    {"output", 'o', TW_ARG_TEXT, offsetof(struct request, output), 0},
    {NULL, 0, TW_ARG_FLAG, 0, 0}};

/* Three queries over :run, :active, :layer, :neuron, :top. */
static const char stats[] =
    "SELECT n.layer, n.expert, n.neuron, n.tokens, n.fired, n.rate,"
    " (SELECT 1 + sum(o.rate > n.rate) FROM all_neuron_stats o WHERE o.run ="
    " :run AND o.active = :active AND o.layer = :layer) AS rank,"
    " (SELECT l.width FROM all_layer_stats l WHERE l.run = :run AND l.active ="
    " :active AND l.layer = :layer) AS \"of\", n.mean_abs, n.max_abs,"
    " n.first_fired, n.last_fired FROM all_neuron_stats n WHERE n.run = :run"
    " AND n.active = :active AND n.layer = :layer AND n.neuron = :neuron";
static const char tokens[] =
    "SELECT token_id, token, fired, count, rate FROM neuron_tokens WHERE run ="
    " :run AND layer = :layer AND neuron = :neuron ORDER BY fired DESC, rate"
    " DESC, token_id LIMIT :top";
/* The places of a WITH named top, with the text around each. */
#define AROUND                                                                 \
    " SELECT sequence, position, value, (SELECT group_concat(piece, '') FROM"  \
    " (SELECT CASE WHEN t.position = top.position THEN '[' || text || ']'"     \
    " ELSE text END AS piece FROM (SELECT position,"                           \
    " ifnull(token_text(:run, token_id), '<' || token_id || '>') AS text"      \
    " FROM token_activity WHERE run = :run AND active = :active AND layer ="   \
    " :layer AND sequence = top.sequence AND position BETWEEN top.position -"  \
    " 12 AND top.position + 4 ORDER BY position) t)) AS context FROM top"
/* Counted rows alone, as in every statistic; examples are so by themselves. */
#define STRONGEST(table)                                                       \
    "WITH top AS (SELECT sequence, position, value FROM " table " WHERE run"   \
    " = :run AND layer = :layer AND neuron = :neuron AND (sequence,"           \
    " position) NOT IN (SELECT sequence, position FROM token_activity WHERE"   \
    " run = :run AND active = :active AND layer = :layer AND skipped) ORDER"   \
    " BY abs(value) DESC, sequence, position LIMIT :top)" AROUND
static const char contexts_of_sets[] = STRONGEST("active_neurons");
static const char contexts_of_watch[] = STRONGEST("watched");
static const char contexts_of_examples[] =
    "WITH top AS (SELECT sequence, position, value FROM examples WHERE run ="
    " :run AND layer = :layer AND neuron = :neuron ORDER BY rank LIMIT "
    ":top)" AROUND;

/* What the run's ledger can answer. */
struct ledger {
    bool has_sets, has_rows, has_examples, is_watched;
};

static enum tw_status bind(struct tw_query *query, const struct request *r,
                           struct tw_error *err)
{
    enum tw_status status = tw_query_bind_text(query, ":run", r->run, err);
    if (status == TW_OK)
        status = tw_query_bind_text(query, ":active", r->active, err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":layer", r->layer, err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":neuron", r->neuron, err);
    return status == TW_OK ? tw_query_bind_int(query, ":top", r->top, err)
                           : status;
}

static enum tw_status print(struct tw_store *store, const char *sql,
                            const struct request *r, struct tw_output *output,
                            struct tw_error *err)
{
    struct tw_query *query = NULL;
    enum tw_status status = tw_query_open(store, sql, &query, err);
    if (status == TW_OK)
        status = bind(query, r, err);
    if (status == TW_OK)
        status =
            tw_output_query(query, output->format, "neuron", output->file, err);
    tw_query_close(query);
    return status;
}

/* One whole number and one text of the first row; has_row false: none. */
static enum tw_status ask(struct tw_store *store, const char *sql,
                          const struct request *r, int64_t *number, char *text,
                          size_t size, struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = false;
    enum tw_status status = tw_query_open(store, sql, &query, err);
    if (status == TW_OK)
        status = bind(query, r, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    *number = 0;
    text[0] = '\0';
    if (status == TW_OK && has_row) {
        const char *cell = tw_query_text(query, 1, NULL);
        *number = tw_query_int(query, 0);
        snprintf(text, size, "%s", cell ? cell : "");
    }
    tw_query_close(query);
    return status;
}

static enum tw_status check_neuron(struct tw_store *store,
                                   const struct request *r,
                                   struct tw_error *err)
{
    int64_t found;
    char shape[100];
    enum tw_status status =
        ask(store,
            "SELECT (SELECT count(*) FROM all_neuron_stats WHERE run = :run AND"
            " active = :active AND layer = :layer AND neuron = :neuron),"
            " printf('%d layers of %d', layers, d_ff) FROM run_info WHERE run ="
            " :run",
            r, &found, shape, sizeof shape, err);
    if (status == TW_OK && !found)
        status = tw_error_set(err, TW_ERR_NOT_FOUND,
                              "run '%s' has no neuron %lld:%lld (%s)", r->run,
                              (long long)r->layer, (long long)r->neuron, shape);
    return status;
}

static enum tw_status read_ledger(struct tw_store *store,
                                  const struct request *r,
                                  struct ledger *ledger, char primary[300],
                                  struct tw_error *err)
{
    int64_t number;
    char kept[300];
    *ledger = (struct ledger){false, false, false, false};
    enum tw_status status =
        ask(store, "SELECT 0, active FROM run_info WHERE run = :run", r,
            &number, primary, 300, err);
    if (status != TW_OK || tw_store_schema(store) < TW_SCHEMA_VERSION)
        return status;
    status = ask(store, "SELECT 0, ledger FROM run_info WHERE run = :run", r,
                 &number, kept, sizeof kept, err);
    ledger->has_sets = strstr(kept, "sets") != NULL;
    ledger->has_examples = strstr(kept, "examples:") != NULL;
    ledger->has_rows = strncmp(kept, "nnz", 3) == 0;
    if (status == TW_OK && strstr(kept, "watch:"))
        status = ask(store,
                     "SELECT count(*), NULL FROM (SELECT 1 FROM watched WHERE"
                     " run = :run AND layer = :layer AND neuron = :neuron LIMIT"
                     " 1)",
                     r, &number, kept, sizeof kept, err);
    ledger->is_watched = status == TW_OK && number > 0;
    return status;
}

static bool is_wanted(const struct request *r, const struct tw_output *output,
                      const char *part)
{
    bool is_for_eyes = output->format == TW_FORMAT_TABLE ||
                       output->format == TW_FORMAT_MD ||
                       output->format == TW_FORMAT_LATEX;
    if (r->part)
        return strcmp(r->part, part) == 0;
    return is_for_eyes || strcmp(part, "stats") == 0;
}

/* An empty line between parts. */
static void part_from(const struct request *r, struct tw_output *output)
{
    if (!r->part)
        fputc('\n', output->file);
}

/* Where contexts come from, the shortest way first; NULL: nowhere. */
static const char *contexts_of(const struct ledger *ledger)
{
    return ledger->has_examples ? contexts_of_examples
           : ledger->is_watched ? contexts_of_watch
           : ledger->has_sets   ? contexts_of_sets
                                : NULL;
}

/* Why a part is missing; an error where it was asked for. */
static enum tw_status say_missing(const struct request *r,
                                  const struct ledger *ledger,
                                  const char *primary, struct tw_error *err)
{
    char text[500];
    if (strcmp(primary, r->active) != 0)
        snprintf(text, sizeof text,
                 "tokens and contexts are those of '%s' alone", primary);
    else if (!contexts_of(ledger))
        snprintf(text, sizeof text,
                 "no tokens and contexts: profile --active-sets would keep "
                 "both, --examples K --per-token every neuron's strongest "
                 "contexts, --watch %lld:%lld all of this one's",
                 (long long)r->layer, (long long)r->neuron);
    else if (!ledger->has_sets)
        snprintf(text, sizeof text,
                 "no tokens%s: profile --active-sets would keep them",
                 ledger->has_rows ? "" : ", no text of contexts");
    else
        return TW_OK;
    bool is_there = !r->part || strcmp(r->part, "stats") == 0 ||
                    (strcmp(r->part, "contexts") == 0 && contexts_of(ledger) &&
                     strcmp(primary, r->active) == 0);
    if (!is_there)
        return tw_error_set(err, TW_ERR_NOT_FOUND, "run '%s': %s", r->run,
                            text);
    tw_log(TW_LOG_INFO, "%s", text);
    return TW_OK;
}

static enum tw_status show_parts(struct tw_store *store,
                                 const struct request *r,
                                 struct tw_output *output, struct tw_error *err)
{
    struct ledger ledger;
    char primary[300];
    enum tw_status status = read_ledger(store, r, &ledger, primary, err);
    bool has_primary = status == TW_OK && strcmp(primary, r->active) == 0;
    if (status == TW_OK)
        status = say_missing(r, &ledger, primary, err);
    if (status == TW_OK && is_wanted(r, output, "stats"))
        status = print(store, stats, r, output, err);
    if (status == TW_OK && has_primary && ledger.has_sets &&
        is_wanted(r, output, "tokens")) {
        part_from(r, output);
        status = print(store, tokens, r, output, err);
    }
    if (status == TW_OK && has_primary && contexts_of(&ledger) &&
        is_wanted(r, output, "contexts")) {
        part_from(r, output);
        status = print(store, contexts_of(&ledger), r, output, err);
    }
    return status;
}

static enum tw_status show(struct request *r, struct tw_output *output,
                           struct tw_error *err)
{
    struct tw_store *store = NULL;
    struct tw_figure_run *runs = NULL;
    size_t count = 0;
    enum tw_status status = tw_store_open(r->db, TW_STORE_READ, &store, err);
    if (status == TW_OK)
        status = tw_figure_runs(store, "profile", &r->run, r->run ? 1 : 0,
                                r->active, &runs, &count, err);
    if (status == TW_OK) {
        r->run = runs[0].run;
        r->active = runs[0].active ? runs[0].active : "";
        status = check_neuron(store, r, err);
    }
    if (status == TW_OK)
        status = tw_output_open(output, err);
    if (status == TW_OK) {
        status = show_parts(store, r, output, err);
        enum tw_status closed = tw_output_close(output, err);
        status = status == TW_OK ? closed : status;
    }
    tw_figure_runs_free(runs, count);
    tw_store_close(store);
    return status;
}

static enum tw_status parse_neuron(const char *text, struct request *r,
                                   struct tw_error *err)
{
    char *end = NULL;
    errno = 0;
    bool is_sound = text && isdigit((unsigned char)*text);
    r->layer = is_sound ? strtoll(text, &end, 10) : 0;
    is_sound = is_sound && *end == ':' && isdigit((unsigned char)end[1]);
    r->neuron = is_sound ? strtoll(end + 1, &end, 10) : 0;
    if (!is_sound || *end || errno)
        return tw_error_set(err, TW_ERR_USAGE, "'%s' is not LAYER:NEURON",
                            text ? text : "");
    return TW_OK;
}

static enum tw_status check_part(const char *part, struct tw_error *err)
{
    static const char *const parts[] = {"stats", "tokens", "contexts"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!part || strcmp(part, parts[i]) == 0)
            return TW_OK;
    return tw_error_set(err, TW_ERR_USAGE,
                        "--part %s: not stats, tokens or contexts", part);
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.db = tw_default_db(), .output = "table", .top = 10};
    struct tw_output output;
    const char *word = NULL;
    enum tw_status status = tw_arguments_parse(argc, argv, arguments, &r,
                                               &r.wants_help, &word, 1, err);
    if (status == TW_OK && r.wants_help) {
        tw_print_help(&tw_command_neuron);
        return TW_OK;
    }
    if (status == TW_OK)
        status = parse_neuron(word, &r, err);
    if (status == TW_OK)
        status = check_part(r.part, err);
    if (status == TW_OK)
        status = tw_output_parse(r.output, &output, err);
    return status == TW_OK ? show(&r, &output, err) : status;
}

const struct tw_command tw_command_neuron = {
    .name = "neuron",
    .group = "Show",
    .summary = "what one neuron does: rate, tokens, contexts",
    .usage = "LAYER:NEURON [--run RUN] [--active DEF] [--top K] [--part PART] "
             "[--db FILE] [-o X]",
    .help =
        "Its firing rate and rank in its layer (1: fires most), first and last "
        "firing on\nthe corpus clock, mean and largest |h| where measured. "
        "Where the run kept active\nsets (profile --active-sets), the tokens "
        "at "
        "which it fires most often with\nP(fire | token), and the places of "
        "its "
        "strongest values, the token itself in\n[brackets]; of a watched "
        "neuron "
        "(--watch) the places.\n\n"
        "  --run RUN       the run (the only or newest profile)\n"
        "  --active DEF    another definition than the primary: stats alone\n"
        "  --top K         tokens and contexts, at most (10)\n"
        "  --part PART     stats, tokens or contexts alone; table, md and "
        "latex show\n"
        "                  all otherwise, the other formats stats\n"
        "  --db FILE       database ($TWELLSCOPE_DB, else twellscope.sqlite)\n"
        "  -o, --output X  table, csv, json, jsonl, md, latex, sql, or a file "
        "whose\n"
        "                  ending picks the format\n",
    .run = run,
};
