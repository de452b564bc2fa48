/* The rows that hold text or reals: definitions, tags, corpora, token pieces,
 * parity, timings, training. */
#include <config.h>

#include "db/store.h"

#include "db/store_internal.h"

enum tw_status tw_store_put_definition(struct tw_store *store, int64_t run,
                                       int64_t def_ord, const char *active,
                                       struct tw_error *err)
{
    return twp_run(store, err,
                   "INSERT OR REPLACE INTO definition_ VALUES (?1, ?2, ?3)",
                   "iit", run, def_ord, active);
}

enum tw_status tw_store_put_tag(struct tw_store *store, int64_t run,
                                const char *key, const char *value,
                                struct tw_error *err)
{
    if (!value)
        return twp_run(store, err,
                       "DELETE FROM run_tag_ WHERE run_id = ?1 AND key = ?2",
                       "it", run, key);
    return twp_run(store, err,
                   "INSERT OR REPLACE INTO run_tag_ VALUES (?1, ?2, ?3)",
                   "itt", run, key, value);
}

enum tw_status tw_store_put_corpus(struct tw_store *store, int64_t run,
                                   const struct tw_store_corpus *c,
                                   struct tw_error *err)
{
    return twp_run(store, err,
                   "INSERT OR REPLACE INTO corpus_(run_id, ord, file, sha256,"
                   " documents, tokens, bytes)"
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                   "iittiii", run, c->ord, c->file, c->sha256, c->documents,
                   c->tokens, c->bytes);
}

static enum tw_status find_tokenizer(struct tw_store *store, const char *hash,
                                     int64_t *tokenizer, struct tw_error *err)
{
    sqlite3_stmt *stmt;
    enum tw_status status = twp_prepare(
        store, &stmt, err,
        "SELECT tokenizer_id FROM tokenizer_ WHERE hash = ?1", "t", hash);
    if (status != TW_OK)
        return status;
    int code = sqlite3_step(stmt);
    *tokenizer = code == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : TW_NULL;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        status = twp_fail(store->db, store->path, code, err);
    sqlite3_finalize(stmt);
    return status;
}

enum tw_status tw_store_tokenizer(struct tw_store *store, int64_t run,
                                  const char *hash, int64_t *tokenizer,
                                  bool *is_new, struct tw_error *err)
{
    int64_t id = TW_NULL;
    enum tw_status status = find_tokenizer(store, hash, &id, err);
    bool is_made = status == TW_OK && id == TW_NULL;
    if (is_made) {
        status = twp_run(store, err,
                         "INSERT INTO tokenizer_(hash) VALUES (?1)", "t", hash);
        id = sqlite3_last_insert_rowid(store->db);
    }
    if (status == TW_OK)
        status = tw_store_set_int(store, run, "tokenizer_id", id, err);
    if (status == TW_OK)
        status = tw_store_set_text(store, run, "tokenizer_hash", hash, err);
    if (status != TW_OK)
        return status;
    *tokenizer = id;
    *is_new = is_made;
    return TW_OK;
}

enum tw_status tw_store_put_piece(struct tw_store *store, int64_t tokenizer,
                                  int64_t token_id, const char *token,
                                  const void *bytes, size_t size,
                                  bool is_special, struct tw_error *err)
{
    return twp_run_cached(store, &store->put_piece, err,
                          "INSERT OR REPLACE INTO piece_(tokenizer_id,"
                          " token_id, token, bytes, special)"
                          " VALUES (?1, ?2, ?3, ?4, ?5)",
                          "iitbi", tokenizer, token_id, token, bytes,
                          (int64_t)size, (int64_t)is_special);
}

enum tw_status tw_store_put_parity(struct tw_store *store, int64_t run,
                                   const struct tw_store_parity *p,
                                   struct tw_error *err)
{
    return twp_run(
        store, err,
        "INSERT OR REPLACE INTO parity_(run_id, ord, layer, cells, identical,"
        " max_difference, total_difference, fired_cells, fired_identical,"
        " fired_max_difference, l1_max_relative, nll_max_difference,"
        " mean_nll_difference, logits_max_difference)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        "iiiiiiriiirrrr", run, p->ord, p->layer, p->cells, p->identical,
        p->max_difference, p->total_difference, p->fired_cells,
        p->fired_identical, p->fired_max_difference, p->l1_max_relative,
        p->nll_max_difference, p->mean_nll_difference,
        p->logits_max_difference);
}

enum tw_status tw_store_put_bench(struct tw_store *store, int64_t run,
                                  const struct tw_store_bench *b,
                                  struct tw_error *err)
{
    return twp_run(
        store, err,
        "INSERT INTO bench_(run_id, ord, target, name, path, m, k, n, dtype,"
        " nnz_mean, nnz_max, data, repetitions, ns_median, ns_min, ns_mad,"
        " tokens_per_ms, mj_per_token, energy_method, idle_watt, peak_bytes,"
        " rel_error) VALUES (?1,"
        " (SELECT coalesce(max(ord) + 1, 0) FROM bench_ WHERE run_id = ?1),"
        " ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,"
        " ?17, ?18, ?19, ?20, ?21)",
        "itttiiitritiiiirrtrir", run, b->target, b->name, b->path, b->m, b->k,
        b->n, b->dtype, b->nnz_mean, b->nnz_max, b->data, b->repetitions,
        b->ns_median, b->ns_min, b->ns_mad, b->tokens_per_ms, b->mj_per_token,
        b->energy_method, b->idle_watt, b->peak_bytes, b->rel_error);
}

enum tw_status tw_store_put_timing(struct tw_store *store, int64_t run,
                                   const struct tw_store_timing *t,
                                   struct tw_error *err)
{
    return twp_run(store, err,
                   "INSERT OR REPLACE INTO layer_timing_(run_id, layer, path,"
                   " tokens, ns_median, ns_min, ns_mad, repetitions)"
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                   "iitiiiii", run, t->layer, t->path, t->tokens, t->ns_median,
                   t->ns_min, t->ns_mad, t->repetitions);
}

enum tw_status tw_store_put_step(struct tw_store *store, int64_t run,
                                 const struct tw_store_step *s,
                                 struct tw_error *err)
{
    return twp_run_cached(
        store, &store->put_step, err,
        "INSERT INTO training_step_(run_id, step, tokens, ce, loss, l1,"
        " l1_coefficient, lr, grad_norm, mean_nnz, alive, dense_rows, step_ns,"
        " tokens_per_ms, peak_bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,"
        " ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        "iiirrrrrrrriiri", run, s->step, s->tokens, s->ce, s->loss, s->l1,
        s->l1_coefficient, s->lr, s->grad_norm, s->mean_nnz, s->alive,
        s->dense_rows, s->step_ns, s->tokens_per_ms, s->peak_bytes);
}

enum tw_status tw_store_put_step_layer(struct tw_store *store, int64_t run,
                                       const struct tw_store_step_layer *s,
                                       struct tw_error *err)
{
    return twp_run_cached(
        store, &store->put_step_layer, err,
        "INSERT INTO training_layer_(run_id, step, layer, mean_nnz, max_nnz,"
        " alive, dense_rows, path) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        "iiiririt", run, s->step, s->layer, s->mean_nnz, s->max_nnz, s->alive,
        s->dense_rows, s->path);
}
