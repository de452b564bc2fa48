/* Blocks that grow, chained; pieces are cut off the newest. */
#include <config.h>

#include "load/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"

enum { ALIGNMENT = 16, BLOCK_BYTES = 4096, LEAST_BYTES = 1 << 20 };

struct tw_arena_block {
    struct tw_arena_block *next;
    size_t size; /* of bytes */
    alignas(ALIGNMENT) unsigned char bytes[];
};

void twp_arena_init(struct tw_arena *arena, const char *name, size_t file_bytes)
{
    size_t twice = file_bytes > SIZE_MAX / 2 ? SIZE_MAX : 2 * file_bytes;
    *arena = (struct tw_arena){
        .name = name, .left = twice > LEAST_BYTES ? twice : LEAST_BYTES};
}

void twp_arena_fini(struct tw_arena *arena)
{
    while (arena->block) {
        struct tw_arena_block *next = arena->block->next;
        tw_free(arena->block);
        arena->block = next;
    }
    *arena = (struct tw_arena){0};
}

enum tw_status twp_arena_claim(struct tw_arena *arena, size_t count,
                               size_t size, struct tw_error *err)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > arena->left)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: describes more than its size can hold",
                            arena->name);
    arena->left -= bytes;
    return TW_OK;
}

/* A new newest block with room for bytes. What is left of the old one is
 * wasted; blocks hold a sixteenth of what may still be had, so that this waste
 * stays small. */
static enum tw_status add_block(struct tw_arena *arena, size_t bytes,
                                struct tw_error *err)
{
    size_t size =
        arena->left / 16 < BLOCK_BYTES ? arena->left / 16 : BLOCK_BYTES;
    if (size < bytes)
        size = bytes;
    enum tw_status status = twp_arena_claim(arena, size, 1, err);
    if (status != TW_OK)
        return status;
    struct tw_arena_block *block = tw_calloc(1, sizeof *block + size);
    if (!block)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                            arena->name);
    block->next = arena->block;
    block->size = size;
    arena->block = block;
    arena->free_bytes = size;
    return TW_OK;
}

enum tw_status twp_arena_get(struct tw_arena *arena, size_t count, size_t size,
                             void *pointer, struct tw_error *err)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        bytes > SIZE_MAX - ALIGNMENT)
        return twp_arena_claim(arena, SIZE_MAX, 2, err);
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!arena->block || bytes > arena->free_bytes) {
        enum tw_status status = add_block(arena, bytes, err);
        if (status != TW_OK)
            return status;
    }
    struct tw_arena_block *block = arena->block;
    void *got = block->bytes + (block->size - arena->free_bytes);
    arena->free_bytes -= bytes;
    memcpy(pointer, &got, sizeof got);
    return TW_OK;
}

enum tw_status twp_arena_text(struct tw_arena *arena, const void *bytes,
                              size_t size, const char **text,
                              struct tw_error *err)
{
    char *copy = NULL;
    enum tw_status status = twp_arena_get(arena, size + 1, 1, &copy, err);
    if (status != TW_OK)
        return status;
    if (size > 0)
        memcpy(copy, bytes, size);
    *text = copy;
    return TW_OK;
}
