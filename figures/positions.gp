# height 2.1
# Mean and the largest layer's mean, the area between them shaded.
stats data using 3 nooutput name 'position'
stats data using ($4 > 0 ? $4 : NaN) nooutput name 'mean'
stats data using ($5 > 0 ? $5 : NaN) nooutput name 'largest'
low = exists('mean_min') && mean_records > 0 ? mean_min : 0.5
high = exists('largest_max') && largest_records > 0 ? largest_max : 2
is_short = position_max < 3
set logscale xy 2
set format xy '%g'
set xlabel 'position in the sequence'
set ylabel 'non-zeros per token'
set xrange [(is_short ? 0.5 : 1) : (is_short ? 4 : position_max)]
set yrange [low / 1.25 : high * 1.5]
set ytics (low, high)
set ytics auto
set key top right horizontal width 0
if (blocks == 1) {
  plot data using 3:4:5 with filledcurves fc rgb pale_green fs solid 0.6 \
      notitle, \
    '' using 3:5 with lines lw 1 dt 2 lc rgb green title 'largest layer', \
    '' using 3:4 with lines lw 1.5 lc rgb green title 'mean', \
    '' using (is_short ? $3 : NaN):4 with points pt 7 ps 0.5 lc rgb green \
      notitle, \
    '' using (is_short ? $3 : NaN):5 with points pt 6 ps 0.5 lc rgb green \
      notitle
} else {
  plot for [i = 1:blocks] data index i - 1 using 3:5 with lines lw 0.8 dt 2 \
      lc rgb colour_of(i) title (i == 1 ? 'largest layer' : ''), \
    for [i = 1:blocks] data index i - 1 using 3:4 with linespoints lw 1.5 \
      pt (is_short ? 7 : -1) ps 0.5 lc rgb colour_of(i) title series[i]
}
