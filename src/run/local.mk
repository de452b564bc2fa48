# What commands do: profile, bench.
noinst_LIBRARIES += librun.a
librun_a_SOURCES = \
	%reldir%/bench_ffn.c %reldir%/bench_ffn.h %reldir%/compare.c \
	%reldir%/compare.h %reldir%/corpus.c %reldir%/corpus.h \
	%reldir%/profile.c %reldir%/profile.h %reldir%/progress.h \
	%reldir%/random.c %reldir%/random.h %reldir%/record.c \
	%reldir%/record.h %reldir%/rules.c %reldir%/rules.h \
	%reldir%/session.h %reldir%/session_facts.c %reldir%/session_open.c \
	%reldir%/session_record.c
