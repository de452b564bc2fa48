# Sources of this room.
noinst_LIBRARIES += libcmd.a
libcmd_a_SOURCES = \
	%reldir%/cmd_figure.c %reldir%/cmd_sql.c %reldir%/command.h \
	%reldir%/figure.h %reldir%/figure_data.c %reldir%/figure_dirs.c \
	%reldir%/figure_list.c %reldir%/figure_load.c %reldir%/figure_plot.c \
	%reldir%/figure_runs.c %reldir%/figure_show.c %reldir%/figure_show.h \
	%reldir%/figure_set.c %reldir%/gnuplot.c %reldir%/gnuplot.h \
	%reldir%/options.c %reldir%/options.h \
	%reldir%/output.c %reldir%/output.h %reldir%/output_internal.h \
	%reldir%/output_table.c %reldir%/output_text.c \
	%reldir%/utf8.c %reldir%/utf8.h
libcmd_a_CPPFLAGS = $(AM_CPPFLAGS) \
	-DTW_FIGURES_DIR='"$(pkgdatadir)/figures"'
