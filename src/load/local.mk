# Checkpoints, configs and token arrays from files.
noinst_LIBRARIES += libload.a
libload_a_SOURCES = \
	%reldir%/checkpoint.c %reldir%/checkpoint.h %reldir%/config.c \
	%reldir%/find.c %reldir%/load_internal.h %reldir%/npy.c \
	%reldir%/npy.h %reldir%/safetensors.c %reldir%/safetensors.h \
	%reldir%/safetensors_header.c %reldir%/shards.c \
	%reldir%/tensors_hash.c
libload_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
