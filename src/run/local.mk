# What commands do: profile, merge, bench.
noinst_LIBRARIES += librun.a
librun_a_SOURCES = \
	%reldir%/bench_ffn.c %reldir%/bench_ffn.h %reldir%/compare.c \
	%reldir%/compare.h %reldir%/corpus.c %reldir%/corpus.h \
	%reldir%/merge.c %reldir%/merge.h %reldir%/merge_internal.h \
	%reldir%/merge_parts.c \
	%reldir%/profile.c %reldir%/profile.h %reldir%/progress.h \
	%reldir%/random.c %reldir%/random.h %reldir%/record.c \
	%reldir%/record.h %reldir%/rules.c %reldir%/rules.h \
	%reldir%/job.h %reldir%/job_facts.c %reldir%/job_ledger.c %reldir%/job_open.c \
	%reldir%/job_record.c %reldir%/tokenizer_of.c \
	%reldir%/tokenizer_of.h
