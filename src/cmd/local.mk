# Sources of this room.
noinst_LIBRARIES += libcmd.a
libcmd_a_SOURCES = \
	%reldir%/cmd_sql.c %reldir%/command.h \
	%reldir%/options.c %reldir%/options.h \
	%reldir%/output.c %reldir%/output.h %reldir%/output_internal.h \
	%reldir%/output_table.c %reldir%/output_text.c \
	%reldir%/utf8.c %reldir%/utf8.h
