# Tests of load.
if HAVE_CHECK
LOAD_TESTS = tests/test_safetensors tests/test_npy tests/test_config \
	tests/test_gguf_quants tests/test_torch_bin \
	tests/test_gguf tests/test_foreign_fuzz
check_PROGRAMS += $(LOAD_TESTS)
TESTS += $(LOAD_TESTS)
LOAD_TEST_LIBS = libload.a libbase.a $(JANSSON_LIBS) $(NETTLE_LIBS) \
	$(CHECK_LIBS)
tests_test_safetensors_SOURCES = tests/test_safetensors.c tests/tw_check.h \
	tests/tw_files.h
tests_test_safetensors_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_safetensors_LDADD = $(LOAD_TEST_LIBS)
tests_test_npy_SOURCES = tests/test_npy.c tests/tw_check.h tests/tw_files.h
tests_test_npy_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_npy_LDADD = $(LOAD_TEST_LIBS)
tests_test_config_SOURCES = tests/test_config.c tests/tw_check.h \
	tests/tw_files.h
tests_test_config_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_config_LDADD = $(LOAD_TEST_LIBS)
tests_test_gguf_quants_SOURCES = tests/test_gguf_quants.c \
	tests/gguf_blocks.h tests/tw_check.h
tests_test_gguf_quants_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_gguf_quants_LDADD = $(LOAD_TEST_LIBS)
tests_test_torch_bin_SOURCES = tests/test_torch_bin.c tests/tw_check.h \
	tests/tw_files.h tests/tw_zip.h
tests_test_torch_bin_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_torch_bin_LDADD = $(LOAD_TEST_LIBS)
tests_test_gguf_SOURCES = tests/test_gguf.c tests/gguf_case.h \
	tests/tw_check.h tests/tw_files.h tests/tw_gguf.h
tests_test_gguf_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_gguf_LDADD = $(LOAD_TEST_LIBS)
tests_test_foreign_fuzz_SOURCES = tests/test_foreign_fuzz.c \
	tests/tw_check.h tests/tw_files.h
tests_test_foreign_fuzz_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_foreign_fuzz_LDADD = $(LOAD_TEST_LIBS)
endif
EXTRA_DIST += tests/data/bin
