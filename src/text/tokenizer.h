/* Byte-pair tokenizers of bytes (GPT-2's kind) and of characters
 * (SentencePiece's), exactly as Hugging Face tokenizers and SentencePiece:
 * from tokenizer.json, tokenizer.model, or vocab.json + merges.txt; from a
 * GGUF file through vocab.h. Characters that Unicode took in after PCRE2's
 * tables (or, for NFC, after 14.0) count as unassigned.
 *
 *     tw_tokenizer_open("models/mine", &tokenizer, &err);
 *     struct tw_ids ids = {0};
 *     tw_tokenizer_encode(tokenizer, text, size, true, &ids, &err);
 */
#ifndef TW_TEXT_TOKENIZER_H
#define TW_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_tokenizer;

/* A growing array of ids; zero-initialise, free with tw_ids_fini. */
struct tw_ids {
    int32_t *id;
    size_t count, capacity;
};
void tw_ids_fini(struct tw_ids *ids);
TW_MUST_USE enum tw_status tw_ids_push(struct tw_ids *ids, int32_t id,
                                       struct tw_error *err);

/* DIRECTORY/tokenizer.json, else tokenizer.model, else vocab.json +
 * merges.txt. Anything but the following is TW_ERR_UNSUPPORTED, naming it and
 * what is supported.
 *
 * tokenizer.json: model BPE, of bytes where a ByteLevel pre-tokenizer is
 * there, else of characters (byte_fallback, unk_token, fuse_unk);
 * ignore_merges; merges as "a b" strings or pairs. Normalizers NFC, Prepend,
 * Replace (string or regex), Sequence. Pre-tokenizers Split (regex or string;
 * isolated, removed, contiguous, merged_*; inverted), Digits, Punctuation,
 * ByteLevel, Metaspace (prepend_scheme, split), Sequence; regex through PCRE2.
 * Added tokens (special, lstrip, rstrip, single_word, normalized).
 * Post-processors TemplateProcessing (its BOS), ByteLevel, Sequence.
 * "truncation", "padding" and the decoder are ignored. Ids are below 2^24 and
 * below the number of entries + 65536.
 *
 * tokenizer.model: SentencePiece's byte-pair type with its identity
 * normalizer, add_dummy_prefix, remove_extra_whitespaces, byte fallback,
 * user-defined and control pieces; the latter are found in text as special
 * tokens. The space before a text is put once, with "legacy": true of
 * tokenizer_config.json behind special tokens too; add_prefix_space false
 * there leaves it out.
 *
 * With the last two, tokens that the files beside them name are special ones,
 * and added_tokens_decoder of tokenizer_config.json adds its own. With
 * vocab.json its add_prefix_space counts. Returns TW_OK, TW_ERR_NOT_FOUND (no
 * tokenizer there), TW_ERR_FORMAT or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status tw_tokenizer_open(const char *directory,
                                             struct tw_tokenizer **tokenizer,
                                             struct tw_error *err);
void tw_tokenizer_close(struct tw_tokenizer *tokenizer);

/* Appends the ids of text (valid UTF-8, else TW_ERR_FORMAT with the byte's
 * offset), without BOS/EOS of the post-processor. parse_special: special added
 * tokens inside the text become their ids, as Hugging Face does; without it
 * they are plain text (added tokens that are not special always match). Up to
 * 2 GiB. Safe from several threads; one of them at a time has the word cache.
 * On failure ids is as before. */
TW_MUST_USE enum tw_status tw_tokenizer_encode(
    const struct tw_tokenizer *tokenizer, const char *text, size_t size,
    bool parse_special, struct tw_ids *ids, struct tw_error *err);

/* Number of ids: largest id + 1 (holes have no piece). */
int64_t tw_tokenizer_size(const struct tw_tokenizer *tokenizer);
/* The bytes an id stands for (borrowed), NULL if it has none; *size bytes.
 * SentencePiece's mark of a space is a space, "<0x0A>" the byte. */
const char *tw_tokenizer_piece(const struct tw_tokenizer *tokenizer, int32_t id,
                               size_t *size);
bool tw_tokenizer_is_special(const struct tw_tokenizer *tokenizer, int32_t id);
/* The id of a token by its stored form ("<|endoftext|>"), -1: none. */
int32_t tw_tokenizer_find(const struct tw_tokenizer *tokenizer,
                          const char *token);
/* The BOS its own rule puts before a sequence: of the post-processor's
 * template; else bos_token where tokenizer_config.json's add_bos_token is
 * true; with a tokenizer.model its own unless add_bos_token is false; with a
 * vocabulary as vocab.h says. -1: it adds none. */
int32_t tw_tokenizer_bos(const struct tw_tokenizer *tokenizer);
/* The end-of-text token: tokenizer_config.json's or special_tokens_map.json's
 * eos_token, else "<|endoftext|>", "</s>", "<|end_of_text|>"; -1: none. */
int32_t tw_tokenizer_eos(const struct tw_tokenizer *tokenizer);
/* SHA-256 of the files it was read from, one behind the other:
 * tokenizer_config.json and special_tokens_map.json where they are there, then
 * tokenizer.json, tokenizer.model, or vocab.json and merges.txt. */
const char *tw_tokenizer_hash(const struct tw_tokenizer *tokenizer);

/* A piece made printable: valid printable UTF-8 as it is, spaces kept, control
 * bytes and stray bytes as <0xNN>, line feed as \n, tab as \t. A new string
 * (tw_free), NULL without memory. */
char *tw_piece_printable(const char *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
