# Tests of db.
if HAVE_CHECK
check_PROGRAMS += tests/test_store tests/test_store_rows tests/test_query tests/test_ledger \
	tests/test_migrate
TESTS += tests/test_store tests/test_store_rows tests/test_query tests/test_ledger \
	tests/test_migrate
db_test_libs = libdb.a libbase.a $(SQLITE_LIBS) $(ZLIB_LIBS) $(NETTLE_LIBS) $(CHECK_LIBS)
tests_test_store_SOURCES = tests/test_store.c tests/store_fixture.h tests/tw_check.h
tests_test_store_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(SQLITE_CFLAGS)
tests_test_store_LDADD = $(db_test_libs)
tests_test_store_rows_SOURCES = tests/test_store_rows.c tests/store_fixture.h \
	tests/tw_check.h
tests_test_store_rows_CPPFLAGS = $(tests_test_store_CPPFLAGS)
tests_test_store_rows_LDADD = $(db_test_libs)
tests_test_query_SOURCES = tests/test_query.c tests/tw_check.h
tests_test_query_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(SQLITE_CFLAGS)
tests_test_query_LDADD = $(db_test_libs)
tests_test_migrate_SOURCES = tests/test_migrate.c tests/tw_check.h
tests_test_migrate_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(SQLITE_CFLAGS)
tests_test_migrate_LDADD = $(db_test_libs)
tests_test_ledger_SOURCES = tests/test_ledger.c tests/tw_check.h
tests_test_ledger_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_ledger_LDADD = $(db_test_libs)
endif
EXTRA_DIST += tests/data/schema-1.sql

# Made by scripts/verify_scale.
EXTRA_PROGRAMS += tests/bench_ledger
tests_bench_ledger_SOURCES = tests/bench_ledger.c
tests_bench_ledger_LDADD = libanalysis.a libdb.a libbase.a $(SQLITE_LIBS) \
	$(ZLIB_LIBS) $(NETTLE_LIBS) -lm
