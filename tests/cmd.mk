# Tests of cmd.
if HAVE_CHECK
check_PROGRAMS += tests/test_output tests/test_figure
TESTS += tests/test_output tests/test_figure
cmd_test_libs = libcmd.a libdb.a libbase.a $(SQLITE_LIBS) $(NETTLE_LIBS) \
	$(CHECK_LIBS)
tests_test_output_SOURCES = tests/test_output.c tests/tw_check.h
tests_test_output_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_output_LDADD = $(cmd_test_libs)
tests_test_figure_SOURCES = tests/test_figure.c tests/tw_check.h
tests_test_figure_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_figure_LDADD = $(cmd_test_libs)
endif
