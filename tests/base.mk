# Tests of src/base.
if HAVE_CHECK
check_PROGRAMS += tests/test_base
TESTS += tests/test_base
tests_test_base_SOURCES = tests/test_base.c tests/tw_check.h
tests_test_base_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_base_LDADD = libbase.a $(NETTLE_LIBS) $(CHECK_LIBS)
endif
