/* What the ledger determines, counted again: its blocks go through the same
 * accumulators as a profile's batches, into a database in memory, whose rows
 * are then compared with the file's, table by table. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/profile.h"
#include "analysis/store_profile.h"
#include "base/memory.h"
#include "db/ledger.h"
#include "run/fsck_internal.h"

enum { MAX_TOKENS = 1 << 22, MAX_CELLS = 1 << 30 };

/* Tables that follow from the ledger: rows of (key, value...), in key order. */
enum needs { NEEDS_ROWS, NEEDS_NNZ, NEEDS_LOSS, NEEDS_FIRINGS };
static const struct comparison {
    const char *name;
    enum needs needs;
    const char *sql;
} comparisons[] = {
    {"document_ = the ledger's", NEEDS_ROWS,
     "SELECT printf('document %d', document), rows, sequences FROM document_"
     " WHERE run_id = :run ORDER BY document"},
    {"layer_ = the ledger's", NEEDS_NNZ,
     "SELECT printf('definition %d layer %d', def_ord, layer), tokens, sum_nnz,"
     " min_nnz, max_nnz FROM layer_ WHERE run_id = :run ORDER BY def_ord,"
     " layer"},
    {"hist_ = the ledger's", NEEDS_NNZ,
     "SELECT printf('definition %d layer %d nnz %d', def_ord, layer, nnz),"
     " tokens FROM hist_ WHERE run_id = :run ORDER BY def_ord, layer, nnz"},
    {"block_ = the ledger's", NEEDS_NNZ,
     "SELECT printf('definition %d layer %d block %d', def_ord, layer, block),"
     " tokens, sum_nnz FROM block_ WHERE run_id = :run ORDER BY def_ord, layer,"
     " block"},
    {"block_'s losses = the ledger's", NEEDS_LOSS,
     "SELECT printf('layer %d block %d', layer, block), predicted, sum_nll FROM"
     " block_ WHERE run_id = :run AND def_ord = 0 ORDER BY layer, block"},
    {"class_ = the ledger's", NEEDS_NNZ,
     "SELECT printf('definition %d layer %d class %d %d', def_ord, layer,"
     " class, skipped), tokens, sum_nnz, max_nnz FROM class_ WHERE run_id ="
     " :run ORDER BY def_ord, layer, class, skipped"},
    {"layer_position_ = the ledger's", NEEDS_NNZ,
     "SELECT printf('definition %d layer %d position %d', def_ord, layer,"
     " position), tokens, sum_nnz, min_nnz, max_nnz FROM layer_position_ WHERE"
     " run_id = :run ORDER BY def_ord, layer, position"},
    {"position_ = the ledger's", NEEDS_NNZ,
     "SELECT printf('definition %d position %d', def_ord, position), tokens,"
     " sum_nnz, min_nnz, max_nnz, max_layer_sum FROM position_ WHERE run_id ="
     " :run ORDER BY def_ord, position"},
    {"layer_token_ = the ledger's", NEEDS_NNZ,
     "SELECT printf('definition %d layer %d token %d', def_ord, layer,"
     " token_id), count, sum_nnz, min_nnz, max_nnz FROM layer_token_ WHERE"
     " run_id = :run ORDER BY def_ord, layer, token_id"},
    {"token_ = the ledger's", NEEDS_NNZ,
     "SELECT printf('definition %d token %d', def_ord, token_id), count,"
     " in_sequences, sum_nnz, count_even, sum_even, min_nnz, max_nnz FROM"
     " token_ WHERE run_id = :run ORDER BY def_ord, token_id"},
    {"neuron_ = the ledger's firings", NEEDS_FIRINGS,
     "SELECT printf('neuron %d:%d', layer, neuron), fired, first_document,"
     " first_row, last_document, last_row, layer, neuron FROM neuron_ WHERE"
     " run_id = :run AND def_ord = 0 ORDER BY layer, neuron"},
};
enum { COMPARISONS = sizeof comparisons / sizeof *comparisons };

struct recount {
    struct twp_fsck *f;
    struct tw_profile *profile;
    struct tw_store *scratch;
    int64_t layers, width, probes, run;
    bool has_loss, has_nnz, has_l1, has_sets, has_watches;
    bool *watched; /* [layers][width] */
};

/* --- The pass over the blocks --- */

static enum tw_status take_block(void *arg, const struct tw_ledger_block *block,
                                 struct tw_error *err)
{
    struct recount *c = arg;
    if (c->has_loss && !block->head->nll)
        return tw_error_set(err, TW_ERR_FORMAT, "a block has no losses");
    c->has_nnz &= block->has_nnz;
    c->has_l1 &= block->has_l1;
    c->has_sets &= block->has_sets;
    for (int64_t i = 0; i < c->layers * c->width; i++) {
        c->watched[i] |= block->watched[i];
        c->has_watches |= block->watched[i];
    }
    return tw_profile_add(c->profile, block->batch, block->obs, block->head,
                          err);
}

static enum tw_status ask_int(struct twp_fsck *f, const char *sql,
                              int64_t *value, struct tw_error *err)
{
    struct tw_query *query;
    bool has_row = false;
    enum tw_status status = twp_fsck_query(f, sql, &query, err);
    if (status == TW_OK)
        status = tw_query_next(query, &has_row, err);
    if (status == TW_OK)
        *value = has_row ? tw_query_int(query, 0) : 0;
    tw_query_close(query);
    return status;
}

/* The shape must be that of the file's rows, so that memory follows its size.
 */
static enum tw_status prepare(struct recount *c, struct tw_error *err)
{
    int64_t tokens = 0, ctx = 0, has_loss = 0, neurons = 0;
    enum tw_status status = twp_fsck_fact(c->f, "layers", &c->layers, err);
    if (status == TW_OK)
        status = twp_fsck_fact(c->f, "d_ff", &c->width, err);
    if (status == TW_OK)
        status = twp_fsck_fact(c->f, "ctx", &ctx, err);
    if (status == TW_OK)
        status = twp_fsck_fact(c->f, "has_loss", &has_loss, err);
    if (status == TW_OK)
        status = ask_int(c->f,
                         "SELECT count(*) FROM definition_ WHERE run_id ="
                         " :run",
                         &c->probes, err);
    if (status == TW_OK)
        status = twp_fsck_fact(c->f, "vocab", &tokens, err);
    if (status == TW_OK)
        status = ask_int(c->f,
                         "SELECT count(*) FROM neuron_ WHERE run_id ="
                         " :run",
                         &neurons, err);
    if (status != TW_OK)
        return status;
    if (tokens < 1 || tokens > MAX_TOKENS || ctx < 1 || c->layers < 1 ||
        c->width < 1 || c->probes < 1 || c->layers > MAX_CELLS / c->width ||
        neurons / c->probes != c->layers * c->width)
        return tw_error_set(err, TW_ERR_FORMAT, "the run has no sound shape");
    c->has_loss = has_loss;
    struct tw_profile_config config = {.layers = (int)c->layers,
                                       .probes = (int)c->probes,
                                       .width = c->width,
                                       .experts = 1,
                                       .vocab = tokens,
                                       .ctx = ctx,
                                       .with_loss = c->has_loss};
    c->watched = tw_calloc((size_t)(c->layers * c->width), 1);
    if (!c->watched)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    return tw_profile_create(&config, &c->profile, err);
}

static enum tw_status count_again(struct recount *c, struct tw_error *err)
{
    enum tw_status status = prepare(c, err);
    c->has_nnz = c->has_l1 = c->has_sets = true;
    if (status == TW_OK)
        status = tw_ledger_replay(c->f->store, c->f->name, take_block, c, err);
    if (status == TW_OK)
        status = tw_store_open(":memory:", TW_STORE_WRITE, &c->scratch, err);
    if (status == TW_OK)
        status = tw_store_begin(c->scratch, err);
    if (status == TW_OK)
        status =
            tw_store_run_create(c->scratch, "ledger", "profile", &c->run, err);
    if (status == TW_OK)
        status = tw_profile_save(c->profile, c->scratch, c->run, err);
    return status == TW_OK ? tw_store_commit(c->scratch, err) : status;
}

/* --- The comparison --- */

struct difference {
    char cell[200], stored[64], expected[64];
    int64_t count;
};

static const char *shown(const struct tw_query *query, int column)
{
    const char *text = tw_query_text(query, column, NULL);
    return text ? text : "NULL";
}

static bool is_wanted(const struct recount *c, const struct comparison *what,
                      const struct tw_query *query)
{
    if (what->needs != NEEDS_FIRINGS || c->has_sets)
        return true;
    int64_t layer = tw_query_int(query, 6), neuron = tw_query_int(query, 7);
    return layer >= 0 && layer < c->layers && neuron >= 0 &&
           neuron < c->width && c->watched[layer * c->width + neuron];
}

static void compare_row(const struct tw_query *a, const struct tw_query *b,
                        struct difference *d)
{
    for (int i = 0; i < tw_query_columns(a); i++) {
        if (strcmp(shown(a, i), shown(b, i)) == 0)
            continue;
        if (d->count++ > 0)
            return;
        if (i == 0)
            snprintf(d->cell, sizeof d->cell, "the next row");
        else
            snprintf(d->cell, sizeof d->cell, "%s %s", shown(a, 0),
                     tw_query_name(a, i));
        snprintf(d->stored, sizeof d->stored, "%s", shown(a, i));
        snprintf(d->expected, sizeof d->expected, "%s", shown(b, i));
        return;
    }
}

/* Both in step; rows of which one side has more than the other differ. */
static enum tw_status compare(struct recount *c, const struct comparison *what,
                              struct difference *d, struct tw_error *err)
{
    struct tw_query *a = NULL, *b = NULL;
    bool has_a = true, has_b = true;
    enum tw_status status = twp_fsck_query(c->f, what->sql, &a, err);
    if (status == TW_OK)
        status = tw_query_open(c->scratch, what->sql, &b, err);
    if (status == TW_OK)
        status = tw_query_bind_int(b, ":run", c->run, err);
    while (status == TW_OK && has_a) {
        status = tw_query_next(a, &has_a, err);
        if (status == TW_OK)
            status = tw_query_next(b, &has_b, err);
        if (status != TW_OK || (!has_a && !has_b))
            break;
        if (has_a && has_b && is_wanted(c, what, a)) {
            compare_row(a, b, d);
        } else if (has_a != has_b) {
            if (d->count++ == 0) {
                snprintf(d->cell, sizeof d->cell, "%s",
                         shown(has_a ? a : b, 0));
                snprintf(d->stored, 64, "%s", has_a ? "a row" : "no row");
                snprintf(d->expected, 64, "%s", has_b ? "a row" : "no row");
            }
            break;
        }
    }
    tw_query_close(a);
    tw_query_close(b);
    return status;
}

/* l1 was rounded to 8 bits in the ledger: within that, and half a unit a row.
 */
static enum tw_status compare_l1(struct recount *c, struct difference *d,
                                 struct tw_error *err)
{
    static const char sql[] =
        "SELECT layer, sum_l1, tokens FROM layer_ WHERE run_id = :run AND"
        " def_ord = 0 ORDER BY layer";
    struct tw_query *a = NULL, *b = NULL;
    bool has_a = true, has_b = true;
    enum tw_status status = twp_fsck_query(c->f, sql, &a, err);
    if (status == TW_OK)
        status = tw_query_open(c->scratch, sql, &b, err);
    if (status == TW_OK)
        status = tw_query_bind_int(b, ":run", c->run, err);
    while (status == TW_OK) {
        status = tw_query_next(a, &has_a, err);
        if (status == TW_OK)
            status = tw_query_next(b, &has_b, err);
        if (status != TW_OK || !has_a || !has_b)
            break;
        double x = tw_query_real(a, 1), y = tw_query_real(b, 1);
        double room = x / 256 + tw_query_real(a, 2);
        if (x - y <= room && y - x <= room)
            continue;
        if (d->count++ > 0)
            continue;
        snprintf(d->cell, sizeof d->cell, "layer %s sum_l1", shown(a, 0));
        snprintf(d->stored, sizeof d->stored, "%s", shown(a, 1));
        snprintf(d->expected, sizeof d->expected, "about %s", shown(b, 1));
    }
    tw_query_close(a);
    tw_query_close(b);
    return status;
}

/* --- What is said --- */

static enum tw_status say(struct twp_fsck *f, const char *name,
                          const struct difference *d, const char *why,
                          struct tw_error *err)
{
    struct tw_fsck_finding finding = {.check = name, .why = why};
    if (why) {
        finding.result = TW_FSCK_NOT_CHECKED;
    } else if (d->count > 0) {
        finding.result = TW_FSCK_VIOLATED;
        finding.cell = d->cell;
        finding.stored = d->stored;
        finding.expected = d->expected;
        finding.violations = d->count;
    }
    return twp_fsck_say(f, finding, err);
}

static const char *lacks(const struct recount *c, enum needs needs)
{
    if (needs == NEEDS_NNZ && !c->has_nnz)
        return "the ledger holds watched neurons alone";
    if (needs == NEEDS_LOSS && !c->has_loss)
        return "no loss was measured";
    if (needs == NEEDS_FIRINGS && !c->has_sets && !c->has_watches)
        return "without --active-sets or --watch";
    return NULL;
}

/* why: nothing could be counted again. */
static enum tw_status say_all(struct recount *c, const char *why,
                              struct tw_error *err)
{
    static const char l1_name[] = "l1 = the ledger's, as rounded";
    enum tw_status status = TW_OK;
    for (int i = 0; i < COMPARISONS && status == TW_OK; i++) {
        struct difference d = {0};
        const char *lack = why ? why : lacks(c, comparisons[i].needs);
        if (!lack)
            status = compare(c, &comparisons[i], &d, err);
        if (status == TW_OK)
            status = say(c->f, comparisons[i].name, &d, lack, err);
    }
    struct difference d = {0};
    const char *lack = why ? why : c->has_l1 ? NULL : "the ledger holds no l1";
    if (status == TW_OK && !lack)
        status = compare_l1(c, &d, err);
    return status == TW_OK ? say(c->f, l1_name, &d, lack, err) : status;
}

static enum tw_status say_decoded(struct recount *c, const char *fault,
                                  struct tw_error *err)
{
    struct tw_fsck_finding finding = {.check = "every BLOB of the ledger"
                                               " decodes"};
    if (fault)
        finding.result = TW_FSCK_VIOLATED;
    finding.cell = fault;
    finding.violations = fault != NULL;
    return twp_fsck_say(c->f, finding, err);
}

enum tw_status twp_fsck_ledger(struct twp_fsck *f, struct tw_error *err)
{
    struct recount c = {.f = f};
    struct tw_error found = {0};
    char *fault = NULL;
    enum tw_status status = count_again(&c, &found);
    if (status != TW_OK)
        status = twp_fsck_judge(status, &found, &fault, err);
    if (status == TW_OK)
        status = say_decoded(&c, fault, err);
    if (status == TW_OK)
        status = say_all(&c, fault ? "the ledger does not decode" : NULL, err);
    tw_store_close(c.scratch);
    tw_profile_destroy(c.profile);
    tw_free(c.watched);
    tw_free(fault);
    return status;
}
