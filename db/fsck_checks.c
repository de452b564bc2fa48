/* Checks of a run's counts and of what is derived from them. One rule: a check
 * recomputes a column from another table than the one that holds it, or from
 * finer rows. */
#include <config.h>

#include "db/fsck.h"

#include <stddef.h>

#define BIT  TW_FSCK_BIT
#define CELL "printf('definition %d layer %d', l.def_ord, l.layer)"

/* A column of layer_ against an aggregate of finer rows; empty: of none. */
#define LAYER_IS(column, table, where, expression, empty)                      \
    "SELECT " CELL ", l." column ", ifnull(s.x, " empty ") FROM layer_ l"      \
    " LEFT JOIN (SELECT def_ord, layer, " expression " AS x FROM " table       \
    " WHERE run_id = :run" where " GROUP BY 1, 2) s USING (def_ord, layer)"    \
    " WHERE l.run_id = :run AND l." column " IS NOT ifnull(s.x, " empty ")"

/* Rows of a neuron that break a rule. */
#define NEURON(stored, expected, broken)                                       \
    "SELECT printf('definition %d neuron %d:%d', n.def_ord, n.layer,"          \
    " n.neuron), " stored ", " expected " FROM neuron_ n JOIN layer_ l"        \
    " USING (run_id, def_ord, layer) WHERE n.run_id = :run AND (" broken ")"

/* A column of a table over all layers against its rows by layer. */
#define OVER_LAYERS(all, key, one, column, expression)                         \
    "SELECT printf('definition %d " key " %d', a.def_ord, a." key              \
    "), a." column ", s.x FROM " all " a LEFT JOIN (SELECT def_ord, " key      \
    ", " expression " AS x FROM " one " WHERE run_id = :run GROUP BY 1, 2) s"  \
    " USING (def_ord, " key ") WHERE a.run_id = :run AND a." column            \
    " IS NOT s.x"

/* The run's own row against one number. */
#define RUN_IS(column, expression)                                             \
    "SELECT 'run', stored, expected FROM (SELECT r." column                    \
    " AS stored, " expression                                                  \
    " AS expected FROM run_ r WHERE r.run_id = :run)"                          \
    " WHERE stored IS NOT expected"

#define COUNTS BIT(TW_FSCK_COUNTS)
#define ENDED  (BIT(TW_FSCK_COUNTS) | BIT(TW_FSCK_ENDED))

#define CLOCK                                                                  \
    "WITH clock AS MATERIALIZED (SELECT document, rows, sum(rows) OVER"        \
    " (ORDER BY document) - rows AS before FROM document_"                     \
    " WHERE run_id = :run) "

static const struct tw_fsck_check checks[] = {
    /* Shape and dictionaries. */
    {"definitions are named", COUNTS,
     "SELECT printf('definition %d', l.def_ord), NULL, 'a name' FROM layer_ l"
     " WHERE l.run_id = :run AND NOT EXISTS (SELECT 1 FROM definition_ d WHERE"
     " d.run_id = l.run_id AND d.def_ord = l.def_ord) GROUP BY l.def_ord"},
    {"definition 0 is the run's primary", COUNTS,
     RUN_IS("active", "(SELECT active FROM definition_ d WHERE d.run_id ="
                      " r.run_id AND d.def_ord = 0)")},
    {"every definition has every layer", COUNTS,
     "SELECT printf('definition %d', d.def_ord), count(l.layer), r.layers"
     " FROM run_ r JOIN definition_ d USING (run_id) LEFT JOIN layer_ l USING"
     " (run_id, def_ord) WHERE r.run_id = :run GROUP BY d.def_ord HAVING"
     " count(l.layer) IS NOT r.layers OR min(l.layer) IS NOT 0"
     " OR max(l.layer) IS NOT r.layers - 1"},
    {"layers have the model's width", COUNTS | BIT(TW_FSCK_DENSE),
     "SELECT " CELL ", l.width, r.d_ff FROM layer_ l JOIN run_ r USING (run_id)"
     " WHERE l.run_id = :run AND l.width IS NOT r.d_ff"},
    {"every layer has all its neurons", COUNTS,
     "SELECT " CELL ", s.n, l.width FROM layer_ l LEFT JOIN (SELECT def_ord,"
     " layer, count(*) AS n, min(neuron) AS low, max(neuron) AS high FROM"
     " neuron_ WHERE run_id = :run GROUP BY 1, 2) s USING (def_ord, layer)"
     " WHERE l.run_id = :run AND (s.n IS NOT l.width OR s.low IS NOT 0"
     " OR s.high IS NOT l.width - 1)"},
    {"no row is of an unknown layer", COUNTS,
     "SELECT printf('%s definition %d layer %d', t, def_ord, layer), layer,"
     " NULL FROM (SELECT DISTINCT 'block_' AS t, def_ord, layer FROM block_"
     " WHERE run_id = :run UNION ALL SELECT DISTINCT 'class_', def_ord, layer"
     " FROM class_ WHERE run_id = :run UNION ALL SELECT DISTINCT"
     " 'layer_position_', def_ord, layer FROM layer_position_ WHERE run_id ="
     " :run UNION ALL SELECT DISTINCT 'layer_token_', def_ord, layer FROM"
     " layer_token_ WHERE run_id = :run UNION ALL SELECT DISTINCT 'rate_',"
     " def_ord, layer FROM rate_ WHERE run_id = :run UNION ALL SELECT DISTINCT"
     " 'neuron_',"
     " def_ord, layer FROM neuron_ WHERE run_id = :run UNION ALL SELECT"
     " DISTINCT 'hist_', def_ord, layer FROM hist_ WHERE run_id = :run UNION"
     " ALL SELECT DISTINCT 'dead_curve_', def_ord, layer FROM dead_curve_"
     " WHERE run_id = :run UNION ALL SELECT DISTINCT 'tile_', 0, layer FROM"
     " tile_ WHERE run_id = :run UNION ALL SELECT DISTINCT 'magnitude_', 0,"
     " layer FROM magnitude_ WHERE run_id = :run UNION ALL SELECT 'route_', 0,"
     " layer FROM route_ WHERE run_id = :run) x WHERE NOT EXISTS (SELECT 1"
     " FROM layer_ l WHERE l.run_id = :run AND l.def_ord = x.def_ord AND"
     " l.layer = x.layer)"},
    {"classes are named", COUNTS,
     "SELECT DISTINCT printf('class %d', class), NULL, 'a name' FROM class_"
     " WHERE run_id = :run AND class NOT IN (SELECT class FROM class_name_)"},
    {"the tokenizer is in its table", COUNTS | BIT(TW_FSCK_TOKENIZER),
     RUN_IS("tokenizer_hash", "(SELECT hash FROM tokenizer_ t WHERE"
                              " t.tokenizer_id = r.tokenizer_id)")},
    {"every token has its piece",
     COUNTS | BIT(TW_FSCK_TOKENIZER) | BIT(TW_FSCK_TEXT),
     "SELECT printf('token %d', t.token_id), NULL, 'a piece' FROM token_ t"
     " JOIN run_ r USING (run_id) WHERE t.run_id = :run AND t.def_ord = 0 AND"
     " NOT EXISTS (SELECT 1 FROM piece_ p WHERE p.tokenizer_id ="
     " r.tokenizer_id AND p.token_id = t.token_id)"},

    /* Counted rows. */
    {"document rows = tokens + skipped", COUNTS,
     "SELECT 'run', tokens + skipped, rows FROM run_ r, (SELECT"
     " ifnull(sum(rows), 0) AS rows FROM document_ WHERE run_id = :run)"
     " WHERE r.run_id = :run AND tokens + skipped IS NOT rows"},
    {"sequences = those of the documents", COUNTS,
     RUN_IS("sequences", "(SELECT ifnull(sum(sequences), 0) FROM document_ d"
                         " WHERE d.run_id = r.run_id)")},
    {"documents = rows of document_", COUNTS | BIT(TW_FSCK_DOCS),
     RUN_IS("documents",
            "(SELECT count(*) FROM document_ d WHERE d.run_id = r.run_id)")},
    {"a part holds its own documents", COUNTS | BIT(TW_FSCK_PART),
     "SELECT printf('document %d', document), document % r.shards, r.shard"
     " FROM document_ d JOIN run_ r USING (run_id) WHERE d.run_id = :run"
     " AND document % r.shards IS NOT r.shard"},
    {"a document is cut by the context", COUNTS,
     "SELECT printf('document %d', d.document), d.sequences, (d.rows + r.ctx -"
     " 1) / r.ctx FROM document_ d JOIN run_ r USING (run_id) WHERE d.run_id ="
     " :run AND (d.rows < 1 OR d.sequences < 1 OR d.sequences > d.rows OR"
     " d.sequences < (d.rows + r.ctx - 1) / r.ctx)"},
    {"a layer's tokens are the run's", COUNTS,
     "SELECT " CELL ", l.tokens, r.tokens FROM layer_ l JOIN run_ r USING"
     " (run_id) WHERE l.run_id = :run AND l.tokens IS NOT r.tokens"},
    {"skipped rows = those of the classes", COUNTS,
     "SELECT " CELL ", r.skipped, s.x FROM layer_ l JOIN run_ r USING (run_id)"
     " LEFT JOIN (SELECT def_ord, layer, sum(tokens) AS x FROM class_ WHERE"
     " run_id = :run AND skipped GROUP BY 1, 2) s USING (def_ord, layer)"
     " WHERE l.run_id = :run AND r.skipped IS NOT ifnull(s.x, 0)"},

    /* Non-zeros: every finer table adds up to layer_. */
    {"firings = non-zeros", COUNTS,
     LAYER_IS("sum_nnz", "neuron_", "", "sum(fired)", "0")},
    {"histogram mass = non-zeros", COUNTS,
     LAYER_IS("sum_nnz", "hist_", "", "sum(nnz * tokens)", "0")},
    {"histogram rows = tokens", COUNTS,
     LAYER_IS("tokens", "hist_", "", "sum(tokens)", "0")},
    {"smallest non-zeros = histogram's", COUNTS,
     LAYER_IS("min_nnz", "hist_", "", "min(nnz)", "NULL")},
    {"largest non-zeros = histogram's", COUNTS,
     LAYER_IS("max_nnz", "hist_", "", "max(nnz)", "NULL")},
    {"blocks' non-zeros = layer's", COUNTS,
     LAYER_IS("sum_nnz", "block_", "", "sum(sum_nnz)", "0")},
    {"blocks' tokens = layer's", COUNTS,
     LAYER_IS("tokens", "block_", "", "sum(tokens)", "0")},
    {"counted classes' non-zeros = layer's", COUNTS,
     LAYER_IS("sum_nnz", "class_", " AND NOT skipped", "sum(sum_nnz)", "0")},
    {"counted classes' tokens = layer's", COUNTS,
     LAYER_IS("tokens", "class_", " AND NOT skipped", "sum(tokens)", "0")},
    {"counted classes' largest = layer's", COUNTS,
     LAYER_IS("max_nnz", "class_", " AND NOT skipped", "max(max_nnz)", "NULL")},
    {"positions' non-zeros = layer's", COUNTS,
     LAYER_IS("sum_nnz", "layer_position_", "", "sum(sum_nnz)", "0")},
    {"positions' tokens = layer's", COUNTS,
     LAYER_IS("tokens", "layer_position_", "", "sum(tokens)", "0")},
    {"positions' smallest = layer's", COUNTS,
     LAYER_IS("min_nnz", "layer_position_", "", "min(min_nnz)", "NULL")},
    {"positions' largest = layer's", COUNTS,
     LAYER_IS("max_nnz", "layer_position_", "", "max(max_nnz)", "NULL")},
    {"token types' non-zeros = layer's", COUNTS,
     LAYER_IS("sum_nnz", "layer_token_", "", "sum(sum_nnz)", "0")},
    {"token types' counts = layer's tokens", COUNTS,
     LAYER_IS("tokens", "layer_token_", "", "sum(count)", "0")},
    {"token types' smallest = layer's", COUNTS,
     LAYER_IS("min_nnz", "layer_token_", "", "min(min_nnz)", "NULL")},
    {"token types' largest = layer's", COUNTS,
     LAYER_IS("max_nnz", "layer_token_", "", "max(max_nnz)", "NULL")},

    /* Tables over all layers. */
    {"position_ tokens = each layer's", COUNTS,
     OVER_LAYERS("position_", "position", "layer_position_", "tokens",
                 "CASE WHEN min(tokens) = max(tokens) THEN max(tokens) END")},
    {"position_ non-zeros = over layers", COUNTS,
     OVER_LAYERS("position_", "position", "layer_position_", "sum_nnz",
                 "sum(sum_nnz)")},
    {"position_ smallest = over layers", COUNTS,
     OVER_LAYERS("position_", "position", "layer_position_", "min_nnz",
                 "min(min_nnz)")},
    {"position_ largest = over layers", COUNTS,
     OVER_LAYERS("position_", "position", "layer_position_", "max_nnz",
                 "max(max_nnz)")},
    {"position_ largest layer = over layers", COUNTS,
     OVER_LAYERS("position_", "position", "layer_position_", "max_layer_sum",
                 "max(sum_nnz)")},
    {"position_ has every position", COUNTS,
     "SELECT DISTINCT printf('definition %d position %d', p.def_ord,"
     " p.position), NULL, p.tokens FROM layer_position_ p WHERE p.run_id = :run"
     " AND NOT EXISTS (SELECT 1 FROM position_ a WHERE a.run_id = p.run_id AND"
     " a.def_ord = p.def_ord AND a.position = p.position)"},
    {"positions lie in the context", COUNTS,
     "SELECT printf('position %d', max(p.position)), max(p.position), r.ctx - 1"
     " FROM position_ p JOIN run_ r USING (run_id) WHERE p.run_id = :run"
     " HAVING max(p.position) >= r.ctx OR min(p.position) < 0"},
    {"token_ counts = each layer's", COUNTS,
     OVER_LAYERS("token_", "token_id", "layer_token_", "count",
                 "CASE WHEN min(count) = max(count) THEN max(count) END")},
    {"token_ non-zeros = over layers", COUNTS,
     OVER_LAYERS("token_", "token_id", "layer_token_", "sum_nnz",
                 "sum(sum_nnz)")},
    {"token_ smallest = over layers", COUNTS,
     OVER_LAYERS("token_", "token_id", "layer_token_", "min_nnz",
                 "min(min_nnz)")},
    {"token_ largest = over layers", COUNTS,
     OVER_LAYERS("token_", "token_id", "layer_token_", "max_nnz",
                 "max(max_nnz)")},
    {"token_ has every token type", COUNTS,
     "SELECT DISTINCT printf('definition %d token %d', t.def_ord, t.token_id),"
     " NULL, t.count FROM layer_token_ t WHERE t.run_id = :run AND NOT EXISTS"
     " (SELECT 1 FROM token_ a WHERE a.run_id = t.run_id AND a.def_ord ="
     " t.def_ord AND a.token_id = t.token_id)"},
    {"a token's sequences and even half fit", COUNTS,
     "SELECT printf('definition %d token %d', t.def_ord, t.token_id),"
     " t.in_sequences, min(t.count, r.sequences) FROM token_ t JOIN run_ r"
     " USING (run_id) WHERE t.run_id = :run AND (t.in_sequences NOT BETWEEN 1"
     " AND min(t.count, r.sequences) OR t.count_even NOT BETWEEN 0 AND t.count"
     " OR t.sum_even NOT BETWEEN 0 AND t.sum_nnz)"},
    {"even tokens = even blocks' tokens", COUNTS,
     "SELECT printf('definition %d', d.def_ord), (SELECT"
     " ifnull(sum(count_even), 0) FROM token_ t WHERE t.run_id = :run AND"
     " t.def_ord = d.def_ord) AS stored, (SELECT ifnull(sum(tokens), 0) FROM"
     " block_ b WHERE b.run_id = :run AND b.def_ord = d.def_ord AND b.layer = 0"
     " AND b.block % 2 = 0) AS expected FROM definition_ d WHERE d.run_id ="
     " :run AND stored IS NOT expected"},
    {"even non-zeros = even blocks'", COUNTS,
     "SELECT printf('definition %d', d.def_ord), (SELECT ifnull(sum(sum_even),"
     " 0) FROM token_ t WHERE t.run_id = :run AND t.def_ord = d.def_ord) AS"
     " stored, (SELECT ifnull(sum(sum_nnz), 0) FROM block_ b WHERE b.run_id ="
     " :run AND b.def_ord = d.def_ord AND b.block % 2 = 0) AS expected FROM"
     " definition_ d WHERE d.run_id = :run AND stored IS NOT expected"},

    /* Neurons. */
    {"a neuron fires in at most its tokens", COUNTS,
     NEURON("n.fired", "n.tokens", "n.fired < 0 OR n.fired > n.tokens")},
    {"a neuron's tokens = the layer's", COUNTS | BIT(TW_FSCK_DENSE),
     NEURON("n.tokens", "l.tokens", "n.tokens IS NOT l.tokens")},
    {"first and last firing: there if it fired", COUNTS,
     NEURON("n.first_document", "n.fired",
            "(n.fired > 0) IS NOT (n.first_document IS NOT NULL) OR"
            " (n.fired > 0) IS NOT (n.first_row IS NOT NULL) OR"
            " (n.fired > 0) IS NOT (n.last_document IS NOT NULL) OR"
            " (n.fired > 0) IS NOT (n.last_row IS NOT NULL)")},
    {"first firing is not after the last", COUNTS,
     NEURON("printf('%d/%d', n.first_document, n.first_row)",
            "printf('%d/%d', n.last_document, n.last_row)",
            "n.fired > 0 AND ((n.first_document, n.first_row) >"
            " (n.last_document, n.last_row) OR (n.fired = 1) IS NOT"
            " ((n.first_document, n.first_row) = (n.last_document,"
            " n.last_row)))")},
    {"firings lie in known documents", COUNTS,
     "SELECT printf('definition %d neuron %d:%d', n.def_ord, n.layer,"
     " n.neuron), printf('%d/%d', n.first_document, n.first_row),"
     " a.rows FROM neuron_ n LEFT JOIN document_ a ON a.run_id = n.run_id AND"
     " a.document = n.first_document LEFT JOIN document_ z ON z.run_id ="
     " n.run_id AND z.document = n.last_document WHERE n.run_id = :run AND"
     " n.fired > 0 AND (n.first_row < 0 OR n.last_row < 0 OR"
     " ifnull(n.first_row >= a.rows, 1) OR ifnull(n.last_row >= z.rows, 1))"},
    {"first_fired = the corpus clock", ENDED,
     CLOCK "SELECT printf('definition %d neuron %d:%d', n.def_ord, n.layer,"
           " n.neuron), n.first_fired, c.before + n.first_row FROM neuron_ n"
           " LEFT JOIN clock c ON c.document = n.first_document WHERE n.run_id"
           " = :run AND n.first_fired IS NOT c.before + n.first_row"},
    {"last_fired = the corpus clock", ENDED,
     CLOCK "SELECT printf('definition %d neuron %d:%d', n.def_ord, n.layer,"
           " n.neuron), n.last_fired, c.before + n.last_row FROM neuron_ n"
           " LEFT JOIN clock c ON c.document = n.last_document WHERE n.run_id"
           " = :run AND n.last_fired IS NOT c.before + n.last_row"},
    {"firings fit between first and last", ENDED,
     NEURON("n.fired", "n.last_fired - n.first_fired + 1",
            "n.fired > n.last_fired - n.first_fired + 1")},

    /* Without a definition. */
    {"tiles = tokens x tiles a row", COUNTS,
     "SELECT printf('layer %d tile width %d', l.layer, w.tile_width),"
     " ifnull(s.x, 0), l.tokens * ((l.width + w.tile_width - 1) /"
     " w.tile_width) AS expected FROM layer_ l, (SELECT 64 AS tile_width UNION"
     " ALL SELECT 128 UNION ALL SELECT 256) w LEFT JOIN (SELECT layer,"
     " tile_width, sum(tiles) AS x FROM tile_ WHERE run_id = :run GROUP BY 1,"
     " 2) s USING (layer, tile_width) WHERE l.run_id = :run AND l.def_ord = 0"
     " AND ifnull(s.x, 0) IS NOT expected"},
    {"tile mass is the same in every width", COUNTS,
     "SELECT printf('layer %d', layer), min(x), max(x) FROM (SELECT layer,"
     " tile_width, sum(nnz * tiles) AS x FROM tile_ WHERE run_id = :run GROUP"
     " BY 1, 2) GROUP BY layer HAVING min(x) <> max(x)"},
    {"tile mass = the pattern's non-zeros", COUNTS | BIT(TW_FSCK_GATE),
     "SELECT printf('layer %d', l.layer), (SELECT ifnull(sum(nnz * tiles), 0)"
     " FROM tile_ t WHERE t.run_id = :run AND t.layer = l.layer AND"
     " t.tile_width = 256) AS stored, l.sum_nnz FROM layer_ l JOIN definition_"
     " d USING (run_id, def_ord) WHERE l.run_id = :run AND d.active = 'gate'"
     " AND stored IS NOT l.sum_nnz"},
    {"no tile holds more than its width", COUNTS,
     "SELECT printf('layer %d tile width %d', layer, tile_width), nnz,"
     " tile_width FROM tile_ WHERE run_id = :run AND (nnz < 0 OR nnz >"
     " tile_width OR tiles < 1)"},
    {"routes count every row", COUNTS,
     "SELECT printf('layer %d', l.layer), t.tokens, r.tokens + r.skipped FROM"
     " layer_ l JOIN run_ r USING (run_id) LEFT JOIN route_ t ON t.run_id ="
     " l.run_id AND t.layer = l.layer WHERE l.run_id = :run AND l.def_ord = 0"
     " AND t.tokens IS NOT r.tokens + r.skipped"},
    {"routed rows fit", COUNTS,
     "SELECT printf('layer %d', layer), dense_rows, tokens FROM route_ WHERE"
     " run_id = :run AND (overflow_rows NOT BETWEEN 0 AND tokens OR dense_rows"
     " NOT BETWEEN 0 AND tokens OR overflow_tiles < overflow_rows)"},
    {"overflow_rows = those of the layers", COUNTS,
     RUN_IS("overflow_rows", "(SELECT ifnull(sum(overflow_rows), 0) FROM"
                             " route_ t WHERE t.run_id = r.run_id)")},
    {"magnitudes = hidden's non-zeros",
     COUNTS | BIT(TW_FSCK_MAGNITUDES) | BIT(TW_FSCK_HIDDEN),
     "SELECT printf('layer %d', l.layer), (SELECT ifnull(sum(count), 0) FROM"
     " magnitude_ m WHERE m.run_id = :run AND m.layer = l.layer) AS stored,"
     " l.sum_nnz FROM layer_ l JOIN definition_ d USING (run_id, def_ord) WHERE"
     " l.run_id = :run AND d.active = 'hidden' AND stored IS NOT l.sum_nnz"},
    {"|h| of a neuron fits its firings", COUNTS | BIT(TW_FSCK_MAGNITUDES),
     NEURON("n.sum_abs", "n.fired * n.max_abs * 1048576",
            "n.def_ord = 0 AND (n.sum_abs IS NULL OR n.max_abs IS NULL OR"
            " n.sum_abs < 0 OR n.max_abs < 0 OR (n.fired = 0 AND (n.sum_abs <>"
            " 0 OR n.max_abs <> 0)) OR n.sum_abs > n.fired * (n.max_abs *"
            " 1048576 + 1) OR (n.fired > 0 AND n.sum_abs < n.max_abs * 1048576"
            " * 0.999999 - 1))")},
    {"|h| is the primary's alone", COUNTS,
     "SELECT printf('definition %d neuron %d:%d', def_ord, layer, neuron),"
     " sum_abs, NULL FROM neuron_ n JOIN run_ r USING (run_id) WHERE n.run_id ="
     " :run AND (def_ord > 0 OR NOT ifnull(r.magnitudes, 0)) AND (sum_abs IS"
     " NOT NULL OR max_abs IS NOT NULL)"},

    /* Loss. */
    {"blocks' losses = the run's", COUNTS | BIT(TW_FSCK_LOSS),
     "SELECT " CELL ", s.x, r.sum_nll FROM layer_ l JOIN run_ r USING (run_id)"
     " LEFT JOIN (SELECT def_ord, layer, sum(sum_nll) AS x FROM block_ WHERE"
     " run_id = :run GROUP BY 1, 2) s USING (def_ord, layer) WHERE l.run_id ="
     " :run AND ifnull(s.x, 0) IS NOT r.sum_nll"},
    {"blocks' predicted rows = the run's", COUNTS | BIT(TW_FSCK_LOSS),
     "SELECT " CELL ", s.x, r.predicted FROM layer_ l JOIN run_ r USING"
     " (run_id) LEFT JOIN (SELECT def_ord, layer, sum(predicted) AS x FROM"
     " block_ WHERE run_id = :run GROUP BY 1, 2) s USING (def_ord, layer) WHERE"
     " l.run_id = :run AND ifnull(s.x, 0) IS NOT r.predicted"},
    {"predicted = rows that have a next one", COUNTS | BIT(TW_FSCK_LOSS),
     RUN_IS("predicted", "r.tokens + r.skipped - r.sequences")},
    {"mean_nll = its sum / predicted", ENDED | BIT(TW_FSCK_LOSS),
     RUN_IS("mean_nll",
            "1.0 * r.sum_nll / nullif(r.predicted, 0) / 1048576.0")},

    /* Derived. */
    {"mean_nnz = non-zeros / tokens", ENDED,
     "SELECT " CELL ", l.mean_nnz, 1.0 * l.sum_nnz / nullif(l.tokens, 0) FROM"
     " layer_ l WHERE l.run_id = :run AND l.mean_nnz IS NOT 1.0 * l.sum_nnz /"
     " nullif(l.tokens, 0)"},
    {"dead = neurons that never fired", ENDED,
     LAYER_IS("dead", "neuron_", "",
              "CASE WHEN max(tokens) > 0 THEN sum(fired = 0) END", "NULL")},
    {"fired_once = neurons that fired once", ENDED,
     LAYER_IS("fired_once", "neuron_", "",
              "CASE WHEN max(tokens) > 0 THEN sum(fired = 1) END", "NULL")},
    {"always_on = neurons that always fired", ENDED,
     LAYER_IS("always_on", "neuron_", "",
              "CASE WHEN max(tokens) > 0 THEN sum(tokens > 0 AND fired ="
              " tokens) END",
              "NULL")},
    {"dead_curve = from first_fired", ENDED,
     "SELECT printf('definition %d layer %d tokens_seen %d', c.def_ord,"
     " c.layer, c.tokens_seen), c.dead, sum(n.first_fired IS NULL OR"
     " n.first_fired >= c.tokens_seen) AS expected FROM dead_curve_ c LEFT JOIN"
     " neuron_ n USING (run_id, def_ord, layer) WHERE c.run_id = :run GROUP BY"
     " c.def_ord, c.layer, c.tokens_seen HAVING c.dead IS NOT expected"},
    {"rate_ counts the neurons by rate", ENDED,
     "WITH RECURSIVE k(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM k WHERE k <"
     " 61), n AS MATERIALIZED (SELECT def_ord, layer, CASE WHEN fired = 0 THEN"
     " -1 ELSE (SELECT max(k) FROM k WHERE fired <= tokens >> k) END AS"
     " halvings, count(*) AS neurons FROM neuron_ WHERE run_id = :run AND"
     " tokens > 0 GROUP BY 1, 2, 3), r AS (SELECT * FROM rate_ WHERE run_id ="
     " :run) SELECT printf('definition %d layer %d halvings %d', def_ord,"
     " layer, halvings), r.neurons, n.neurons FROM n LEFT JOIN r USING"
     " (def_ord, layer, halvings) WHERE r.neurons IS NOT n.neurons UNION ALL"
     " SELECT printf('definition %d layer %d halvings %d', def_ord, layer,"
     " halvings), r.neurons, NULL FROM r LEFT JOIN n USING (def_ord, layer,"
     " halvings) WHERE n.neurons IS NULL"},
    {"dead_curve has its points", ENDED,
     "WITH RECURSIVE total(n) AS (SELECT tokens + skipped FROM run_ WHERE"
     " run_id = :run), at(x) AS (SELECT 1 UNION ALL SELECT x * 2 FROM at, total"
     " WHERE x < n / 2.0 AND x < 1152921504606846976), point(x) AS (SELECT x"
     " FROM at, total WHERE x < n UNION SELECT n FROM total WHERE n > 0)"
     " SELECT " CELL " || printf(' tokens_seen %d', p.x), NULL, p.x FROM"
     " layer_ l, point p WHERE l.run_id = :run AND l.tokens > 0 AND NOT EXISTS"
     " (SELECT 1 FROM dead_curve_ c WHERE c.run_id = l.run_id AND c.def_ord ="
     " l.def_ord AND c.layer = l.layer AND c.tokens_seen = p.x) UNION ALL"
     " SELECT " CELL ", (SELECT count(*) FROM dead_curve_ c WHERE c.run_id ="
     " l.run_id AND c.def_ord = l.def_ord AND c.layer = l.layer) AS stored,"
     " (SELECT count(*) FROM point) AS expected FROM layer_ l WHERE l.run_id ="
     " :run AND l.tokens > 0 AND stored > expected"},

    /* The ledger's own tables. */
    {"ledger blocks hold every row", COUNTS | BIT(TW_FSCK_LEDGER),
     "SELECT 'run', (SELECT ifnull(sum(rows), 0) FROM ledger_block_ WHERE"
     " run_id = :run) AS stored, tokens + skipped FROM run_ WHERE run_id = :run"
     " AND stored IS NOT tokens + skipped"},
    {"ledger blocks hold every sequence", COUNTS | BIT(TW_FSCK_LEDGER),
     "SELECT 'run', (SELECT ifnull(sum(sequences), 0) FROM ledger_block_ WHERE"
     " run_id = :run) AS stored, sequences FROM run_ WHERE run_id = :run AND"
     " stored IS NOT sequences"},
    {"ledger blocks are numbered", ENDED | BIT(TW_FSCK_LEDGER),
     "SELECT printf('block %d', b.block_id), b.before, (SELECT"
     " ifnull(sum(sequences), 0) FROM document_ d WHERE d.run_id = b.run_id AND"
     " d.document < b.document) AS expected FROM ledger_block_ b WHERE b.run_id"
     " = :run AND b.before IS NOT expected"},
    {"ledger blocks have their columns", COUNTS | BIT(TW_FSCK_LEDGER),
     "WITH wanted(kind, name, n) AS (SELECT 0, 'sequences', 1 UNION ALL SELECT"
     " 1, 'tokens', 1 UNION ALL SELECT 2, 'classes', 1 UNION ALL SELECT 3,"
     " 'nll', has_loss FROM run_ WHERE run_id = :run UNION ALL SELECT 4, 'nnz',"
     " (ledger LIKE 'nnz%') * layers * (SELECT count(*) FROM definition_ WHERE"
     " run_id = :run) FROM run_ WHERE run_id = :run UNION ALL SELECT 5, 'l1',"
     " (ledger LIKE 'nnz,l1%') * layers FROM run_ WHERE run_id = :run UNION ALL"
     " SELECT 6, 'sets', (instr(ledger, 'sets') > 0) * layers FROM run_ WHERE"
     " run_id = :run UNION ALL SELECT 7, 'values', (instr(ledger, 'sets') > 0)"
     " * layers FROM run_ WHERE run_id = :run)"
     " SELECT printf('block %d %s', b.block_id, w.name), (SELECT count(*) FROM"
     " ledger_ x WHERE x.block_id = b.block_id AND x.kind = w.kind) AS stored,"
     " w.n FROM ledger_block_ b, wanted w WHERE b.run_id = :run AND stored IS"
     " NOT w.n"},

    {"examples: each firing, at most K", COUNTS | BIT(TW_FSCK_EXAMPLES),
     "WITH kept AS MATERIALIZED (SELECT e.layer, e.neuron, count(*) AS n FROM"
     " run_ r JOIN examples e ON e.run = r.run WHERE r.run_id = :run GROUP BY"
     " 1, 2) SELECT printf('neuron %d:%d', n.layer, n.neuron), ifnull(k.n, 0),"
     " min(n.fired, CAST(substr(r.ledger, instr(r.ledger, 'examples:') + 9) AS"
     " INTEGER)) AS expected FROM neuron_ n JOIN run_ r USING (run_id) LEFT"
     " JOIN kept k ON k.layer = n.layer AND k.neuron = n.neuron WHERE n.run_id"
     " = :run AND n.def_ord = 0 AND ifnull(k.n, 0) IS NOT expected"},
    {"examples: the first is max_abs",
     COUNTS | BIT(TW_FSCK_EXAMPLES) | BIT(TW_FSCK_MAGNITUDES),
     "SELECT printf('neuron %d:%d', n.layer, n.neuron), abs(e.value), n.max_abs"
     " FROM run_ r JOIN examples e ON e.run = r.run JOIN neuron_ n ON n.run_id"
     " = r.run_id AND n.def_ord = 0 AND n.layer = e.layer AND n.neuron ="
     " e.neuron WHERE r.run_id = :run AND e.rank = 1 AND abs(e.value) IS NOT"
     " n.max_abs"},

    /* Other kinds of runs. */
    {"times: the least is not above the median", BIT(TW_FSCK_TIMES),
     "SELECT printf('%s %s', name, path), ns_min, ns_median FROM bench_ WHERE"
     " run_id = :run AND (ns_min > ns_median OR ns_min < 0) UNION ALL SELECT"
     " printf('layer %d %s', layer, path), ns_min, ns_median FROM layer_timing_"
     " WHERE run_id = :run AND (ns_min > ns_median OR ns_min < 0)"},
    {"training: layers belong to a step", BIT(TW_FSCK_TRAINING),
     "SELECT printf('step %d layer %d', t.step, t.layer), t.step, NULL FROM"
     " (SELECT run_id, step, layer FROM training_layer_ UNION ALL SELECT"
     " run_id, step, layer FROM training_dead_) t WHERE t.run_id = :run AND NOT"
     " EXISTS (SELECT 1 FROM training_step_ s WHERE s.run_id = t.run_id AND"
     " s.step = t.step)"},
    {"training: alive is a fraction", BIT(TW_FSCK_TRAINING),
     "SELECT printf('step %d', step), alive, NULL FROM (SELECT step, alive"
     " FROM training_step_ WHERE run_id = :run UNION ALL SELECT step, alive "
     "FROM"
     " training_layer_ WHERE run_id = :run) WHERE alive NOT BETWEEN 0 AND 1"},
};

#define OF_NO_RUN(table) "SELECT '" table "' AS t, run_id FROM " table " UNION "

static const struct tw_fsck_check file_checks[] = {
    {"SQLite's integrity check", 0,
     "SELECT integrity_check, NULL, 'ok' FROM pragma_integrity_check WHERE"
     " integrity_check <> 'ok'"},
    {"every row belongs to a run", 0,
     "SELECT printf('%s run_id %d', t, run_id), run_id, NULL FROM (" OF_NO_RUN(
         "definition_") OF_NO_RUN("run_tag_") OF_NO_RUN("corpus_")
         OF_NO_RUN("layer_") OF_NO_RUN("block_") OF_NO_RUN("class_") OF_NO_RUN(
             "layer_position_") OF_NO_RUN("position_") OF_NO_RUN("layer_token_")
             OF_NO_RUN("token_") OF_NO_RUN("neuron_") OF_NO_RUN(
                 "hist_") OF_NO_RUN("tile_") OF_NO_RUN("magnitude_")
                 OF_NO_RUN("route_") OF_NO_RUN("dead_curve_") OF_NO_RUN(
                     "rate_") OF_NO_RUN("document_") OF_NO_RUN("parity_")
                     OF_NO_RUN("ledger_block_") OF_NO_RUN("example_") OF_NO_RUN(
                         "layer_timing_") OF_NO_RUN("training_step_")
                         OF_NO_RUN("training_layer_") OF_NO_RUN(
                             "training_dead_") "SELECT 'bench_', run_id FROM "
                                               "bench_) WHERE run_id NOT IN "
                                               "(SELECT run_id"
                                               " FROM run_) UNION ALL SELECT "
                                               "printf('ledger_ block %d', "
                                               "block_id),"
                                               " block_id, NULL FROM (SELECT "
                                               "DISTINCT block_id FROM "
                                               "ledger_) WHERE"
                                               " block_id NOT IN (SELECT "
                                               "block_id FROM ledger_block_)"},
    {"a run's tokenizer is known", 0,
     "SELECT printf('run %s', run), tokenizer_id, NULL FROM run_ WHERE"
     " tokenizer_id IS NOT NULL AND tokenizer_id NOT IN (SELECT tokenizer_id"
     " FROM tokenizer_)"},
};

/* A row says why the run can't be asked. */
#define UNLESS(reason, condition)                                              \
    "SELECT " reason                                                           \
    " FROM run_ r WHERE r.run_id = :run AND NOT ifnull(" condition ", 0)"
static const char *const needs[TW_FSCK_NEEDS] = {
    [TW_FSCK_COUNTS] =
        UNLESS("CASE kind WHEN 'profile' THEN 'nothing is counted yet' ELSE"
               " printf('a run of kind %s', kind) END",
               "EXISTS (SELECT 1 FROM layer_ l WHERE l.run_id = r.run_id)"),
    [TW_FSCK_ENDED] = UNLESS("printf('the run is %s: made at its end', status)",
                             "status IN ('complete', 'partial')"),
    [TW_FSCK_LOSS] = UNLESS("'no loss was measured'", "sum_nll IS NOT NULL"),
    [TW_FSCK_DOCS] =
        UNLESS("'documents of a stream are its windows'", "split = 'docs'"),
    [TW_FSCK_DENSE] = UNLESS("'the model has experts'", "experts IS NULL"),
    [TW_FSCK_TEXT] = UNLESS("'the corpus is ids'",
                            "bytes IS NOT NULL AND NOT EXISTS (SELECT 1 FROM"
                            " corpus_ c WHERE c.run_id = r.run_id AND c.bytes"
                            " IS NULL)"),
    [TW_FSCK_TOKENIZER] =
        UNLESS("'the run has no tokenizer'", "tokenizer_id IS NOT NULL"),
    [TW_FSCK_PART] =
        UNLESS("'the run is no part'", "shard IS NOT NULL AND shards > 1"),
    [TW_FSCK_HIDDEN] =
        UNLESS("'hidden is no definition of the run'",
               "EXISTS (SELECT 1 FROM definition_ d WHERE d.run_id = r.run_id"
               " AND d.active = 'hidden')"),
    [TW_FSCK_GATE] =
        UNLESS("'gate is no definition of the run, or --apply changes it'",
               "apply IS NULL AND EXISTS (SELECT 1 FROM definition_ d WHERE"
               " d.run_id = r.run_id AND d.active = 'gate')"),
    [TW_FSCK_MAGNITUDES] = UNLESS("'without --magnitudes'", "magnitudes"),
    [TW_FSCK_LEDGER] = UNLESS("'without --per-token'",
                              "ledger LIKE 'nnz%' OR instr(ledger, 'watch:')"),
    [TW_FSCK_EXAMPLES] =
        UNLESS("'without --examples'", "instr(ledger, 'examples:')"),
    [TW_FSCK_TIMES] =
        UNLESS("'nothing was timed'",
               "EXISTS (SELECT 1 FROM bench_ b WHERE b.run_id = r.run_id) OR"
               " EXISTS (SELECT 1 FROM layer_timing_ t WHERE t.run_id ="
               " r.run_id)"),
    [TW_FSCK_TRAINING] =
        UNLESS("'no training run'",
               "EXISTS (SELECT 1 FROM training_step_ t WHERE t.run_id ="
               " r.run_id)"),
};

const struct tw_fsck_check *tw_fsck_check(int i)
{
    return (size_t)i < sizeof checks / sizeof *checks ? &checks[i] : NULL;
}

const struct tw_fsck_check *tw_fsck_file_check(int i)
{
    return (size_t)i < sizeof file_checks / sizeof *file_checks
               ? &file_checks[i]
               : NULL;
}

const char *tw_fsck_need_sql(enum tw_fsck_need need)
{
    return needs[need];
}
