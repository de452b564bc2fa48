# What all figures share. Colours: Okabe and Ito's, safe for the colour-blind.
black = '#000000'
orange = '#E69F00'
sky = '#56B4E9'
green = '#009E73'
yellow = '#F0E442'
blue = '#0072B2'
red = '#D55E00'
purple = '#CC79A7'
grey = '#808080'
pale_green = '#B2E2D3'
array colour[8] = [green, blue, red, orange, purple, sky, black, grey]
dash_of(i) = (int(i) - 1) % 5 + 1
colour_of(i) = colour[(int(i) - 1) % 8 + 1]

set datafile separator tab
set encoding utf8
set border 3 linewidth 0.6 linecolor rgb '#404040'
set tics out nomirror scale 0.6, 0.3
set xtics offset 0, 0.3
set ytics offset 0.5, 0
set xlabel offset 0, 0.7
# Names stand above the curves, as many in a line as fit.
set key above left horizontal samplen 1.2 spacing 1.05 Left reverse noenhanced
# A name too long for a line loses its middle (not LaTeX's markup).
most = int((width - 1.1) / 0.075)
fit(s) = (is_tex && strstrt(s, '\\')) || strlen(s) <= most ? s : \
  s[1 : most / 2].'…'.s[strlen(s) - (most - 1) / 2 + 1 : *]
do for [i = 1:blocks] { series[i] = fit(series[i]) }
do for [i = 1:runs] { label[i] = fit(label[i]) }
set style fill solid noborder
unset mytics
set boxwidth 0.8
set grid ytics linewidth 0.4 linecolor rgb '#dddddd' linetype 1
set rmargin 1.4
set bmargin 2.6
# The left margin for tic labels of so many characters and the axis's name,
# a label at the edge: gnuplot's own place for it depends on the tics.
edge = 0.09 / width
left_margin(characters) = (characters > 3 ? characters : 3) + 3.4

# Powers of ten and of two on a logarithmic axis.
percent = is_tex ? '\%' : '%'
power_of_ten = is_tex ? '$10^{%T}$' : '10^{%T}'
# Statistics are taken before an axis is logarithmic, and never of NaN alone.
huge = 1e300
floor_power(base, x) = base ** floor(log(x) / log(base))
