# Tests of TwELL and the feed-forward layer.
if HAVE_CHECK
check_PROGRAMS += tests/test_twell tests/test_ffn
TESTS += tests/test_twell tests/test_ffn
tests_test_twell_SOURCES = tests/test_twell.c tests/tw_check.h
tests_test_twell_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_twell_LDADD = libkernels.a libbase.a $(OPENBLAS_LIBS) $(CHECK_LIBS)
tests_test_ffn_SOURCES = tests/test_ffn.c tests/ffn_case.h \
	tests/ffn_check.h tests/tw_check.h
tests_test_ffn_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_ffn_LDADD = libkernels.a libbase.a $(OPENBLAS_LIBS) $(CHECK_LIBS)
endif
