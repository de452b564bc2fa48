# The cuda backend: a convenience library (tests link it) and the module that
# kernels/ops.c opens at run time. The module holds its own copy of what it
# needs of base, so that it can be opened by any program of this version.
EXTRA_DIST += %reldir%/cuda/common.cuh %reldir%/cuda/hopper.cuh \
	%reldir%/cuda/product.cuh
libkernels_a_SOURCES += %reldir%/module.h
if HAVE_CUDA
noinst_LIBRARIES += libkernelscuda.a
libkernelscuda_a_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
libkernelscuda_a_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
libkernelscuda_a_SOURCES = %reldir%/cuda/launch.h \
	%reldir%/cuda/cuda_internal.h %reldir%/cuda/counts.c \
	%reldir%/cuda/device.c %reldir%/cuda/ffn.c %reldir%/cuda/ops_cuda.c \
	%reldir%/cuda/down.cu %reldir%/cuda/hidden.cu %reldir%/cuda/pack.cu \
	%reldir%/cuda/route.cu %reldir%/cuda/unpack.cu
cudamoduledir = $(pkglibdir)
cudamodule_PROGRAMS = twellscope-cuda.so
twellscope_cuda_so_CPPFLAGS = $(AM_CPPFLAGS)
twellscope_cuda_so_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
twellscope_cuda_so_SOURCES = src/base/dtype.c src/base/error.c \
	src/base/memory.c kernels/activation.c kernels/ffn_desc.c
twellscope_cuda_so_LDFLAGS = $(AM_LDFLAGS) -shared -Wl,-u,tw_ops_module \
	-Wl,--exclude-libs,libcudart_static.a
twellscope_cuda_so_LDADD = libkernelscuda.a $(CUDA_LIBS) -lstdc++ -lm
MOSTLYCLEANFILES += kernels/cuda/*.o.d
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
.cu.o:
	$(AM_V_NVCC)$(MKDIR_P) $(@D) && $(NVCOMPILE) -MMD -MP -MT $@ -MF $@.d -c -o $@ $<
-include $(wildcard kernels/cuda/*.o.d)
