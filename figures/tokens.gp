# height 2.3 a run
# Bars from the fewest (above) to the most (below), each with its token at the
# left and its count at the right.
stats data using 6 nooutput name 'mean'
top = mean_max > 0 ? mean_max : 1
# Room at the right for counts of any length.
stats data using 7 nooutput name 'count'
digits = count_max > 0 ? floor(log10(count_max)) + 1 : 1
wide = 1 / (0.69 - 0.0245 * (digits > 5 ? digits - 5 : 0))
# Four steps or so, of 1, 2 or 5 times a power of ten: labels never touch.
rough = top * wide / 4
power = 10 ** floor(log10(rough))
step = power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : \
                rough / power < 7.5 ? 5 : 10)
at(place, rank) = place + (rank > 0 ? 0.7 : 0)
unset grid
set grid xtics
set border 1
unset ytics
set xtics step
set xlabel 'non-zeros per token and layer'
set xrange [0 : top * wide]
set lmargin 14.5
set rmargin 0.5
unset key
if (blocks > 1) {
  set multiplot layout blocks, 1
}
set tmargin (runs > 1 ? 1.5 : 0.6)
do for [i = 1:blocks] {
  set yrange [*:*]
  stats data index i - 1 using (at($3, $4)) nooutput name 'bar'
  set yrange [bar_max + 0.6 : bar_min - 0.6]
  if (runs > 1) { set title series[i] noenhanced offset 0, -0.7 }
  plot data index i - 1 \
      using (0):(at($3, $4)):(0):6:(at($3, $4) - 0.4):(at($3, $4) + 0.4) \
      with boxxyerror lc rgb sky, \
    '' index i - 1 using (0):($4 > 0 ? at($3, $4) : NaN):(0):6:\
      (at($3, $4) - 0.4):(at($3, $4) + 0.4) with boxxyerror lc rgb blue, \
    '' index i - 1 using (0):(at($3, $4)):5 with labels right offset -0.4, 0 \
      noenhanced, \
    '' index i - 1 using 6:(at($3, $4)):(sprintf('%.3g (n=%d)', $6, $7)) \
      with labels left offset 0.3, 0 font ',6.5' tc rgb '#404040'
}
if (blocks > 1) { unset multiplot }
