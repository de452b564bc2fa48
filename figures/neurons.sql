-- figure how often neurons fire: density of firing rates, and dead neurons
-- param layer INTEGER NULL only this layer (NULL: all)
-- column block the run's place among the chosen ones
-- column series the run's label
-- column low rates above this (0: never fired) ...
-- column high ... up to this, in firings per counted token
-- column neurons neurons with such a rate
-- column share their share of all neurons
WITH RECURSIVE rates AS (
  SELECT p.ord, p.label, s.low, s.high, sum(s.neurons) AS neurons
  FROM picked p
  JOIN all_rate_histogram s ON s.run = p.run AND s.active = p.active
  WHERE s.layer = coalesce((SELECT value FROM arg WHERE name = 'layer'),
      s.layer)
  GROUP BY p.ord, s.low
), total AS (
  SELECT x.ord, x.label, sum(x.neurons) AS neurons, max(r.tokens) AS tokens
  FROM rates x JOIN picked p ON p.ord = x.ord JOIN run_info r ON r.run = p.run
  GROUP BY x.ord
), bin(low, high) AS (   -- an octave each, down to one firing; 0: never fired
  SELECT 0.5, 1.0
  UNION ALL
  SELECT low / 2, low FROM bin
  WHERE low * (SELECT max(tokens) FROM total) >= 1
), every(low, high) AS (
  SELECT 0.0, 0.0 UNION ALL SELECT low, high FROM bin
)
SELECT t.ord AS block, t.label AS series, b.low, b.high,
  coalesce(sum(r.neurons), 0) AS neurons,
  1.0 * coalesce(sum(r.neurons), 0) / t.neurons AS share
FROM total t CROSS JOIN every b
LEFT JOIN rates r ON r.ord = t.ord AND r.low = b.low
GROUP BY t.ord, b.low
ORDER BY t.ord, b.low
