-- figure mean and largest number of non-zeros in each layer, with the speed-up
-- paper 6 10 11
-- param timings TEXT NULL the run whose timings are drawn (NULL: the newest)
-- note SELECT series, pearson(mean_nnz, contribution) AS pearson_r,
-- note   count(contribution) AS n,
-- note   pearson_at(mean_nnz, contribution, -1.96) AS r_low_95,
-- note   pearson_at(mean_nnz, contribution, 1.96) AS r_high_95
-- note FROM figure WHERE contribution IS NOT NULL GROUP BY block
-- column block the run's place among the chosen ones
-- column series the run's label
-- column layer layer, from 0
-- column mean_nnz active neurons per token, mean
-- column max_nnz active neurons per token, largest
-- column width neurons of the layer
-- column contribution the layer's share of the time saved by sparse kernels, %
WITH timed AS (
  SELECT p.ord, coalesce(
    (SELECT value FROM arg WHERE name = 'timings'),
    (SELECT s.run FROM layer_speedup s JOIN run_info r ON r.run = s.run
     WHERE s.profile_run = p.run ORDER BY r.started DESC, s.run LIMIT 1)
  ) AS run
  FROM picked p
)
SELECT p.ord AS block, p.label AS series, l.layer, l.mean_nnz, l.max_nnz,
  l.width, s.contribution
FROM picked p
JOIN all_layer_stats l ON l.run = p.run AND l.active = p.active
JOIN timed t ON t.ord = p.ord
LEFT JOIN layer_speedup s
  ON s.run = t.run AND s.profile_run = p.run AND s.layer = l.layer
WHERE l.mean_nnz IS NOT NULL
ORDER BY p.ord, l.layer
