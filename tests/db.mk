# Tests of db.
if HAVE_CHECK
check_PROGRAMS += tests/test_store tests/test_query tests/test_migrate
TESTS += tests/test_store tests/test_query tests/test_migrate
db_test_libs = libdb.a libbase.a $(SQLITE_LIBS) $(ZLIB_LIBS) $(NETTLE_LIBS) $(CHECK_LIBS)
tests_test_store_SOURCES = tests/test_store.c tests/tw_check.h
tests_test_store_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(SQLITE_CFLAGS)
tests_test_store_LDADD = $(db_test_libs)
tests_test_query_SOURCES = tests/test_query.c tests/tw_check.h
tests_test_query_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(SQLITE_CFLAGS)
tests_test_query_LDADD = $(db_test_libs)
tests_test_migrate_SOURCES = tests/test_migrate.c tests/tw_check.h
tests_test_migrate_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(SQLITE_CFLAGS)
tests_test_migrate_LDADD = $(db_test_libs)
endif
EXTRA_DIST += tests/data/schema-1.sql
