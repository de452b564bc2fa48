# Operations: the table, the cpu row, and the reference row (tests only).
noinst_LIBRARIES += libkernels.a libkernelsref.a
include kernels/core.mk
include kernels/ffn.mk
include kernels/cuda.mk
