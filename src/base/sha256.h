/* SHA-256 in a streaming form, for model, tokenizer and corpus identity. */
#ifndef TW_BASE_SHA256_H
#define TW_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tw_sha256 {
    uint64_t state[32]; /* room for the library's context, checked in .c */
};

void tw_sha256_init(struct tw_sha256 *hash);
void tw_sha256_update(struct tw_sha256 *hash, const void *bytes, size_t size);
/* Writes 64 lower-case hex digits and a NUL; the state is used up. */
void tw_sha256_hex(struct tw_sha256 *hash, char hex[65]);

#ifdef __cplusplus
}
#endif
#endif
