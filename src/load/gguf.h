/* GGUF models: one file or the parts of a split one.
 *
 *     struct tw_gguf *gguf;
 *     tw_gguf_open("model.gguf", &gguf, &err);
 *     tw_gguf_close(gguf);
 *
 * Files are mapped; header, metadata and tensor list are validated in full
 * before any use, and need no more memory than twice the file's size. */
#ifndef TW_LOAD_GGUF_H
#define TW_LOAD_GGUF_H

#include "base/error.h"
#include "base/vocab.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_gguf; /* opaque */

/* path: the file, or any part of a split one (NAME-00001-of-00003.gguf; the
 * others stand beside it). Returns TW_OK; TW_ERR_FORMAT naming file and cause;
 * TW_ERR_UNSUPPORTED for a version or tensor type that is not read;
 * TW_ERR_NOT_FOUND for a missing part. */
TW_MUST_USE enum tw_status tw_gguf_open(const char *path, struct tw_gguf **gguf,
                                        struct tw_error *err);
void tw_gguf_close(struct tw_gguf *gguf);

/* The vocabulary in tokenizer.ggml.*, checked for kinds and lengths; what it
 * means is src/text's. The arrays are the gguf's. Returns TW_OK;
 * TW_ERR_NOT_FOUND where the file has none; TW_ERR_FORMAT. */
TW_MUST_USE enum tw_status tw_gguf_vocab(struct tw_gguf *gguf,
                                         struct tw_vocab *vocab,
                                         struct tw_error *err);
/* The first file's base name, for messages. */
const char *tw_gguf_name(const struct tw_gguf *gguf);

/* The path of the GGUF model that `model` names: a .gguf file, or a directory
 * (also org/name in the Hugging Face cache) whose only weights are one such
 * file or the parts of one. *path (tw_free) is NULL, and TW_OK returned, where
 * it names a checkpoint of another format. Returns TW_ERR_FORMAT where a
 * directory holds several models, naming them. */
TW_MUST_USE enum tw_status tw_gguf_find(const char *model, char **path,
                                        struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
