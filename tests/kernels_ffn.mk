# Tests of TwELL and the feed-forward layer.
if HAVE_CHECK
check_PROGRAMS += tests/test_twell tests/test_ffn \
	tests/test_ffn_plan tests/test_ffn_ref
TESTS += tests/test_twell tests/test_ffn \
	tests/test_ffn_plan tests/test_ffn_ref
tests_test_twell_SOURCES = tests/test_twell.c tests/tw_check.h
tests_test_twell_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_twell_LDADD = libkernels.a libbase.a $(OPENBLAS_LIBS) $(CHECK_LIBS)
tests_test_ffn_SOURCES = tests/test_ffn.c tests/ffn_case.h \
	tests/ffn_check.h tests/tw_check.h
tests_test_ffn_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_ffn_LDADD = libkernels.a libbase.a $(OPENBLAS_LIBS) $(CHECK_LIBS)
tests_test_ffn_plan_SOURCES = tests/test_ffn_plan.c tests/tw_check.h
tests_test_ffn_plan_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_ffn_plan_LDADD = libkernels.a libbase.a $(OPENBLAS_LIBS) $(CHECK_LIBS)
tests_test_ffn_ref_SOURCES = tests/test_ffn_ref.c tests/ops_fixture.c \
	tests/ops_fixture.h tests/tw_check.h
tests_test_ffn_ref_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_ffn_ref_LDADD = libkernelsref.a libkernels.a libbase.a \
	$(OPENBLAS_LIBS) $(CHECK_LIBS)
endif
