/* Inside the tokenizer. Text flows through
 *
 *     added tokens (raw) -> normalizer -> added tokens (normalized)
 *         -> split stages -> words -> byte-pair merges -> ids
 *
 * and every arrow hands on borrowed slices: nothing is copied but what a
 * normalizer or an added prefix space changes. A tokenizer never changes once
 * it is open, but for its word cache, which one encode at a time holds. */
#ifndef TW_TEXT_TOKENIZER_INTERNAL_H
#define TW_TEXT_TOKENIZER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct json_t; /* of jansson */

#define TWP_FILE_LIMIT ((size_t)256 << 20)

/* --- UTF-8 (utf8.c) --- */

/* Offset of the first byte that is not valid UTF-8, size if there is none. */
size_t twp_utf8_check(const char *text, size_t size);
/* Bytes of the character that starts at text, which must be valid. */
size_t twp_utf8_length(const char *text);
/* The character at text (valid); *length its bytes. */
uint32_t twp_utf8_get(const char *text, size_t *length);
/* Writes up to 4 bytes; returns how many. */
size_t twp_utf8_put(uint32_t code, char *out);

/* --- A map from byte strings to numbers (tokenizer_strings.c) --- */

struct twp_string {
    uint32_t offset, size;
    int32_t value;
};
struct twp_strings {
    struct tw_strbuf bytes;
    struct twp_string *entry;
    size_t count, capacity;
    uint32_t *slot; /* entry + 1, 0: free */
    size_t slots;   /* a power of two */
};
uint64_t twp_hash(const char *bytes, size_t size);
void twp_strings_fini(struct twp_strings *strings);
/* Adds a string that is not there yet; -1 without memory. */
int twp_strings_add(struct twp_strings *strings, const char *bytes, size_t size,
                    int32_t value);
/* Its number, -1: none. */
int32_t twp_strings_find(const struct twp_strings *strings, const char *bytes,
                         size_t size);

/* --- Regular expressions in Oniguruma's (Ruby) syntax (tokenizer_regex*.c),
 *     matched by PCRE2 --- */

/* Word characters, for between brackets: Unicode's Alphabetic, marks, decimal
 * digits and connectors. */
#define TWP_WORD_CLASS                                             \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}"       \
    "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

struct twp_regex;
struct twp_matcher; /* what one encode needs for all of them */

/* The pattern in PCRE2's syntax; TW_ERR_UNSUPPORTED where the two languages
 * part. */
TW_MUST_USE enum tw_status twp_regex_translate(const char *pattern,
                                               struct tw_strbuf *out,
                                               struct tw_error *err);
/* is_literal: match the pattern's own bytes. */
TW_MUST_USE enum tw_status twp_regex_create(const char *pattern, size_t size,
                                            bool is_literal,
                                            struct twp_regex **regex,
                                            struct tw_error *err);
void twp_regex_destroy(struct twp_regex *regex);
/* text_size bounds the steps that a match may take. NULL without memory. */
struct twp_matcher *twp_matcher_create(size_t text_size);
void twp_matcher_destroy(struct twp_matcher *matcher);
/* The first match in text[from..size), from 0 as far as lookbehind goes. */
TW_MUST_USE enum tw_status twp_regex_find(
    const struct twp_regex *regex, struct twp_matcher *matcher,
    const char *text, size_t size, size_t from, size_t span[2], bool *is_found,
    struct tw_error *err);

/* --- Split stages (tokenizer_split.c, read by tokenizer_split_json.c) --- */

enum twp_behavior {
    TWP_ISOLATED,
    TWP_REMOVED,
    TWP_CONTIGUOUS,
    TWP_WITH_PREVIOUS,
    TWP_WITH_NEXT
};
struct twp_stage {
    struct twp_regex *regex; /* NULL: the slice goes on whole */
    enum twp_behavior behavior;
    bool is_inverted;
    bool adds_space; /* before a slice that starts with none */
};
struct twp_stages {
    struct twp_stage *stage;
    size_t count, capacity;
};
#define TWP_STAGES_MAX 64

struct twp_encoder;
/* pre_tokenizer of tokenizer.json. */
TW_MUST_USE enum tw_status twp_stages_read(const struct json_t *json,
                                           struct twp_stages *stages,
                                           struct tw_error *err);
/* ByteLevel with GPT-2's pattern. */
TW_MUST_USE enum tw_status twp_stages_gpt2(bool adds_space,
                                           struct twp_stages *stages,
                                           struct tw_error *err);
void twp_stages_fini(struct twp_stages *stages);
/* Sends the slice through stage and the later ones; words go to
 * twp_word_encode. */
TW_MUST_USE enum tw_status twp_stages_run(struct twp_encoder *encoder,
                                          size_t stage, const char *text,
                                          size_t size);

/* --- Byte-pair merges (tokenizer_bpe.c, tokenizer_word.c) --- */

struct twp_merge {
    uint64_t pair; /* left << 32 | right */
    uint32_t rank;
    int32_t id; /* of the two as one; -1: free slot */
};
struct twp_bpe {
    struct twp_merge *slot;
    size_t slots; /* a power of two */
    int shift;
    int32_t byte_id[256]; /* -1: no such token */
    int32_t unknown;      /* stands for such a byte; -1: it is dropped */
    bool fuses_unknown, ignores_merges;
};
/* Room for count merges. */
TW_MUST_USE enum tw_status twp_bpe_reserve(struct twp_bpe *bpe, size_t count,
                                           struct tw_error *err);
/* A pair given twice keeps the last. */
void twp_bpe_add(struct twp_bpe *bpe, int32_t left, int32_t right,
                 uint32_t rank, int32_t id);
const struct twp_merge *twp_bpe_find(const struct twp_bpe *bpe, int32_t left,
                                     int32_t right);
void twp_bpe_fini(struct twp_bpe *bpe);

/* Merges what stands in the encoder's word until no pair is known. */
TW_MUST_USE enum tw_status twp_merge_word(struct twp_encoder *encoder);

/* Words and their ids, direct-mapped, one cache line each: bounded memory. */
struct twp_cache;
struct twp_cache *twp_cache_create(void);
void twp_cache_destroy(struct twp_cache *cache);
/* False: another encode holds it, do without. */
bool twp_cache_take(struct twp_cache *cache);
void twp_cache_give_back(struct twp_cache *cache);

TW_MUST_USE enum tw_status twp_word_encode(struct twp_encoder *encoder,
                                           const char *word, size_t size);

/* --- Added tokens (tokenizer_added.c) --- */

struct twp_added {
    int32_t id;
    bool is_special, lstrip, rstrip, single_word;
};
struct twp_node {
    int32_t child, sibling; /* -1: none */
    int32_t token;          /* in added; -1: none ends here */
    uint8_t byte;
};
/* A trie: the longest token at the leftmost place wins. */
struct twp_added_set {
    struct twp_added *added;
    size_t count, capacity;
    struct twp_node *node;
    size_t nodes, nodes_capacity;
    int32_t first[256]; /* node by first byte; valid where nodes > 0 */
};
#define TWP_ADDED_BYTES_MAX 4096

TW_MUST_USE enum tw_status twp_added_add(struct twp_added_set *set,
                                         const char *content, size_t size,
                                         const struct twp_added *added,
                                         struct tw_error *err);
void twp_added_fini(struct twp_added_set *set);
/* Ids of the set's tokens go out; what stands between them goes to rest. */
typedef enum tw_status twp_rest_fn(struct twp_encoder *encoder,
                                   const char *text, size_t size);
TW_MUST_USE enum tw_status twp_added_split(struct twp_encoder *encoder,
                                           const struct twp_added_set *set,
                                           const char *text, size_t size,
                                           twp_rest_fn *rest);

/* --- Normalization form C (tokenizer_nfc.c) --- */

/* False: the text is in it already. Cheap, may say true too often. */
bool twp_nfc_is_needed(const char *text, size_t size);
/* Appends; -1 without memory. */
int twp_nfc_append(const char *text, size_t size, struct tw_strbuf *out);

/* --- The tokenizer --- */

struct twp_piece {
    size_t offset;  /* in bytes */
    uint32_t size;  /* UINT32_MAX: the id has none */
    bool is_special;
};
struct tw_tokenizer {
    struct twp_strings tokens; /* stored form -> id */
    struct twp_strings words;  /* bytes -> id, with ignores_merges */
    struct tw_strbuf bytes;    /* of all pieces */
    struct twp_piece *piece;
    int64_t size;
    bool is_nfc;
    struct twp_added_set raw, normalized;
    struct twp_regex *word_char, *space; /* of single_word and strip */
    struct twp_stages stages;
    struct twp_bpe bpe;
    struct twp_cache *cache;
    int32_t bos, eos;
    struct tw_sha256 hasher;
    char hash[65];
};

/* One call of encode. */
struct twp_encoder {
    const struct tw_tokenizer *tokenizer;
    struct twp_matcher *matcher;
    struct twp_cache *cache; /* NULL: held by another */
    bool parse_special;
    struct tw_ids word;      /* symbols of the word at hand */
    struct tw_ids *ids;
    struct tw_error *err;
};

/* Vocabulary (tokenizer_vocab.c). The table gets `size` ids; adding refuses
 * ids outside it and ids or tokens given twice. */
TW_MUST_USE enum tw_status twp_vocab_init(struct tw_tokenizer *tokenizer,
                                          int64_t size, struct tw_error *err);
/* is_raw: the piece is the token itself (added tokens), not its bytes in the
 * byte-level alphabet. */
TW_MUST_USE enum tw_status twp_vocab_add(struct tw_tokenizer *tokenizer,
                                         const char *token, size_t size,
                                         int64_t id, bool is_raw,
                                         struct tw_error *err);
/* Fills byte_id (and words) once all tokens are there. */
TW_MUST_USE enum tw_status twp_vocab_finish(struct tw_tokenizer *tokenizer,
                                            struct tw_error *err);
/* One merge by names, out of memory or unknown names are errors. */
TW_MUST_USE enum tw_status twp_vocab_merge(
    struct tw_tokenizer *tokenizer, const char *left, size_t left_size,
    const char *right, size_t right_size, uint32_t rank, struct tw_error *err);

/* Reads a file, adds it to the hash and parses it; free with json_decref. */
TW_MUST_USE enum tw_status twp_json_read(struct tw_tokenizer *tokenizer,
                                         const char *path,
                                         struct json_t **json,
                                         struct tw_error *err);
/* "vocab" and "added_tokens": sizes the table, then adds. added may be NULL. */
TW_MUST_USE enum tw_status twp_tokens_read(struct tw_tokenizer *tokenizer,
                                           struct json_t *vocab,
                                           const struct json_t *added,
                                           struct tw_error *err);
/* tokenizer.json; errors lack the file's name. */
TW_MUST_USE enum tw_status twp_tokenizer_json(struct tw_tokenizer *tokenizer,
                                              const struct json_t *json,
                                              struct tw_error *err);
/* tokenizer_config.json and special_tokens_map.json, where they stand. */
struct twp_config {
    struct json_t *config, *map; /* NULL: no such file */
};
TW_MUST_USE enum tw_status twp_config_read(struct tw_tokenizer *tokenizer,
                                           const char *directory,
                                           struct twp_config *config,
                                           struct tw_error *err);
void twp_config_fini(struct twp_config *config);
/* vocab.json and merges.txt; errors name the file. */
TW_MUST_USE enum tw_status twp_tokenizer_gpt2(struct tw_tokenizer *tokenizer,
                                              const char *directory,
                                              const struct twp_config *config,
                                              struct tw_error *err);
/* A token they name ("eos_token"), NULL: none; borrowed. */
const char *twp_config_token(const struct twp_config *config, const char *key);
/* A switch of tokenizer_config.json, false where it is not there. */
bool twp_config_flag(const struct twp_config *config, const char *key);

#ifdef __cplusplus
}
#endif
#endif
