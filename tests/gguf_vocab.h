/* The vocabulary of a GGUF file for tests of src/text, which may not include
 * the room that reads such files. Little-endian files that are known good. */
#ifndef TESTS_GGUF_VOCAB_H
#define TESTS_GGUF_VOCAB_H

#include "text/vocab.h"

struct gguf_vocab {
    struct tw_vocab vocab; /* its arrays are borrowed from the rest */
    char *file, *model, *pre;
    struct tw_vocab_text *piece, *merge;
    float *score;
    int32_t *type;
};
/* False: no such file, or none that this reads. */
bool gguf_vocab_read(const char *path, struct gguf_vocab *gguf);
void gguf_vocab_fini(struct gguf_vocab *gguf);

#endif
