/* The tokenizer that belongs to a model. */
#ifndef TW_RUN_TOKENIZER_OF_H
#define TW_RUN_TOKENIZER_OF_H

#include "load/gguf.h"
#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* directory (--tokenizer) if not NULL; else the GGUF file's own (gguf not
 * NULL); else the one in `beside`. Returns TW_OK, or what
 * tw_tokenizer_open, tw_gguf_vocab or tw_tokenizer_from_vocab gives. */
TW_MUST_USE enum tw_status
tw_tokenizer_of(const char *directory, struct tw_gguf *gguf, const char *beside,
                struct tw_tokenizer **tokenizer, struct tw_error *err);
/* The same for a model that is not opened, by its name. */
TW_MUST_USE enum tw_status tw_tokenizer_of_name(const char *directory,
                                                const char *model,
                                                struct tw_tokenizer **tokenizer,
                                                struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
