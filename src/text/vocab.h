/* A vocabulary as plain arrays: what a GGUF file's tokenizer.ggml.* metadata
 * or a tokenizer.model holds, whoever read it. The reader fills the struct
 * and keeps the arrays until the call returns; the tokenizer copies.
 *
 *     struct tw_vocab vocab = TW_VOCAB_INIT;
 *     vocab.model = "llama";
 *     vocab.pieces = 32000;                  // piece, score, type: [pieces]
 *     tw_tokenizer_from_vocab(&vocab, &tokenizer, &err);
 */
#ifndef TW_TEXT_VOCAB_H
#define TW_TEXT_VOCAB_H

#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes, not NUL-terminated. */
struct tw_vocab_text {
    const char *bytes;
    size_t size;
};

/* tokenizer.ggml.token_type, SentencePiece's ModelProto.SentencePiece.Type. */
enum tw_vocab_type {
    TW_VOCAB_NORMAL = 1,
    TW_VOCAB_UNKNOWN = 2,
    TW_VOCAB_CONTROL = 3,      /* special: found where those are parsed */
    TW_VOCAB_USER_DEFINED = 4, /* found in every text */
    TW_VOCAB_UNUSED = 5,
    TW_VOCAB_BYTE = 6 /* "<0x0A>" */
};

/* A switch of the file; not given: the kind's own rule holds. */
enum tw_vocab_switch { TW_VOCAB_UNSET, TW_VOCAB_NO, TW_VOCAB_YES };

struct tw_vocab {
    const char *model; /* tokenizer.ggml.model: "gpt2", "llama" */
    const char *pre;   /* tokenizer.ggml.pre, NULL: not given; "gpt2" only */
    int64_t pieces;
    const struct tw_vocab_text *piece; /* [pieces], UTF-8 */
    const float *score;                /* [pieces], "llama" only, or NULL */
    const int32_t *type; /* [pieces] enum tw_vocab_type, NULL: all normal */
    int64_t merges;
    const struct tw_vocab_text *merge; /* [merges] "left right", "gpt2" only */
    int32_t bos, eos, unk, pad;        /* ids; -1: not given */
    enum tw_vocab_switch add_bos, add_eos;
    enum tw_vocab_switch add_space_prefix, remove_extra_whitespaces;
};
#define TW_VOCAB_INIT {.bos = -1, .eos = -1, .unk = -1, .pad = -1}

/* A tokenizer with these pieces. "llama": SentencePiece's byte-pair merges by
 * score, the best pair first, then the leftmost; a character without a piece
 * is its byte pieces, or unk. "gpt2": byte-level merges by their place in the
 * list, split by the rule that pre names (not given: "default"). Not given,
 * add_bos is true for "llama" and for the pre-tokenizers whose models have it
 * so, and add_space_prefix is true for "llama". Its hash is that of the
 * arrays' content. Returns TW_OK, TW_ERR_UNSUPPORTED (naming the model or
 * pre-tokenizer and what is supported), TW_ERR_FORMAT or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status tw_tokenizer_from_vocab(
    const struct tw_vocab *vocab, struct tw_tokenizer **tokenizer,
    struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
