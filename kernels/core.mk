# All of the cpu backend but the feed-forward layer.
libkernels_a_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS)
libkernels_a_SOURCES = %reldir%/ops.h %reldir%/ops.c %reldir%/compute_dtype.c %reldir%/cuda_path.c \
	%reldir%/activation.h %reldir%/marks.c %reldir%/marks.h \
	%reldir%/cpu/cpu_internal.h %reldir%/cpu/clones.h \
	%reldir%/cpu/vmath.h %reldir%/cpu/ops_cpu.c %reldir%/cpu/context.c \
	%reldir%/cpu/weights.c %reldir%/cpu/widen.c %reldir%/cpu/act.c \
	%reldir%/cpu/add.c %reldir%/cpu/embed.c %reldir%/cpu/norm.c %reldir%/cpu/matmul.c \
	%reldir%/cpu/rope.c %reldir%/cpu/attention.c %reldir%/cpu/softmax.c \
	%reldir%/cpu/head.c
libkernelsref_a_SOURCES = %reldir%/ops_ref.h %reldir%/ops_ref_internal.h \
	%reldir%/ops_ref.c %reldir%/ops_ref_rows.c \
	%reldir%/ops_ref_attention.c %reldir%/ops_ref_head.c \
	%reldir%/ops_ref_ffn.c %reldir%/ops_ref_count.c
