# height 2.0 + 0.15 a run
# A line a layer (dark to light), or a run's mean with its layers' range.
stats data using 3 nooutput name 'seen'
stats data using 6 nooutput name 'high'
stats data using 7 nooutput name 'layers'
is_by_layer = layers_max == 1 && runs == 1
set logscale x 2
set format x (is_tex ? '$2^{%L}$' : '2^{%L}')
set xtics out nomirror
set xlabel 'tokens seen'
set label 9 'neurons not fired yet ('.percent.')' \
  at screen edge, graph 0.5 center rotate by 90
set xrange [seen_min : seen_max > seen_min ? seen_max : seen_min * 2]
set yrange [0 : high_max > 0 ? high_max * 105 : 1]
set palette defined (0 '#440154', 0.25 '#3b528b', 0.5 '#21918c', \
  0.75 '#5ec962', 1 '#d8c416')
unset colorbox
set cbrange [0 : blocks > 1 ? blocks - 1 : 1]
set lmargin left_margin(3)
is_point = seen_min == seen_max
if (is_by_layer) {
  set key outside right center vertical title 'layer'
  set rmargin 7
  plot for [i = 1:blocks] data index i - 1 using 3:($4 * 100):(i - 1) \
    with linespoints pt 7 ps (is_point ? 0.6 : 0.25) lw 1.3 lc palette \
    title series[i]
} else {
  plot for [i = 1:blocks] data index i - 1 using 3:($5 * 100):($6 * 100) \
      with filledcurves fc rgb colour_of(i) fs transparent solid 0.2 \
      title (runs == 1 ? 'range over layers' : ''), \
    for [i = 1:blocks] data index i - 1 using 3:($4 * 100) with linespoints \
      pt 7 ps 0.3 lw 1.5 lc rgb colour_of(i) \
      title (runs == 1 ? 'mean over layers' : series[i])
}
