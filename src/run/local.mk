# What commands do: profile, merge, bench.
noinst_LIBRARIES += librun.a
librun_a_SOURCES = \
	%reldir%/bench_ffn.c %reldir%/bench_ffn.h %reldir%/compare.c \
	%reldir%/compare.h %reldir%/corpus.c %reldir%/corpus.h \
	%reldir%/diff.c %reldir%/diff.h \
	%reldir%/fsck.c %reldir%/fsck.h %reldir%/fsck_derived.c \
	%reldir%/fsck_internal.h %reldir%/fsck_ledger.c \
	%reldir%/merge.c %reldir%/merge.h %reldir%/merge_internal.h \
	%reldir%/merge_parts.c \
	%reldir%/profile.c %reldir%/profile.h %reldir%/progress.h \
	%reldir%/random.c %reldir%/random.h %reldir%/record.c \
	%reldir%/record.h %reldir%/rules.c %reldir%/rules.h \
	%reldir%/trainlog.c %reldir%/trainlog.h %reldir%/trainlog_csv.c \
	%reldir%/trainlog_internal.h %reldir%/trainlog_json.c \
	%reldir%/job.h %reldir%/job_facts.c %reldir%/job_ledger.c %reldir%/job_open.c \
	%reldir%/job_record.c %reldir%/tokenizer_of.c \
	%reldir%/tokenizer_of.h
