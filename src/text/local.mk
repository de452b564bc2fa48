noinst_LIBRARIES += libtext.a
libtext_a_SOURCES = \
	%reldir%/batches.c %reldir%/batches.h \
	%reldir%/batches_cut.c %reldir%/batches_internal.h \
	%reldir%/documents.c %reldir%/documents.h \
	%reldir%/documents_input.c %reldir%/documents_internal.h \
	%reldir%/documents_jsonl.c %reldir%/documents_text.c \
	%reldir%/tokenizer.c %reldir%/tokenizer.h \
	%reldir%/tokenizer_added.c %reldir%/tokenizer_bpe.c \
	%reldir%/tokenizer_characters.c %reldir%/tokenizer_config.c \
	%reldir%/tokenizer_from_vocab.c \
	%reldir%/tokenizer_gpt2.c %reldir%/tokenizer_internal.h \
	%reldir%/tokenizer_json.c %reldir%/tokenizer_letters.c \
	%reldir%/tokenizer_model.c %reldir%/tokenizer_nfc.c \
	%reldir%/tokenizer_nfc_table.h %reldir%/tokenizer_open.c \
	%reldir%/tokenizer_normalize.c %reldir%/tokenizer_normalize_json.c \
	%reldir%/tokenizer_piece.c %reldir%/tokenizer_pieces.c \
	%reldir%/tokenizer_pre.c \
	%reldir%/tokenizer_protobuf.c %reldir%/tokenizer_regex.c \
	%reldir%/tokenizer_regex_translate.c %reldir%/tokenizer_scores.c \
	%reldir%/tokenizer_spaces.c %reldir%/tokenizer_split.c \
	%reldir%/tokenizer_split_json.c %reldir%/tokenizer_strings.c \
	%reldir%/tokenizer_tokens.c %reldir%/tokenizer_vocab.c \
	%reldir%/tokenizer_word.c %reldir%/utf8.c %reldir%/vocab.h
libtext_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(PCRE2_CFLAGS) \
	$(ZLIB_CFLAGS)
EXTRA_DIST += %reldir%/tokenizer_nfc_table.py
