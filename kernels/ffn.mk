# TwELL and the cpu backend's feed-forward layer.
libkernels_a_SOURCES += %reldir%/twell.c %reldir%/twell.h \
	%reldir%/activation.c %reldir%/ffn_desc.c %reldir%/ffn_desc.h \
	%reldir%/bench.h %reldir%/cpu/bench_cpu.c \
	%reldir%/ffn_plan.c %reldir%/ffn_plan.h \
	%reldir%/cpu/block.c %reldir%/cpu/dense_baseline.c \
	%reldir%/cpu/dense_baseline.h \
	%reldir%/cpu/ffn.c %reldir%/cpu/ffn_copy.c %reldir%/cpu/ffn_count.c \
	%reldir%/cpu/ffn_counts.c %reldir%/cpu/ffn_dense.c \
	%reldir%/cpu/ffn_gate.c %reldir%/cpu/ffn_internal.h \
	%reldir%/cpu/ffn_load.c %reldir%/cpu/ffn_plan.c %reldir%/cpu/ffn_select.c \
	%reldir%/cpu/ffn_sets.c %reldir%/cpu/ffn_sparse.c \
	%reldir%/cpu/ffn_work.c \
	%reldir%/cpu/simd.c %reldir%/cpu/simd.h %reldir%/cpu/simd_act.h \
	%reldir%/cpu/simd_base.c %reldir%/cpu/simd_count.h \
	%reldir%/cpu/simd_pack.h %reldir%/cpu/simd_product.h \
	%reldir%/cpu/simd_sparse.h %reldir%/cpu/simd_table.h \
	%reldir%/cpu/simd_v3.c \
	%reldir%/cpu/simd_v4.c %reldir%/cpu/simd_vector.h
