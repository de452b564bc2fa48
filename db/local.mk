# Sources of this room; schema.sql is embedded as one C string.
noinst_LIBRARIES += libdb.a
libdb_a_SOURCES = \
	%reldir%/functions.c %reldir%/ledger_read.c %reldir%/ledger_read.h \
	%reldir%/sqlite_api.h %reldir%/vtab.h %reldir%/vtab_examples.c \
	%reldir%/vtab_pairs.c \
	%reldir%/vtab_plan.c %reldir%/vtab_plan.h %reldir%/vtab_rows.c \
	%reldir%/vtab_walk.c %reldir%/vtab_walk.h \
	%reldir%/ledger.c %reldir%/ledger.h %reldir%/ledger_format.c \
	%reldir%/ledger_format.h %reldir%/ledger_internal.h \
	%reldir%/ledger_pack.c %reldir%/ledger_store.c \
	%reldir%/examples.c %reldir%/examples.h %reldir%/fsck.h %reldir%/fsck_checks.c %reldir%/fsck_schema.c \
	%reldir%/ledger_replay.c %reldir%/migrate.c \
	%reldir%/query.c %reldir%/query.h %reldir%/store.c %reldir%/store.h \
	%reldir%/store_bulk.c %reldir%/store_copy.c %reldir%/store_extra.c \
	%reldir%/store_internal.h \
	%reldir%/store_open.c %reldir%/store_rows.c %reldir%/store_run.c
nodist_libdb_a_SOURCES = %reldir%/schema_sql.c
libdb_a_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS)
EXTRA_DIST += %reldir%/schema.sql

# The same reader as a loadable extension of SQLite.
extensiondir = $(pkglibdir)
extension_PROGRAMS = twellscope_ledger.so
twellscope_ledger_so_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS) -DTW_EXTENSION
twellscope_ledger_so_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
twellscope_ledger_so_SOURCES = %reldir%/extension.c %reldir%/functions.c \
	%reldir%/ledger_format.c %reldir%/ledger_read.c \
	%reldir%/vtab_examples.c %reldir%/vtab_pairs.c %reldir%/vtab_plan.c \
	%reldir%/vtab_rows.c %reldir%/vtab_walk.c src/base/error.c src/base/memory.c
twellscope_ledger_so_LDFLAGS = $(AM_LDFLAGS) -shared
twellscope_ledger_so_LDADD = $(ZLIB_LIBS) -lm
BUILT_SOURCES += %reldir%/schema_sql.c
CLEANFILES += %reldir%/schema_sql.c

%reldir%/schema_sql.c: $(srcdir)/%reldir%/schema.sql
	$(AM_V_GEN)$(MKDIR_P) %reldir% && { \
	  echo '/* Made from schema.sql. */'; \
	  echo '#include <config.h>'; \
	  echo '#include "db/store_internal.h"'; \
	  echo 'const char twp_schema_sql[] ='; \
	  $(SED) -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/    "/' \
	    -e 's/$$/\\n"/' $(srcdir)/%reldir%/schema.sql; \
	  echo '    ;'; } >$@-t && mv -f $@-t $@
