# Sources of this room; schema.sql is embedded as one C string.
noinst_LIBRARIES += libdb.a
libdb_a_SOURCES = \
	%reldir%/query.c %reldir%/query.h %reldir%/store.c %reldir%/store.h \
	%reldir%/store_copy.c %reldir%/store_extra.c \
	%reldir%/store_internal.h \
	%reldir%/store_open.c %reldir%/store_rows.c %reldir%/store_run.c
nodist_libdb_a_SOURCES = %reldir%/schema_sql.c
libdb_a_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS)
EXTRA_DIST += %reldir%/schema.sql
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
