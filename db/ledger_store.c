/* Blocks into the database and back. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "db/ledger_internal.h"
#include "db/store_internal.h"

static enum tw_status put_block(struct tw_store *store, int64_t run,
                                const struct twp_block *block, int64_t *id,
                                struct tw_error *err)
{
    enum tw_status status =
        twp_run(store, err,
                "INSERT INTO ledger_block_(run_id, document, start,"
                " last_document, last_start, rows, sequences)"
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                "iiiiiii", run, block->document, block->start,
                block->last_document, block->last_start, block->rows,
                block->seqs);
    *id = sqlite3_last_insert_rowid(store->db);
    for (int i = 0; i < block->blobs && status == TW_OK; i++) {
        const struct twp_blob *blob = &block->blob[i];
        status = twp_run_cached(store, &store->put_blob, err,
                                "INSERT INTO ledger_(block_id, kind, def_ord,"
                                " layer, data) VALUES (?1, ?2, ?3, ?4, ?5)",
                                "iiiib", *id, (int64_t)blob->kind,
                                (int64_t)blob->def, (int64_t)blob->layer,
                                blob->data, (int64_t)blob->size);
    }
    return status;
}

static enum tw_status delete_block(struct tw_store *store, int64_t id,
                                   struct tw_error *err)
{
    enum tw_status status = twp_run(
        store, err, "DELETE FROM ledger_ WHERE block_id = ?1", "i", id);
    if (status == TW_OK)
        status = twp_run(store, err,
                         "DELETE FROM ledger_block_ WHERE block_id = ?1", "i",
                         id);
    return status;
}

enum tw_status tw_ledger_save(struct tw_ledger *ledger, struct tw_store *store,
                              int64_t run, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    int64_t id;
    ledger->next_open_id = 0;
    if (ledger->open_id)
        status = delete_block(store, ledger->open_id, err);
    for (size_t i = 0; i < ledger->pendings && status == TW_OK; i++)
        status = put_block(store, run, &ledger->pending[i], &id, err);
    if (status == TW_OK && ledger->at.seqs > 0) {
        struct twp_block open = ledger->at;
        status = twp_block_pack(ledger, &open, err);
        if (status == TW_OK)
            status = put_block(store, run, &open, &ledger->next_open_id, err);
        twp_block_fini(&open);
    }
    return status;
}

void tw_ledger_saved(struct tw_ledger *ledger)
{
    for (size_t i = 0; i < ledger->pendings; i++)
        twp_block_fini(&ledger->pending[i]);
    ledger->pendings = 0;
    ledger->pending_bytes = 0;
    ledger->open_id = ledger->next_open_id;
}

/* --- The way back --- */

/* The last block's row, if it is open; *id 0: there is none. */
static enum tw_status find_open(struct tw_store *store, int64_t run,
                                int64_t block_rows, struct twp_block *at,
                                int64_t *id, struct tw_error *err)
{
    sqlite3_stmt *stmt;
    enum tw_status status = twp_prepare(
        store, &stmt, err,
        "SELECT block_id, document, start, last_document, last_start, rows,"
        " sequences FROM ledger_block_ WHERE run_id = ?1"
        " ORDER BY document DESC, start DESC LIMIT 1",
        "i", run);
    if (status != TW_OK)
        return status;
    int code = sqlite3_step(stmt);
    *id = 0;
    if (code == SQLITE_ROW && sqlite3_column_int64(stmt, 5) < block_rows) {
        *id = sqlite3_column_int64(stmt, 0);
        *at = (struct twp_block){.document = sqlite3_column_int64(stmt, 1),
                                 .start = sqlite3_column_int64(stmt, 2),
                                 .last_document = sqlite3_column_int64(stmt, 3),
                                 .last_start = sqlite3_column_int64(stmt, 4),
                                 .rows = sqlite3_column_int64(stmt, 5),
                                 .seqs = sqlite3_column_int64(stmt, 6)};
    } else if (code != SQLITE_ROW && code != SQLITE_DONE) {
        status = twp_fail(store->db, store->path, code, err);
    }
    sqlite3_finalize(stmt);
    return status;
}

/* One BLOB of a block; limits in sections. */
static enum tw_status get_blob(struct tw_store *store, int64_t id, int kind,
                               int def, int layer, struct tw_section *sections,
                               int count, struct tw_error *err)
{
    sqlite3_stmt *stmt;
    enum tw_status status =
        twp_prepare(store, &stmt, err,
                    "SELECT data FROM ledger_ WHERE block_id = ?1 AND kind = ?2"
                    " AND def_ord = ?3 AND layer = ?4",
                    "iiii", id, (int64_t)kind, (int64_t)def, (int64_t)layer);
    if (status != TW_OK)
        return status;
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW)
        status = tw_ledger_unpack(sqlite3_column_blob(stmt, 0),
                                  (size_t)sqlite3_column_bytes(stmt, 0),
                                  sections, count, err);
    else if (code == SQLITE_DONE)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "%s: the ledger lacks a BLOB of kind %d",
                              store->path, kind);
    else
        status = twp_fail(store->db, store->path, code, err);
    sqlite3_finalize(stmt);
    return status;
}

static enum tw_status get_list(struct tw_store *store, int64_t id, int kind,
                               int def, int layer, int bytes, int64_t count,
                               struct twp_list *list, struct tw_error *err)
{
    struct tw_section one = {bytes, (uint32_t)count, NULL};
    enum tw_status status =
        get_blob(store, id, kind, def, layer, &one, 1, err);
    if (status != TW_OK)
        return status;
    if (one.count != count) {
        tw_free(one.value);
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: a ledger BLOB of kind %d has %u of %lld rows",
                            store->path, kind, one.count, (long long)count);
    }
    *list = (struct twp_list){one.value, one.count, one.count + 1};
    return TW_OK;
}

static enum tw_status get_sequences(struct tw_ledger *ledger,
                                    struct tw_store *store, int64_t id,
                                    struct tw_error *err)
{
    uint32_t n = (uint32_t)ledger->at.seqs;
    struct tw_section s[] = {{4, n, NULL}, {4, n, NULL}, {4, n, NULL}};
    struct twp_list *lists[] = {&ledger->step, &ledger->start, &ledger->length};
    enum tw_status status =
        get_blob(store, id, TW_LEDGER_SEQUENCES, 0, -1, s, 3, err);
    for (int i = 0; i < 3 && status == TW_OK; i++)
        *lists[i] = (struct twp_list){s[i].value, s[i].count, s[i].count + 1};
    return status;
}

/* Steps between ranks back to neurons, each row's ascending again. */
static enum tw_status unrank(struct twp_ledger_layer *layer,
                             const struct tw_section *order,
                             struct tw_error *err)
{
    size_t at = 0, total = layer->set.count, width = order->count;
    uint32_t *value = tw_calloc(width + 1, sizeof *value);
    uint8_t *is_on = tw_calloc(width + 1, 1);
    bool is_sound = value && is_on;
    for (size_t r = 0; r < layer->nnz[0].count && is_sound; r++) {
        uint64_t rank = 0;
        uint32_t count = layer->nnz[0].value[r];
        is_sound = count <= width && at + count <= total;
        for (uint32_t i = 0; i < count && is_sound; i++) {
            rank += layer->set.value[at + i];
            is_sound = rank < width && order->value[rank] < width;
            if (is_sound) {
                is_on[order->value[rank]] = 1;
                value[order->value[rank]] = layer->set_value.value[at + i];
            }
            rank++;
        }
        for (uint32_t n = 0; n < width && is_sound; n++)
            if (is_on[n]) {
                is_on[n] = 0;
                layer->set.value[at] = n;
                layer->set_value.value[at++] = value[n];
            }
    }
    is_sound = is_sound && at == total;
    tw_free(value);
    tw_free(is_on);
    return is_sound ? TW_OK
                    : tw_error_set(err, TW_ERR_FORMAT,
                                   "an active set of the ledger is damaged");
}

static enum tw_status get_sets(struct tw_ledger *ledger, struct tw_store *store,
                               int64_t id, int number, struct tw_error *err)
{
    struct twp_ledger_layer *layer = &ledger->layer[number];
    struct tw_section s[] = {{4, (uint32_t)ledger->config.width, NULL},
                             {4, TW_LEDGER_LIMIT, NULL}};
    enum tw_status status =
        get_blob(store, id, TW_LEDGER_SET, 0, number, s, 2, err);
    if (status != TW_OK)
        return status;
    layer->set = (struct twp_list){s[1].value, s[1].count, s[1].count + 1};
    status = get_list(store, id, TW_LEDGER_VALUES, 0, number, 2, s[1].count,
                      &layer->set_value, err);
    if (status == TW_OK)
        status = unrank(layer, &s[0], err);
    tw_free(s[0].value);
    return status;
}

static enum tw_status get_watch(struct tw_ledger *ledger,
                                struct tw_store *store, int64_t id, int number,
                                struct tw_error *err)
{
    struct twp_ledger_layer *layer = &ledger->layer[number];
    int first, end = twp_watches_of(&ledger->config, number, &first);
    uint32_t n = (uint32_t)(end - first);
    struct tw_section s[] = {{4, n, NULL}, {4, n, NULL},
                             {4, TW_LEDGER_LIMIT, NULL},
                             {4, TW_LEDGER_LIMIT, NULL}};
    if (n == 0)
        return TW_OK;
    enum tw_status status =
        get_blob(store, id, TW_LEDGER_WATCH, 0, number, s, 4, err);
    if (status != TW_OK)
        return status;
    size_t at = 0;
    bool is_sound = s[0].count == n && s[1].count == n &&
                    s[2].count == s[3].count;
    uint32_t *of = twp_list_extend(&layer->watch_of, s[2].count);
    for (uint32_t w = 0; w < n && is_sound && of; w++) {
        uint32_t row = 0;
        is_sound = s[1].value[w] <= s[2].count - at;
        for (uint32_t i = 0; is_sound && i < s[1].value[w]; i++, at++) {
            of[at] = (uint32_t)first + w;
            row += s[2].value[at];
            s[2].value[at] = row++;
        }
    }
    layer->watch_row =
        (struct twp_list){s[2].value, s[2].count, s[2].count + 1};
    layer->watch_value =
        (struct twp_list){s[3].value, s[3].count, s[3].count + 1};
    tw_free(s[0].value);
    tw_free(s[1].value);
    if (!of)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    return is_sound && at == s[2].count
               ? TW_OK
               : tw_error_set(err, TW_ERR_FORMAT,
                              "a watch of the ledger is damaged");
}

static enum tw_status get_layer(struct tw_ledger *ledger,
                                struct tw_store *store, int64_t id, int number,
                                struct tw_error *err)
{
    const struct tw_ledger_config *c = &ledger->config;
    struct twp_ledger_layer *layer = &ledger->layer[number];
    int64_t rows = ledger->at.rows;
    enum tw_status status = TW_OK;
    for (int p = 0; c->has_rows && p < c->probes && status == TW_OK; p++)
        status = get_list(store, id, TW_LEDGER_NNZ, p, number, 4, rows,
                          &layer->nnz[p], err);
    if (status == TW_OK && c->has_rows && c->has_l1)
        status = get_list(store, id, TW_LEDGER_L1, 0, number, 2, rows,
                          &layer->l1, err);
    if (status == TW_OK && c->has_sets)
        status = get_sets(ledger, store, id, number, err);
    if (status == TW_OK && c->watches > 0)
        status = get_watch(ledger, store, id, number, err);
    return status;
}

enum tw_status tw_ledger_restore(struct tw_ledger *ledger,
                                 struct tw_store *store, int64_t run,
                                 struct tw_error *err)
{
    int64_t id = 0;
    enum tw_status status = find_open(store, run, ledger->config.block_rows,
                                      &ledger->at, &id, err);
    if (status != TW_OK || !id)
        return status;
    int64_t rows = ledger->at.rows;
    if (rows < 0 || ledger->at.seqs < 0 || ledger->at.seqs > rows)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: a ledger block is damaged",
                            store->path);
    status = get_sequences(ledger, store, id, err);
    if (status == TW_OK)
        status = get_list(store, id, TW_LEDGER_TOKENS, 0, -1, 4, rows,
                          &ledger->token, err);
    if (status == TW_OK)
        status = get_list(store, id, TW_LEDGER_CLASSES, 0, -1, 1, rows,
                          &ledger->row_class, err);
    if (status == TW_OK && ledger->config.has_loss)
        status = get_list(store, id, TW_LEDGER_NLL, 0, -1, 4, rows,
                          &ledger->nll, err);
    for (int l = 0; l < ledger->config.layers && status == TW_OK; l++)
        status = get_layer(ledger, store, id, l, err);
    ledger->open_id = id;
    return status;
}

/* --- The end --- */

enum tw_status tw_ledger_number(struct tw_store *store, int64_t run,
                                struct tw_error *err)
{
    /* One pass over the documents: a running sum, looked up by the blocks. */
    return twp_run(store, err,
                   "UPDATE ledger_block_ SET before = counted.before FROM"
                   " (SELECT document, sum(sequences) OVER (ORDER BY document)"
                   " - sequences AS before FROM document_ WHERE run_id = ?1)"
                   " AS counted WHERE run_id = ?1"
                   " AND counted.document = ledger_block_.document",
                   "i", run);
}

enum tw_status tw_ledger_copy(struct tw_store *to, int64_t to_run,
                              struct tw_store *from, int64_t run,
                              struct tw_error *err)
{
    sqlite3_stmt *read;
    enum tw_status status =
        twp_prepare(from, &read, err,
                    "SELECT block_id, document, start, last_document,"
                    " last_start, rows, sequences FROM ledger_block_"
                    " WHERE run_id = ?1 ORDER BY document, start",
                    "i", run);
    if (status != TW_OK)
        return status;
    int code = SQLITE_DONE;
    while (status == TW_OK && (code = sqlite3_step(read)) == SQLITE_ROW) {
        int64_t id;
        struct twp_block block = {.document = sqlite3_column_int64(read, 1),
                                  .start = sqlite3_column_int64(read, 2),
                                  .last_document =
                                      sqlite3_column_int64(read, 3),
                                  .last_start = sqlite3_column_int64(read, 4),
                                  .rows = sqlite3_column_int64(read, 5),
                                  .seqs = sqlite3_column_int64(read, 6)};
        status = put_block(to, to_run, &block, &id, err);
        if (status == TW_OK)
            status = twp_copy_rows(to, id, from, sqlite3_column_int64(read, 0),
                                   "ledger_", "block_id",
                                   ", kind, def_ord, layer, data",
                                   ", ?2, ?3, ?4, ?5", err);
    }
    if (status == TW_OK && code != SQLITE_DONE)
        status = twp_fail(from->db, from->path, code, err);
    sqlite3_finalize(read);
    return status;
}
