# Tests of model.
if HAVE_CHECK
MODEL_TESTS = tests/test_model tests/test_forward tests/test_oracle \
	tests/test_families tests/test_families_hostile \
	tests/test_gguf_goldens tests/test_sparse_names
check_PROGRAMS += $(MODEL_TESTS)
TESTS += $(MODEL_TESTS)
MODEL_TEST_LIBS = libmodel.a libload.a libkernels.a libbase.a \
	$(JANSSON_LIBS) $(NETTLE_LIBS) $(OPENBLAS_LIBS) -lm $(CHECK_LIBS)
tests_test_model_SOURCES = tests/test_model.c tests/tw_check.h \
	tests/tw_files.h tests/tw_llama.h
tests_test_model_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_model_LDADD = $(MODEL_TEST_LIBS)
tests_test_sparse_names_SOURCES = tests/test_sparse_names.c tests/tw_check.h \
	tests/tw_files.h
tests_test_sparse_names_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_sparse_names_LDADD = $(MODEL_TEST_LIBS)
tests_test_forward_SOURCES = tests/test_forward.c tests/tw_check.h \
	tests/tw_files.h tests/tw_llama.h
tests_test_forward_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_forward_LDADD = $(MODEL_TEST_LIBS)
tests_test_oracle_SOURCES = tests/test_oracle.c tests/golden_run.c \
	tests/golden_run.h tests/tw_check.h tests/tw_files.h
tests_test_oracle_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_test_oracle_LDADD = libmodel.a libload.a libkernelsref.a \
	$(MODEL_TEST_LIBS)
tests_test_families_SOURCES = tests/test_families.c tests/golden_make.c \
	tests/golden_make.h tests/golden_run.c tests/golden_run.h \
	tests/tw_check.h tests/tw_files.h
tests_test_families_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS)
tests_test_families_LDADD = libmodel.a libload.a libkernelsref.a \
	$(MODEL_TEST_LIBS)
tests_test_families_hostile_SOURCES = tests/test_families_hostile.c \
	tests/golden_make.c tests/golden_make.h tests/tw_check.h \
	tests/tw_files.h
tests_test_families_hostile_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) \
	$(JANSSON_CFLAGS)
tests_test_families_hostile_LDADD = $(MODEL_TEST_LIBS)
tests_test_gguf_goldens_SOURCES = tests/test_gguf_goldens.c \
	tests/golden_make.c tests/golden_make.h tests/golden_run.c \
	tests/golden_run.h tests/tw_check.h tests/tw_files.h
tests_test_gguf_goldens_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) \
	$(JANSSON_CFLAGS)
tests_test_gguf_goldens_LDADD = libmodel.a libload.a libkernelsref.a \
	$(MODEL_TEST_LIBS)
endif
EXTRA_DIST += tests/data/goldens tests/data/gguf
