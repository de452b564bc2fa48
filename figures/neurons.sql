-- figure how often neurons fire: density of firing rates, and dead neurons
-- param layer INTEGER NULL only this layer (NULL: all)
-- column block the run's place among the chosen ones
-- column series the run's label
-- column low rates above this (0: never fired) ...
-- column high ... up to this, in firings per counted token
-- column neurons neurons with such a rate
-- column share their share of all neurons
WITH RECURSIVE rates AS (
  SELECT p.ord, p.label, s.rate, count(*) AS neurons, max(s.tokens) AS tokens
  FROM picked p
  JOIN all_neuron_stats s ON s.run = p.run AND s.active = p.active
  WHERE s.tokens > 0
    AND s.layer = coalesce((SELECT value FROM arg WHERE name = 'layer'),
      s.layer)
  GROUP BY p.ord, s.rate
), total AS (
  SELECT ord, label, sum(neurons) AS neurons, max(tokens) AS tokens
  FROM rates GROUP BY ord
), bin(low, high) AS (   -- an octave each, down to one firing
  SELECT 0.5, 1.0
  UNION ALL
  SELECT low / 2, low FROM bin
  WHERE low * (SELECT max(tokens) FROM total) >= 1
), counted AS (
  SELECT t.ord, b.low, b.high, coalesce(sum(r.neurons), 0) AS neurons
  FROM total t CROSS JOIN bin b
  LEFT JOIN rates r ON r.ord = t.ord AND r.rate > b.low AND r.rate <= b.high
  GROUP BY t.ord, b.low
  UNION ALL
  SELECT t.ord, 0.0, 0.0, coalesce(sum(r.neurons), 0)
  FROM total t LEFT JOIN rates r ON r.ord = t.ord AND r.rate = 0
  GROUP BY t.ord
)
SELECT t.ord AS block, t.label AS series, c.low, c.high, c.neurons,
  1.0 * c.neurons / t.neurons AS share
FROM counted c JOIN total t ON t.ord = c.ord
ORDER BY t.ord, c.low
