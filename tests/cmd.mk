# Tests of cmd.
if HAVE_CHECK
check_PROGRAMS += tests/test_output
TESTS += tests/test_output
tests_test_output_SOURCES = tests/test_output.c tests/tw_check.h
tests_test_output_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_output_LDADD = libcmd.a $(TW_ROOM_LIBS) $(TW_LIBS) $(CHECK_LIBS)
endif
