# height 2.1 + 0.25 a run
# P(a tile has more than s entries): a step down at each count that occurs.
# A colour a tile width; where there are several runs, dashes a run.
stats data using 3 nooutput name 'slots'
stats data using ($4 > 0 ? $4 : huge) nooutput name 'share'
stats data using 7 nooutput name 'hue'
bottom = share_min < huge ? floor_power(10, share_min * 0.999) : 0.1
drop(share) = share > 0 ? share : bottom / 10
widths = int(hue_max)
names = widths + (runs > 1 ? runs : 0)
array run[blocks]
array hue[blocks]
array name[names]
do for [i = 1:blocks] {
  stats data index i - 1 using 5 nooutput name 'tile'
  stats data index i - 1 using 6 nooutput name 'run_place'
  stats data index i - 1 using 7 nooutput name 'hue'
  run[i] = int(run_place_max)
  hue[i] = int(hue_max)
  name[hue[i]] = sprintf('%d wide', tile_max)
}
name_dash(k) = k > widths ? dash_of(k - widths) : 1
if (runs > 1) { do for [k = 1:runs] { name[widths + k] = label[k] } }
set xrange [0 : slots_max > 0 ? slots_max : 1]
set yrange [bottom : 1]

# Both corners of each step: one line, so that its dashes are not cut.
do for [i = 1:blocks] {
  set table $steps
  plot data index i - 1 using 3:(drop($4)) with points
  unset table
  set print $corners append
  above = ''
  do for [j = 1:|$steps|] {
    if (words($steps[j]) == 3) {
      if (strlen(above)) { print word($steps[j], 1)."\t".above }
      above = word($steps[j], 2)
      print word($steps[j], 1)."\t".above
    }
  }
  print ''
  print ''
  unset print
}

set logscale y 10
set format y power_of_ten
set xlabel 'slots s per tile'
set label 9 'tiles with more than s' \
  at screen edge, graph 0.5 center rotate by 90
set lmargin left_margin(4)
plot for [i = 1:blocks] $corners index i - 1 using 1:2 with lines lw 1.5 \
    lc rgb colour_of(hue[i]) dt dash_of(run[i]) notitle, \
  for [k = 1:names] NaN with lines lw (k > widths ? 1.5 : 3) \
    lc rgb (k > widths ? black : colour_of(k)) \
    dt name_dash(k) title name[k]
