/* A map from byte strings to numbers: open addressing over one arena. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

/* FNV-1a with a last mix, as the low bits choose the slot. */
uint64_t twp_hash(const char *bytes, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

void twp_strings_fini(struct twp_strings *strings)
{
    tw_strbuf_fini(&strings->bytes);
    tw_free(strings->entry);
    tw_free(strings->slot);
    *strings = (struct twp_strings){0};
}

static bool is_entry(const struct twp_strings *strings, uint32_t number,
                     const char *bytes, size_t size)
{
    const struct twp_string *entry = &strings->entry[number - 1];
    return entry->size == size &&
           memcmp(strings->bytes.data + entry->offset, bytes, size) == 0;
}

/* The slot that holds the string, or the free one where it would stand. */
static size_t find_slot(const struct twp_strings *strings, const char *bytes,
                        size_t size)
{
    size_t mask = strings->slots - 1;
    size_t at = twp_hash(bytes, size) & mask;
    while (strings->slot[at] &&
           !is_entry(strings, strings->slot[at], bytes, size))
        at = (at + 1) & mask;
    return at;
}

/* Twice the slots, every entry in its new place. */
static int grow_slots(struct twp_strings *strings)
{
    size_t slots = strings->slots ? 2 * strings->slots : 1024;
    uint32_t *slot = tw_calloc(slots, sizeof *slot);
    if (!slot)
        return -1;
    tw_free(strings->slot);
    strings->slot = slot;
    strings->slots = slots;
    for (size_t i = 0; i < strings->count; i++) {
        const struct twp_string *entry = &strings->entry[i];
        slot[find_slot(strings, strings->bytes.data + entry->offset,
                       entry->size)] = (uint32_t)(i + 1);
    }
    return 0;
}

int twp_strings_add(struct twp_strings *strings, const char *bytes, size_t size,
                    int32_t value)
{
    if (2 * (strings->count + 1) > strings->slots && grow_slots(strings) != 0)
        return -1;
    if (tw_grow((void **)&strings->entry, &strings->capacity,
                strings->count + 1, sizeof *strings->entry) != 0)
        return -1;
    size_t offset = strings->bytes.length, slot;
    tw_strbuf_append(&strings->bytes, bytes, size);
    if (strings->bytes.is_failed || strings->bytes.length > UINT32_MAX)
        return -1;
    slot = find_slot(strings, bytes, size);
    strings->entry[strings->count++] = (struct twp_string){
        .offset = (uint32_t)offset, .size = (uint32_t)size, .value = value};
    strings->slot[slot] = (uint32_t)strings->count;
    return 0;
}

int32_t twp_strings_find(const struct twp_strings *strings, const char *bytes,
                         size_t size)
{
    if (strings->slots == 0)
        return -1;
    uint32_t number = strings->slot[find_slot(strings, bytes, size)];
    return number ? strings->entry[number - 1].value : -1;
}
