-- figure tiles that need more than s slots, for each tile width
-- param layer INTEGER NULL only this layer (NULL: all)
-- column block tile width (and run) in order
-- column series its label
-- column slots s, slots of a tile
-- column share share of (row, tile) pairs with more than s entries
-- column tile_width columns of a tile
-- column run_place the run's place among the chosen ones, from 1
-- column width_place the width's place among the widths, from 1
WITH counted AS (
  SELECT p.ord, p.label, h.tile_width, h.nnz, sum(h.tiles) AS tiles
  FROM picked p JOIN tile_histogram h ON h.run = p.run
  WHERE h.layer = coalesce((SELECT value FROM arg WHERE name = 'layer'),
    h.layer)
  GROUP BY p.ord, h.tile_width, h.nnz
), summed AS (
  SELECT *, sum(tiles) OVER w AS upto,
    sum(tiles) OVER (PARTITION BY ord, tile_width) AS total,
    dense_rank() OVER (ORDER BY ord, tile_width) - 1 AS block,
    dense_rank() OVER (ORDER BY tile_width) AS width_place
  FROM counted
  WINDOW w AS (PARTITION BY ord, tile_width ORDER BY nnz)
)
SELECT block,
  CASE WHEN (SELECT count(*) FROM picked) > 1 THEN label || ', ' ELSE '' END
    || tile_width || ' wide' AS series,
  nnz AS slots, 1.0 * (total - upto) / total AS share, tile_width,
  ord + 1 AS run_place, width_place
FROM summed
ORDER BY block, nnz
