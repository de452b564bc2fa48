# Tests of kernels.
include tests/kernels_core.mk
include tests/kernels_ffn.mk
include tests/kernels_cuda.mk
