/* Which runs the inputs hold, and which are parts of one. */
#include <config.h>

#include "run/merge_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "db/query.h"

/* What decides a count, as text: an SQL expression over run_ r. */
static const struct {
    const char *label, *sql;
} identity[TWP_IDENTITY] = {
    {"model hash", "model_hash"},
    {"tokenizer", "tokenizer_hash"},
    {"text (sha256)", "(SELECT group_concat(ifnull(sha256, ''), ' ') FROM "
                      "(SELECT sha256 FROM corpus_ c WHERE c.run_id = r.run_id "
                      "ORDER BY ord))"},
    {"--active", "(SELECT group_concat(active, ' ') FROM (SELECT active FROM "
                 "definition_ d WHERE d.run_id = r.run_id ORDER BY def_ord))"},
    {"--activation", "activation"},
    {"--apply", "apply"},
    {"--skip", "skip"},
    {"--split", "split"},
    {"--doc-sep", "doc_sep"},
    {"--bos", "bos"},
    {"--no-parse-special", "parse_special"},
    {"--field", "field"},
    {"-c", "ctx"},
    {"--limit", "token_limit"},
    {"--magnitudes", "magnitudes"},
    {"--no-loss", "has_loss"},
    {"--per-token, --active-sets, --watch, --examples", "ledger"},
    {"plan", "plan"},
    {"--backend", "backend"},
    {"number type", "compute_dtype"},
    {"processor", "device"},
    {"version", "version"},
    {"layers", "layers"},
    {"d_ff", "d_ff"},
    {"experts", "experts"},
    {"vocabulary", "vocab"},
    {"--shard", "shards"},
};
enum { NAME, UUID, STATUS, SHARD, SHARDS, RUN, FIELDS }; /* of the query */

static enum tw_status copy_cell(const struct tw_query *query, int column,
                                char **text, struct tw_error *err)
{
    size_t size;
    const char *cell = tw_query_text(query, column, &size);
    *text = cell ? tw_strdup(cell) : NULL;
    return cell && !*text ? tw_error_set(err, TW_ERR_NOMEM, "out of memory")
                          : TW_OK;
}

static enum tw_status read_part(const struct tw_query *query,
                                struct tw_store *store, struct twp_part *part,
                                struct tw_error *err)
{
    *part = (struct twp_part){.store = store,
                              .run = tw_query_int(query, RUN),
                              .shard = tw_query_int(query, SHARD),
                              .shards = tw_query_int(query, SHARDS),
                              .group = -1};
    enum tw_status status = copy_cell(query, NAME, &part->name, err);
    if (status == TW_OK)
        status = copy_cell(query, UUID, &part->uuid, err);
    if (status == TW_OK)
        status = copy_cell(query, STATUS, &part->status, err);
    for (int i = 0; i < TWP_IDENTITY && status == TW_OK; i++)
        status = copy_cell(query, FIELDS + i, &part->field[i], err);
    if (status == TW_OK && part->shards > 1 &&
        (part->shard < 0 || part->shard >= part->shards))
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "%s: run '%s' says it is part %lld of %lld",
                              tw_store_path(store), part->name,
                              (long long)part->shard, (long long)part->shards);
    return status;
}

static enum tw_status read_runs(struct twp_inputs *inputs,
                                struct tw_store *store, struct tw_error *err)
{
    struct tw_strbuf sql = {0};
    struct tw_query *query = NULL;
    bool has_row = true;
    /* A merged run that lacks parts is no part itself. */
    tw_strbuf_printf(&sql, "SELECT run, uuid, status, ifnull(shard, 0), CASE "
                           "WHEN kind = 'profile' AND shard IS NOT NULL THEN "
                           "ifnull(shards, 1) ELSE 1 END, run_id");
    for (int i = 0; i < TWP_IDENTITY; i++)
        tw_strbuf_printf(&sql, ", %s", identity[i].sql);
    tw_strbuf_printf(&sql, " FROM run_ r ORDER BY run_id");
    enum tw_status status =
        tw_query_open(store, tw_strbuf_text(&sql), &query, err);
    while (status == TW_OK) {
        status = tw_query_next(query, &has_row, err);
        if (status != TW_OK || !has_row)
            break;
        if (tw_grow((void **)&inputs->part, &inputs->room, inputs->parts + 1,
                    sizeof *inputs->part) != 0)
            status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
        else
            status =
                read_part(query, store, &inputs->part[inputs->parts++], err);
    }
    tw_query_close(query);
    tw_strbuf_fini(&sql);
    return status;
}

/* The first field in which two parts differ, -1: none. */
static int difference(const struct twp_part *a, const struct twp_part *b)
{
    for (int i = 0; i < TWP_IDENTITY; i++) {
        const char *x = a->field[i], *y = b->field[i];
        if ((x != NULL) != (y != NULL) || (x && strcmp(x, y) != 0))
            return i;
    }
    return -1;
}

/* Two runs that can't both be merged. */
static enum tw_status check_pair(const struct twp_part *a,
                                 const struct twp_part *b, struct tw_error *err)
{
    const char *here = tw_store_path(b->store);
    if (strcmp(a->uuid, b->uuid) == 0)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "%s: run '%s' is given twice, also in %s", here,
                            b->name, tw_store_path(a->store));
    if (a->shards < 2 || b->shards < 2)
        return TW_OK;
    int field = difference(a, b);
    if (field < 0 && a->shard == b->shard)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "%s: part %lld of %lld of run '%s' is given twice, "
                            "also in %s",
                            here, (long long)b->shard, (long long)b->shards,
                            b->name, tw_store_path(a->store));
    if (field >= 0 && strcmp(a->name, b->name) == 0)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "%s: run '%s' has %s '%s', in %s it is '%s': not "
                            "parts of one run",
                            here, b->name, identity[field].label,
                            b->field[field] ? b->field[field] : "none",
                            tw_store_path(a->store),
                            a->field[field] ? a->field[field] : "none");
    return TW_OK;
}

static enum tw_status group(struct twp_inputs *inputs, struct tw_error *err)
{
    for (size_t i = 0; i < inputs->parts; i++) {
        struct twp_part *part = &inputs->part[i];
        for (size_t j = 0; j < i; j++) {
            const struct twp_part *other = &inputs->part[j];
            enum tw_status status = check_pair(other, part, err);
            if (status != TW_OK)
                return status;
            if (part->shards > 1 && other->shards > 1 &&
                difference(other, part) < 0)
                part->group = other->group;
        }
        if (part->shards > 1 && part->group < 0)
            part->group = inputs->groups++;
    }
    return TW_OK;
}

static int by_group(const void *a, const void *b)
{
    const struct twp_part *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->shard < y->shard ? -1 : x->shard > y->shard;
}

enum tw_status twp_inputs_open(struct twp_inputs *inputs,
                               const char *const *paths, int count,
                               struct tw_error *err)
{
    enum tw_status status = TW_OK;
    inputs->store = tw_calloc((size_t)count, sizeof *inputs->store);
    if (!inputs->store)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    for (int i = 0; i < count && status == TW_OK; i++) {
        status = tw_store_open(paths[i], TW_STORE_READ, &inputs->store[i], err);
        inputs->stores += status == TW_OK;
        if (status == TW_OK)
            status = tw_store_check_schema(inputs->store[i], err);
        if (status == TW_OK)
            status = read_runs(inputs, inputs->store[i], err);
    }
    if (status == TW_OK)
        status = group(inputs, err);
    if (status == TW_OK && inputs->parts)
        qsort(inputs->part, inputs->parts, sizeof *inputs->part, by_group);
    return status;
}

void twp_inputs_close(struct twp_inputs *inputs)
{
    for (size_t i = 0; i < inputs->parts; i++) {
        struct twp_part *part = &inputs->part[i];
        tw_free(part->name);
        tw_free(part->uuid);
        tw_free(part->status);
        for (int f = 0; f < TWP_IDENTITY; f++)
            tw_free(part->field[f]);
    }
    for (int i = 0; i < inputs->stores; i++)
        tw_store_close(inputs->store[i]);
    tw_free(inputs->part);
    tw_free(inputs->store);
}
