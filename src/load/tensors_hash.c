/* Identity and soundness of the weights in one pass over memory: SHA-256 and
 * the search for values that are not finite take turns on blocks that stay in
 * cache. Threads take whole tensors, so the digest is free of their number. */
#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/threads.h"
#include "load/safetensors.h"

enum { BLOCK_BYTES = 1 << 16 }; /* a quarter of a small L2 */

struct digest {
    const struct tw_tensor *tensor;
    char hex[65];
    int64_t bad; /* first element that is not finite, -1: none */
};

/* An exponent of all ones is Inf or NaN. A loop without a branch first, for it
 * is vectorised; the index is searched only in a block known to be bad. */
static int64_t find_bad16(const uint16_t *value, int64_t count, uint16_t mask)
{
    unsigned bad = 0;
    for (int64_t i = 0; i < count; i++)
        bad |= (value[i] & mask) == mask;
    for (int64_t i = 0; bad && i < count; i++)
        if ((value[i] & mask) == mask)
            return i;
    return -1;
}

static int64_t find_bad32(const uint32_t *value, int64_t count)
{
    const uint32_t mask = 0x7f800000u;
    unsigned bad = 0;
    for (int64_t i = 0; i < count; i++)
        bad |= (value[i] & mask) == mask;
    for (int64_t i = 0; bad && i < count; i++)
        if ((value[i] & mask) == mask)
            return i;
    return -1;
}

static int64_t find_bad(const void *data, enum tw_dtype dtype, int64_t count)
{
    switch (dtype) {
    case TW_F32:
        return find_bad32(data, count);
    case TW_BF16:
        return find_bad16(data, count, 0x7f80u);
    case TW_F16:
        return find_bad16(data, count, 0x7c00u);
    default:
        return -1;
    }
}

static void hash_identity(struct tw_sha256 *hash, const struct tw_tensor *t)
{
    char text[32];
    tw_sha256_update(hash, t->name, strlen(t->name) + 1);
    tw_sha256_update(hash, tw_dtype_name(t->dtype),
                     strlen(tw_dtype_name(t->dtype)) + 1);
    for (int d = 0; d < t->dims; d++) {
        int size = snprintf(text, sizeof text, "%lld,", (long long)t->shape[d]);
        tw_sha256_update(hash, text, (size_t)size);
    }
    tw_sha256_update(hash, "", 1);
}

static void hash_tensor(void *arg, int worker, int64_t piece)
{
    struct digest *digest = (struct digest *)arg + piece;
    const struct tw_tensor *t = digest->tensor;
    size_t size = tw_dtype_size(t->dtype);
    int64_t step = (int64_t)(BLOCK_BYTES / size);
    struct tw_sha256 hash;
    (void)worker;
    tw_sha256_init(&hash);
    hash_identity(&hash, t);
    for (int64_t at = 0; at < t->elements; at += step) {
        const uint8_t *block = (const uint8_t *)t->data + (size_t)at * size;
        int64_t count = t->elements - at < step ? t->elements - at : step;
        tw_sha256_update(&hash, block, (size_t)count * size);
        int64_t bad = digest->bad < 0 ? find_bad(block, t->dtype, count) : -1;
        if (bad >= 0)
            digest->bad = at + bad;
    }
    tw_sha256_hex(&hash, digest->hex);
}

/* Largest first, so that the last piece to finish is a small one. */
static int by_size(const void *left, const void *right)
{
    const struct digest *a = left, *b = right;
    if (a->tensor->elements != b->tensor->elements)
        return a->tensor->elements > b->tensor->elements ? -1 : 1;
    return a->tensor < b->tensor ? -1 : a->tensor > b->tensor;
}

/* The set's own order, which is by name. */
static int by_place(const void *left, const void *right)
{
    const struct digest *a = left, *b = right;
    return a->tensor < b->tensor ? -1 : a->tensor > b->tensor;
}

static enum tw_status not_finite(const struct digest *digest,
                                 struct tw_error *err)
{
    const struct tw_tensor *t = digest->tensor;
    int64_t index[TW_MAX_DIMS], rest = digest->bad;
    char text[TW_MAX_DIMS * 24] = "";
    size_t used = 0;
    for (int d = t->dims - 1; d >= 0; d--) {
        index[d] = rest % t->shape[d];
        rest /= t->shape[d];
    }
    for (int d = 0; d < t->dims; d++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld",
                                 d ? ", " : "", (long long)index[d]);
    return tw_error_set(err, TW_ERR_NUMERIC,
                        "%s: tensor '%.200s' is not a finite number at [%s]",
                        t->file, t->name, text);
}

static enum tw_status join_digests(const struct digest *digest, size_t count,
                                   char hex[65], struct tw_error *err)
{
    struct tw_sha256 hash;
    tw_sha256_init(&hash);
    for (size_t i = 0; i < count; i++) {
        if (digest[i].bad >= 0)
            return not_finite(&digest[i], err);
        tw_sha256_update(&hash, digest[i].hex, 64);
    }
    tw_sha256_hex(&hash, hex);
    return TW_OK;
}

enum tw_status tw_tensors_hash(const struct tw_tensors *tensors, int threads,
                               char hex[65], struct tw_error *err)
{
    struct tw_threads *pool = NULL;
    assert(threads >= 1);
    struct digest *digest = tw_calloc(tensors->count, sizeof *digest);
    if (!digest)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for digests");
    double bytes = 0;
    for (size_t i = 0; i < tensors->count; i++) {
        const struct tw_tensor *tensor = &tensors->tensor[i];
        digest[i].tensor = tensor;
        digest[i].bad = -1;
        bytes += (double)tensor->elements *
                 (double)tw_dtype_size(tensor->dtype);
    }
    if (bytes > 1 << 30) /* seconds of silence otherwise */
        tw_log(TW_LOG_INFO, "reading and checking %.1f GiB of weights",
               bytes / (1 << 30));
    enum tw_status status = tw_threads_create(threads, &pool, err);
    if (status == TW_OK) {
        qsort(digest, tensors->count, sizeof *digest, by_size);
        tw_threads_run(pool, hash_tensor, digest, (int64_t)tensors->count);
        qsort(digest, tensors->count, sizeof *digest, by_place);
        status = join_digests(digest, tensors->count, hex, err);
    }
    tw_threads_destroy(pool);
    tw_free(digest);
    return status;
}
