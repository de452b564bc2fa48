# Checkpoints, configs and token arrays from files.
noinst_LIBRARIES += libload.a
libload_a_SOURCES = \
	%reldir%/arena.c %reldir%/arena.h %reldir%/checkpoint.c \
	%reldir%/checkpoint.h %reldir%/config.c %reldir%/config_internal.h \
	%reldir%/config_make.c %reldir%/describe.c %reldir%/find.c %reldir%/gguf.h \
	%reldir%/gguf_arch.h %reldir%/gguf_archs.c %reldir%/gguf_config.c \
	%reldir%/gguf_find.c %reldir%/gguf_gpt.c %reldir%/gguf_header.c \
	%reldir%/gguf_internal.h %reldir%/gguf_llama.c %reldir%/gguf_parts.c \
	%reldir%/gguf_quants.c %reldir%/gguf_quants.h %reldir%/gguf_rewrite.c %reldir%/gguf_rewrite.h %reldir%/gguf_rope.c \
	%reldir%/gguf_tensors.c %reldir%/gguf_values.c %reldir%/gguf_vocab.c \
	%reldir%/load_internal.h %reldir%/npy.c %reldir%/npy.h \
	%reldir%/pickle.c %reldir%/pickle.h %reldir%/pickle_internal.h \
	%reldir%/pickle_values.c \
	%reldir%/safetensors.c %reldir%/safetensors.h \
	%reldir%/safetensors_header.c %reldir%/shards.c \
	%reldir%/tensors_hash.c %reldir%/torch_bin.c \
	%reldir%/torch_objects.c %reldir%/zip.c %reldir%/zip.h
libload_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
