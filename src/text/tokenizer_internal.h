/* Inside the tokenizer. Text flows through
 *
 *     added tokens (raw) -> normalizer -> added tokens (normalized)
 *         -> split stages -> words -> byte-pair merges -> ids
 *
 * and every arrow hands on borrowed slices: nothing is copied but what a
 * normalizer or a stage changes. A tokenizer never changes once
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

/* --- Fields of a protocol buffer (tokenizer_protobuf.c) --- */

struct twp_wire {
    const unsigned char *at, *end;
};
enum {
    TWP_WIRE_VARINT = 0,
    TWP_WIRE_FIXED64 = 1,
    TWP_WIRE_BYTES = 2,
    TWP_WIRE_FIXED32 = 5
};
struct twp_field {
    uint32_t number;
    unsigned type;
    uint64_t value;        /* of bytes: how many */
    struct twp_wire bytes; /* of TWP_WIRE_BYTES, else empty */
};
/* The next field of a message; not there: its end. */
TW_MUST_USE enum tw_status twp_wire_next(struct twp_wire *wire,
                                         struct twp_field *field,
                                         bool *is_there, struct tw_error *err);

/* --- Vocabularies as arrays --- */

struct tw_vocab;
struct twp_build {
    int64_t size; /* of the table of ids, at least */
    /* User-defined pieces are looked for behind the normalizer, as
     * SentencePiece has it; else before it, as added tokens are. */
    bool is_user_defined_behind;
};
/* Into a fresh tokenizer (tokenizer_from_vocab.c). */
TW_MUST_USE enum tw_status twp_vocab_build(struct tw_tokenizer *tokenizer,
                                           const struct tw_vocab *vocab,
                                           const struct twp_build *how,
                                           struct tw_error *err);
/* Its parts (tokenizer_pieces.c). */
TW_MUST_USE enum tw_status twp_pieces_check(const struct tw_vocab *vocab,
                                            struct tw_error *err);
TW_MUST_USE enum tw_status twp_pieces_add(struct tw_tokenizer *tokenizer,
                                          const struct tw_vocab *vocab,
                                          const struct twp_build *how,
                                          struct tw_error *err);
/* The merges that its scores mean (tokenizer_scores.c). */
TW_MUST_USE enum tw_status twp_scores_merges(struct tw_tokenizer *tokenizer,
                                             const struct tw_vocab *vocab,
                                             struct tw_error *err);
/* A pre-tokenizer by its name in GGUF files (tokenizer_pre.c). */
struct twp_pre {
    const char *name;
    const char *const *patterns; /* NULL-terminated */
    bool ignores_merges, adds_bos, is_nfc;
};
struct twp_stages;
TW_MUST_USE enum tw_status twp_pre_find(const char *name,
                                        const struct twp_pre **pre,
                                        struct tw_error *err);
TW_MUST_USE enum tw_status twp_pre_stages(const struct twp_pre *pre,
                                          struct twp_stages *stages,
                                          struct tw_error *err);

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

/* --- Normalizers (tokenizer_normalize.c, read by
 *     tokenizer_normalize_json.c) --- */

#define TWP_SPACE_MARK "\xe2\x96\x81" /* U+2581 */

enum twp_step_kind {
    TWP_NFC,
    TWP_PREPEND, /* text */
    TWP_REPLACE, /* pattern's bytes by text */
    TWP_REPLACE_REGEX,
    TWP_SQUEEZE /* extra spaces */
};
struct twp_step {
    enum twp_step_kind kind;
    struct twp_regex *regex;
    char *pattern, *text;
    size_t pattern_size, text_size;
    bool is_only_first; /* not behind an added token */
};
struct twp_normalizer {
    struct twp_step *step;
    size_t count, capacity;
};
#define TWP_STEPS_MAX 64

struct twp_slice {
    const char *text;
    size_t size;
    bool is_first; /* of the document */
};
TW_MUST_USE enum tw_status twp_normalizer_read(
    const struct json_t *json, struct twp_normalizer *normalizer,
    struct tw_error *err);
void twp_normalizer_fini(struct twp_normalizer *normalizer);
/* A step more, borrowed until the next. */
TW_MUST_USE enum tw_status twp_normalizer_add(
    struct twp_normalizer *normalizer, enum twp_step_kind kind,
    struct twp_step **step, struct tw_error *err);
TW_MUST_USE enum tw_status twp_step_texts(struct twp_step *step,
                                          const char *pattern,
                                          size_t pattern_size,
                                          const char *text, size_t size,
                                          struct tw_error *err);
/* The slice becomes what the steps make of it, in a buffer where they change
 * it; may be empty. */
TW_MUST_USE enum tw_status twp_normalize(
    const struct twp_normalizer *normalizer, struct twp_matcher *matcher,
    struct twp_slice *slice, struct tw_strbuf buffer[2], struct tw_error *err);

/* --- Split stages (tokenizer_split.c, read by tokenizer_split_json.c) --- */

#define TWP_GPT2_PATTERN                                           \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"                 \
    " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum twp_stage_kind {
    TWP_CUT,       /* where regex matches */
    TWP_ADD_SPACE, /* before a slice that starts with none */
    TWP_METASPACE, /* marks for spaces */
    TWP_LETTERS    /* the letters of bytes for bytes */
};
enum twp_behavior {
    TWP_ISOLATED,
    TWP_REMOVED,
    TWP_CONTIGUOUS,
    TWP_WITH_PREVIOUS,
    TWP_WITH_NEXT
};
enum twp_prepend { TWP_PREPEND_ALWAYS, TWP_PREPEND_FIRST, TWP_PREPEND_NEVER };
struct twp_stage {
    enum twp_stage_kind kind;
    struct twp_regex *regex; /* of TWP_CUT; NULL: the slice goes on whole */
    enum twp_behavior behavior;
    bool is_inverted;
    char mark[4]; /* of TWP_METASPACE, as the rest */
    size_t mark_size;
    enum twp_prepend prepend;
    bool is_split; /* before each mark */
};
struct twp_stages {
    struct twp_stage *stage;
    size_t count, capacity;
    bool has_letters;
};
#define TWP_STAGES_MAX 64

struct twp_encoder;
/* pre_tokenizer of tokenizer.json; is_byte_level: a ByteLevel is in it. */
TW_MUST_USE enum tw_status twp_stages_read(const struct json_t *json,
                                           struct twp_stages *stages,
                                           bool *is_byte_level,
                                           struct tw_error *err);
/* ByteLevel with GPT-2's pattern. */
TW_MUST_USE enum tw_status twp_stages_gpt2(bool adds_space,
                                           struct twp_stages *stages,
                                           struct tw_error *err);
/* Matches and what stands between them are parts of their own. */
TW_MUST_USE enum tw_status twp_stages_isolate(const char *pattern,
                                              struct twp_stages *stages,
                                              struct tw_error *err);
void twp_stages_fini(struct twp_stages *stages);
/* Sends the slice (not empty) through stage and the later ones; words go to
 * twp_word_encode or twp_characters_encode. */
TW_MUST_USE enum tw_status twp_stages_run(struct twp_encoder *encoder,
                                          size_t stage, const char *text,
                                          size_t size);
/* The stages of tokenizer_spaces.c. */
TW_MUST_USE enum tw_status twp_stage_add_space(struct twp_encoder *encoder,
                                               size_t number,
                                               const char *text, size_t size);
TW_MUST_USE enum tw_status twp_stage_letters(struct twp_encoder *encoder,
                                             size_t number, const char *text,
                                             size_t size);
TW_MUST_USE enum tw_status twp_stage_metaspace(struct twp_encoder *encoder,
                                               size_t number,
                                               const char *text, size_t size);

/* --- GPT-2's letters for bytes (tokenizer_letters.c) --- */

uint32_t twp_letter(unsigned char byte);
void twp_letters_from_bytes(const char *bytes, size_t size,
                            struct tw_strbuf *out);
/* False, and nothing appended, where a character is no such letter. */
bool twp_letters_to_bytes(const char *letters, size_t size,
                          struct tw_strbuf *out);

/* --- Byte-pair merges (tokenizer_bpe.c, tokenizer_word.c) --- */

struct twp_merge {
    uint64_t pair; /* left << 32 | right */
    uint32_t rank;
    int32_t id; /* of the two as one; -1: free slot */
};
struct twp_bpe {
    struct twp_merge *slot;
    size_t slots, count; /* slots: a power of two */
    int shift;
    int32_t byte_id[256]; /* -1: no such token */
    int32_t unknown;      /* stands for such a byte, or for a character that
                           * has no token; -1: it is dropped */
    bool fuses_unknown, ignores_merges;
};
/* A pair given twice keeps the last. The table grows with its pairs, and is
 * there from the first one or twp_bpe_create on. */
TW_MUST_USE enum tw_status twp_bpe_add(struct twp_bpe *bpe, int32_t left,
                                       int32_t right, uint32_t rank,
                                       int32_t id, struct tw_error *err);
TW_MUST_USE enum tw_status twp_bpe_create(struct twp_bpe *bpe,
                                          struct tw_error *err);
const struct twp_merge *twp_bpe_find(const struct twp_bpe *bpe, int32_t left,
                                     int32_t right);
void twp_bpe_fini(struct twp_bpe *bpe);

/* Merges what stands in the encoder's word until no pair is known. */
TW_MUST_USE enum tw_status twp_merge_word(struct twp_encoder *encoder);

/* --- Vocabularies of characters (tokenizer_characters.c) --- */

struct twp_characters;
/* has_fallback: bytes have tokens like "<0x0A>". NULL without memory. */
struct twp_characters *twp_characters_create(bool has_fallback);
void twp_characters_destroy(struct twp_characters *characters);
/* Appends the bytes a token stands for: a byte's own, spaces for marks. */
void twp_characters_piece(const struct twp_characters *characters,
                          const char *token, size_t size, bool is_raw,
                          struct tw_strbuf *out);
/* Once all tokens are there. */
void twp_characters_finish(struct tw_tokenizer *tokenizer);
/* A merge of these two tokens is known. */
void twp_characters_join(struct twp_characters *characters, const char *left,
                         size_t left_size, const char *right,
                         size_t right_size);
/* Text is not to be cut anywhere. */
void twp_characters_keep_whole(struct twp_characters *characters);
TW_MUST_USE enum tw_status twp_characters_encode(struct twp_encoder *encoder,
                                                 const char *text,
                                                 size_t size);
/* The encoder's word becomes the symbols of these characters. */
TW_MUST_USE enum tw_status twp_characters_spell(struct twp_encoder *encoder,
                                                const char *word, size_t size);

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
    uint32_t offset; /* in bytes */
    uint32_t size : 31, is_special : 1;
};
#define TWP_NO_PIECE 0x7fffffffu /* as size: the id has none */
struct tw_tokenizer {
    struct twp_strings tokens; /* stored form -> id */
    struct twp_strings words;  /* characters; with ignores_merges all: what
                                * stands in the text -> id */
    struct tw_strbuf bytes;    /* of all pieces */
    struct twp_piece *piece;
    int64_t size;
    struct twp_characters *characters; /* NULL: symbols are bytes */
    struct twp_normalizer normalizer;
    struct twp_added_set raw, normalized;
    struct twp_regex *word_char, *space; /* of single_word and strip */
    struct twp_stages stages;
    struct twp_bpe bpe;
    struct twp_cache *cache;
    int32_t bos, eos;
    struct tw_sha256 hasher;
    char hash[65];
};

/* Closed with tw_tokenizer_close. NULL without memory. */
struct tw_tokenizer *twp_tokenizer_create(void);
/* The usual names, where no end of text is known. */
void twp_default_eos(struct tw_tokenizer *tokenizer);

/* One call of encode. */
struct twp_encoder {
    const struct tw_tokenizer *tokenizer;
    struct twp_matcher *matcher;
    struct twp_cache *cache; /* NULL: held by another */
    bool parse_special, is_letters; /* words are letters of bytes */
    const char *first; /* where the document starts; NULL: elsewhere */
    struct tw_strbuf letters; /* of the slice at hand */
    struct tw_ids word;      /* symbols of the word at hand */
    struct tw_ids *ids;
    struct tw_error *err;
};

/* Symbols are to be characters; before twp_vocab_init. */
TW_MUST_USE enum tw_status twp_vocab_of_characters(
    struct tw_tokenizer *tokenizer, bool has_fallback, struct tw_error *err);
/* Vocabulary (tokenizer_vocab.c). The table gets `size` ids; adding refuses
 * ids outside it and ids or tokens given twice. */
TW_MUST_USE enum tw_status twp_vocab_init(struct tw_tokenizer *tokenizer,
                                          int64_t size, struct tw_error *err);
/* The piece alone, not to be found by it. */
TW_MUST_USE enum tw_status twp_vocab_set_piece(struct tw_tokenizer *tokenizer,
                                               const char *token, size_t size,
                                               int64_t id, bool is_raw,
                                               struct tw_error *err);
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
/* The number of ids, pieces at least; vocab may be NULL. */
TW_MUST_USE enum tw_status twp_tokens_size(struct json_t *vocab,
                                           int64_t pieces,
                                           const struct json_t *added,
                                           int64_t *size,
                                           struct tw_error *err);
/* A list of added tokens, as in tokenizer.json. */
TW_MUST_USE enum tw_status twp_tokens_add(struct tw_tokenizer *tokenizer,
                                          const struct json_t *added,
                                          struct tw_error *err);
/* Word characters and spaces as added tokens know them. */
TW_MUST_USE enum tw_status twp_tokens_classes(struct tw_tokenizer *tokenizer,
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
/* Its added_tokens_decoder as a list of added tokens, made also where it
 * fails; free with json_decref. */
TW_MUST_USE enum tw_status twp_config_added(const struct twp_config *config,
                                            struct json_t **added,
                                            struct tw_error *err);
/* tokenizer.model; errors name the file. */
TW_MUST_USE enum tw_status twp_tokenizer_model(struct tw_tokenizer *tokenizer,
                                               const char *path,
                                               const struct twp_config *config,
                                               struct tw_error *err);
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
