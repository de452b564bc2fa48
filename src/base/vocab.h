/* A vocabulary as plain arrays: what a GGUF file's tokenizer.ggml.* metadata or
 * a tokenizer.model holds. The seam between readers of files (src/load) and
 * tokenizers (src/text): neither includes the other. */
#ifndef TW_BASE_VOCAB_H
#define TW_BASE_VOCAB_H

#include <stddef.h>
#include <stdint.h>

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
#define TW_VOCAB_INIT                                                          \
    {                                                                          \
        .bos = -1, .eos = -1, .unk = -1, .pad = -1                             \
    }

#ifdef __cplusplus
}
#endif
#endif
