-- figure the tokens with the fewest and the most non-zeros
-- paper 7a
-- param top INTEGER 6 tokens shown of either end
-- param min_share REAL 0.00006103515625 rarer tokens are dropped (1/2^14)
-- param min_sequences INTEGER 10 tokens in fewer sequences are dropped
-- column block the run's place among the chosen ones
-- column series the run's label
-- column place the bar's place, from 0
-- column rank 1, 2, ...: the most; -1, -2, ...: the fewest
-- column token the token's text; a space is shown as an open box
-- column mean_nnz active neurons per token and layer, mean
-- column count how often the token occurs
-- column in_sequences in how many sequences
WITH kept AS (
  SELECT p.ord, p.label, t.token_id, t.token, t.count, t.in_sequences,
    t.mean_nnz
  FROM picked p JOIN run_info r ON r.run = p.run
  JOIN all_token_stats t ON t.run = p.run AND t.active = p.active
  WHERE t.count >= r.tokens * (SELECT value FROM arg WHERE name = 'min_share')
    AND t.in_sequences >= min(r.sequences / 8,
      (SELECT value FROM arg WHERE name = 'min_sequences'))
), ranked AS (
  SELECT *,
    row_number() OVER (PARTITION BY ord ORDER BY mean_nnz, token_id) AS low,
    row_number() OVER (PARTITION BY ord ORDER BY mean_nnz DESC, token_id)
      AS high
  FROM kept
), shown AS (
  SELECT *, CASE WHEN low < high THEN -low ELSE high END AS rank
  FROM ranked
  WHERE min(low, high) <= (SELECT value FROM arg WHERE name = 'top')
)
SELECT ord AS block, label AS series,
  row_number() OVER (PARTITION BY ord ORDER BY rank > 0, abs(rank)) - 1
    AS place,
  rank,
  replace(CASE WHEN token IS NULL THEN '#' || token_id
    WHEN length(token) > 14 THEN substr(token, 1, 13) || '…'
    ELSE token END, ' ', '␣') AS token,
  mean_nnz, count, in_sequences
FROM shown
ORDER BY ord, place
