-- figure non-zeros at each position in the sequence: mean, and largest layer
-- paper 7b
-- param smooth INTEGER 16 averages position n with the next n / 16 (0: none)
-- column block the run's place among the chosen ones
-- column series the run's label
-- column position position in the sequence, from 1; the mean of those averaged
-- column mean_nnz active neurons per token and layer, mean over layers
-- column max_layer_mean the largest layer's mean
-- column tokens tokens at these positions
WITH RECURSIVE longest AS (
  SELECT max(s.position) + 1 AS position
  FROM picked p
  JOIN all_position_stats s ON s.run = p.run AND s.active = p.active
), step(low, high) AS (
  SELECT 1, 2
  UNION ALL
  SELECT high, high + max(1, coalesce(high /
    nullif((SELECT value FROM arg WHERE name = 'smooth'), 0), 1))
  FROM step WHERE high <= (SELECT position FROM longest)
)
SELECT p.ord AS block, p.label AS series, avg(s.position + 1) AS position,
  sum(s.mean_nnz * s.tokens) / sum(s.tokens) AS mean_nnz,
  sum(s.max_layer_mean * s.tokens) / sum(s.tokens) AS max_layer_mean,
  sum(s.tokens) AS tokens
FROM picked p CROSS JOIN step b
JOIN all_position_stats s ON s.run = p.run AND s.active = p.active
  AND s.position >= b.low - 1 AND s.position < b.high - 1
GROUP BY p.ord, b.low
ORDER BY p.ord, b.low
