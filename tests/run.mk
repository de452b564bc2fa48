# Tests of run.
if HAVE_CHECK
check_PROGRAMS += tests/test_bench tests/fake_nvml.so
TESTS += tests/test_bench
tests_test_bench_SOURCES = tests/test_bench.c tests/tw_check.h
tests_test_bench_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_bench_LDADD = $(TW_ROOM_LIBS) $(TW_LIBS) $(CHECK_LIBS)
tests_fake_nvml_so_SOURCES = tests/fake_nvml.c
tests_fake_nvml_so_CFLAGS = $(AM_CFLAGS) -fPIC
tests_fake_nvml_so_LDFLAGS = $(AM_LDFLAGS) -shared
check_PROGRAMS += tests/test_flights
TESTS += tests/test_flights
tests_test_flights_SOURCES = tests/test_flights.c tests/late_ops.c \
	tests/late_ops.h tests/tw_check.h tests/tw_files.h tests/tw_llama.h
tests_test_flights_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_flights_LDADD = $(TW_ROOM_LIBS) $(TW_LIBS) $(CHECK_LIBS)
check_PROGRAMS += tests/test_ranks
TESTS += tests/test_ranks
tests_test_ranks_SOURCES = tests/test_ranks.c tests/tw_check.h tests/tw_files.h
tests_test_ranks_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_ranks_LDADD = $(TW_ROOM_LIBS) $(TW_LIBS) $(CHECK_LIBS)
endif
# The program over a backend that works on its own, for tests/cli/flights.sh.
check_PROGRAMS += tests/twellscope-late
tests_twellscope_late_SOURCES = src/cmd/main.c tests/late_find.c \
	tests/late_ops.c tests/late_ops.h
tests_twellscope_late_LDADD = libcmd.a $(TW_ROOM_LIBS) $(TW_LIBS)
RUN_CLI_TESTS = tests/cli/flights.sh tests/cli/ranks.sh tests/cli/scratch.sh tests/cli/kills.sh
TESTS += $(RUN_CLI_TESTS)
EXTRA_DIST += $(RUN_CLI_TESTS)
