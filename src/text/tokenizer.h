/* Byte-level BPE tokenizers, exactly as Hugging Face tokenizers: from
 * tokenizer.json, or vocab.json + merges.txt (GPT-2's rules). Characters that
 * Unicode took in after PCRE2's tables (or, for NFC, after 14.0) count as
 * unassigned.
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

/* DIRECTORY/tokenizer.json, else vocab.json + merges.txt. Model BPE with
 * byte-level alphabet; pre-tokenizers Split (regex or string; isolated,
 * removed, merged_*; inverted), Digits, ByteLevel and Sequence of them, regex
 * through PCRE2; merges as "a b" strings or pairs; ignore_merges; normalizers
 * null, NFC where present (else TW_ERR_UNSUPPORTED); added tokens (special,
 * lstrip, rstrip, single_word, normalized); post-processor's BOS
 * (TemplateProcessing or ByteLevel; a Sequence of them). Anything else is
 * TW_ERR_UNSUPPORTED naming it. "truncation" and "padding" are ignored. Ids
 * are below 2^24 and below 16 times the number of entries + 65536. With
 * vocab.json the tokens that the files beside it name are special ones, and
 * tokenizer_config.json's add_prefix_space counts. Returns TW_OK,
 * TW_ERR_NOT_FOUND (no tokenizer there), TW_ERR_FORMAT or TW_ERR_NOMEM. */
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
/* The bytes an id stands for (borrowed), NULL if it has none; *size bytes. */
const char *tw_tokenizer_piece(const struct tw_tokenizer *tokenizer, int32_t id,
                               size_t *size);
bool tw_tokenizer_is_special(const struct tw_tokenizer *tokenizer, int32_t id);
/* The id of a token by its stored form ("<|endoftext|>"), -1: none. */
int32_t tw_tokenizer_find(const struct tw_tokenizer *tokenizer,
                          const char *token);
/* The BOS its own rule puts before a sequence (post-processor template, or
 * tokenizer_config.json's add_bos_token), -1: it adds none. */
int32_t tw_tokenizer_bos(const struct tw_tokenizer *tokenizer);
/* The end-of-text token: tokenizer_config.json's or special_tokens_map.json's
 * eos_token, else "<|endoftext|>", "</s>", "<|end_of_text|>"; -1: none. */
int32_t tw_tokenizer_eos(const struct tw_tokenizer *tokenizer);
/* SHA-256 of the files it was read from, one behind the other:
 * tokenizer_config.json and special_tokens_map.json where they are there, then
 * tokenizer.json, or vocab.json and merges.txt. */
const char *tw_tokenizer_hash(const struct tw_tokenizer *tokenizer);

/* A piece made printable: valid printable UTF-8 as it is, spaces kept, control
 * bytes and stray bytes as <0xNN>, line feed as \n, tab as \t. A new string
 * (tw_free), NULL without memory. */
char *tw_piece_printable(const char *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
