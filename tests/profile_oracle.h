/* The second opinion on a profile's rows: single cells in temporary tables, and
 * for each stored table the SELECT that counts the same from them. */
#ifndef TESTS_PROFILE_ORACLE_H
#define TESTS_PROFILE_ORACLE_H

#include "base/strbuf.h"
#include "db/query.h"
#include "profile_corpus.h"

/* One row an active neuron. */
static inline void put_firings(struct tw_strbuf *text, const struct corpus *c,
                               int layer, int def, int seq, int row)
{
    for (int n = 0; n < WIDTH; n++)
        if (c->active[layer][def][row] >> n & 1)
            tw_strbuf_printf(text,
                             "INSERT INTO firing VALUES(%d,%d,%d,%lld,%lld,"
                             "%d,%lld);",
                             def, layer, n, (long long)c->document[seq],
                             (long long)c->start[seq] + row - c->begin[seq],
                             row, (long long)abs_units(layer, row, n));
}

/* One row a definition, layer and row; the corpus is in order, so the clock is
 * the row's number. */
static inline void put_cell(struct tw_strbuf *text, const struct corpus *c,
                            int layer, int def, int seq, int row)
{
    int class = c->row_class[row], position = row - c->begin[seq];
    char nll[32] = "NULL";
    if (!isnan(c->nll[row]))
        snprintf(nll, sizeof nll, "%lld",
                 llrint((double)c->nll[row] * TW_NLL_SCALE));
    tw_strbuf_printf(text,
                     "INSERT INTO cell VALUES(%d,%d,%lld,%d,%d,%d,%lld,%d,%d,"
                     "%d,%s,%lld,%d);",
                     def, layer, (long long)c->document[seq], row, position,
                     seq, (long long)c->start[seq] / CTX, (int)c->token[row],
                     class & TW_ROW_CLASS_MASK, class >> 7, nll,
                     llrint((double)c->l1[layer][row] * TW_L1_SCALE),
                     __builtin_popcountll(c->active[layer][def][row]));
    if (!(class & TW_ROW_SKIPPED))
        put_firings(text, c, layer, def, seq, row);
}

static inline void put_cells(struct tw_store *store, const struct corpus *c)
{
    struct tw_strbuf text = {0};
    struct tw_error err = {0};
    tw_strbuf_puts(&text,
                   "CREATE TEMP TABLE cell(def, layer, document, clock, "
                   "position, seq, win, token, class, skipped, nll, l1, nnz);"
                   "CREATE TEMP TABLE firing(def, layer, neuron, document, "
                   "row, clock, units);");
    for (int s = 0; s < c->seqs; s++)
        for (int row = c->begin[s]; row < c->begin[s + 1]; row++)
            for (int i = 0; i < LAYERS * PROBES; i++)
                put_cell(&text, c, i % LAYERS, i / LAYERS, s, row);
    TW_OK_OR_FAIL(tw_query_exec(store, text.data, &err), err);
    tw_strbuf_fini(&text);
}

/* A table's columns, and the same from the cells. */
static const struct {
    const char *stored, *counted;
} oracles[] = {
    {"def_ord, layer, tokens, sum_nnz, min_nnz, max_nnz, sum_l1, mean_nnz "
     "FROM layer_",
     "def, layer, count(*), sum(nnz), min(nnz), max(nnz), sum(l1), "
     "1.0 * sum(nnz) / count(*) FROM cell WHERE NOT skipped GROUP BY 1, 2"},
    {"def_ord, layer, block, tokens, sum_nnz, predicted, sum_nll FROM block_",
     "def, layer, (document + win) % 64, sum(1 - skipped), "
     "sum(nnz * (1 - skipped)), count(nll), ifnull(sum(nll), 0) FROM cell "
     "GROUP BY 1, 2, 3 HAVING sum(1 - skipped) > 0 OR count(nll) > 0"},
    {"def_ord, layer, class, skipped, tokens, sum_nnz, max_nnz FROM class_",
     "def, layer, class, skipped, count(*), sum(nnz), max(nnz) FROM cell "
     "GROUP BY 1, 2, 3, 4"},
    {"def_ord, layer, position, tokens, sum_nnz, min_nnz, max_nnz "
     "FROM layer_position_",
     "def, layer, position, count(*), sum(nnz), min(nnz), max(nnz) FROM cell "
     "WHERE NOT skipped GROUP BY 1, 2, 3"},
    {"def_ord, position, tokens, sum_nnz, min_nnz, max_nnz, max_layer_sum "
     "FROM position_",
     "def, position, sum(n) / 3, sum(s), min(a), max(z), max(s) FROM (SELECT "
     "def, layer, position, count(*) n, sum(nnz) s, min(nnz) a, max(nnz) z "
     "FROM cell WHERE NOT skipped GROUP BY 1, 2, 3) GROUP BY 1, 2"},
    {"def_ord, layer, token_id, count, sum_nnz, min_nnz, max_nnz "
     "FROM layer_token_",
     "def, layer, token, count(*), sum(nnz), min(nnz), max(nnz) FROM cell "
     "WHERE NOT skipped GROUP BY 1, 2, 3"},
    {"def_ord, token_id, count, in_sequences, sum_nnz, count_even, sum_even, "
     "min_nnz, max_nnz FROM token_",
     "def, token, count(*) / 3, count(DISTINCT seq), sum(nnz), "
     "sum((document + win) % 2 = 0) / 3, "
     "sum(CASE WHEN (document + win) % 2 = 0 THEN nnz ELSE 0 END), min(nnz), "
     "max(nnz) FROM cell WHERE NOT skipped GROUP BY 1, 2"},
    {"def_ord, layer, nnz, tokens FROM hist_",
     "def, layer, nnz, count(*) FROM cell WHERE NOT skipped GROUP BY 1, 2, 3"},
    {"def_ord, layer, neuron, fired, first_fired, last_fired FROM neuron_ "
     "WHERE fired > 0",
     "def, layer, neuron, count(*), min(clock), max(clock) FROM firing "
     "GROUP BY 1, 2, 3"},
    {"layer, neuron, sum_abs, max_abs * 1048576, first_document, first_row, "
     "expert FROM neuron_ WHERE fired > 0 AND def_ord = 0",
     "layer, neuron, sum(units), 1.0 * max(units), (SELECT document FROM "
     "firing b WHERE b.def = 0 AND b.layer = a.layer AND b.neuron = a.neuron "
     "ORDER BY clock LIMIT 1), (SELECT row FROM firing b WHERE b.def = 0 AND "
     "b.layer = a.layer AND b.neuron = a.neuron ORDER BY clock LIMIT 1), "
     "neuron / 32 FROM firing a WHERE def = 0 GROUP BY 1, 2"},
    {"layer, nnz, tiles FROM tile_ WHERE tile_width = 128",
     "layer, nnz, count(*) FROM cell WHERE NOT skipped AND def = 0 "
     "GROUP BY 1, 2"},
    {"layer, tokens FROM route_",
     "layer, count(*) FROM cell WHERE def = 0 GROUP BY 1"},
    {"document, rows, sequences FROM document_",
     "document, count(*), count(DISTINCT seq) FROM cell WHERE def = 0 AND "
     "layer = 0 GROUP BY 1"},
    {"def_ord, layer, dead, fired_once FROM layer_",
     "def, layer, 64 - count(*), sum(n = 1) FROM (SELECT def, layer, neuron, "
     "count(*) n FROM firing GROUP BY 1, 2, 3) GROUP BY 1, 2"},
    {"def_ord, layer, tokens_seen, dead FROM dead_curve_",
     "f.def, f.layer, t.n, 64 - sum(f.first < t.n) FROM (SELECT def, layer, "
     "neuron, min(clock) first FROM firing GROUP BY 1, 2, 3) f, (SELECT 1 n "
     "UNION SELECT 1 << value FROM (WITH RECURSIVE c(value) AS (SELECT 0 "
     "UNION SELECT value + 1 FROM c WHERE value < 20) SELECT value FROM c) "
     "WHERE 1 << value < (SELECT max(clock) + 1 FROM cell) UNION SELECT "
     "max(clock) + 1 FROM cell) t GROUP BY 1, 2, 3"},
    {"tokens, skipped, sequences, documents, predicted, sum_nll FROM run_",
     "sum(1 - skipped), sum(skipped), count(DISTINCT seq), "
     "count(DISTINCT document), count(nll), sum(nll) FROM cell "
     "WHERE def = 0 AND layer = 0"},
};

#endif
