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
colour_of(i) = colour[(int(i) - 1) % 8 + 1]

set datafile separator tab
set encoding utf8
set border 3 linewidth 0.6 linecolor rgb '#404040'
set tics out nomirror scale 0.6, 0.3
set xtics offset 0, 0.3
set ytics offset 0.5, 0
set xlabel offset 0, 0.7
set ylabel offset 1.2, 0
set key top right samplen 1.2 width -1 spacing 1.05 noenhanced
set style fill solid noborder
set boxwidth 0.8
set grid ytics linewidth 0.4 linecolor rgb '#dddddd' linetype 1
set lmargin screen 0
unset lmargin

# Powers of ten and of two on a logarithmic axis.
power_of_ten = is_tex ? '$10^{%T}$' : '10^{%T}'
floor_power(base, x) = base ** floor(log(x) / log(base))
