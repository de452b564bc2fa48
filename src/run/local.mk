# What commands do: profile, merge, bench.
noinst_LIBRARIES += librun.a
librun_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
librun_a_SOURCES = \
	%reldir%/batch_copy.c %reldir%/batch_copy.h \
	%reldir%/flights.c %reldir%/flights.h \
	%reldir%/bench_data.c %reldir%/bench_data.h \
	%reldir%/bench_energy.c %reldir%/bench_ffn.c %reldir%/bench_ffn.h \
	%reldir%/bench_forms.c %reldir%/bench_internal.h \
	%reldir%/bench_model.c %reldir%/bench_model.h \
	%reldir%/bench_model_energy.c \
	%reldir%/bench_model_forms.c %reldir%/bench_model_input.c \
	%reldir%/bench_model_internal.h %reldir%/bench_model_time.c \
	%reldir%/bench_rates.c %reldir%/bench_rates.h \
	%reldir%/bench_rates_table.h %reldir%/bench_record.c \
	%reldir%/bench_time.c %reldir%/compare.c %reldir%/compare.h \
	%reldir%/energy.c %reldir%/energy.h %reldir%/corpus.c %reldir%/corpus.h \
	%reldir%/diff.c %reldir%/diff.h \
	%reldir%/fsck.c %reldir%/fsck.h %reldir%/fsck_derived.c \
	%reldir%/fsck_internal.h %reldir%/fsck_ledger.c \
	%reldir%/merge.c %reldir%/merge.h %reldir%/merge_internal.h \
	%reldir%/merge_parts.c %reldir%/plan.c %reldir%/plan.h \
	%reldir%/profile.c %reldir%/profile.h %reldir%/progress.h \
	%reldir%/random.c %reldir%/random.h %reldir%/record.c \
	%reldir%/record.h %reldir%/replay.c %reldir%/replay.h \
	%reldir%/rules.c %reldir%/rules.h \
	%reldir%/trainlog.c %reldir%/trainlog.h %reldir%/trainlog_csv.c \
	%reldir%/trainlog_internal.h %reldir%/trainlog_json.c \
	%reldir%/job.h %reldir%/job_beside.c %reldir%/job_facts.c %reldir%/job_ledger.c \
	%reldir%/job_open.c %reldir%/job_plan.c %reldir%/job_record.c %reldir%/job_runner.c \
	%reldir%/tokenizer_of.c %reldir%/tokenizer_of.h
