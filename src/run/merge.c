/* Merging: every part's rows added to one profile, which then ends as a run
 * does. */
#include <config.h>

#include "run/merge.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/store_profile.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "db/examples.h"
#include "db/ledger.h"
#include "db/query.h"
#include "run/merge_internal.h"

struct merge {
    const struct tw_merge_options *o;
    struct tw_merge_report *report;
    struct twp_inputs inputs;
    struct tw_store *out;
    struct tw_strbuf missing; /* of all runs, for the last message */
};

/* The parts [first, end) of one group. */
struct span {
    const struct twp_part *first, *end;
};

static bool is_usable(const struct twp_part *part)
{
    return strcmp(part->status, "complete") == 0;
}

/* Appends "1, 4" : the parts that are not there, or not complete. */
static int64_t list_missing(struct span span, struct tw_strbuf *list)
{
    int64_t missing = 0;
    const struct twp_part *at = span.first;
    for (int64_t i = 0; i < span.first->shards; i++) {
        bool is_there = at < span.end && at->shard == i && is_usable(at);
        at += at < span.end && at->shard == i;
        if (!is_there)
            tw_strbuf_printf(list, "%s%lld", missing++ ? ", " : "",
                             (long long)i);
    }
    return missing;
}

/* Without --allow-missing every part must be there. */
static enum tw_status check_whole(struct merge *m, struct span span,
                                  struct tw_error *err)
{
    struct tw_strbuf list = {0};
    enum tw_status status = TW_OK;
    int64_t missing = list_missing(span, &list);
    if (missing > 0 && !m->o->allows_missing) {
        for (const struct twp_part *p = span.first; p < span.end; p++)
            if (!is_usable(p))
                status = tw_error_set(
                    err, TW_ERR_MISMATCH,
                    "%s: part %lld of %lld of run '%s' is %s: resume it, or "
                    "--allow-missing",
                    tw_store_path(p->store), (long long)p->shard,
                    (long long)p->shards, p->name, p->status);
        if (status == TW_OK)
            status =
                tw_error_set(err, TW_ERR_MISMATCH,
                             "run '%s': missing of %lld parts: %s "
                             "(--allow-missing goes without)",
                             span.first->name, (long long)span.first->shards,
                             tw_strbuf_text(&list));
    }
    if (missing > 0)
        tw_strbuf_printf(&m->missing, "%s'%s' lacks %s of %lld parts",
                         m->missing.length ? "; " : "", span.first->name,
                         tw_strbuf_text(&list), (long long)span.first->shards);
    tw_strbuf_fini(&list);
    return status;
}

static const struct twp_part *first_usable(struct span span)
{
    for (const struct twp_part *p = span.first; p < span.end; p++)
        if (is_usable(p))
            return p;
    return NULL;
}

/* The configuration that the part's run had. */
static enum tw_status read_config(const struct twp_part *part,
                                  struct tw_profile_config *config,
                                  struct tw_error *err)
{
    static const char *const columns[] = {
        "layers", "d_ff", "experts", "vocab", "ctx", "has_loss", "magnitudes"};
    enum { LAYERS, D_FF, EXPERTS, VOCAB, CTX, LOSS, MAGNITUDES, COLUMNS };
    int64_t v[COLUMNS], probes = 0;
    struct tw_query *query = NULL;
    bool has_row = false;
    enum tw_status status = TW_OK;
    for (int i = 0; i < COLUMNS && status == TW_OK; i++)
        status =
            tw_store_get_int(part->store, part->run, columns[i], &v[i], err);
    if (status == TW_OK)
        status = tw_query_open(
            part->store, "SELECT count(*) FROM definition_ WHERE run_id = :run",
            &query, err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":run", part->run, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    if (status == TW_OK && has_row)
        probes = tw_query_int(query, 0);
    tw_query_close(query);
    if (status != TW_OK)
        return status;
    int64_t experts = v[EXPERTS] == TW_NULL ? 1 : v[EXPERTS];
    if (v[LAYERS] < 1 || v[LAYERS] > 65536 || v[D_FF] < 1 ||
        v[D_FF] > INT32_MAX || v[VOCAB] < 1 || v[VOCAB] > INT32_MAX ||
        v[CTX] < 1 || probes < 1 || probes > 64 || experts < 1 ||
        experts > v[D_FF])
        return tw_error_set(err, TW_ERR_FORMAT, "%s: run '%s' has no shape",
                            tw_store_path(part->store), part->name);
    *config = (struct tw_profile_config){.layers = (int)v[LAYERS],
                                         .probes = (int)probes,
                                         .width = v[D_FF],
                                         .experts = (int)experts,
                                         .vocab = v[VOCAB],
                                         .ctx = v[CTX],
                                         .with_loss = v[LOSS] != 0,
                                         .with_magnitudes = v[MAGNITUDES] == 1};
    return TW_OK;
}

/* What the parts' own rows say of the text; TW_NULL: not known. */
struct text_facts {
    int64_t bytes, documents, tokens, limit;
    bool is_stream;
};

static enum tw_status corpus_tokens(struct tw_store *store, int64_t run,
                                    int64_t *tokens, struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = false;
    enum tw_status status = tw_query_open(
        store, "SELECT sum(tokens) FROM corpus_ WHERE run_id = :run", &query,
        err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":run", run, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    if (status == TW_OK)
        *tokens = has_row && tw_query_type(query, 0) == TW_CELL_INT
                      ? tw_query_int(query, 0)
                      : TW_NULL;
    tw_query_close(query);
    return status;
}

/* --split docs: each part knows the bytes of its own texts; stream: of all. */
static enum tw_status read_text(struct span span, struct text_facts *text,
                                struct tw_error *err)
{
    const struct twp_part *lead = first_usable(span);
    char *split = NULL;
    enum tw_status status =
        tw_store_get_text(lead->store, lead->run, "split", &split, err);
    if (status == TW_OK)
        status = tw_store_get_int(lead->store, lead->run, "documents",
                                  &text->documents, err);
    if (status == TW_OK)
        status = tw_store_get_int(lead->store, lead->run, "token_limit",
                                  &text->limit, err);
    text->is_stream = split && strcmp(split, "stream") == 0;
    text->bytes = 0;
    for (const struct twp_part *p = lead; p < span.end && status == TW_OK;
         p++) {
        int64_t bytes;
        if (!is_usable(p))
            continue;
        status = tw_store_get_int(p->store, p->run, "bytes", &bytes, err);
        if (bytes == TW_NULL || text->bytes == TW_NULL)
            text->bytes = TW_NULL;
        else if (!text->is_stream || p == lead)
            text->bytes += bytes;
    }
    tw_free(split);
    return status;
}

/* As a single run would have written them (job_record.c). */
static enum tw_status put_text(struct merge *m, int64_t run, struct span span,
                               bool is_whole, const struct tw_profile *profile,
                               struct tw_error *err)
{
    struct text_facts text;
    struct tw_profile_totals sums;
    tw_profile_totals(profile, &sums);
    enum tw_status status = read_text(span, &text, err);
    if (status == TW_OK)
        status = corpus_tokens(m->out, run, &text.tokens, err);
    if (status == TW_OK)
        status = tw_store_set_int(m->out, run, "bytes", text.bytes, err);
    if (status == TW_OK && text.is_stream)
        status =
            tw_store_set_int(m->out, run, "documents", text.documents, err);
    if (status != TW_OK)
        return status;
    bool is_limited = text.limit != TW_NULL && text.tokens >= text.limit;
    bool has_bits = is_whole && text.bytes > 0 && text.tokens != TW_NULL &&
                    !is_limited && sums.predicted > 0;
    double bits = sums.mean_nll / log(2) * (double)text.tokens;
    return tw_store_set_real(m->out, run, "bits_per_byte",
                             has_bits ? bits / (double)text.bytes : NAN, err);
}

/* The merged run is no part: it is the whole, or it lacks some. */
static enum tw_status put_state(struct merge *m, int64_t run, struct span span,
                                struct tw_error *err)
{
    struct tw_strbuf list = {0};
    bool is_whole = list_missing(span, &list) == 0;
    const struct {
        const char *column, *text;
    } texts[] = {
        {"status", is_whole ? "complete" : "partial"},
        {"shards_missing", is_whole ? NULL : tw_strbuf_text(&list)},
        {"shard", is_whole ? "0" : NULL},
        {"command", m->o->command},
        {"cause", NULL},
        {"writer", NULL},
    };
    enum tw_status status = tw_store_run_renew(m->out, run, err);
    for (size_t i = 0; i < sizeof texts / sizeof *texts && status == TW_OK; i++)
        status =
            tw_store_set_text(m->out, run, texts[i].column, texts[i].text, err);
    if (status == TW_OK && is_whole)
        status = tw_store_set_int(m->out, run, "shards", 1, err);
    tw_strbuf_fini(&list);
    return status;
}

/* The earliest start and the latest end of the parts. */
static enum tw_status put_times(struct merge *m, int64_t run, struct span span,
                                struct tw_error *err)
{
    static const struct {
        const char *column;
        int sign;
    } times[] = {{"started", -1}, {"finished", 1}};
    enum tw_status status = TW_OK;
    for (int t = 0; t < 2; t++) {
        char *best = NULL;
        for (const struct twp_part *p = span.first;
             p < span.end && status == TW_OK; p++) {
            char *time = NULL;
            if (!is_usable(p))
                continue;
            status = tw_store_get_text(p->store, p->run, times[t].column, &time,
                                       err);
            bool is_better =
                time && (!best || strcmp(time, best) * times[t].sign > 0);
            tw_free(is_better ? best : time);
            best = is_better ? time : best;
        }
        if (status == TW_OK)
            status = tw_store_set_text(m->out, run, times[t].column, best, err);
        tw_free(best);
    }
    return status;
}

/* Every part's counts, in any order. */
static enum tw_status add_parts(struct merge *m, struct span span,
                                struct tw_profile *profile,
                                struct tw_error *err)
{
    for (const struct twp_part *p = span.first; p < span.end; p++) {
        if (!is_usable(p))
            continue;
        enum tw_status status =
            tw_profile_restore(profile, p->store, p->run, err);
        if (status != TW_OK) {
            tw_error_prefix(err, "%s", tw_store_path(p->store));
            return status;
        }
        m->report->parts++;
    }
    return TW_OK;
}

/* The parts' strongest contexts: the strongest of all. */
static enum tw_status merge_examples(struct merge *m, struct span span,
                                     const struct tw_profile_config *config,
                                     int64_t run, struct tw_error *err)
{
    struct tw_examples *examples = NULL;
    char *kept = NULL;
    enum tw_status status =
        tw_store_get_text(m->out, run, "ledger", &kept, err);
    const char *at = kept ? strstr(kept, "examples:") : NULL;
    int k = at ? atoi(at + strlen("examples:")) : 0;
    if (status == TW_OK && k > 0 && k <= TW_MAX_EXAMPLES)
        status = tw_examples_create(config->layers, config->width, k,
                                    config->pool, &examples, err);
    for (const struct twp_part *p = span.first; examples && p < span.end; p++)
        if (status == TW_OK && is_usable(p))
            status = tw_examples_restore(examples, p->store, p->run, err);
    if (status == TW_OK && examples)
        status = tw_examples_save(examples, m->out, run, err);
    tw_examples_destroy(examples);
    tw_free(kept);
    return status;
}

static enum tw_status merge_span(struct merge *m, struct span span,
                                 struct tw_error *err)
{
    const struct twp_part *lead = first_usable(span);
    struct tw_profile_config config;
    struct tw_profile *profile = NULL;
    int64_t run;
    if (!lead)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "run '%s': no part of it is complete",
                            span.first->name);
    struct tw_strbuf list = {0};
    bool is_whole = list_missing(span, &list) == 0;
    tw_strbuf_fini(&list);
    enum tw_status status = read_config(lead, &config, err);
    if (status == TW_OK)
        status = tw_profile_create(&config, &profile, err);
    if (status == TW_OK)
        status = add_parts(m, span, profile, err);
    if (status == TW_OK)
        status = tw_store_run_copy(m->out, lead->store, lead->run,
                                   TW_COPY_FACTS, &run, err);
    if (status == TW_OK)
        status = tw_profile_finish(profile, m->out, run, err);
    for (const struct twp_part *p = span.first; p < span.end; p++)
        if (status == TW_OK && is_usable(p))
            status = tw_ledger_copy(m->out, run, p->store, p->run, err);
    if (status == TW_OK)
        status = tw_ledger_number(m->out, run, err);
    if (status == TW_OK)
        status = merge_examples(m, span, &config, run, err);
    if (status == TW_OK)
        status = twp_merge_corpora(m->out, run, lead, span.end, is_whole, err);
    if (status == TW_OK)
        status = put_text(m, run, span, is_whole, profile, err);
    if (status == TW_OK)
        status = put_times(m, run, span, err);
    if (status == TW_OK)
        status = put_state(m, run, span, err);
    if (status == TW_OK) {
        struct tw_profile_totals totals;
        tw_profile_totals(profile, &totals);
        m->report->tokens += totals.tokens;
        m->report->merged++;
    }
    tw_profile_destroy(profile);
    return status;
}

/* Whole runs first (group -1), then each group. */
static enum tw_status merge_all(struct merge *m, struct tw_error *err)
{
    const struct twp_part *p = m->inputs.part, *end = p + m->inputs.parts;
    enum tw_status status = TW_OK;
    for (; p < end && p->group < 0 && status == TW_OK; p++) {
        int64_t run;
        status =
            tw_store_run_copy(m->out, p->store, p->run, TW_COPY_ALL, &run, err);
        m->report->copied++;
    }
    while (p < end && status == TW_OK) {
        struct span span = {p, p};
        while (span.end < end && span.end->group == p->group)
            span.end++;
        status = merge_span(m, span, err);
        p = span.end;
    }
    return status;
}

/* All that can be refused before anything is written. */
static enum tw_status check_all(struct merge *m, struct tw_error *err)
{
    const struct twp_part *p = m->inputs.part, *end = p + m->inputs.parts;
    if (m->inputs.parts == 0)
        return tw_error_set(err, TW_ERR_NOT_FOUND, "%s: no runs", m->o->in[0]);
    for (; p < end && p->group < 0; p++)
        ;
    while (p < end) {
        struct span span = {p, p};
        while (span.end < end && span.end->group == p->group)
            span.end++;
        enum tw_status status = check_whole(m, span, err);
        if (status != TW_OK)
            return status;
        p = span.end;
    }
    return TW_OK;
}

/* The output may not be read and written at once. */
static enum tw_status check_output(const struct tw_merge_options *o,
                                   bool *is_new, struct tw_error *err)
{
    struct stat out, in;
    *is_new = stat(o->out, &out) != 0;
    for (int i = 0; !*is_new && i < o->n_in; i++)
        if (stat(o->in[i], &in) == 0 && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino)
            return tw_error_set(err, TW_ERR_USAGE,
                                "-o %s is one of the files to be merged",
                                o->out);
    return TW_OK;
}

static enum tw_status delete_replaced(struct merge *m, struct tw_error *err)
{
    int64_t run;
    struct tw_error absent = {0};
    if (!m->o->replaced)
        return TW_OK;
    enum tw_status status =
        tw_store_run_find(m->out, m->o->replaced, &run, &absent);
    if (status == TW_ERR_NOT_FOUND)
        return TW_OK;
    return status == TW_OK ? tw_store_run_delete(m->out, run, err)
                           : tw_error_set(err, status, "%s", absent.text);
}

static enum tw_status write_all(struct merge *m, struct tw_error *err)
{
    enum tw_status status =
        tw_store_open(m->o->out, TW_STORE_WRITE, &m->out, err);
    if (status == TW_OK)
        status = tw_store_begin(m->out, err);
    if (status != TW_OK)
        return status;
    status = delete_replaced(m, err);
    if (status == TW_OK)
        status = merge_all(m, err);
    if (status == TW_OK)
        status = tw_store_commit(m->out, err);
    if (status != TW_OK)
        tw_store_rollback(m->out);
    return status == TW_OK ? tw_store_analyze(m->out, err) : status;
}

enum tw_status tw_merge_run(const struct tw_merge_options *options,
                            struct tw_merge_report *report,
                            struct tw_error *err)
{
    *report = (struct tw_merge_report){0};
    struct merge m = {.o = options, .report = report};
    bool is_new = false, is_made = false;
    enum tw_status status = check_output(options, &is_new, err);
    if (status == TW_OK)
        status = twp_inputs_open(&m.inputs, options->in, options->n_in, err);
    if (status == TW_OK)
        status = check_all(&m, err);
    if (status == TW_OK) {
        is_made = is_new;
        status = write_all(&m, err);
    }
    tw_store_close(m.out);
    if (status != TW_OK && is_made)
        unlink(options->out);
    if (status == TW_OK && m.missing.length)
        status =
            tw_error_set(err, TW_ERR_LOST, "%s", tw_strbuf_text(&m.missing));
    tw_strbuf_fini(&m.missing);
    twp_inputs_close(&m.inputs);
    return status;
}
