# height 2.0
# P(a tile has more than s entries): a step down at each count that occurs.
stats data using 3 nooutput name 'slots'
stats data using ($4 > 0 ? $4 : huge) nooutput name 'share'
bottom = share_min < huge ? floor_power(10, share_min * 0.999) : 0.1
set logscale y 10
set format y power_of_ten
set xlabel 'slots s per tile'
set label 9 'tiles with more than s' \
  at screen edge, graph 0.5 center rotate by 90
set xrange [0 : slots_max > 0 ? slots_max : 1]
set yrange [bottom : 1]
set key top right
set lmargin left_margin(4)
drop(share) = share > 0 ? share : bottom / 10
plot for [i = 1:blocks] data index i - 1 using 3:(drop($4)) with steps lw 1.5 \
  lc rgb colour_of(i) title series[i]
