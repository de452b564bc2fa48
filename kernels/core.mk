# All of the cpu backend but the feed-forward layer.
libkernels_a_SOURCES = %reldir%/ops.h %reldir%/activation.h \
	%reldir%/cpu/cpu_internal.h
libkernelsref_a_SOURCES = %reldir%/ops_ref.h
