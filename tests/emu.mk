# The cuda backend on the emulated device (tests/emu/README.md), with or without
# a CUDA toolkit: its files built against tests/emu's headers.
emu_header_files = tests/emu/cublasLt.h tests/emu/cuda.h tests/emu/cuda_bf16.h \
	tests/emu/cuda_fp16.h tests/emu/cuda_runtime.h \
	tests/emu/cuda_runtime_api.h tests/emu/emu.h tests/emu/emu_device.h \
	tests/emu/emu_internal.h tests/emu/emu_numbers.h \
	tests/emu/emu_types.h tests/emu/runtime_internal.h \
	tests/emu/kernels/cuda/hopper.cuh tests/emu/kernels/cuda/mma.cuh \
	tests/emu/kernels/cuda/wgmma.cuh
EXTRA_DIST += $(emu_header_files) tests/emu/README.md
EMU_CPPFLAGS = -DTW_CUDA_EMULATED -I$(top_srcdir)/tests/emu $(AM_CPPFLAGS)
EMU_CXXFLAGS = -std=c++17 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti \
	-ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas $(TW_CFLAGS)
check_LIBRARIES = libcudaemu.a
libcudaemu_a_CPPFLAGS = $(EMU_CPPFLAGS)
libcudaemu_a_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
libcudaemu_a_CXXFLAGS = $(EMU_CXXFLAGS)
libcudaemu_a_SOURCES = tests/emu/async.cc tests/emu/blas.cc \
	tests/emu/block.cc tests/emu/fiber.cc tests/emu/memory.cc \
	tests/emu/product.cc tests/emu/runtime.cc tests/emu/stream.cc \
	$(CUDA_C_FILES)
EMU_KERNELS = $(CUDA_CU_FILES:kernels/cuda/%.cu=tests/emu/%.emu.o)
libcudaemu_a_LIBADD = $(EMU_KERNELS)
libcudaemu_a_DEPENDENCIES = $(EMU_KERNELS)
# Its headers before the folder that has the real hopper.cuh and mma.cuh.
$(EMU_KERNELS): tests/emu/%.emu.o: kernels/cuda/%.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) $(DEFS) -I. $(EMU_CPPFLAGS) \
	    $(CPPFLAGS) $(EMU_CXXFLAGS) $(CXXFLAGS) -MMD -MP -MF $@.d -c -o $@ \
	    -x c++ $<
MOSTLYCLEANFILES += tests/emu/*.emu.o tests/emu/*.emu.o.d
-include $(wildcard tests/emu/*.emu.o.d)

# A program opens it where TWELLSCOPE_LIBDIR is tests/emu.
check_PROGRAMS += tests/emu/twellscope-cuda.so
tests_emu_twellscope_cuda_so_CPPFLAGS = $(AM_CPPFLAGS)
tests_emu_twellscope_cuda_so_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
tests_emu_twellscope_cuda_so_SOURCES = src/base/dtype.c src/base/error.c \
	src/base/memory.c src/base/obs.c kernels/activation.c \
	kernels/ffn_desc.c kernels/ffn_plan.c
tests_emu_twellscope_cuda_so_LDFLAGS = $(AM_LDFLAGS) -shared \
	-Wl,-u,tw_ops_module
tests_emu_twellscope_cuda_so_LDADD = libcudaemu.a -lstdc++ -lpthread -lm

if HAVE_CHECK
check_PROGRAMS += tests/test_emu_dense tests/test_emu_ffn tests/test_emu_ops \
	tests/test_emu_attention tests/test_emu_rows tests/test_emu_loss \
	tests/test_emu_second tests/test_emu_active
TESTS += tests/test_emu_dense tests/test_emu_ffn tests/test_emu_ops \
	tests/test_emu_attention tests/test_emu_rows tests/test_emu_loss \
	tests/test_emu_second tests/test_emu_active
tests_test_emu_active_SOURCES = tests/test_cuda_active.c \
	tests/ops_fixture.c tests/ops_fixture.h tests/tw_check.h
tests_test_emu_active_CPPFLAGS = $(EMU_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_emu_active_LDADD = $(tests_test_emu_ffn_LDADD)
tests_test_emu_attention_SOURCES = tests/test_cuda_attention.c \
	tests/ops_fixture.c tests/ops_fixture.h tests/tw_check.h
tests_test_emu_attention_CPPFLAGS = $(EMU_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_emu_attention_LDADD = $(tests_test_emu_ffn_LDADD)
tests_test_emu_rows_SOURCES = tests/test_cuda_rows.c tests/cuda_rows.h \
	tests/cuda_case.h tests/ops_fixture.c tests/ops_fixture.h tests/tw_check.h
tests_test_emu_rows_CPPFLAGS = $(EMU_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_emu_rows_LDADD = $(tests_test_emu_ffn_LDADD)
tests_test_emu_second_SOURCES = tests/test_cuda_second.c tests/cuda_check.h \
	tests/cuda_rows.h \
	tests/cuda_case.h tests/ops_fixture.c tests/ops_fixture.h tests/tw_check.h
tests_test_emu_second_CPPFLAGS = $(EMU_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_emu_second_LDADD = $(tests_test_emu_ffn_LDADD)
tests_test_emu_loss_SOURCES = tests/test_cuda_loss.c tests/cuda_rows.h \
	tests/cuda_case.h tests/ops_fixture.c tests/ops_fixture.h tests/tw_check.h
tests_test_emu_loss_CPPFLAGS = $(EMU_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_emu_loss_LDADD = $(tests_test_emu_ffn_LDADD)
tests_test_emu_ops_SOURCES = tests/test_cuda_ops.c tests/ops_fixture.c \
	tests/ops_fixture.h tests/cuda_pair.h tests/tw_check.h
tests_test_emu_ops_CPPFLAGS = $(EMU_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_emu_ops_LDADD = $(tests_test_emu_ffn_LDADD)
tests_test_emu_dense_SOURCES = tests/test_cuda_dense.c tests/cuda_case.h \
	tests/cuda_check.h tests/tw_check.h
tests_test_emu_dense_CPPFLAGS = $(EMU_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_emu_dense_LDADD = $(tests_test_emu_ffn_LDADD)
tests_test_emu_ffn_SOURCES = tests/test_cuda_ffn.c tests/cuda_case.h \
	tests/cuda_check.h tests/tw_check.h
tests_test_emu_ffn_CPPFLAGS = $(EMU_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_emu_ffn_LDADD = libkernelsref.a libcudaemu.a libkernels.a \
	libbase.a $(OPENBLAS_LIBS) $(CHECK_LIBS) -lstdc++ -lpthread
endif
EMU_CLI_TESTS = tests/cli/cuda.sh tests/cli/cuda_active.sh \
	tests/cli/emulated.sh
TESTS += $(EMU_CLI_TESTS)
EXTRA_DIST += $(EMU_CLI_TESTS)
# Layers that don't fit the device.
TESTS += tests/cli/streamed.sh
EXTRA_DIST += tests/cli/streamed.sh
if HAVE_CHECK
check_PROGRAMS += tests/test_emu_layers
TESTS += tests/test_emu_layers
tests_test_emu_layers_SOURCES = tests/test_cuda_layers.c tests/ops_fixture.c \
	tests/ops_fixture.h tests/tw_check.h
tests_test_emu_layers_CPPFLAGS = $(EMU_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_emu_layers_LDADD = $(tests_test_emu_ffn_LDADD)
endif
