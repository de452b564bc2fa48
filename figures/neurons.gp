# height 2.0 + 0.15 a run
# Firing rates in octaves on a logarithmic axis; the dead stand at the left.
stats data using ($3 > 0 ? $3 : huge) nooutput name 'rate'
stats data using ($6 * 100) nooutput name 'share'
decade = log10(rate_min)
never = decade - 0.95
middle(low, high) = (log10(low) + log10(high)) / 2
octave = log10(2)
set xlabel 'firing rate (share of tokens)'
set label 9 'neurons per octave ('.percent.')' \
  at screen edge, graph 0.5 center rotate by 90
set xrange [never - 0.55 : 0.1]
set yrange [0 : share_max > 0 ? share_max * (runs > 1 ? 1.05 : 1.2) : 1]
set xtics out nomirror
set xtics ('never' never)
do for [k = ceil(decade):0] {
  set xtics add (sprintf(is_tex ? '$10^{%d}$' : '10^{%d}', k) k)
}
set lmargin left_margin(3)
set arrow from decade - 0.3, graph 0 to decade - 0.3, graph 1 nohead \
  lc rgb '#aaaaaa' dt 3
wide = 0.6
if (runs == 1) {
  set boxwidth octave
  unset key
  plot data using ($3 > 0 ? middle($3, $4) : NaN):($6 * 100):(octave * 0.92) \
      with boxes lc rgb sky, \
    '' using ($3 > 0 ? NaN : never):($6 * 100):(wide) with boxes lc rgb red, \
    '' using ($3 > 0 ? NaN : never):($6 * 100): \
      (sprintf('%.3g', $6 * 100).percent) \
      with labels offset 0, 0.5 font ',7' noenhanced
} else {
  bar = wide / blocks
  plot for [i = 1:blocks] data index i - 1 using \
      ($3 > 0 ? middle($3, $4) : NaN):($6 * 100) with histeps lw 1.3 \
      lc rgb colour_of(i) title series[i], \
    for [i = 1:blocks] data index i - 1 using ($3 > 0 ? NaN : \
      never - wide / 2 + (i - 0.5) * bar):($6 * 100):(bar * 0.9) with boxes \
      lc rgb colour_of(i) notitle
}
