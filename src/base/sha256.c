/* SHA-256 by nettle, which uses the processor's own instructions. */
#include <config.h>

#include "base/sha256.h"

#include <nettle/sha2.h>

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(struct tw_sha256),
               "nettle's context fits");
_Static_assert(_Alignof(struct sha256_ctx) <= _Alignof(struct tw_sha256),
               "nettle's context is aligned");

void tw_sha256_init(struct tw_sha256 *hash)
{
    sha256_init((struct sha256_ctx *)hash->state);
}

void tw_sha256_update(struct tw_sha256 *hash, const void *bytes, size_t size)
{
    sha256_update((struct sha256_ctx *)hash->state, size, bytes);
}

void tw_sha256_hex(struct tw_sha256 *hash, char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_digest((struct sha256_ctx *)hash->state, sizeof digest, digest);
    for (int i = 0; i < SHA256_DIGEST_SIZE; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
}
