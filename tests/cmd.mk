# Tests of cmd.
if HAVE_CHECK
CMD_TESTS = tests/test_output tests/test_figure tests/test_figure_bench
check_PROGRAMS += $(CMD_TESTS)
TESTS += $(CMD_TESTS)
cmd_test_libs = libcmd.a $(TW_ROOM_LIBS) $(TW_LIBS) $(CHECK_LIBS)
tests_test_output_SOURCES = tests/test_output.c tests/tw_check.h
tests_test_output_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_output_LDADD = $(cmd_test_libs)
tests_test_figure_SOURCES = tests/test_figure.c tests/figure_case.h \
	tests/tw_check.h
tests_test_figure_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_figure_LDADD = $(cmd_test_libs)
tests_test_figure_bench_SOURCES = tests/test_figure_bench.c \
	tests/figure_case.h tests/tw_check.h
tests_test_figure_bench_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_figure_bench_LDADD = $(cmd_test_libs)
endif

# Claims about the whole program, each a script that prints its own tally.
CLI_TESTS = tests/cli/oracle.sh tests/cli/identical.sh tests/cli/resume.sh \
	tests/cli/malformed.sh tests/cli/show.sh \
	tests/cli/views.sh tests/cli/rules.sh tests/cli/families.sh \
	tests/cli/merge.sh tests/cli/ledger.sh tests/cli/bench.sh \
	tests/cli/bench_model.sh \
	tests/cli/formats.sh tests/cli/plan.sh \
	tests/cli/fsck.sh tests/cli/trainlog.sh tests/cli/diff.sh \
	tests/cli/outputs.sh tests/cli/examples.sh
TESTS += $(CLI_TESTS)
EXTRA_DIST += $(CLI_TESTS) tests/cli/lib.sh tests/cli/make_corpus.py tests/cli/make_f16.py \
	tests/cli/make_bad.py tests/cli/check_views.py \
	tests/cli/make_formats.py tests/cli/spoil_fsck.py \
	tests/data/sparselm-tiny/README.md \
	tests/data/sparselm-tiny/config.json \
	tests/data/sparselm-tiny/model.safetensors \
	tests/data/sparselm-tiny/oracle.safetensors \
	tests/data/sparselm-tiny/tokenizer.json \
	tests/data/sparselm-tiny/tokenizer.conformance.json
