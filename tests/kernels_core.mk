# Tests of kernels.
if HAVE_CHECK
check_PROGRAMS += tests/test_ops tests/test_ops_same tests/test_ops_ref
TESTS += tests/test_ops tests/test_ops_same tests/test_ops_ref
tests_test_ops_SOURCES = tests/test_ops.c tests/ops_fixture.c \
	tests/ops_fixture.h tests/tw_check.h
tests_test_ops_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_ops_LDADD = libkernelsref.a libkernels.a libbase.a \
	$(OPENBLAS_LIBS) $(CHECK_LIBS)
tests_test_ops_same_SOURCES = tests/test_ops_same.c tests/ops_fixture.c \
	tests/ops_fixture.h tests/tw_check.h tests/tw_files.h
tests_test_ops_same_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_ops_same_LDADD = libkernelsref.a libkernels.a libbase.a \
	$(OPENBLAS_LIBS) $(CHECK_LIBS)
tests_test_ops_ref_SOURCES = tests/test_ops_ref.c tests/ops_fixture.h \
	tests/tw_check.h
tests_test_ops_ref_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_ops_ref_LDADD = libkernelsref.a libkernels.a libbase.a \
	$(OPENBLAS_LIBS) $(CHECK_LIBS)
endif
