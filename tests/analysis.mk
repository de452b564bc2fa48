# Tests of analysis.
if HAVE_CHECK
check_PROGRAMS += tests/test_statistics tests/test_profile_acc \
	tests/test_profile_store
TESTS += tests/test_statistics tests/test_profile_acc tests/test_profile_store
analysis_test_libs = libanalysis.a libdb.a libbase.a $(SQLITE_LIBS) $(ZLIB_LIBS) \
	$(NETTLE_LIBS) $(CHECK_LIBS)
tests_test_statistics_SOURCES = tests/test_statistics.c tests/tw_check.h
tests_test_statistics_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_statistics_LDADD = $(analysis_test_libs)
tests_test_profile_acc_SOURCES = tests/test_profile_acc.c \
	tests/profile_corpus.h tests/tw_check.h
tests_test_profile_acc_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_profile_acc_LDADD = $(analysis_test_libs)
tests_test_profile_store_SOURCES = tests/test_profile_store.c \
	tests/profile_corpus.h tests/profile_oracle.h tests/tw_check.h
tests_test_profile_store_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_profile_store_LDADD = $(analysis_test_libs)
endif
