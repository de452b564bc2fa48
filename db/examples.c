/* Each neuron has room for k contexts, the strongest first. */
#include <config.h>

#include "db/examples.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "db/ledger_format.h"
#include "db/store_internal.h"

struct context {
    float value;
    uint32_t row; /* of its document */
    int64_t document;
};

struct tw_examples {
    int64_t layers, width;
    int k;
    struct tw_threads *pool;
    struct context *context; /* [layers][width][k] */
    uint16_t *count;         /* [layers][width] */
};

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory for examples");
}

enum tw_status tw_examples_create(int64_t layers, int64_t width, int k,
                                  struct tw_threads *pool,
                                  struct tw_examples **out,
                                  struct tw_error *err)
{
    struct tw_examples *e = tw_calloc(1, sizeof *e);
    if (!e)
        return no_memory(err);
    *e = (struct tw_examples){
        .layers = layers, .width = width, .k = k, .pool = pool};
    /* layers * width fits: the counters of a profile are larger. */
    e->context =
        tw_calloc((size_t)(layers * width), (size_t)k * sizeof *e->context);
    e->count = tw_calloc((size_t)(layers * width), sizeof *e->count);
    if (!e->context || !e->count) {
        tw_examples_destroy(e);
        return no_memory(err);
    }
    *out = e;
    return TW_OK;
}

void tw_examples_destroy(struct tw_examples *e)
{
    if (!e)
        return;
    tw_free(e->context);
    tw_free(e->count);
    tw_free(e);
}

static bool is_before(const struct context *a, const struct context *b)
{
    float x = fabsf(a->value), y = fabsf(b->value);
    if (x != y)
        return x > y;
    if (a->document != b->document)
        return a->document < b->document;
    return a->row < b->row;
}

/* n: layer * width + neuron. Most firings are weaker than the k kept. */
static void insert(struct tw_examples *e, int64_t n, struct context c)
{
    struct context *list = e->context + n * e->k;
    int at = e->count[n];
    if (at == e->k) {
        if (!is_before(&c, &list[at - 1]))
            return;
        at--;
    } else {
        e->count[n]++;
    }
    for (; at > 0 && is_before(&c, &list[at - 1]); at--)
        list[at] = list[at - 1];
    list[at] = c;
}

struct work {
    struct tw_examples *examples;
    const struct tw_batch *batch;
    const struct tw_layer_obs *obs;
};

static void add_layer(void *arg, int worker, int64_t layer)
{
    struct work *w = arg;
    const struct tw_batch *batch = w->batch;
    const struct tw_layer_obs *obs = &w->obs[layer];
    (void)worker;
    for (int64_t s = 0; s < batch->seqs; s++)
        for (int64_t r = batch->offset[s]; r < batch->offset[s + 1]; r++) {
            int64_t row = batch->start[s] + r - batch->offset[s];
            if (batch->row_class[r] & TW_ROW_SKIPPED)
                continue;
            for (int64_t i = obs->set_start[r]; i < obs->set_start[r + 1]; i++)
                insert(w->examples, layer * w->examples->width + obs->set[i],
                       (struct context){obs->set_value[i], (uint32_t)row,
                                        batch->document[s]});
        }
}

enum tw_status tw_examples_add(struct tw_examples *e,
                               const struct tw_batch *batch,
                               const struct tw_layer_obs *obs,
                               struct tw_error *err)
{
    struct work work = {e, batch, obs};
    for (int64_t l = 0; l < e->layers; l++)
        if (!obs[l].set_start)
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "the backend gave no active sets");
    for (int64_t s = 0; s < batch->seqs; s++)
        if (batch->document[s] > UINT32_MAX ||
            batch->start[s] + batch->offset[s + 1] - batch->offset[s] >
                UINT32_MAX)
            return tw_error_set(err, TW_ERR_UNSUPPORTED,
                                "--examples: document %lld is beyond 32 bits",
                                (long long)batch->document[s]);
    if (e->pool)
        tw_threads_run(e->pool, add_layer, &work, e->layers);
    else
        for (int64_t l = 0; l < e->layers; l++)
            add_layer(&work, 0, l);
    return TW_OK;
}

/* --- Into the database and back --- */

enum { COUNTS, VALUES, DOCUMENTS, ROWS, SECTIONS };

static void fill(const struct tw_examples *e, int64_t layer,
                 struct tw_section s[SECTIONS])
{
    size_t at = 0;
    for (int64_t n = 0; n < e->width; n++) {
        const struct context *list = e->context + (layer * e->width + n) * e->k;
        int count = e->count[layer * e->width + n];
        s[COUNTS].value[n] = (uint32_t)count;
        for (int i = 0; i < count; i++, at++) {
            memcpy(&s[VALUES].value[at], &list[i].value, sizeof(uint32_t));
            s[DOCUMENTS].value[at] = (uint32_t)list[i].document;
            s[ROWS].value[at] = list[i].row;
        }
    }
}

static enum tw_status save_layer(const struct tw_examples *e, int64_t layer,
                                 struct tw_store *store, int64_t run,
                                 struct tw_error *err)
{
    unsigned char *blob = NULL;
    size_t size = 0, total = 0;
    bool is_short = false;
    for (int64_t n = 0; n < e->width; n++)
        total += e->count[layer * e->width + n];
    struct tw_section s[SECTIONS] = {{2, (uint32_t)e->width, NULL},
                                     {4, (uint32_t)total, NULL},
                                     {4, (uint32_t)total, NULL},
                                     {4, (uint32_t)total, NULL}};
    for (int i = 0; i < SECTIONS; i++) {
        s[i].value = tw_alloc((size_t)s[i].count + 1, sizeof *s[i].value);
        is_short |= !s[i].value;
    }
    enum tw_status status = is_short ? no_memory(err) : TW_OK;
    if (status == TW_OK) {
        fill(e, layer, s);
        status = tw_ledger_pack(s, SECTIONS, &blob, &size, err);
    }
    if (status == TW_OK)
        status = twp_run(store, err,
                         "INSERT OR REPLACE INTO example_(run_id, layer, data)"
                         " VALUES (?1, ?2, ?3)",
                         "iib", run, layer, blob, (int64_t)size);
    for (int i = 0; i < SECTIONS; i++)
        tw_free(s[i].value);
    tw_free(blob);
    return status;
}

enum tw_status tw_examples_save(const struct tw_examples *e,
                                struct tw_store *store, int64_t run,
                                struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (int64_t l = 0; l < e->layers && status == TW_OK; l++)
        status = save_layer(e, l, store, run, err);
    return status;
}

static enum tw_status take_layer(struct tw_examples *e, int64_t layer,
                                 const struct tw_section s[SECTIONS],
                                 struct tw_error *err)
{
    uint64_t at = 0;
    bool is_sound = layer >= 0 && layer < e->layers &&
                    s[COUNTS].count == e->width &&
                    s[DOCUMENTS].count == s[VALUES].count &&
                    s[ROWS].count == s[VALUES].count;
    for (int64_t n = 0; is_sound && n < e->width; n++) {
        uint32_t count = s[COUNTS].value[n];
        is_sound = count <= s[VALUES].count - at;
        for (uint32_t i = 0; is_sound && i < count; i++, at++) {
            struct context c = {0, s[ROWS].value[at], s[DOCUMENTS].value[at]};
            memcpy(&c.value, &s[VALUES].value[at], sizeof c.value);
            is_sound = isfinite(c.value);
            if (is_sound)
                insert(e, layer * e->width + n, c);
        }
    }
    return is_sound && at == s[VALUES].count
               ? TW_OK
               : tw_error_set(err, TW_ERR_FORMAT,
                              "the examples of layer %lld are damaged",
                              (long long)layer);
}

enum tw_status tw_examples_restore(struct tw_examples *e,
                                   struct tw_store *store, int64_t run,
                                   struct tw_error *err)
{
    sqlite3_stmt *stmt;
    int code = SQLITE_DONE;
    enum tw_status status = twp_prepare(
        store, &stmt, err, "SELECT layer, data FROM example_ WHERE run_id = ?1",
        "i", run);
    if (status != TW_OK)
        return status;
    while (status == TW_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct tw_section s[SECTIONS] = {{2, (uint32_t)e->width, NULL},
                                         {4, TW_LEDGER_LIMIT, NULL},
                                         {4, TW_LEDGER_LIMIT, NULL},
                                         {4, TW_LEDGER_LIMIT, NULL}};
        status = tw_ledger_unpack(sqlite3_column_blob(stmt, 1),
                                  (size_t)sqlite3_column_bytes(stmt, 1), s,
                                  SECTIONS, err);
        if (status != TW_OK)
            break;
        status = take_layer(e, sqlite3_column_int64(stmt, 0), s, err);
        for (int i = 0; i < SECTIONS; i++)
            tw_free(s[i].value);
    }
    if (status == TW_OK && code != SQLITE_DONE)
        status = twp_fail(store->db, store->path, code, err);
    sqlite3_finalize(stmt);
    return status;
}
