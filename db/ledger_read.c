/* Blocks and columns through a connection. */
#include <config.h>

#include "db/ledger_read.h"

#include <string.h>

#include "base/memory.h"

/* More would only make a stranger's file take for ever. */
enum { MAX_LAYERS = 4096 };

enum tw_status twp_read_failed(sqlite3 *db, struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_DB, "%s", sqlite3_errmsg(db));
}

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

static enum tw_status damaged(struct tw_error *err, int64_t block)
{
    return tw_error_set(err, TW_ERR_FORMAT, "ledger block %lld is damaged",
                        (long long)block);
}

static enum tw_status prepare(sqlite3 *db, const char *sql,
                              sqlite3_stmt **stmt, struct tw_error *err)
{
    return sqlite3_prepare_v2(db, sql, -1, stmt, NULL) == SQLITE_OK
               ? TW_OK
               : twp_read_failed(db, err);
}

/* --- Runs --- */

void twp_ledger_runs_free(struct twp_ledger_run *runs, int count)
{
    for (int i = 0; i < count; i++) {
        for (int d = 0; d < runs[i].actives; d++)
            tw_free(runs[i].active[d]);
        tw_free(runs[i].active);
        tw_free(runs[i].name);
    }
    tw_free(runs);
}

static enum tw_status read_definitions(sqlite3 *db, struct twp_ledger_run *run,
                                       struct tw_error *err)
{
    sqlite3_stmt *stmt = NULL;
    size_t room = 0;
    int code = SQLITE_ERROR;
    enum tw_status status = prepare(
        db, "SELECT active FROM definition_ WHERE run_id = ?1 ORDER BY def_ord",
        &stmt, err);
    if (status != TW_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, run->id);
    while (status == TW_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        if (tw_grow((void **)&run->active, &room, (size_t)run->actives + 1,
                    sizeof *run->active) != 0 ||
            !(run->active[run->actives] = tw_strdup(name ? name : "")))
            status = no_memory(err);
        else
            run->actives++;
    }
    if (status == TW_OK && code != SQLITE_DONE)
        status = twp_read_failed(db, err);
    sqlite3_finalize(stmt);
    return status;
}

static enum tw_status read_run(sqlite3 *db, sqlite3_stmt *stmt,
                               struct twp_ledger_run *run,
                               struct tw_error *err)
{
    const char *name = (const char *)sqlite3_column_text(stmt, 1);
    *run = (struct twp_ledger_run){.id = sqlite3_column_int64(stmt, 0),
                                   .layers = sqlite3_column_int64(stmt, 2),
                                   .width = sqlite3_column_int64(stmt, 3),
                                   .experts = sqlite3_column_int64(stmt, 4),
                                   .ctx = sqlite3_column_int64(stmt, 5),
                                   .name = tw_strdup(name ? name : "")};
    if (!run->name)
        return no_memory(err);
    if (run->layers < 0 || run->layers > MAX_LAYERS || run->width < 1 ||
        run->width > INT32_MAX || run->experts < 0 ||
        run->experts > run->width || run->ctx < 1)
        return tw_error_set(err, TW_ERR_FORMAT, "run '%s' has no shape",
                            run->name);
    return read_definitions(db, run, err);
}

enum tw_status twp_ledger_runs(sqlite3 *db, const char *name,
                               struct twp_ledger_run **runs, int *count,
                               struct tw_error *err)
{
    sqlite3_stmt *stmt = NULL;
    size_t room = 0;
    int code = SQLITE_ERROR;
    *runs = NULL;
    *count = 0;
    enum tw_status status = prepare(
        db,
        "SELECT run_id, run, ifnull(layers, 0), ifnull(d_ff, 0),"
        " ifnull(experts, 0), ifnull(ctx, 0) FROM run_ r"
        " WHERE (?1 IS NULL OR run = ?1) AND EXISTS"
        " (SELECT 1 FROM ledger_block_ b WHERE b.run_id = r.run_id UNION ALL"
        " SELECT 1 FROM example_ e WHERE e.run_id = r.run_id)"
        " ORDER BY run_id",
        &stmt, err);
    if (status != TW_OK)
        return status;
    if (name)
        sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
    while (status == TW_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (tw_grow((void **)runs, &room, (size_t)*count + 1, sizeof **runs) !=
            0)
            status = no_memory(err);
        else
            status = read_run(db, stmt, &(*runs)[(*count)++], err);
    }
    if (status == TW_OK && code != SQLITE_DONE)
        status = twp_read_failed(db, err);
    sqlite3_finalize(stmt);
    return status;
}

enum tw_status twp_ledger_blocks(sqlite3 *db, int64_t run,
                                 struct twp_range sequences,
                                 struct twp_range documents,
                                 sqlite3_stmt **blocks, struct tw_error *err)
{
    /* The sequence wanted first lies in no document before the last block
     * start that it doesn't precede; NULL: the run has not ended, all do. */
    enum tw_status status = prepare(
        db,
        "SELECT block_id FROM ledger_block_ WHERE run_id = ?1"
        " AND document <= ?5 AND last_document >= max(?4, ifnull((SELECT"
        " max(document) FROM ledger_block_ WHERE run_id = ?1"
        " AND before <= ?2), ?4)) AND ifnull(before, ?3) <= ?3"
        " ORDER BY document, start",
        blocks, err);
    if (status != TW_OK)
        return status;
    const int64_t bounds[] = {run, sequences.low, sequences.high,
                              documents.low, documents.high};
    for (int i = 0; i < 5; i++)
        sqlite3_bind_int64(*blocks, i + 1, bounds[i]);
    return TW_OK;
}

/* --- Columns --- */

enum tw_status twp_blob_read(sqlite3 *db, int64_t block, int kind, int def,
                             int layer, struct tw_section *sections, int count,
                             bool *is_there, struct tw_error *err)
{
    sqlite3_stmt *stmt = NULL;
    enum tw_status status = prepare(
        db,
        "SELECT data FROM ledger_ WHERE block_id = ?1 AND kind = ?2"
        " AND def_ord = ?3 AND layer = ?4",
        &stmt, err);
    if (status != TW_OK)
        return status;
    const int64_t key[] = {block, kind, def, layer};
    for (int i = 0; i < 4; i++)
        sqlite3_bind_int64(stmt, i + 1, key[i]);
    int code = sqlite3_step(stmt);
    *is_there = code == SQLITE_ROW;
    if (code == SQLITE_ROW)
        status = tw_ledger_unpack(sqlite3_column_blob(stmt, 0),
                                  (size_t)sqlite3_column_bytes(stmt, 0),
                                  sections, count, err);
    else if (code != SQLITE_DONE)
        status = twp_read_failed(db, err);
    sqlite3_finalize(stmt);
    return status;
}

enum tw_status twp_column_read(sqlite3 *db, int64_t block, int kind, int def,
                               int layer, int bytes, uint32_t rows,
                               struct tw_section *column, struct tw_error *err)
{
    bool is_there = false;
    *column = (struct tw_section){bytes, rows, NULL};
    enum tw_status status = twp_blob_read(db, block, kind, def, layer, column,
                                          1, &is_there, err);
    if (status != TW_OK || !is_there) {
        column->value = NULL;
        return status;
    }
    if (column->count == rows)
        return TW_OK;
    tw_free(column->value);
    column->value = NULL;
    return damaged(err, block);
}

/* --- A block's rows --- */

void twp_rows_fini(struct twp_rows *rows)
{
    tw_free(rows->sequence);
    tw_free(rows->document);
    tw_free(rows->first);
    tw_free(rows->seq);
    tw_free(rows->token.value);
    tw_free(rows->row_class.value);
    tw_free(rows->nll.value);
    *rows = (struct twp_rows){0};
}

/* What ledger_block_ says of the block. */
struct block_row {
    int64_t document, rows, seqs, before;
    bool has_before;
};

static enum tw_status read_block(sqlite3 *db, int64_t block,
                                 struct block_row *row, struct tw_error *err)
{
    sqlite3_stmt *stmt = NULL;
    enum tw_status status = prepare(
        db,
        "SELECT document, rows, sequences, before FROM ledger_block_"
        " WHERE block_id = ?1",
        &stmt, err);
    if (status != TW_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, block);
    if (sqlite3_step(stmt) == SQLITE_ROW)
        *row = (struct block_row){
            sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
            sqlite3_column_int64(stmt, 2), sqlite3_column_int64(stmt, 3),
            sqlite3_column_type(stmt, 3) != SQLITE_NULL};
    else
        status = twp_read_failed(db, err);
    sqlite3_finalize(stmt);
    if (status == TW_OK &&
        (row->rows < 1 || row->rows > TW_LEDGER_LIMIT || row->seqs < 1 ||
         row->seqs > row->rows))
        status = damaged(err, block);
    return status;
}

/* Steps, starts, lengths into documents, windows (in sequence), first rows. */
static enum tw_status take_sequences(struct twp_rows *rows,
                                     const struct block_row *row,
                                     const struct tw_section s[3], int64_t ctx,
                                     struct tw_error *err)
{
    int64_t document = row->document;
    uint64_t at = 0;
    size_t seqs = rows->seqs;
    rows->sequence = tw_alloc(seqs, sizeof *rows->sequence);
    rows->document = tw_alloc(seqs, sizeof *rows->document);
    rows->first = tw_alloc(seqs + 1, sizeof *rows->first);
    rows->seq = tw_alloc(rows->rows, sizeof *rows->seq);
    if (!rows->sequence || !rows->document || !rows->first || !rows->seq)
        return no_memory(err);
    for (uint32_t i = 0; i < rows->seqs; i++) {
        uint64_t length = s[2].value[i];
        if (at + length > rows->rows ||
            __builtin_add_overflow(document, (int64_t)s[0].value[i], &document))
            return damaged(err, rows->block);
        rows->document[i] = document;
        rows->sequence[i] = s[1].value[i] / ctx;
        rows->first[i] = (uint32_t)at;
        for (uint64_t r = 0; r < length; r++)
            rows->seq[at + r] = i;
        at += length;
    }
    rows->first[rows->seqs] = (uint32_t)at;
    return at == rows->rows ? TW_OK : damaged(err, rows->block);
}

/* Sequences before a document of a run that has not ended. */
static int64_t count_before(sqlite3 *db, int64_t run, int64_t document)
{
    sqlite3_stmt *stmt = NULL;
    int64_t before = 0;
    if (sqlite3_prepare_v2(db,
                           "SELECT sum(sequences) FROM document_ WHERE run_id ="
                           " ?1 AND document < ?2",
                           -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(stmt, 1, run);
        sqlite3_bind_int64(stmt, 2, document);
        if (sqlite3_step(stmt) == SQLITE_ROW)
            before = sqlite3_column_int64(stmt, 0);
    }
    sqlite3_finalize(stmt);
    return before;
}

/* Adds to each sequence those of all earlier documents, which may lie between
 * the block's own (parts of a merged run take every n-th). */
static enum tw_status number_sequences(sqlite3 *db, int64_t run,
                                       int64_t before, struct twp_rows *rows,
                                       struct tw_error *err)
{
    sqlite3_stmt *stmt = NULL;
    uint32_t i = 0;
    int code = SQLITE_ROW;
    enum tw_status status = prepare(
        db,
        "SELECT document, sequences FROM document_ WHERE run_id = ?1 AND"
        " document BETWEEN ?2 AND ?3 ORDER BY document",
        &stmt, err);
    if (status != TW_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, run);
    sqlite3_bind_int64(stmt, 2, rows->document[0]);
    sqlite3_bind_int64(stmt, 3, rows->document[rows->seqs - 1]);
    while (i < rows->seqs && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        int64_t document = sqlite3_column_int64(stmt, 0);
        for (; i < rows->seqs && rows->document[i] == document; i++)
            rows->sequence[i] += before;
        before += sqlite3_column_int64(stmt, 1);
    }
    sqlite3_finalize(stmt);
    return i == rows->seqs ? TW_OK : damaged(err, rows->block);
}

static enum tw_status read_sequences(sqlite3 *db,
                                     const struct twp_ledger_run *run,
                                     struct twp_rows *rows,
                                     struct tw_error *err)
{
    struct block_row row = {0};
    bool is_there = false;
    enum tw_status status = read_block(db, rows->block, &row, err);
    if (status != TW_OK)
        return status;
    rows->rows = (uint32_t)row.rows;
    rows->seqs = (uint32_t)row.seqs;
    struct tw_section s[3] = {{4, rows->seqs, NULL},
                              {4, rows->seqs, NULL},
                              {4, rows->seqs, NULL}};
    status = twp_blob_read(db, rows->block, TW_LEDGER_SEQUENCES, 0, -1, s, 3,
                           &is_there, err);
    if (status != TW_OK)
        return status;
    if (!is_there || s[0].count != rows->seqs || s[1].count != rows->seqs ||
        s[2].count != rows->seqs)
        status = damaged(err, rows->block);
    else
        status = take_sequences(rows, &row, s, run->ctx, err);
    for (int i = 0; is_there && i < 3; i++)
        tw_free(s[i].value);
    int64_t before = row.has_before ? row.before
                                    : count_before(db, run->id, row.document);
    return status == TW_OK ? number_sequences(db, run->id, before, rows, err)
                           : status;
}

enum tw_status twp_rows_read(sqlite3 *db, const struct twp_ledger_run *run,
                             int64_t block, bool wants_nll,
                             struct twp_rows *rows, struct tw_error *err)
{
    *rows = (struct twp_rows){.block = block};
    enum tw_status status = read_sequences(db, run, rows, err);
    if (status == TW_OK)
        status = twp_column_read(db, block, TW_LEDGER_TOKENS, 0, -1, 4,
                                 rows->rows, &rows->token, err);
    if (status == TW_OK)
        status = twp_column_read(db, block, TW_LEDGER_CLASSES, 0, -1, 1,
                                 rows->rows, &rows->row_class, err);
    if (status == TW_OK && wants_nll)
        status = twp_column_read(db, block, TW_LEDGER_NLL, 0, -1, 4,
                                 rows->rows, &rows->nll, err);
    if (status == TW_OK && (!rows->token.value || !rows->row_class.value))
        status = damaged(err, block);
    if (status != TW_OK)
        twp_rows_fini(rows);
    return status;
}

/* --- Active sets --- */

void twp_sets_fini(struct twp_sets *sets)
{
    tw_free(sets->start);
    tw_free(sets->neuron);
    tw_free(sets->value);
    *sets = (struct twp_sets){0};
}

/* In place: steps become neurons; nnz becomes starts. */
static bool decode_sets(const struct tw_section *order,
                        const struct tw_section *nnz, struct tw_section *set,
                        uint32_t *start)
{
    uint64_t at = 0;
    for (uint32_t r = 0; r < nnz->count; r++) {
        uint64_t rank = 0, end = at + nnz->value[r];
        start[r] = (uint32_t)at;
        if (end > set->count)
            return false;
        for (; at < end; at++) {
            rank += set->value[at];
            if (rank >= order->count || order->value[rank] >= order->count)
                return false;
            set->value[at] = order->value[rank++];
        }
    }
    start[nnz->count] = (uint32_t)at;
    return at == set->count;
}

enum tw_status twp_sets_read(sqlite3 *db, const struct twp_ledger_run *run,
                             int64_t block, int layer, uint32_t rows,
                             struct twp_sets *sets, struct tw_error *err)
{
    struct tw_section nnz = {0}, value = {0};
    struct tw_section s[2] = {{4, (uint32_t)run->width, NULL},
                              {4, TW_LEDGER_LIMIT, NULL}};
    bool is_there = false;
    *sets = (struct twp_sets){0};
    enum tw_status status = twp_blob_read(db, block, TW_LEDGER_SET, 0, layer, s,
                                          2, &is_there, err);
    if (status != TW_OK || !is_there)
        return status;
    status = twp_column_read(db, block, TW_LEDGER_NNZ, 0, layer, 4, rows, &nnz,
                             err);
    if (status == TW_OK)
        status = twp_column_read(db, block, TW_LEDGER_VALUES, 0, layer, 2,
                                 s[1].count, &value, err);
    uint32_t *start = tw_alloc((size_t)rows + 1, sizeof *start);
    if (status == TW_OK && !start)
        status = no_memory(err);
    if (status == TW_OK &&
        (!nnz.value || !value.value || !decode_sets(&s[0], &nnz, &s[1], start)))
        status = damaged(err, block);
    tw_free(s[0].value);
    tw_free(nnz.value);
    *sets = (struct twp_sets){start, s[1].value, value.value};
    if (status != TW_OK)
        twp_sets_fini(sets);
    return status;
}
