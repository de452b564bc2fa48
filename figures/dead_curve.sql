-- figure neurons that have not fired yet, against tokens seen
-- param max_layers INTEGER 8 more layers than this: mean and range, no lines
-- column block a layer, or a run where there are more
-- column series its label
-- column tokens_seen rows of the corpus clock so far, skipped rows included
-- column dead_fraction share of neurons that have not fired, mean over layers
-- column lowest the smallest layer's share
-- column highest the largest layer's share
-- column layers layers averaged
WITH points AS (
  SELECT p.ord, p.label, c.layer, c.tokens_seen, 1.0 * c.dead / l.width AS dead
  FROM picked p
  JOIN all_dead_curve c ON c.run = p.run AND c.active = p.active
  JOIN all_layer_stats l
    ON l.run = p.run AND l.active = p.active AND l.layer = c.layer
), form AS (
  SELECT (SELECT count(*) FROM picked) = 1 AND count(DISTINCT layer) <=
    (SELECT value FROM arg WHERE name = 'max_layers') AS is_by_layer
  FROM points
)
SELECT CASE WHEN is_by_layer THEN layer ELSE ord END AS block,
  CASE WHEN is_by_layer THEN layer ELSE label END AS series,
  tokens_seen, avg(dead) AS dead_fraction, min(dead) AS lowest,
  max(dead) AS highest, count(*) AS layers
FROM points CROSS JOIN form
GROUP BY 1, tokens_seen
ORDER BY 1, tokens_seen
