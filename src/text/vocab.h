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

#include "base/vocab.h"
#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

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
