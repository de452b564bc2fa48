noinst_LIBRARIES += libbase.a
libbase_a_SOURCES = \
	%reldir%/active.c %reldir%/active.h %reldir%/batch.h \
	%reldir%/dtype.c %reldir%/dtype.h %reldir%/error.c %reldir%/error.h \
	%reldir%/file.c %reldir%/file.h %reldir%/log.c %reldir%/log.h \
	%reldir%/memory.c %reldir%/memory.h %reldir%/obs.c %reldir%/obs.h \
	%reldir%/sha256.c %reldir%/sha256.h %reldir%/status.h \
	%reldir%/strbuf.c %reldir%/strbuf.h %reldir%/threads.c \
	%reldir%/threads.h %reldir%/vocab.h
libbase_a_CPPFLAGS = $(AM_CPPFLAGS) $(NETTLE_CFLAGS)
libbase_a_SOURCES += %reldir%/module.c %reldir%/module.h %reldir%/move.c \
	%reldir%/move.h
libbase_a_CPPFLAGS += -DTW_PKGLIBDIR='"$(pkglibdir)"'
