/* Where a model's tokenizer is: joins src/load, which reads the vocabulary of
 * a GGUF file, and src/text, which knows what it means. */
#include <config.h>

#include "run/tokenizer_of.h"

#include "base/memory.h"
#include "load/checkpoint.h"
#include "text/vocab.h"

static enum tw_status from_gguf(struct tw_gguf *gguf,
                                struct tw_tokenizer **tokenizer,
                                struct tw_error *err)
{
    struct tw_vocab vocab;
    struct tw_error cause = {0};
    enum tw_status status = tw_gguf_vocab(gguf, &vocab, err);
    if (status != TW_OK)
        return status;
    status = tw_tokenizer_from_vocab(&vocab, tokenizer, &cause);
    if (status != TW_OK)
        tw_error_set(err, status, "%s: %s", tw_gguf_name(gguf), cause.text);
    return status;
}

enum tw_status tw_tokenizer_of(const char *directory, struct tw_gguf *gguf,
                               const char *beside,
                               struct tw_tokenizer **tokenizer,
                               struct tw_error *err)
{
    if (!directory && gguf)
        return from_gguf(gguf, tokenizer, err);
    return tw_tokenizer_open(directory ? directory : beside, tokenizer, err);
}

enum tw_status tw_tokenizer_of_name(const char *directory, const char *model,
                                    struct tw_tokenizer **tokenizer,
                                    struct tw_error *err)
{
    char *path = NULL, *beside = NULL, *name = NULL;
    struct tw_gguf *gguf = NULL;
    if (directory)
        return tw_tokenizer_open(directory, tokenizer, err);
    enum tw_status status = tw_gguf_find(model, &path, err);
    if (status == TW_OK && path)
        status = tw_gguf_open(path, &gguf, err);
    else if (status == TW_OK)
        status = tw_checkpoint_find(model, &beside, &name, err);
    if (status == TW_OK)
        status = tw_tokenizer_of(NULL, gguf, beside, tokenizer, err);
    tw_gguf_close(gguf);
    tw_free(path);
    tw_free(beside);
    tw_free(name);
    return status;
}
