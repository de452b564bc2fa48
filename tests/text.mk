# Tests of text.
if HAVE_CHECK
text_tests = tests/test_tokenizer tests/test_vocabularies \
	tests/test_documents tests/test_batches
check_PROGRAMS += $(text_tests)
TESTS += $(text_tests)
text_test_libs = libtext.a libbase.a $(JANSSON_LIBS) $(PCRE2_LIBS) \
	$(ZLIB_LIBS) $(NETTLE_LIBS) $(CHECK_LIBS)
text_test_cppflags = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS) \
	$(ZLIB_CFLAGS)
tests_test_tokenizer_SOURCES = tests/test_tokenizer.c \
	tests/test_tokenizer_hostile.c tests/test_text.c tests/test_text.h \
	tests/tw_check.h
tests_test_tokenizer_CPPFLAGS = $(text_test_cppflags)
tests_test_tokenizer_LDADD = $(text_test_libs)
tests_test_vocabularies_SOURCES = tests/test_vocabularies.c \
	tests/test_vocabularies.h tests/test_vocabularies_hostile.c \
	tests/gguf_vocab.c tests/gguf_vocab.h tests/test_text.c \
	tests/test_text.h tests/tw_check.h
tests_test_vocabularies_CPPFLAGS = $(text_test_cppflags)
tests_test_vocabularies_LDADD = $(text_test_libs)
tests_test_documents_SOURCES = tests/test_documents.c tests/test_text.c \
	tests/test_text.h tests/tw_check.h
tests_test_documents_CPPFLAGS = $(text_test_cppflags)
tests_test_documents_LDADD = $(text_test_libs)
tests_test_batches_SOURCES = tests/test_batches.c tests/test_text.c \
	tests/test_text.h tests/tw_check.h
tests_test_batches_CPPFLAGS = $(text_test_cppflags)
tests_test_batches_LDADD = $(text_test_libs)
endif
EXTRA_DIST += scripts/make_tokenizers.py scripts/verify_tokenizers \
	tests/data/tokenizers/bundle.json \
	tests/data/tokenizers/gemma.model tests/data/tokenizers/llama.model \
	tests/data/tokenizers/squeeze.model
TESTS += tests/cli/tokenizers.sh
EXTRA_DIST += tests/cli/tokenizers.sh
