# height 2.3 + 0.15 a run
# Solid: always sparse; dashed: as planned, in the run's colour; open: paper.
stats data using 3 nooutput name 'nnz'
stats data using 4 nooutput name 'gain'
stats data using 6 nooutput name 'form'
has_paper = form_max == 2
has_auto = 0
stats data using (has_auto = has_auto || $6 == 1, $6) nooutput name 'planned'
curves = (blocks - has_paper) / (1 + has_auto)
set logscale xy
set xrange [nnz_min / 1.25 : nnz_max * 1.25]
set yrange [gain_min / 1.15 : gain_max * 1.15]
set xlabel 'non-zeros per token'
set label 9 'speed-up over dense' \
  at screen edge, graph 0.5 center rotate by 90
set xtics out nomirror
set mxtics 10
set ytics (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8)
set lmargin left_margin(3)
set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lw 1 \
  lc rgb black
set label 8 'dense' at graph 1, first 1 right offset -0.3, 0.5 \
  font ',7' textcolor rgb black noenhanced
set key above maxcols (width > 5 ? 3 : 1)
set errorbars 0.5
# gnuplot runs a `for` over nothing once: what is absent is left out as text.
planned = !has_auto ? '' : ", for [i = curves + 1:2 * curves] data " \
  ."index i - 1 using 3:4 with lines lw 1.6 dt (6, 4) " \
  ."lc rgb colour_of(i - curves) notitle, NaN with lines lw 1.6 dt (6, 4) " \
  ."lc rgb grey title 'as planned'"
paper = !has_paper ? '' : ", data index blocks - 1 using 3:4 " \
  ."with linespoints pt 6 ps 0.6 lw 0.8 dt 3 lc rgb black " \
  ."title series[blocks]"
plot for [i = 1:curves] data index i - 1 using 3:4:5 with yerrorbars \
    pt 7 ps 0 lw 0.7 lc rgb colour_of(i) notitle, \
  for [i = 1:curves] data index i - 1 using 3:4 with linespoints \
    pt 7 ps 0.35 lw 1.4 lc rgb colour_of(i) title series[i] \
  @planned @paper
