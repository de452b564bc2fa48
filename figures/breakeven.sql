-- figure speed-up of a sparse feed-forward layer against its non-zeros
-- paper-data fig03_accuracy_nnz fig04_inference
-- kind bench
-- column block each run twice: forced to be sparse, then planned
-- column series what was timed: data, tokens, kernels
-- column nnz non-zeros per token, mean
-- column speedup time of the fastest dense form over the sparse form's
-- column spread of the speed-up: both relative median distances from the median
-- column form 0 always sparse, 1 as planned, 2 the paper's whole model
-- The paper's points: its 1.5B model's tokens per second, sparse over dense,
-- at the non-zeros of the same L1 coefficient. Attention is in them.
WITH dense AS (
  SELECT b.run, b.data, b.m, b.nnz_mean, min(b.ns_median) AS ns, b.ns_mad AS mad
  FROM bench_results b JOIN picked p ON p.run = b.run
  WHERE b.target = 'ffn' AND b.name = 'dense'
  GROUP BY b.run, b.data, b.m, b.nnz_mean
), sparse AS (
  SELECT p.ord, b.run, b.data, b.m, b.path, b.name = 'auto' AS is_auto,
    b.nnz_mean, 1.0 * d.ns / b.ns_median AS speedup,
    1.0 * d.mad / d.ns AS dense_mad, 1.0 * b.ns_mad / b.ns_median AS own_mad
  FROM picked p
  JOIN bench_results b ON b.run = p.run
  JOIN dense d ON d.run = b.run AND d.data = b.data AND d.m = b.m
    AND d.nnz_mean = b.nnz_mean
  WHERE b.target = 'ffn' AND b.name IN ('twell', 'auto') AND b.nnz_mean > 0
), names AS (
  SELECT DISTINCT s.ord, s.data || ', ' || s.m || ' tokens' ||
    CASE WHEN r.gated = 0 THEN ', plain' ELSE '' END ||
    CASE WHEN (SELECT count(DISTINCT path) FROM sparse) > 1
      THEN ', ' || s.path ELSE '' END AS name
  FROM sparse s JOIN run_info r ON r.run = s.run
)
SELECT CASE WHEN s.is_auto THEN 100000 ELSE 0 END + s.ord AS block,
  CASE WHEN s.is_auto THEN '' ELSE n.name END AS series,
  s.nnz_mean AS nnz, s.speedup,
  s.speedup * (s.dense_mad + s.own_mad) AS spread,
  s.is_auto AS form
FROM sparse s JOIN names n ON n.ord = s.ord
UNION ALL
SELECT 200000, 'the paper''s whole 1.5B model', a.nnz,
  1 + b.speedup_pct / 100.0, NULL, 2
FROM paper_fig03_accuracy_nnz a JOIN paper_fig04_inference b ON b.l1 = a.l1
WHERE a.nnz > 0
ORDER BY block, nnz
