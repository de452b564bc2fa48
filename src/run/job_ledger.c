/* A profile's ledger: what --per-token, --active-sets, --watch and --examples
 * ask for. */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "run/job.h"

enum { MAX_WATCHES = 1 << 20, WATCH_FILE_LIMIT = 1 << 26 };

static bool is_wanted(const struct tw_profile_options *o)
{
    return o->has_ledger || o->has_sets || o->watch;
}

bool tw_job_wants_sets(const struct tw_job *s)
{
    return s->o->has_sets || s->o->watch || s->o->examples > 0;
}

/* "L:N" at *text, which moves past it and what separates it from the next. */
static enum tw_status read_watch(const struct tw_job *s, const char **text,
                                 struct tw_watch *watch, struct tw_error *err)
{
    char *end;
    errno = 0;
    long layer = strtol(*text, &end, 10);
    bool is_sound = isdigit((unsigned char)**text) && *end == ':' &&
                    isdigit((unsigned char)end[1]);
    long neuron = is_sound ? strtol(end + 1, &end, 10) : 0;
    is_sound = is_sound && errno == 0 &&
               (*end == '\0' || *end == ',' || isspace((unsigned char)*end));
    if (!is_sound)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--watch: '%.40s' is not LAYER:NEURON", *text);
    if (layer >= s->model->layers || neuron >= s->model->d_ff)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--watch: the model has no neuron %ld:%ld (%lld "
                            "layers of %lld)",
                            layer, neuron, (long long)s->model->layers,
                            (long long)s->model->d_ff);
    *watch = (struct tw_watch){(int32_t)layer, (int32_t)neuron};
    while (*end == ',' || isspace((unsigned char)*end))
        end++;
    *text = end;
    return TW_OK;
}

static int ascending(const void *a, const void *b)
{
    const struct tw_watch *x = a, *y = b;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return x->neuron < y->neuron ? -1 : x->neuron > y->neuron;
}

static enum tw_status parse_watches(struct tw_job *s, const char *text,
                                    struct tw_error *err)
{
    size_t room = 0;
    while (isspace((unsigned char)*text))
        text++;
    while (*text) {
        if (s->watches >= MAX_WATCHES ||
            tw_grow((void **)&s->watch, &room, (size_t)s->watches + 1,
                    sizeof *s->watch) != 0)
            return tw_error_set(err, TW_ERR_USAGE,
                                "--watch: more than %d neurons", MAX_WATCHES);
        enum tw_status status =
            read_watch(s, &text, &s->watch[s->watches++], err);
        if (status != TW_OK)
            return status;
    }
    if (s->watches == 0)
        return tw_error_set(err, TW_ERR_USAGE, "--watch: no neuron");
    qsort(s->watch, (size_t)s->watches, sizeof *s->watch, ascending);
    int kept = 1;
    for (int i = 1; i < s->watches; i++)
        if (ascending(&s->watch[i], &s->watch[kept - 1]) != 0)
            s->watch[kept++] = s->watch[i];
    s->watches = kept;
    return TW_OK;
}

/* A list, or a file of one. */
static enum tw_status read_watches(struct tw_job *s, struct tw_error *err)
{
    char *text = NULL;
    size_t size;
    if (access(s->o->watch, R_OK) != 0)
        return parse_watches(s, s->o->watch, err);
    enum tw_status status =
        tw_file_read(s->o->watch, WATCH_FILE_LIMIT, &text, &size, err);
    if (status == TW_OK)
        status = parse_watches(s, text, err);
    tw_free(text);
    return status;
}

enum tw_status tw_job_open_ledger(struct tw_job *s, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (s->o->examples > TW_MAX_EXAMPLES)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--examples: at most %d a neuron", TW_MAX_EXAMPLES);
    if (s->o->examples > 0)
        status =
            tw_examples_create(s->model->layers, s->model->d_ff,
                               (int)s->o->examples, s->pool, &s->examples, err);
    if (!is_wanted(s->o) || status != TW_OK)
        return status;
    if (s->o->watch)
        status = read_watches(s, err);
    const char *rows = getenv("TW_LEDGER_ROWS"); /* smaller blocks, for tests */
    struct tw_ledger_config config = {.layers = (int)s->model->layers,
                                      .probes = s->rules.n_active,
                                      .width = s->model->d_ff,
                                      .has_rows = s->o->has_ledger ||
                                                  s->o->has_sets,
                                      .has_l1 = !s->o->no_ledger_l1,
                                      .has_loss = !s->o->no_loss,
                                      .has_sets = s->o->has_sets,
                                      .watch = s->watch,
                                      .watches = s->watches,
                                      .block_rows = rows ? atoll(rows) : 0,
                                      .pool = s->pool};
    if (status == TW_OK)
        status = tw_ledger_create(&config, &s->ledger, err);
    return status;
}

/* "nnz,l1,sets,watch 0:5,...": the watched neurons as a hash where many. */
void tw_job_ledger_text(const struct tw_job *s, char *text, size_t size)
{
    struct tw_sha256 hash;
    char digest[65] = "";
    size_t used = 0;
    const struct {
        bool is_on;
        const char *name;
    } columns[] = {
        {s->o->has_ledger || s->o->has_sets, "nnz"},
        {(s->o->has_ledger || s->o->has_sets) && !s->o->no_ledger_l1, "l1"},
        {s->o->has_sets, "sets"},
    };
    text[0] = '\0';
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (columns[i].is_on)
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     used ? "," : "", columns[i].name);
    if (s->o->examples > 0)
        used += (size_t)snprintf(text + used, size - used, "%sexamples:%d",
                                 used ? "," : "", (int)s->o->examples);
    if (s->watches == 0)
        return;
    tw_sha256_init(&hash);
    tw_sha256_update(&hash, s->watch, (size_t)s->watches * sizeof *s->watch);
    tw_sha256_hex(&hash, digest);
    snprintf(text + used, size - used, "%swatch:%d:%.16s", used ? "," : "",
             s->watches, digest);
}

/* Blocks wait in memory for the next commit: not for ever. */
bool tw_job_ledger_is_full(const struct tw_job *s)
{
    return s->ledger && tw_ledger_pending(s->ledger) > (int64_t)1 << 28;
}
