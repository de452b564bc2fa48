# The cuda backend: a convenience library (tests link it) and the module that
# kernels/ops.c opens at run time. The module holds its own copy of what it
# needs of base, so that it can be opened by any program of this version.
EXTRA_DIST += %reldir%/cuda/common.cuh %reldir%/cuda/hopper.cuh \
	%reldir%/cuda/product.cuh %reldir%/cuda/act.cuh \
	%reldir%/cuda/hidden.cuh %reldir%/cuda/hidden_count.cuh \
	%reldir%/cuda/hidden_params.cuh %reldir%/cuda/hidden_plan.cuh \
	%reldir%/cuda/hidden_half.cuh \
	%reldir%/cuda/hidden_stage.cuh \
	%reldir%/cuda/planes.cuh %reldir%/cuda/attention.cuh \
	%reldir%/cuda/attention_form.cuh %reldir%/cuda/attention_rows.cuh \
	%reldir%/cuda/attention_wgmma.cuh %reldir%/cuda/wgmma.cuh \
	%reldir%/cuda/head_epilogue.cuh %reldir%/cuda/loss_tail.cuh \
	%reldir%/cuda/rows16.cuh \
	%reldir%/cuda/down_rows.cuh %reldir%/cuda/mma.cuh \
	%reldir%/cuda/pack_groups.cuh %reldir%/cuda/pack_rows.cuh %reldir%/cuda/second_rows.cuh \
	%reldir%/cuda/second_top.cuh \
	%reldir%/cuda/product_mma.cuh %reldir%/cuda/staged.cuh
libkernels_a_SOURCES += %reldir%/module.h
# tests/emu.mk builds these too.
CUDA_C_FILES = kernels/cuda/baseline.c kernels/cuda/batch.c \
	kernels/cuda/bench.c kernels/cuda/buffers.c kernels/cuda/call.c \
	kernels/cuda/counts.c kernels/cuda/device.c kernels/cuda/ffn.c \
	kernels/cuda/ffn_weights.c kernels/cuda/flight.c kernels/cuda/head.c \
	kernels/cuda/lt_form.c kernels/cuda/matmul.c kernels/cuda/model.c \
	kernels/cuda/ops_cuda.c kernels/cuda/place.c kernels/cuda/plan.c \
	kernels/cuda/ring.c kernels/cuda/second.c kernels/cuda/second_back.c \
	kernels/cuda/second_run.c kernels/cuda/weights.c
CUDA_CU_FILES = kernels/cuda/attention.cu kernels/cuda/attention_wgmma.cu \
	kernels/cuda/bench.cu kernels/cuda/down.cu kernels/cuda/down_mma.cu \
	kernels/cuda/down_thin.cu kernels/cuda/head_product.cu kernels/cuda/hidden.cu \
	kernels/cuda/hidden_any.cu kernels/cuda/hidden_fast.cu \
	kernels/cuda/hidden_mma.cu kernels/cuda/loss.cu kernels/cuda/norm.cu \
	kernels/cuda/pack.cu kernels/cuda/pack_mma.cu kernels/cuda/rope.cu \
	kernels/cuda/route.cu kernels/cuda/rows.cu kernels/cuda/second.cu \
	kernels/cuda/second_count.cu kernels/cuda/second_input.cu \
	kernels/cuda/second_sets.cu kernels/cuda/unpack.cu
EXTRA_DIST += $(CUDA_CU_FILES)
if HAVE_CUDA
noinst_LIBRARIES += libkernelscuda.a
libkernelscuda_a_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
libkernelscuda_a_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
libkernelscuda_a_SOURCES = %reldir%/cuda/launch.h \
	%reldir%/cuda/launch_model.h %reldir%/cuda/launch_second.h \
	%reldir%/cuda/layers.h %reldir%/cuda/context.h %reldir%/cuda/cuda_internal.h \
	%reldir%/cuda/bench.h %reldir%/cuda/launch_mma.h \
	%reldir%/cuda/lt_form.h %reldir%/cuda/second.h \
	$(CUDA_C_FILES) $(CUDA_CU_FILES)
cudamoduledir = $(pkglibdir)
cudamodule_PROGRAMS = twellscope-cuda.so
twellscope_cuda_so_CPPFLAGS = $(AM_CPPFLAGS)
twellscope_cuda_so_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
twellscope_cuda_so_SOURCES = src/base/dtype.c src/base/error.c \
	src/base/memory.c src/base/obs.c kernels/activation.c \
	kernels/ffn_desc.c kernels/ffn_plan.c
twellscope_cuda_so_LDFLAGS = $(AM_LDFLAGS) -shared -Wl,-u,tw_ops_module \
	-Wl,--exclude-libs,libcudart_static.a
twellscope_cuda_so_LDADD = libkernelscuda.a $(CUDA_LIBS) -lstdc++ -lm
MOSTLYCLEANFILES += kernels/cuda/*.o.d kernels/cuda/*.o.ptxas
endif
SUFFIXES += .cu
TW_NVCCFLAGS = -std=c++17 -O3 -lineinfo \
	-Xcompiler=-fPIC,-Wall,-Wextra,-fno-exceptions,-fno-rtti,-fvisibility=hidden
NVCOMPILE = $(NVCC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CUDA_GENCODE) \
	$(TW_NVCCFLAGS) $(NVCCFLAGS)
AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =
# Files of Hopper's own instructions; the others run on every chosen target.
kernels/cuda/attention_wgmma.o kernels/cuda/down.o kernels/cuda/down_thin.o \
kernels/cuda/head_product.o kernels/cuda/hidden.o kernels/cuda/hidden_any.o \
	kernels/cuda/hidden_fast.o kernels/cuda/pack.o: \
	CUDA_GENCODE = $(CUDA_GENCODE_HOPPER)
# The compiler's report, for tests/check_cuda_resources.sh, stands beside.
.cu.o:
	$(AM_V_NVCC)$(MKDIR_P) $(@D) && { $(NVCOMPILE) -Xptxas=-v -MMD -MP -MT $@ \
	    -MF $@.d -c -o $@ $< 2>$@.ptxas || { cat $@.ptxas >&2; exit 1; }; }
	@sed -e '/^ptxas info/d' -e '/bytes stack frame/d' $@.ptxas >&2
-include $(wildcard kernels/cuda/*.o.d)
# That the build for racecheck (HACKING.md) compiles still, by one kernel of it.
check-racecheck: CUDA_GENCODE = $(CUDA_GENCODE_HOPPER)
check-racecheck:
	$(AM_V_NVCC)$(NVCOMPILE) -DTW_RACECHECK -c -o kernels/cuda/racecheck.tmp \
	    $(srcdir)/kernels/cuda/down.cu
	@rm -f kernels/cuda/racecheck.tmp
.PHONY: check-racecheck
