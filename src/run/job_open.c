/* Opening everything a profile needs, in an order that writes nothing. */
#include <config.h>

#include "run/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "run/tokenizer_of.h"

double tw_job_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A file that is there is checked now; a new one is made at the first commit,
 * but its folder must be there. db NULL: nothing is stored. */
static enum tw_status open_store(struct tw_job *s, struct tw_error *err)
{
    if (!s->o->db)
        return TW_OK;
    if (access(s->o->db, F_OK) == 0)
        return tw_store_open(s->o->db,
                             s->o->is_dry_run ? TW_STORE_READ : TW_STORE_WRITE,
                             &s->store, err);
    char *folder = tw_strdup(s->o->db);
    if (!folder)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    const char *where = slash ? folder : ".";
    enum tw_status status = TW_OK;
    if (access(where, W_OK | X_OK) != 0)
        status = tw_error_errno(err, errno, "%s: cannot create it in %s",
                                s->o->db, where);
    tw_free(folder);
    return status;
}

/* A taken name is refused before the model is read. */
static enum tw_status check_name(struct tw_job *s, struct tw_error *err)
{
    int64_t run;
    struct tw_error absent = {0};
    if (!s->o->name || !s->store)
        return TW_OK;
    enum tw_status status =
        tw_store_run_find(s->store, s->o->name, &run, &absent);
    if (status == TW_ERR_NOT_FOUND)
        return TW_OK;
    if (status != TW_OK)
        return tw_error_set(err, status, "%s", absent.text);
    if (!s->o->is_resume && !s->o->is_replace)
        return tw_error_set(err, TW_ERR_EXISTS,
                            "%s: run '%s' is there already: --resume, "
                            "--replace or another --name",
                            s->o->db, s->o->name);
    return TW_OK;
}

static enum tw_status open_model(struct tw_job *s, struct tw_error *err)
{
    const struct tw_model_options options = {
        .activation = s->o->activation,
        .apply = s->rules.has_apply ? &s->rules.apply : NULL,
        .threads = s->o->threads};
    enum tw_status status =
        tw_model_open(s->o->model, &options, &s->model, err);
    if (status == TW_OK)
        status = tw_ops_find(s->o->backend, &s->ops, err);
    return status;
}

/* Text needs a tokenizer; ids only use one for their pieces. */
static enum tw_status open_tokenizer(struct tw_job *s, struct tw_error *err)
{
    bool is_needed = s->o->prompt != NULL;
    for (int i = 0; i < s->o->n_files; i++) {
        size_t length = strlen(s->o->files[i]);
        is_needed |=
            length < 4 || strcmp(s->o->files[i] + length - 4, ".npy") != 0;
    }
    struct tw_error own = {0};
    const struct tw_checkpoint *c = &s->model->checkpoint;
    enum tw_status status = tw_tokenizer_of(
        s->o->tokenizer, c->gguf, c->directory, &s->tokenizer, &own);
    if (status == TW_ERR_NOT_FOUND && !is_needed && !s->o->tokenizer)
        return TW_OK;
    if (status != TW_OK)
        return tw_error_set(err, status, "%s", own.text);
    int64_t size = tw_tokenizer_size(s->tokenizer);
    int64_t vocab = s->model->vocab;
    if (size > vocab)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "%s: tokenizer has id %lld, past the embedding's "
                            "%lld rows",
                            s->o->tokenizer ? s->o->tokenizer : c->directory,
                            (long long)size - 1, (long long)vocab);
    return TW_OK;
}

static struct tw_corpus_options corpus_options(const struct tw_job *s)
{
    struct tw_corpus_options options = {
        .paths = s->o->files,
        .count = s->o->n_files,
        .prompt = s->o->prompt,
        .text = {.field = s->o->field, .separator = s->separator_line}};
    if (s->oracle) {
        options.ids_name = tw_path_base(s->o->compare);
        options.ids =
            tw_oracle_ids(s->oracle, &options.ids_rows, &options.ids_cols);
    }
    return options;
}

static enum tw_status open_corpus(struct tw_job *s, struct tw_error *err)
{
    s->separator_line = tw_rules_separator(s->o->doc_sep, s->tokenizer,
                                           s->separator, sizeof s->separator);
    if (s->o->compare) {
        enum tw_status status = tw_oracle_open(s->o->compare, &s->oracle, err);
        if (status != TW_OK)
            return status;
    }
    const struct tw_corpus_options options = corpus_options(s);
    enum tw_status status = tw_corpus_open(&options, &s->corpus, err);
    if (status != TW_OK)
        return status;
    tw_replay_init(&s->text_again, &s->corpus.documents);
    s->file_tokens = tw_calloc((size_t)s->corpus.files, sizeof *s->file_tokens);
    return s->file_tokens ? TW_OK
                          : tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

/* A token id of config.json; -1 where it names none, or several. */
static int64_t config_id(const struct tw_model *model, const char *field)
{
    struct tw_error ignored = {0};
    int64_t id;
    if (tw_config_int_or(model->checkpoint.config, field, -1, &id, &ignored) !=
            TW_OK ||
        id >= model->vocab)
        return -1;
    return id;
}

static int64_t smaller(int64_t a, int64_t limit)
{
    return limit > 0 && limit < a ? limit : a;
}

/* -c, or what the model allows of 2048. Past positions that cannot be computed
 * is an error; past those the model was made for a warning, which the run
 * keeps. */
static enum tw_status choose_ctx(struct tw_job *s, int64_t *ctx,
                                 struct tw_error *err)
{
    const struct tw_model *model = s->model;
    *ctx = s->o->ctx;
    if (*ctx == 0)
        *ctx =
            smaller(smaller(2048, model->max_position), model->position_limit);
    if (*ctx > smaller(*ctx, model->position_limit))
        return tw_error_set(err, TW_ERR_USAGE,
                            "-c %lld is past the model's %lld positions: %s",
                            (long long)*ctx, (long long)model->position_limit,
                            model->limit_reason);
    if (*ctx > smaller(*ctx, model->max_position)) {
        snprintf(s->warning, sizeof s->warning,
                 "-c %lld is past the %lld positions the model was made for",
                 (long long)*ctx, (long long)model->max_position);
        tw_log(TW_LOG_WARNING, "%s", s->warning);
    }
    return TW_OK;
}

static enum tw_status choose_text(struct tw_job *s, struct tw_error *err)
{
    const struct tw_model *model = s->model;
    int64_t ctx;
    int32_t bos;
    enum tw_status status = choose_ctx(s, &ctx, err);
    if (status == TW_OK)
        status = tw_rules_bos(&s->rules, s->o->compare ? NULL : s->tokenizer,
                              config_id(s->model, "bos_token_id"), &bos, err);
    if (status != TW_OK)
        return status;
    if (bos >= 0 && ctx < 2)
        return tw_error_set(err, TW_ERR_USAGE,
                            "-c 1 leaves no room beside the BOS token");
    int64_t eos = s->tokenizer ? tw_tokenizer_eos(s->tokenizer)
                               : config_id(s->model, "eos_token_id");
    if (s->rules.split == TW_SPLIT_STREAM && eos < 0)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--split stream: neither the tokenizer nor "
                            "config.json names an EOS token");
    s->text =
        (struct tw_batch_options){.tokenizer = s->tokenizer,
                                  .ctx = ctx,
                                  .batch_tokens = s->o->batch_tokens,
                                  .limit = s->o->limit,
                                  .vocab = model->vocab,
                                  .split = s->rules.split,
                                  .bos = bos,
                                  .eos = (int32_t)eos,
                                  .parse_special = !s->o->no_parse_special,
                                  .skip_bos = s->rules.skip_bos,
                                  .skip_special = s->rules.skip_special,
                                  .skip_first = s->rules.skip_first,
                                  .shard = s->o->shard,
                                  .shards = s->o->shards,
                                  .file_tokens = s->file_tokens};
    return TW_OK;
}

/* --compare runs the oracle's own rows: what would change them is refused. */
static enum tw_status check_compare(struct tw_job *s, struct tw_error *err)
{
    int64_t rows, length;
    const struct tw_profile_options *o = s->o;
    if (!s->oracle)
        return TW_OK;
    tw_oracle_ids(s->oracle, &rows, &length);
    const struct {
        bool is_wrong;
        const char *option;
    } rules[] = {
        {s->rules.split != TW_SPLIT_DOCS, "--split stream"},
        {s->rules.is_bos_forced, "--bos yes"},
        {s->text.ctx < length, "a -c below the oracle's sequences"},
        {o->limit >= 0, "--limit"},
        {o->shards > 1, "--shard"},
        {o->is_resume, "--resume"},
        {strcmp(s->rules.skip, "none") != 0, "--skip"},
        {s->rules.active[0].kind != TW_ACTIVE_HIDDEN,
         "a first --active other than hidden"},
        {o->no_loss && tw_oracle_has_loss(s->oracle), "--no-loss"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].is_wrong)
            return tw_error_set(err, TW_ERR_USAGE,
                                "--compare: not with %s: the oracle's rows "
                                "would not be run as they are",
                                rules[i].option);
    return TW_OK;
}

static enum tw_status open_accumulators(struct tw_job *s, struct tw_error *err)
{
    const struct tw_model *model = s->model;
    enum tw_status status = tw_threads_create(s->o->threads, &s->pool, err);
    if (status != TW_OK)
        return status;
    struct tw_profile_config config = {.layers = (int)model->layers,
                                       .probes = s->rules.n_active,
                                       .width = model->d_ff,
                                       .experts = 1,
                                       .vocab = model->vocab,
                                       .ctx = s->text.ctx,
                                       .with_loss = !s->o->no_loss,
                                       .with_magnitudes = s->o->has_magnitudes,
                                       .pool = s->pool};
    status = tw_profile_create(&config, &s->profile, err);
    if (status != TW_OK)
        return status;
    return tw_job_open_ledger(s, err);
}

struct tw_flights_config tw_job_flights(const struct tw_job *s)
{
    return (struct tw_flights_config){.runner = s->runner,
                                      .batch_tokens = s->text.batch_tokens,
                                      .layers = s->model->layers,
                                      .width = s->model->d_ff,
                                      .vocab = s->model->vocab};
}

enum tw_status tw_job_open(struct tw_job *s, struct tw_error *err)
{
    static enum tw_status (*const steps[])(struct tw_job *,
                                           struct tw_error *) = {
        open_store,  check_name,  open_model,    open_tokenizer,
        open_corpus, choose_text, check_compare, open_accumulators};
    enum tw_status status = tw_rules_parse(s->o, &s->rules, err);
    for (size_t i = 0; i < sizeof steps / sizeof *steps && status == TW_OK; i++)
        status = steps[i](s, err);
    return status;
}

void tw_job_close(struct tw_job *s)
{
    tw_flights_destroy(s->flights);
    tw_batches_destroy(s->batches);
    tw_profile_destroy(s->profile);
    tw_profile_destroy(s->beside.copy);
    tw_ledger_destroy(s->ledger);
    tw_examples_destroy(s->examples);
    tw_free(s->watch);
    tw_free(s->file_tokens);
    tw_threads_destroy(s->pool);
    tw_facts_fini(&s->facts);
    tw_replay_fini(&s->text_again);
    tw_corpus_close(&s->corpus);
    tw_oracle_close(s->oracle);
    tw_runner_destroy(s->runner);
    tw_free(s->plans);
    tw_free(s->plan);
    tw_tokenizer_close(s->tokenizer);
    tw_model_close(s->model);
    tw_store_close(s->store);
}
