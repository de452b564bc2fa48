-- twellscope's only schema (user_version 2), embedded into the program. What
-- changes here gets a step in migrate.c, so that older files can follow.
--
-- Physical tables end in "_" and are not public; the views below are the
-- public interface: their names and columns only ever grow. Every count is an
-- exact 64-bit integer, sums of reals are integers in fixed units: l1 2^-16,
-- loss (nll) and |h| 2^-20, so that any order of adding gives the same bits.
-- run_id and def_ord lead every key; def_ord 0 is a run's primary definition.

PRAGMA application_id = 1417102668;  -- 0x5477454C, "TwEL"
PRAGMA user_version = 2;

-- What was run -----------------------------------------------------------

CREATE TABLE run_ (
  run_id INTEGER PRIMARY KEY,
  run TEXT NOT NULL UNIQUE,
  uuid TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL, cause TEXT,
  model TEXT, model_type TEXT, family TEXT, model_hash TEXT,
  tokenizer_id INTEGER, tokenizer_hash TEXT,
  layers INTEGER, d_model INTEGER, d_ff INTEGER, experts INTEGER,
  gated INTEGER, activation TEXT, activation_source TEXT, active TEXT,
  weight_dtype TEXT, compute_dtype TEXT, backend TEXT, device TEXT,
  plan TEXT,
  tokens INTEGER, sequences INTEGER, documents INTEGER, bytes INTEGER,
  ctx INTEGER, split TEXT, doc_sep TEXT, bos TEXT, parse_special INTEGER,
  field TEXT, apply TEXT, skip TEXT, skipped INTEGER, token_limit INTEGER,
  magnitudes INTEGER, has_loss INTEGER, vocab INTEGER,
  predicted INTEGER, sum_nll INTEGER,
  mean_nll REAL, se_nll REAL, perplexity REAL, bits_per_byte REAL,
  overflow_rows INTEGER, seed INTEGER,
  shard INTEGER, shards INTEGER, shards_missing TEXT,
  started TEXT, finished TEXT, version TEXT, command TEXT,
  -- where a resumed run goes on: the next sequence, and the text seen so far
  next_document INTEGER, next_start INTEGER,
  writer TEXT, -- the process that counts: one that was replaced stops
  -- since version 2
  ledger TEXT  -- what is kept of every row: "nnz,l1,sets,watch:..."
);

CREATE TABLE definition_ (
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, active TEXT NOT NULL,
  PRIMARY KEY (run_id, def_ord)
) WITHOUT ROWID;

CREATE TABLE run_tag_ (
  run_id INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (run_id, key)
) WITHOUT ROWID;

CREATE TABLE corpus_ (
  run_id INTEGER NOT NULL, ord INTEGER NOT NULL,
  file TEXT NOT NULL, sha256 TEXT, documents INTEGER, tokens INTEGER,
  bytes INTEGER,
  PRIMARY KEY (run_id, ord)
) WITHOUT ROWID;

-- Token pieces, shared by the runs of one tokenizer (key: its hash) --------

CREATE TABLE tokenizer_ (
  tokenizer_id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE
);
CREATE TABLE piece_ (
  tokenizer_id INTEGER NOT NULL, token_id INTEGER NOT NULL,
  token TEXT,           -- printable: bytes that are no text as <0xNN>
  bytes BLOB, special INTEGER NOT NULL,
  PRIMARY KEY (tokenizer_id, token_id)
) WITHOUT ROWID;

-- Counts -------------------------------------------------------------------

CREATE TABLE layer_ (      -- one row a layer and definition
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, layer INTEGER NOT NULL,
  width INTEGER NOT NULL, tokens INTEGER NOT NULL,
  sum_nnz INTEGER NOT NULL, min_nnz INTEGER, max_nnz INTEGER,
  sum_l1 INTEGER NOT NULL,
  -- derived at the end of a run
  mean_nnz REAL, se_nnz REAL, std_nnz REAL,
  p50_nnz REAL, p90_nnz REAL, p99_nnz REAL, p999_nnz REAL,
  dead INTEGER, fired_once INTEGER, always_on INTEGER,
  PRIMARY KEY (run_id, def_ord, layer)
) WITHOUT ROWID;

CREATE TABLE block_ (      -- jackknife blocks: (document + window) mod 64
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, layer INTEGER NOT NULL,
  block INTEGER NOT NULL, tokens INTEGER NOT NULL, sum_nnz INTEGER NOT NULL,
  predicted INTEGER NOT NULL, sum_nll INTEGER NOT NULL,
  PRIMARY KEY (run_id, def_ord, layer, block)
) WITHOUT ROWID;

CREATE TABLE class_ (
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, layer INTEGER NOT NULL,
  class INTEGER NOT NULL, skipped INTEGER NOT NULL,
  tokens INTEGER NOT NULL, sum_nnz INTEGER NOT NULL, max_nnz INTEGER NOT NULL,
  PRIMARY KEY (run_id, def_ord, layer, class, skipped)
) WITHOUT ROWID;

CREATE TABLE class_name_ (class INTEGER PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO class_name_ VALUES
  (0, 'text'), (1, 'bos'), (2, 'special'), (3, 'prompt'), (4, 'generated');

CREATE TABLE layer_position_ (
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, layer INTEGER NOT NULL,
  position INTEGER NOT NULL, tokens INTEGER NOT NULL,
  sum_nnz INTEGER NOT NULL, min_nnz INTEGER NOT NULL, max_nnz INTEGER NOT NULL,
  PRIMARY KEY (run_id, def_ord, layer, position)
) WITHOUT ROWID;

CREATE TABLE position_ (   -- over all layers: tokens counts rows, not cells
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, position INTEGER NOT NULL,
  tokens INTEGER NOT NULL, sum_nnz INTEGER NOT NULL,
  min_nnz INTEGER NOT NULL, max_nnz INTEGER NOT NULL,
  max_layer_sum INTEGER NOT NULL,   -- the largest layer's sum_nnz
  PRIMARY KEY (run_id, def_ord, position)
) WITHOUT ROWID;

CREATE TABLE layer_token_ (
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, layer INTEGER NOT NULL,
  token_id INTEGER NOT NULL, count INTEGER NOT NULL, sum_nnz INTEGER NOT NULL,
  min_nnz INTEGER NOT NULL, max_nnz INTEGER NOT NULL,
  PRIMARY KEY (run_id, def_ord, layer, token_id)
) WITHOUT ROWID;

CREATE TABLE token_ (      -- sums over all layers; even, odd: see the views
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, token_id INTEGER NOT NULL,
  count INTEGER NOT NULL, in_sequences INTEGER NOT NULL,
  sum_nnz INTEGER NOT NULL,
  count_even INTEGER NOT NULL, sum_even INTEGER NOT NULL,
  min_nnz INTEGER NOT NULL, max_nnz INTEGER NOT NULL,
  PRIMARY KEY (run_id, def_ord, token_id)
) WITHOUT ROWID;

CREATE TABLE neuron_ (     -- expert 0 in a dense layer
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, layer INTEGER NOT NULL,
  expert INTEGER NOT NULL, neuron INTEGER NOT NULL,
  tokens INTEGER NOT NULL, fired INTEGER NOT NULL,
  -- (document, row in document) of the first and last firing; NULL: none
  first_document INTEGER, first_row INTEGER,
  last_document INTEGER, last_row INTEGER,
  first_fired INTEGER, last_fired INTEGER,  -- on the corpus clock, at the end
  sum_abs INTEGER, max_abs REAL,            -- NULL without --magnitudes
  PRIMARY KEY (run_id, def_ord, layer, expert, neuron)
) WITHOUT ROWID;

CREATE TABLE hist_ (
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, layer INTEGER NOT NULL,
  nnz INTEGER NOT NULL, tokens INTEGER NOT NULL,
  PRIMARY KEY (run_id, def_ord, layer, nnz)
) WITHOUT ROWID;

CREATE TABLE tile_ (
  run_id INTEGER NOT NULL, layer INTEGER NOT NULL, tile_width INTEGER NOT NULL,
  nnz INTEGER NOT NULL, tiles INTEGER NOT NULL,
  PRIMARY KEY (run_id, layer, tile_width, nnz)
) WITHOUT ROWID;

CREATE TABLE magnitude_ (
  run_id INTEGER NOT NULL, layer INTEGER NOT NULL, log2_bin INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (run_id, layer, log2_bin)
) WITHOUT ROWID;

CREATE TABLE route_ (
  run_id INTEGER NOT NULL, layer INTEGER NOT NULL, tokens INTEGER NOT NULL,
  overflow_tiles INTEGER NOT NULL, overflow_rows INTEGER NOT NULL,
  dense_rows INTEGER NOT NULL,
  PRIMARY KEY (run_id, layer)
) WITHOUT ROWID;

CREATE TABLE dead_curve_ (
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, layer INTEGER NOT NULL,
  tokens_seen INTEGER NOT NULL, dead INTEGER NOT NULL,
  PRIMARY KEY (run_id, def_ord, layer, tokens_seen)
) WITHOUT ROWID;

CREATE TABLE rate_ (       -- neurons by firing rate, made at the end of a run
  run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL, layer INTEGER NOT NULL,
  halvings INTEGER NOT NULL,  -- k: rate in (2^-(k+1), 2^-k]; -1: never fired
  neurons INTEGER NOT NULL,
  PRIMARY KEY (run_id, def_ord, layer, halvings)
) WITHOUT ROWID;

CREATE TABLE document_ (   -- the corpus clock is made from these lengths
  run_id INTEGER NOT NULL, document INTEGER NOT NULL,
  rows INTEGER NOT NULL, sequences INTEGER NOT NULL,
  PRIMARY KEY (run_id, document)
) WITHOUT ROWID;

CREATE TABLE parity_ (
  run_id INTEGER NOT NULL, ord INTEGER NOT NULL,   -- layers, then the whole
  layer INTEGER, cells INTEGER, identical INTEGER, max_difference INTEGER,
  total_difference REAL, fired_cells INTEGER, fired_identical INTEGER,
  fired_max_difference INTEGER, l1_max_relative REAL,
  nll_max_difference REAL, mean_nll_difference REAL, logits_max_difference REAL,
  PRIMARY KEY (run_id, ord)
) WITHOUT ROWID;

-- The per-token ledger: BLOBs of blocks of sequences (doc/FORMAT.md), read
-- through virtual tables ------------------------------------------------------

CREATE TABLE ledger_block_ (
  block_id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL,
  document INTEGER NOT NULL, start INTEGER NOT NULL,  -- of the first sequence
  last_document INTEGER NOT NULL, last_start INTEGER NOT NULL,
  rows INTEGER NOT NULL, sequences INTEGER NOT NULL,
  before INTEGER,         -- sequences of earlier documents; NULL: not ended
  UNIQUE (run_id, document, start)
);
CREATE TABLE ledger_ (
  block_id INTEGER NOT NULL, kind INTEGER NOT NULL, def_ord INTEGER NOT NULL,
  layer INTEGER NOT NULL,                   -- -1: of all layers
  data BLOB NOT NULL,
  UNIQUE (block_id, kind, def_ord, layer)
);

CREATE TABLE example_ (    -- --examples: each neuron's strongest contexts
  run_id INTEGER NOT NULL, layer INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (run_id, layer)
);

-- Training: of our trainer, or imported (import trainlog) -------------------

CREATE TABLE training_step_ (
  run_id INTEGER NOT NULL, step INTEGER NOT NULL, tokens INTEGER,
  ce REAL, loss REAL, l1 REAL, l1_coefficient REAL, lr REAL, grad_norm REAL,
  mean_nnz REAL, alive REAL,      -- over layers; alive as a fraction
  dense_rows INTEGER, step_ns INTEGER, tokens_per_ms REAL, peak_bytes INTEGER,
  PRIMARY KEY (run_id, step)
) WITHOUT ROWID;

CREATE TABLE training_layer_ (
  run_id INTEGER NOT NULL, step INTEGER NOT NULL, layer INTEGER NOT NULL,
  mean_nnz REAL, max_nnz INTEGER, alive REAL, dense_rows INTEGER, path TEXT,
  PRIMARY KEY (run_id, step, layer)
) WITHOUT ROWID;

CREATE TABLE training_dead_ (
  run_id INTEGER NOT NULL, step INTEGER NOT NULL, layer INTEGER NOT NULL,
  window_tokens INTEGER NOT NULL, dead INTEGER NOT NULL,
  PRIMARY KEY (run_id, step, layer)
) WITHOUT ROWID;

-- Timings ------------------------------------------------------------------

CREATE TABLE layer_timing_ (
  run_id INTEGER NOT NULL, layer INTEGER NOT NULL, path TEXT NOT NULL,
  tokens INTEGER NOT NULL, ns_median INTEGER NOT NULL, ns_min INTEGER NOT NULL,
  ns_mad INTEGER NOT NULL, repetitions INTEGER NOT NULL,
  PRIMARY KEY (run_id, layer, path)
) WITHOUT ROWID;

CREATE TABLE bench_ (
  run_id INTEGER NOT NULL, ord INTEGER NOT NULL,
  target TEXT NOT NULL, name TEXT NOT NULL, path TEXT NOT NULL,
  m INTEGER, k INTEGER, n INTEGER, dtype TEXT, nnz_mean REAL, nnz_max INTEGER,
  data TEXT, repetitions INTEGER, ns_median INTEGER, ns_min INTEGER,
  ns_mad INTEGER, tokens_per_ms REAL, mj_per_token REAL, energy_method TEXT,
  idle_watt REAL, peak_bytes INTEGER, rel_error REAL,
  PRIMARY KEY (run_id, ord)
) WITHOUT ROWID;

-- Public views ---------------------------------------------------------------
-- all_X holds every definition, X each run's primary only.

CREATE VIEW run_info AS SELECT
  run, uuid, kind, status, model, model_type, family, model_hash,
  tokenizer_hash, layers, d_model, d_ff, experts, gated, activation,
  activation_source, active, weight_dtype, compute_dtype, backend, device,
  plan, tokens, sequences, documents, bytes, ctx, split, doc_sep, bos,
  parse_special, apply, skip, skipped, predicted, mean_nll, se_nll, perplexity,
  bits_per_byte, overflow_rows, seed, shards, shards_missing, started, finished,
  version, command, cause, shard, token_limit, ledger
FROM run_;

CREATE VIEW run_tags AS
SELECT r.run, t.key, t.value FROM run_tag_ t JOIN run_ r USING (run_id);

CREATE VIEW corpora AS
SELECT r.run, c.file, c.sha256, c.documents, c.tokens, c.bytes
FROM corpus_ c JOIN run_ r USING (run_id);

CREATE VIEW all_layer_stats AS SELECT
  r.run, d.active, l.layer, l.width, l.tokens,
  1.0 * l.sum_nnz / nullif(l.tokens, 0) AS mean_nnz, l.se_nnz, l.std_nnz,
  l.min_nnz, l.p50_nnz, l.p90_nnz, l.p99_nnz, l.p999_nnz, l.max_nnz,
  1.0 - 1.0 * l.sum_nnz / nullif(l.tokens, 0) / l.width AS sparsity,
  l.dead, 1.0 * l.dead / l.width AS dead_fraction, l.fired_once, l.always_on,
  l.sum_l1 / 65536.0 / nullif(l.tokens, 0) AS mean_l1
FROM layer_ l JOIN definition_ d USING (run_id, def_ord)
JOIN run_ r USING (run_id);

CREATE VIEW all_layer_blocks AS SELECT
  r.run, d.active, b.layer, b.block, b.tokens, b.sum_nnz, b.predicted,
  b.sum_nll / 1048576.0 AS sum_nll
FROM block_ b JOIN definition_ d USING (run_id, def_ord)
JOIN run_ r USING (run_id);

CREATE VIEW all_layer_class_stats AS SELECT
  r.run, d.active, c.layer, n.name AS class, c.skipped, c.tokens,
  1.0 * c.sum_nnz / nullif(c.tokens, 0) AS mean_nnz, c.max_nnz
FROM class_ c JOIN class_name_ n USING (class)
JOIN definition_ d USING (run_id, def_ord) JOIN run_ r USING (run_id);

CREATE VIEW all_position_stats AS SELECT
  r.run, d.active, p.position, p.tokens,
  1.0 * p.sum_nnz / (p.tokens * r.layers) AS mean_nnz, p.min_nnz, p.max_nnz,
  1.0 * p.max_layer_sum / p.tokens AS max_layer_mean
FROM position_ p JOIN definition_ d USING (run_id, def_ord)
JOIN run_ r USING (run_id);

CREATE VIEW all_layer_position_stats AS SELECT
  r.run, d.active, p.layer, p.position, p.tokens,
  1.0 * p.sum_nnz / p.tokens AS mean_nnz, p.min_nnz, p.max_nnz
FROM layer_position_ p JOIN definition_ d USING (run_id, def_ord)
JOIN run_ r USING (run_id);

CREATE VIEW all_token_stats AS SELECT
  r.run, d.active, t.token_id, p.token, p.bytes, p.special,
  t.count, t.in_sequences,
  1.0 * t.sum_nnz / (t.count * r.layers) AS mean_nnz,
  1.0 * t.sum_even / nullif(t.count_even * r.layers, 0) AS mean_nnz_even,
  1.0 * (t.sum_nnz - t.sum_even)
    / nullif((t.count - t.count_even) * r.layers, 0) AS mean_nnz_odd,
  t.min_nnz, t.max_nnz
FROM token_ t JOIN definition_ d USING (run_id, def_ord)
JOIN run_ r USING (run_id)
LEFT JOIN piece_ p ON p.tokenizer_id = r.tokenizer_id
  AND p.token_id = t.token_id;

CREATE VIEW all_layer_token_stats AS SELECT
  r.run, d.active, t.layer, t.token_id, p.token, t.count,
  1.0 * t.sum_nnz / t.count AS mean_nnz, t.min_nnz, t.max_nnz
FROM layer_token_ t JOIN definition_ d USING (run_id, def_ord)
JOIN run_ r USING (run_id)
LEFT JOIN piece_ p ON p.tokenizer_id = r.tokenizer_id
  AND p.token_id = t.token_id;

CREATE VIEW all_neuron_stats AS SELECT
  r.run, d.active, n.layer,
  CASE WHEN r.experts IS NULL THEN NULL ELSE n.expert END AS expert,
  n.neuron, n.tokens, n.fired,
  1.0 * n.fired / nullif(n.tokens, 0) AS rate,
  n.sum_abs / 1048576.0 / nullif(n.fired, 0) AS mean_abs,
  CASE WHEN n.fired > 0 THEN n.max_abs END AS max_abs,
  n.first_fired, n.last_fired
FROM neuron_ n JOIN definition_ d USING (run_id, def_ord)
JOIN run_ r USING (run_id);

CREATE VIEW all_nnz_histogram AS
SELECT r.run, d.active, h.layer, h.nnz, h.tokens
FROM hist_ h JOIN definition_ d USING (run_id, def_ord)
JOIN run_ r USING (run_id);

CREATE VIEW all_dead_curve AS
SELECT r.run, d.active, c.layer, c.tokens_seen, c.dead
FROM dead_curve_ c JOIN definition_ d USING (run_id, def_ord)
JOIN run_ r USING (run_id);

CREATE VIEW all_rate_histogram AS
SELECT r.run, d.active, h.layer,
  CASE WHEN h.halvings < 0 THEN 0.0 ELSE 0.5 / (1 << h.halvings) END AS low,
  CASE WHEN h.halvings < 0 THEN 0.0 ELSE 1.0 / (1 << h.halvings) END AS high,
  h.neurons
FROM rate_ h JOIN definition_ d USING (run_id, def_ord)
JOIN run_ r USING (run_id);

-- The primary views: the same columns, so that no AVG() mixes definitions.

CREATE VIEW layer_stats AS SELECT v.* FROM all_layer_stats v
JOIN run_ p ON p.run = v.run AND p.active = v.active;
CREATE VIEW layer_blocks AS SELECT v.* FROM all_layer_blocks v
JOIN run_ p ON p.run = v.run AND p.active = v.active;
CREATE VIEW layer_class_stats AS SELECT v.* FROM all_layer_class_stats v
JOIN run_ p ON p.run = v.run AND p.active = v.active;
CREATE VIEW position_stats AS SELECT v.* FROM all_position_stats v
JOIN run_ p ON p.run = v.run AND p.active = v.active;
CREATE VIEW layer_position_stats AS SELECT v.* FROM all_layer_position_stats v
JOIN run_ p ON p.run = v.run AND p.active = v.active;
CREATE VIEW token_stats AS SELECT v.* FROM all_token_stats v
JOIN run_ p ON p.run = v.run AND p.active = v.active;
CREATE VIEW layer_token_stats AS SELECT v.* FROM all_layer_token_stats v
JOIN run_ p ON p.run = v.run AND p.active = v.active;
CREATE VIEW neuron_stats AS SELECT v.* FROM all_neuron_stats v
JOIN run_ p ON p.run = v.run AND p.active = v.active;
CREATE VIEW nnz_histogram AS SELECT v.* FROM all_nnz_histogram v
JOIN run_ p ON p.run = v.run AND p.active = v.active;
CREATE VIEW rate_histogram AS SELECT v.* FROM all_rate_histogram v
JOIN run_ p ON p.run = v.run AND p.active = v.active;
CREATE VIEW dead_curve AS SELECT v.* FROM all_dead_curve v
JOIN run_ p ON p.run = v.run AND p.active = v.active;

-- Views without a definition.

CREATE VIEW tile_histogram AS
SELECT r.run, t.layer, t.tile_width, t.nnz, t.tiles
FROM tile_ t JOIN run_ r USING (run_id);

CREATE VIEW magnitude_histogram AS
SELECT r.run, m.layer, m.log2_bin, m.count
FROM magnitude_ m JOIN run_ r USING (run_id);

CREATE VIEW layer_routes AS
SELECT r.run, t.layer, t.tokens, t.overflow_tiles, t.overflow_rows, t.dense_rows
FROM route_ t JOIN run_ r USING (run_id);

CREATE VIEW parity AS SELECT
  r.run, p.layer, p.cells, p.identical, p.max_difference, p.total_difference,
  p.fired_cells, p.fired_identical, p.fired_max_difference, p.l1_max_relative,
  p.nll_max_difference, p.mean_nll_difference, p.logits_max_difference
FROM parity_ p JOIN run_ r USING (run_id);

CREATE VIEW layer_timings AS SELECT
  r.run, t.layer, t.path, t.tokens, t.ns_median, t.ns_min, t.ns_mad,
  t.repetitions
FROM layer_timing_ t JOIN run_ r USING (run_id);

-- A timed run beside a complete profile of the same model: the signed share of
-- the time saved; contribution sums to +-100.
CREATE VIEW layer_speedup AS
WITH pair AS (
  SELECT d.run_id, d.layer, d.ns_median AS dense_ns, s.ns_median AS sparse_ns,
         d.ns_median - s.ns_median AS saved_ns
  FROM layer_timing_ d JOIN layer_timing_ s
    ON s.run_id = d.run_id AND s.layer = d.layer AND s.path = 'twell'
  WHERE d.path = 'dense'
), total AS (
  SELECT run_id, sum(saved_ns) AS saved FROM pair GROUP BY run_id
)
SELECT r.run, f.run AS profile_run, p.layer,
  1.0 * l.sum_nnz / nullif(l.tokens, 0) AS mean_nnz, p.dense_ns, p.sparse_ns,
  p.saved_ns, 1.0 * p.saved_ns / p.dense_ns AS saved_fraction,
  100.0 * p.saved_ns / nullif(abs(t.saved), 0) AS contribution
FROM pair p JOIN total t USING (run_id) JOIN run_ r USING (run_id)
JOIN run_ f ON f.model_hash = r.model_hash AND f.kind = 'profile'
  AND f.status = 'complete'
JOIN layer_ l ON l.run_id = f.run_id AND l.def_ord = 0 AND l.layer = p.layer;

CREATE VIEW bench_results AS SELECT
  r.run, b.target, b.name, b.path, b.m, b.k, b.n, b.dtype, b.nnz_mean,
  b.nnz_max, b.data, b.repetitions, b.ns_median, b.ns_min, b.ns_mad,
  b.tokens_per_ms, b.mj_per_token, b.energy_method, b.idle_watt, b.peak_bytes,
  b.rel_error
FROM bench_ b JOIN run_ r USING (run_id);

CREATE VIEW training_steps AS SELECT
  r.run, t.step, t.tokens, t.ce, t.loss, t.l1, t.l1_coefficient, t.lr,
  t.grad_norm, t.mean_nnz, t.alive, t.dense_rows, t.step_ns, t.tokens_per_ms,
  t.peak_bytes
FROM training_step_ t JOIN run_ r USING (run_id);

CREATE VIEW training_layers AS SELECT
  r.run, t.step, t.layer, t.mean_nnz, t.max_nnz, t.alive, t.dense_rows, t.path
FROM training_layer_ t JOIN run_ r USING (run_id);

CREATE VIEW training_dead AS SELECT
  r.run, t.step, t.layer, t.window_tokens, t.dead
FROM training_dead_ t JOIN run_ r USING (run_id);
