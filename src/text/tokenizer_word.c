/* From a word's bytes to ids: through the cache, the vocabulary, or merges.
 * The cache is 64 Ki slots of one cache line (4 MiB); a word that is longer
 * than a slot holds, or has more ids, is merged each time. */
#include <config.h>

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

#define CACHE_SLOTS  65536u
#define CACHED_BYTES 30
#define CACHED_IDS   7

struct slot {
    uint32_t hash;
    uint8_t size, count; /* size 0: free */
    char bytes[CACHED_BYTES];
    int32_t id[CACHED_IDS];
};
_Static_assert(sizeof(struct slot) == 64, "one cache line");

struct twp_cache {
    atomic_flag is_taken;
    struct slot *slot; /* aligned, in memory */
    void *memory;
};

struct twp_cache *twp_cache_create(void)
{
    struct twp_cache *cache = tw_calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    atomic_flag_clear(&cache->is_taken);
    cache->memory = tw_calloc(CACHE_SLOTS + 1, sizeof *cache->slot);
    if (!cache->memory) {
        tw_free(cache);
        return NULL;
    }
    uintptr_t start = (uintptr_t)cache->memory;
    cache->slot = (struct slot *)((char *)cache->memory + (-start & 63));
    return cache;
}

void twp_cache_destroy(struct twp_cache *cache)
{
    if (cache)
        tw_free(cache->memory);
    tw_free(cache);
}

bool twp_cache_take(struct twp_cache *cache)
{
    return !atomic_flag_test_and_set(&cache->is_taken);
}

void twp_cache_give_back(struct twp_cache *cache)
{
    atomic_flag_clear(&cache->is_taken);
}

static enum tw_status push_all(struct tw_ids *ids, const int32_t *id,
                               size_t count, struct tw_error *err)
{
    if (tw_grow((void **)&ids->id, &ids->capacity, ids->count + count,
                sizeof *ids->id) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (count)
        memcpy(ids->id + ids->count, id, count * sizeof *id);
    ids->count += count;
    return TW_OK;
}

/* One symbol a byte. Bytes without a token become the unknown token, runs of
 * them one where it is fused, or drop out where there is none. */
static enum tw_status spell(struct twp_encoder *encoder, const char *word,
                            size_t size)
{
    const struct twp_bpe *bpe = &encoder->tokenizer->bpe;
    struct tw_ids *out = &encoder->word;
    bool was_unknown = false;
    if (tw_grow((void **)&out->id, &out->capacity, size, sizeof *out->id) != 0)
        return tw_error_set(encoder->err, TW_ERR_NOMEM, "out of memory");
    out->count = 0;
    for (size_t i = 0; i < size; i++) {
        int32_t id = bpe->byte_id[(unsigned char)word[i]];
        bool is_unknown = id < 0;
        if (is_unknown)
            id = bpe->unknown;
        if (id >= 0 && !(is_unknown && was_unknown && bpe->fuses_unknown))
            out->id[out->count++] = id;
        was_unknown = is_unknown;
    }
    return TW_OK;
}

static enum tw_status merge_bytes(struct twp_encoder *encoder, const char *word,
                                  size_t size)
{
    const struct tw_tokenizer *tokenizer = encoder->tokenizer;
    if (tokenizer->bpe.ignores_merges) {
        int32_t id = twp_strings_find(&tokenizer->words, word, size);
        if (id >= 0) {
            encoder->word.count = 0;
            return tw_ids_push(&encoder->word, id, encoder->err);
        }
    }
    enum tw_status status = spell(encoder, word, size);
    return status == TW_OK ? twp_merge_word(encoder) : status;
}

static enum tw_status merge_letters(struct twp_encoder *encoder,
                                    const char *word, size_t size)
{
    struct tw_strbuf bytes = {0};
    twp_letters_to_bytes(word, size, &bytes);
    enum tw_status status =
        bytes.is_failed
            ? tw_error_set(encoder->err, TW_ERR_NOMEM, "out of memory")
            : merge_bytes(encoder, tw_strbuf_text(&bytes), bytes.length);
    tw_strbuf_fini(&bytes);
    return status;
}

static enum tw_status merge(struct twp_encoder *encoder, const char *word,
                            size_t size)
{
    if (encoder->is_letters)
        return merge_letters(encoder, word, size);
    if (!encoder->tokenizer->characters)
        return merge_bytes(encoder, word, size);
    enum tw_status status = twp_characters_spell(encoder, word, size);
    return status == TW_OK ? twp_merge_word(encoder) : status;
}

static void remember(struct slot *slot, uint32_t hash, const char *word,
                     size_t size, const struct tw_ids *ids)
{
    if (ids->count > CACHED_IDS)
        return;
    slot->hash = hash;
    slot->size = (uint8_t)size;
    slot->count = (uint8_t)ids->count;
    memcpy(slot->bytes, word, size);
    if (ids->count)
        memcpy(slot->id, ids->id, ids->count * sizeof *ids->id);
}

enum tw_status twp_word_encode(struct twp_encoder *encoder, const char *word,
                               size_t size)
{
    struct slot *slot = NULL;
    uint32_t hash = 0;
    if (encoder->cache && size <= CACHED_BYTES) {
        hash = (uint32_t)twp_hash(word, size);
        slot = &encoder->cache->slot[hash % CACHE_SLOTS];
        if (slot->hash == hash && slot->size == size &&
            memcmp(slot->bytes, word, size) == 0)
            return push_all(encoder->ids, slot->id, slot->count, encoder->err);
    }
    enum tw_status status = merge(encoder, word, size);
    if (status != TW_OK)
        return status;
    if (slot)
        remember(slot, hash, word, size, &encoder->word);
    return push_all(encoder->ids, encoder->word.id, encoder->word.count,
                    encoder->err);
}
