# Tests of the cuda backend: exit 77 where there is no GPU.
EXTRA_DIST += tests/bench_cuda.cuh tests/bench_ffn_cuda.cu scripts/bench_ffn_cuda \
	tests/bench_attention_cuda.cu scripts/bench_attention_cuda \
	tests/bench_head_cuda.cu scripts/bench_head_cuda \
	tests/data/cuda_resources.txt
dist_check_SCRIPTS += tests/check_cuda_resources.sh
if HAVE_CUDA
if HAVE_CHECK
check_PROGRAMS += tests/test_cuda_dense tests/test_cuda_ffn tests/test_cuda_ops \
	tests/test_cuda_attention tests/test_cuda_rows tests/test_cuda_loss \
	tests/test_cuda_second tests/test_cuda_active
TESTS += tests/test_cuda_dense tests/test_cuda_ffn tests/test_cuda_ops \
	tests/test_cuda_attention tests/test_cuda_rows tests/test_cuda_loss \
	tests/test_cuda_second tests/test_cuda_active
tests_test_cuda_attention_SOURCES = tests/test_cuda_attention.c \
	tests/ops_fixture.c tests/ops_fixture.h tests/tw_check.h
tests_test_cuda_attention_CPPFLAGS = $(tests_test_cuda_ffn_CPPFLAGS)
tests_test_cuda_attention_LDADD = $(tests_test_cuda_ffn_LDADD)
tests_test_cuda_active_SOURCES = tests/test_cuda_active.c tests/ops_fixture.c \
	tests/ops_fixture.h tests/tw_check.h
tests_test_cuda_active_CPPFLAGS = $(tests_test_cuda_ffn_CPPFLAGS)
tests_test_cuda_active_LDADD = $(tests_test_cuda_ffn_LDADD)
tests_test_cuda_ops_SOURCES = tests/test_cuda_ops.c tests/ops_fixture.c \
	tests/ops_fixture.h tests/cuda_pair.h tests/tw_check.h
tests_test_cuda_ops_CPPFLAGS = $(tests_test_cuda_ffn_CPPFLAGS)
tests_test_cuda_ops_LDADD = $(tests_test_cuda_ffn_LDADD)
tests_test_cuda_rows_SOURCES = tests/test_cuda_rows.c tests/cuda_rows.h \
	tests/cuda_case.h tests/ops_fixture.c tests/ops_fixture.h tests/tw_check.h
tests_test_cuda_rows_CPPFLAGS = $(tests_test_cuda_ffn_CPPFLAGS)
tests_test_cuda_rows_LDADD = $(tests_test_cuda_ffn_LDADD)
tests_test_cuda_second_SOURCES = tests/test_cuda_second.c tests/cuda_check.h \
	tests/cuda_rows.h \
	tests/cuda_case.h tests/ops_fixture.c tests/ops_fixture.h tests/tw_check.h
tests_test_cuda_second_CPPFLAGS = $(tests_test_cuda_ffn_CPPFLAGS)
tests_test_cuda_second_LDADD = $(tests_test_cuda_ffn_LDADD)
tests_test_cuda_loss_SOURCES = tests/test_cuda_loss.c tests/cuda_rows.h \
	tests/cuda_case.h tests/ops_fixture.c tests/ops_fixture.h tests/tw_check.h
tests_test_cuda_loss_CPPFLAGS = $(tests_test_cuda_ffn_CPPFLAGS)
tests_test_cuda_loss_LDADD = $(tests_test_cuda_ffn_LDADD)
tests_test_cuda_dense_SOURCES = tests/test_cuda_dense.c tests/cuda_case.h \
	tests/cuda_check.h tests/tw_check.h
tests_test_cuda_dense_CPPFLAGS = $(tests_test_cuda_ffn_CPPFLAGS)
tests_test_cuda_dense_LDADD = $(tests_test_cuda_ffn_LDADD)
tests_test_cuda_ffn_SOURCES = tests/test_cuda_ffn.c tests/cuda_case.h \
	tests/cuda_check.h tests/tw_check.h
tests_test_cuda_ffn_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_cuda_ffn_LDADD = libkernelsref.a libkernelscuda.a libkernels.a \
	libbase.a $(OPENBLAS_LIBS) $(CHECK_LIBS) $(CUDA_LIBS) -lstdc++
check_PROGRAMS += tests/test_cuda_layers
TESTS += tests/test_cuda_layers
tests_test_cuda_layers_SOURCES = tests/test_cuda_layers.c tests/ops_fixture.c \
	tests/ops_fixture.h tests/tw_check.h
tests_test_cuda_layers_CPPFLAGS = $(tests_test_cuda_ffn_CPPFLAGS)
tests_test_cuda_layers_LDADD = $(tests_test_cuda_ffn_LDADD)
endif
# Not built by default: scripts of their names make and run them.
EXTRA_PROGRAMS += tests/bench_ffn_cuda \
	tests/bench_attention_cuda tests/bench_head_cuda
tests_bench_head_cuda_SOURCES = tests/bench_head_cuda.cu
tests_bench_head_cuda_LDADD = $(tests_bench_ffn_cuda_LDADD)
tests_bench_head_cuda_LINK = $(tests_bench_ffn_cuda_LINK)
tests_bench_attention_cuda_SOURCES = tests/bench_attention_cuda.cu
tests_bench_attention_cuda_LDADD = $(tests_bench_ffn_cuda_LDADD)
tests_bench_attention_cuda_LINK = $(tests_bench_ffn_cuda_LINK)
tests_bench_ffn_cuda_SOURCES = tests/bench_ffn_cuda.cu
tests_bench_ffn_cuda_LDADD = libkernelscuda.a libkernels.a libbase.a \
	$(CUDA_LIBS) -lstdc++
tests_bench_ffn_cuda_LINK = $(CC) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -o $@
endif
