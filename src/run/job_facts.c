/* What identifies a run and what it is about: facts, definitions, tags,
 * corpora, token pieces. */
#include <config.h>

#include "run/job.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* Facts of the model and the rules; an option's name marks what must agree on
 * --resume. */
static void gather_model(struct tw_job *s)
{
    struct tw_facts *f = &s->facts;
    const struct tw_model *m = s->model;
    tw_facts_text(f, "model", NULL, s->o->model);
    tw_facts_text(f, "model_type", NULL, m->model_type);
    tw_facts_text(f, "family", NULL, m->model_type);
    tw_facts_text(f, "model_hash", "model hash", m->hash);
    tw_facts_text(f, "tokenizer_hash", "tokenizer",
                  s->tokenizer ? tw_tokenizer_hash(s->tokenizer) : NULL);
    tw_facts_int(f, "layers", NULL, m->layers);
    tw_facts_int(f, "d_model", NULL, m->d_model);
    tw_facts_int(f, "d_ff", NULL, m->d_ff);
    tw_facts_int(f, "gated", NULL, m->is_gated);
    tw_facts_int(f, "vocab", NULL, m->vocab);
    tw_facts_text(f, "activation", "--activation", m->activation.name);
    tw_facts_text(f, "activation_source", NULL, m->activation_source);
    tw_facts_text(f, "weight_dtype", NULL, m->dtype);
    tw_facts_text(f, "compute_dtype", "number type",
                  tw_ops_compute_dtype(s->ops, s->dtype));
    tw_facts_text(f, "backend", "--backend", s->ops->name);
    tw_facts_text(f, "device", "processor", tw_runner_device(s->runner));
    tw_facts_text(f, "plan", "plan", s->plan);
}

static void gather_rules(struct tw_job *s)
{
    struct tw_facts *f = &s->facts;
    const struct tw_profile_options *o = s->o;
    const struct tw_rules *r = &s->rules;
    char bos[64], separator[300], ledger[100];
    snprintf(separator, sizeof separator,
             strcmp(o->doc_sep, "auto") == 0 ? "auto (%s)" : "%s",
             s->separator_line ? s->separator_line : "none");
    snprintf(bos, sizeof bos, s->text.bos >= 0 ? "%s (%d)" : "%s (none)",
             r->bos_rule, (int)s->text.bos);
    tw_facts_text(f, "active", "--active", r->active[0].name);
    tw_facts_text(f, "apply", "--apply", r->has_apply ? r->apply.name : NULL);
    tw_facts_int(f, "ctx", "-c", s->text.ctx);
    tw_facts_text(f, "split", "--split",
                  r->split == TW_SPLIT_DOCS ? "docs" : "stream");
    tw_facts_text(f, "doc_sep", "--doc-sep", separator);
    tw_facts_text(f, "bos", "--bos", bos);
    tw_facts_int(f, "parse_special", "--no-parse-special",
                 !o->no_parse_special);
    tw_facts_text(f, "field", "--field", o->field);
    tw_facts_text(f, "skip", "--skip", r->skip);
    tw_facts_int(f, "token_limit", "--limit",
                 o->limit < 0 ? TW_NULL : o->limit);
    tw_facts_int(f, "magnitudes", "--magnitudes", o->has_magnitudes);
    tw_facts_int(f, "has_loss", "--no-loss", !o->no_loss);
    tw_job_ledger_text(s, ledger, sizeof ledger);
    tw_facts_text(f, "ledger",
                  "--per-token, --active-sets, --watch, --examples",
                  *ledger ? ledger : NULL);
    tw_facts_int(f, "shard", "--shard", o->shard);
    tw_facts_int(f, "shards", "--shard", o->shards);
    tw_facts_text(f, "version", "version", PACKAGE_VERSION);
    tw_facts_text(f, "command", NULL, o->command);
}

void tw_job_gather(struct tw_job *s)
{
    gather_model(s);
    gather_rules(s);
}

enum tw_status tw_job_put_definitions(struct tw_job *s, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (int i = 0; i < s->rules.n_active && status == TW_OK; i++)
        status = tw_store_put_definition(s->store, s->run, i,
                                         s->rules.active[i].name, err);
    return status;
}

enum tw_status tw_job_put_tags(struct tw_job *s, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (*s->warning)
        status = tw_store_put_tag(s->store, s->run, "warning.positions",
                                  s->warning, err);
    if (status == TW_OK && tw_runner_weights(s->runner))
        status = tw_store_put_tag(s->store, s->run, "device.weights",
                                  tw_runner_weights(s->runner), err);
    for (int i = 0; i < s->o->n_tags && status == TW_OK; i++) {
        char key[TW_MAX_TAG + 1];
        status = tw_rules_tag(s->o->tags[i], key, err);
        if (status == TW_OK)
            status = tw_store_put_tag(s->store, s->run, key,
                                      strchr(s->o->tags[i], '=') + 1, err);
    }
    return status;
}

/* A file that changed between its identification and its end is no corpus. */
static enum tw_status check_unchanged(const struct tw_corpus_file *file,
                                      const struct tw_document_file *read,
                                      struct tw_error *err)
{
    if (*file->sha256 && *read->sha256 &&
        strcmp(file->sha256, read->sha256) != 0)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "%s: changed while it was read", file->path);
    return TW_OK;
}

enum tw_status tw_job_put_corpora(struct tw_job *s, bool is_last,
                                  struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (int i = 0; i < s->corpus.files && status == TW_OK; i++) {
        const struct tw_corpus_file *file = &s->corpus.file[i];
        const struct tw_document_file *read = &s->corpus.read[i];
        const char *sha = *file->sha256              ? file->sha256
                          : is_last && *read->sha256 ? read->sha256
                                                     : NULL;
        struct tw_store_corpus corpus = {
            .ord = i,
            .file = file->path,
            .sha256 = sha,
            .documents = is_last ? read->documents : TW_NULL,
            .tokens = is_last ? s->file_tokens[i] : TW_NULL,
            .bytes = is_last && !file->is_ids ? read->bytes : TW_NULL};
        if (is_last)
            status = check_unchanged(file, read, err);
        if (status == TW_OK)
            status = tw_store_put_corpus(s->store, s->run, &corpus, err);
    }
    return status;
}

enum tw_status tw_job_put_pieces(struct tw_job *s, struct tw_error *err)
{
    int64_t id;
    bool is_new;
    if (!s->tokenizer)
        return TW_OK;
    enum tw_status status = tw_store_tokenizer(
        s->store, s->run, tw_tokenizer_hash(s->tokenizer), &id, &is_new, err);
    int64_t size = is_new ? tw_tokenizer_size(s->tokenizer) : 0;
    for (int32_t t = 0; t < size && status == TW_OK; t++) {
        size_t bytes = 0;
        const char *piece = tw_tokenizer_piece(s->tokenizer, t, &bytes);
        char *shown = piece ? tw_piece_printable(piece, bytes) : NULL;
        if (piece && !shown)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
        if (piece)
            status = tw_store_put_piece(
                s->store, id, t, shown, piece, bytes,
                tw_tokenizer_is_special(s->tokenizer, t), err);
        tw_free(shown);
    }
    return status;
}
