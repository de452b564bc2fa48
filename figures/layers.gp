# height 2.1 + 0.15 a run
# One run: bars, with its timings on the right axis; several: a line each.
has_share = 0
stats data using 3 nooutput name 'layer'
stats data using ($4 > 0 ? $4 : huge) nooutput name 'mean'
stats data using 5 nooutput name 'largest'
stats data using (has_share = has_share || valid(7), valid(7) ? $7 : 0) \
  nooutput name 'share'
has_share = has_share && runs == 1
bottom = mean_min < huge ? floor_power(2, mean_min) / 2 : 0.5
bottom = bottom > 1 ? 1 : bottom
top = largest_max > 2 ? largest_max * 1.3 : 3
if (has_share && layer_records > 2) {
  stats data using 4:7 nooutput name 'pair'
  if (abs(pair_correlation) <= 1) {   # NaN where either is constant
    half = pair_records > 3 ? 1.96 / sqrt(pair_records - 3) : NaN
    z = abs(pair_correlation) < 1 ? atanh(pair_correlation) : NaN
    within = half == half && z == z && width > 4 ? \
      sprintf(' [%.3f, %.3f]', tanh(z - half), tanh(z + half)) : ''
    set label 1 sprintf('r = %.3f%s', pair_correlation, within) at graph 1, 1 \
      right offset 0, 0.8 textcolor rgb red noenhanced
  }
}

set logscale y 2
set format y '%g'
set xrange [layer_min - 0.8 : layer_max + 0.8]
set yrange [bottom : top]
set xlabel 'layer'
set label 9 'non-zeros per token' \
  at screen edge, graph 0.5 center rotate by 90
set xtics out nomirror 0, (layer_max > 12 ? 4 : layer_max > 5 ? 2 : 1)

set lmargin left_margin(strlen(sprintf('%d', top)))
if (has_share) {
  set border 11
  set y2tics offset -0.7, 0 textcolor rgb red
  set y2label 'share of time saved ('.percent.')' offset -1.8, 0 \
    textcolor rgb red
  low = share_min < 0 ? share_min * 1.6 : 0
  high = share_max > 0 ? share_max * 1.8 : -share_min * 0.4
  set y2range [low : high]
  wide = strlen(sprintf('%d', low))
  if (strlen(sprintf('%d', high)) > wide) { wide = strlen(sprintf('%d', high)) }
  set rmargin 2.6 + 1.2 * (wide > 3 ? wide : 3)
}
side = has_share ? 0.22 : 0
bar = has_share ? 0.42 : 0.8

if (has_share) {
  plot data using ($3 - side):5:(bar) with boxes lc rgb pale_green \
      title 'max', \
    '' using ($3 - side):4:(bar) with boxes lc rgb green title 'mean', \
    '' using ($3 - side):($4 > 0 ? NaN : bottom) with points pt 11 ps 0.6 \
      lc rgb red notitle, \
    '' using ($3 + side):7:(bar) axes x1y2 with boxes lc rgb orange notitle
}
if (runs == 1 && !has_share) {
  plot data using ($3 - side):5:(bar) with boxes lc rgb pale_green \
      title 'max', \
    '' using ($3 - side):4:(bar) with boxes lc rgb green title 'mean', \
    '' using ($3 - side):($4 > 0 ? NaN : bottom) with points pt 11 ps 0.6 \
      lc rgb red notitle
}
if (runs > 1) {
  plot for [i = 1:blocks] data index i - 1 using 3:($4 > 0 ? $4 : bottom) \
      with linespoints pt 7 ps 0.3 lw 1.5 lc rgb colour_of(i) \
      title series[i], \
    for [i = 1:blocks] data index i - 1 using 3:5 with lines lw 1 dt 3 \
      lc rgb colour_of(i) title (i == 1 ? 'max' : ''), \
    data using 3:($4 > 0 ? NaN : bottom) with points pt 11 ps 0.6 lc rgb red \
      notitle
}
