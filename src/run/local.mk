# What commands do: profile, bench.
noinst_LIBRARIES += librun.a
librun_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
librun_a_SOURCES = \
	%reldir%/bench_ffn.c %reldir%/bench_ffn.h %reldir%/compare.c \
	%reldir%/compare.h %reldir%/corpus.c %reldir%/corpus.h \
	%reldir%/plan.c %reldir%/plan.h \
	%reldir%/profile.c %reldir%/profile.h %reldir%/progress.h \
	%reldir%/random.c %reldir%/random.h %reldir%/record.c \
	%reldir%/record.h %reldir%/replay.c %reldir%/replay.h %reldir%/rules.c %reldir%/rules.h \
	%reldir%/job.h %reldir%/job_facts.c %reldir%/job_open.c \
	%reldir%/job_plan.c %reldir%/job_record.c
