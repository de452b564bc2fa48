# The program: one file a command, the table, main.
noinst_LIBRARIES += libcmd.a
libcmd_a_SOURCES = \
	%reldir%/arguments.c %reldir%/arguments.h \
	%reldir%/bench_command.h \
	%reldir%/bench_model_show.c %reldir%/bench_model_show.h \
	%reldir%/bench_show.c %reldir%/bench_show.h \
	%reldir%/cmd_bench_model.c \
	%reldir%/cmd_bench.c %reldir%/cmd_diff.c \
	%reldir%/cmd_figure.c %reldir%/cmd_fsck.c \
	%reldir%/cmd_import.c %reldir%/cmd_info.c \
	%reldir%/cmd_neuron.c \
	%reldir%/cmd_merge.c %reldir%/cmd_profile.c \
	%reldir%/cmd_runs.c %reldir%/cmd_sql.c \
	%reldir%/cmd_tokenize.c %reldir%/command.h %reldir%/commands.c \
	%reldir%/figure.h %reldir%/figure_data.c %reldir%/figure_dirs.c \
	%reldir%/figure_list.c %reldir%/figure_load.c %reldir%/figure_paper.c %reldir%/figure_plot.c \
	%reldir%/figure_runs.c %reldir%/figure_show.c %reldir%/figure_show.h \
	%reldir%/figure_set.c %reldir%/gnuplot.c %reldir%/gnuplot.h \
	%reldir%/help.c %reldir%/help.h \
	%reldir%/options.c %reldir%/options.h \
	%reldir%/output.c %reldir%/output.h %reldir%/output_internal.h \
	%reldir%/output_table.c %reldir%/output_text.c \
	%reldir%/summary.c %reldir%/summary.h %reldir%/talk.c %reldir%/talk.h \
	%reldir%/utf8.c %reldir%/utf8.h
libcmd_a_CPPFLAGS = $(AM_CPPFLAGS) \
	-DTW_FIGURES_DIR='"$(pkgdatadir)/figures"'

TW_ROOM_LIBS = librun.a libmodel.a libkernels.a libanalysis.a libdb.a \
	libload.a libtext.a libbase.a
TW_LIBS = $(OPENBLAS_LIBS) $(SQLITE_LIBS) $(JANSSON_LIBS) $(PCRE2_LIBS) \
	$(ZLIB_LIBS) $(NETTLE_LIBS)

bin_PROGRAMS += twellscope
twellscope_SOURCES = %reldir%/main.c
twellscope_LDADD = libcmd.a $(TW_ROOM_LIBS) $(TW_LIBS)
