# height 2.1
# One run: bars, with its timings on the right axis; several: a line each.
stats data using 3 nooutput name 'layer'
stats data using ($4 > 0 ? $4 : NaN) nooutput name 'mean'
stats data using 5 nooutput name 'largest'
stats data using 7 nooutput name 'share'
has_mean = exists('mean_records') && mean_records > 0
has_share = exists('share_records') && share_records > 0 && blocks == 1
bottom = has_mean ? floor_power(2, mean_min) / 2 : 0.5
bottom = bottom > 1 ? 1 : bottom
top = largest_max > 2 ? largest_max * 1.3 : 3

set logscale y 2
set format y '%g'
set xrange [layer_min - 0.8 : layer_max + 0.8]
set yrange [bottom : top * (has_share ? 2.2 : 1.7)]
set xlabel 'layer'
set ylabel 'non-zeros per token'
set xtics out nomirror 0, (layer_max > 12 ? 4 : layer_max > 5 ? 2 : 1)
set key horizontal center top maxrows 2 width 0

if (has_share) {
  set border 11
  stats data using 4:7 nooutput name 'pair'
  correlated = layer_records > 2 && exists('pair_correlation')
  set y2tics offset -0.6, 0
  set y2label 'share of time saved (%)' offset -1.4, 0
  low = share_min < 0 ? share_min * 1.6 : 0
  high = share_max > 0 ? share_max * 2 : -share_min * 0.4
  set y2range [low : high]
}
side = has_share ? 0.22 : 0
bar = has_share ? 0.42 : 0.8
share_title = has_share && correlated ? \
  sprintf('share of time saved (r = %.3f)', pair_correlation) : \
  'share of time saved'

if (blocks == 1) {
  plot data using ($3 - side):5:(bar) with boxes lc rgb pale_green title 'max', \
    '' using ($3 - side):4:(bar) with boxes lc rgb green title 'mean', \
    '' using ($3 - side):($4 > 0 ? NaN : bottom) with points pt 11 ps 0.6 \
      lc rgb red notitle, \
    '' using ($3 + side):(has_share ? $7 : NaN):(bar) axes x1y2 with boxes \
      lc rgb orange title (has_share ? share_title : '')
} else {
  plot for [i = 1:blocks] data index i - 1 using 3:($4 > 0 ? $4 : bottom) \
      with linespoints pt 7 ps 0.3 lw 1.5 lc rgb colour_of(i) \
      title series[i], \
    for [i = 1:blocks] data index i - 1 using 3:5 with lines lw 1 dt 3 \
      lc rgb colour_of(i) title (i == blocks ? 'max' : '')
}
