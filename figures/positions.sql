-- figure non-zeros at each position in the sequence: mean, and largest layer
-- paper 7b
-- column block the run's place among the chosen ones
-- column series the run's label
-- column position position in the sequence, from 1
-- column mean_nnz active neurons per token and layer, mean over layers
-- column max_layer_mean the largest layer's mean
-- column tokens tokens at this position
SELECT p.ord AS block, p.label AS series, s.position + 1 AS position,
  s.mean_nnz, s.max_layer_mean, s.tokens
FROM picked p
JOIN all_position_stats s ON s.run = p.run AND s.active = p.active
ORDER BY p.ord, s.position
