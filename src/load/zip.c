/* A zip archive's directory. It stands at the file's end; each of its records
 * names a local record, behind which the member's bytes are. */
#include <config.h>

#include "load/zip.h"

#include <stdlib.h>
#include <string.h>

enum {
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    ZIP64_EXTRA = 1,
    IS_ENCRYPTED = 1
};

/* What the end record says of the directory. */
struct place {
    uint64_t entries, offset, bytes;
};

static uint32_t get16(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static uint32_t get32(const uint8_t *at)
{
    return get16(at) | get16(at + 2) << 16;
}

static uint64_t get64(const uint8_t *at)
{
    return get32(at) | (uint64_t)get32(at + 4) << 32;
}

static enum tw_status bad(const struct tw_tensor_file *file, const char *cause,
                          struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_FORMAT, "%s: zip archive: %s", file->name,
                        cause);
}

bool twp_zip_is(const struct tw_file *map)
{
    return map->size >= 4 && memcmp(map->data, "PK\3\4", 4) == 0;
}

/* The end record: the last one whose comment reaches the file's end. */
static const uint8_t *find_end(const struct tw_file *map)
{
    for (size_t back = END_BYTES;
         back <= map->size && back <= END_BYTES + 65535; back++) {
        const uint8_t *at = map->data + map->size - back;
        if (memcmp(at, "PK\5\6", 4) == 0 && get16(at + 20) == back - END_BYTES)
            return at;
    }
    return NULL;
}

static enum tw_status find_directory(const struct tw_tensor_file *file,
                                     struct place *place, struct tw_error *err)
{
    const struct tw_file *map = &file->map;
    const uint8_t *end = find_end(map);
    if (!end)
        return bad(file, "has no directory: truncated?", err);
    *place = (struct place){.entries = get16(end + 10),
                            .offset = get32(end + 16),
                            .bytes = get32(end + 12)};
    if (end - map->data >= LOCATOR_BYTES &&
        memcmp(end - LOCATOR_BYTES, "PK\6\7", 4) == 0) {
        uint64_t at = get64(end - LOCATOR_BYTES + 8);
        if (map->size < END64_BYTES || at > map->size - END64_BYTES ||
            memcmp(map->data + at, "PK\6\6", 4) != 0)
            return bad(file, "its zip64 record is not where it should be", err);
        *place = (struct place){.entries = get64(map->data + at + 32),
                                .offset = get64(map->data + at + 48),
                                .bytes = get64(map->data + at + 40)};
    }
    if (place->offset > map->size || place->bytes > map->size - place->offset)
        return bad(file, "its directory is past the end: truncated?", err);
    if (place->entries > place->bytes / CENTRAL_BYTES)
        return bad(file, "has more entries than its directory has room for",
                   err);
    return TW_OK;
}

/* The wide form of those of the three values that are all ones. */
static bool widen(const uint8_t *extra, size_t bytes, uint64_t *const wide[3])
{
    while (bytes >= 4) {
        size_t size = get16(extra + 2);
        if (size > bytes - 4)
            return false;
        if (get16(extra) == ZIP64_EXTRA) {
            const uint8_t *at = extra + 4;
            for (int i = 0; i < 3; i++) {
                if (*wide[i] != UINT32_MAX)
                    continue;
                if (size < 8)
                    return false;
                *wide[i] = get64(at);
                at += 8;
                size -= 8;
            }
            return true;
        }
        extra += 4 + size;
        bytes -= 4 + size;
    }
    return *wide[0] != UINT32_MAX && *wide[1] != UINT32_MAX &&
           *wide[2] != UINT32_MAX;
}

/* A member's bytes, behind its local record. */
static enum tw_status place_entry(const struct tw_tensor_file *file,
                                  struct twp_zip_entry *entry, uint64_t local,
                                  struct tw_error *err)
{
    const struct tw_file *map = &file->map;
    if (map->size < LOCAL_BYTES || local > map->size - LOCAL_BYTES ||
        memcmp(map->data + local, "PK\3\4", 4) != 0)
        return bad(file, "an entry is not where the directory says", err);
    const uint8_t *record = map->data + local;
    uint64_t start =
        local + LOCAL_BYTES + get16(record + 26) + get16(record + 28);
    if (start > map->size || entry->size > map->size - start)
        return bad(file, "an entry is past the end: truncated?", err);
    entry->data = map->data + start;
    return TW_OK;
}

/* One record of the directory, *size bytes long. */
static enum tw_status take_entry(struct tw_tensor_file *file,
                                 const uint8_t *record, uint64_t left,
                                 struct twp_zip_entry *entry, uint64_t *size,
                                 struct tw_error *err)
{
    if (left < CENTRAL_BYTES || memcmp(record, "PK\1\2", 4) != 0)
        return bad(file, "its directory is broken", err);
    uint64_t name = get16(record + 28), extra = get16(record + 30);
    *size = CENTRAL_BYTES + name + extra + get16(record + 32);
    if (*size > left || name == 0 ||
        memchr(record + CENTRAL_BYTES, 0, (size_t)name))
        return bad(file, "its directory is broken", err);
    uint64_t stored = get32(record + 20), local = get32(record + 42);
    entry->size = get32(record + 24);
    uint64_t *const wide[3] = {&entry->size, &stored, &local};
    if (!widen(record + CENTRAL_BYTES + name, (size_t)extra, wide))
        return bad(file, "its directory is broken", err);
    enum tw_status status = twp_arena_text(&file->arena, record + CENTRAL_BYTES,
                                           (size_t)name, &entry->name, err);
    if (status != TW_OK)
        return status;
    if (get16(record + 10) != 0 || stored != entry->size ||
        (get16(record + 8) & IS_ENCRYPTED))
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "%s: zip archive: entry '%.200s' is compressed or "
                            "encrypted, which PyTorch never writes",
                            file->name, entry->name);
    return place_entry(file, entry, local, err);
}

static int by_name(const void *left, const void *right)
{
    const struct twp_zip_entry *a = left, *b = right;
    return strcmp(a->name, b->name);
}

enum tw_status twp_zip_open(struct tw_tensor_file *file, struct twp_zip *zip,
                            struct tw_error *err)
{
    struct place place = {0};
    struct twp_zip_entry *entry = NULL;
    enum tw_status status = find_directory(file, &place, err);
    if (status == TW_OK)
        status = twp_arena_get(&file->arena, (size_t)place.entries,
                               sizeof *entry, &entry, err);
    if (status != TW_OK)
        return status;
    const uint8_t *at = file->map.data + place.offset;
    uint64_t left = place.bytes;
    for (uint64_t i = 0; i < place.entries; i++) {
        uint64_t size = 0;
        status = take_entry(file, at, left, &entry[i], &size, err);
        if (status != TW_OK)
            return status;
        at += size;
        left -= size;
    }
    if (place.entries > 0)
        qsort(entry, (size_t)place.entries, sizeof *entry, by_name);
    for (uint64_t i = 1; i < place.entries; i++)
        if (strcmp(entry[i - 1].name, entry[i].name) == 0)
            return bad(file, "an entry stands there twice", err);
    *zip = (struct twp_zip){.entry = entry, .entries = (size_t)place.entries};
    return TW_OK;
}

const struct twp_zip_entry *twp_zip_find(const struct twp_zip *zip,
                                         const char *name)
{
    struct twp_zip_entry key = {.name = name};
    if (zip->entries == 0)
        return NULL;
    return bsearch(&key, zip->entry, zip->entries, sizeof key, by_name);
}
