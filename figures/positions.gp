# height 2.1 + 0.15 a run
# Mean and the largest layer's mean, the area between them shaded.
stats data using 3 nooutput name 'position'
stats data using ($4 > 0 ? $4 : huge) nooutput name 'mean'
stats data using 5 nooutput name 'largest'
low = mean_min < huge ? mean_min : 0.5
high = largest_max > low ? largest_max : low * 2
is_short = position_max < 3
set logscale xy 2
set format xy '%g'
set xlabel 'position in the sequence'
set label 9 'non-zeros per token' at screen edge, graph 0.5 center rotate by 90
set xrange [(is_short ? 0.5 : 1) : (is_short ? 4 : position_max)]
set yrange [low / 1.25 : high * 1.25]
# too narrow for two powers of 2: round numbers, evenly apart
if (high < 2.5 * low) {
  span = (high * 1.25 - low / 1.25) / 4
  unit = 10 ** floor(log10(span))
  step = span / unit < 1.5 ? unit : span / unit < 3.5 ? 2 * unit : 5 * unit
  set ytics ()
  set for [k = ceil(low / 1.25 / step) : floor(high * 1.25 / step)] \
    ytics add (sprintf('%g', k * step) k * step)
}
set lmargin left_margin(strlen(sprintf('%d', high * 1.25)))
dot = is_short ? 7 : -2
if (runs == 1) {
  plot data using 3:4:5 with filledcurves fc rgb pale_green fs solid 0.6 \
      notitle, \
    '' using 3:5 with linespoints pt (is_short ? 6 : -2) ps 0.5 lw 0.8 \
      lc rgb green title 'largest layer', \
    '' using 3:4 with linespoints pt dot ps 0.5 lw 1.5 lc rgb green \
      title 'mean', \
    '' using 3:($4 > 0 ? NaN : low / 1.25) with points pt 11 ps 0.6 \
      lc rgb red notitle
}
if (runs > 1) {
  plot for [i = 1:blocks] data index i - 1 using 3:5 with linespoints \
      pt (is_short ? 6 : -2) ps 0.5 lw 0.8 dt 2 lc rgb colour_of(i) \
      title (i == 1 ? 'largest layer' : ''), \
    for [i = 1:blocks] data index i - 1 using 3:4 with linespoints pt dot \
      ps 0.5 lw 1.5 lc rgb colour_of(i) title series[i]
}
