/* Zip archives that tests write, stored as PyTorch stores them, with one fault
 * if a test likes. */
#ifndef TESTS_TW_ZIP_H
#define TESTS_TW_ZIP_H

#include "tw_files.h"

struct zip_part {
    const char *name;
    const void *bytes;
    size_t size;
};

/* What to do otherwise. */
struct zip_fault {
    int method, flags;    /* of every entry */
    int is_wide;          /* sizes and places in zip64 records */
    int shift;            /* padding in the local records */
    long entries, offset; /* added to what the end record says */
    uint32_t place;       /* added to each entry's place */
};

struct zip_writer {
    uint8_t bytes[1 << 16];
    size_t size;
};

static inline void zip_put(struct zip_writer *z, uint64_t value, size_t bytes)
{
    ck_assert(z->size + bytes <= sizeof z->bytes);
    for (size_t i = 0; i < bytes; i++)
        z->bytes[z->size++] = i < 8 ? (uint8_t)(value >> (8 * i)) : 0;
}

static inline void zip_append(struct zip_writer *z, const void *bytes,
                              size_t size)
{
    ck_assert(z->size + size <= sizeof z->bytes);
    memcpy(z->bytes + z->size, bytes, size);
    z->size += size;
}

static inline void zip_local(struct zip_writer *z, const struct zip_part *part,
                             const struct zip_fault *fault)
{
    zip_put(z, 0x04034b50, 4);
    zip_put(z, 20, 2);
    zip_put(z, (uint64_t)fault->flags, 2);
    zip_put(z, (uint64_t)fault->method, 2);
    zip_put(z, 0, 8);
    zip_put(z, part->size, 4);
    zip_put(z, part->size, 4);
    zip_put(z, strlen(part->name), 2);
    zip_put(z, (uint64_t)fault->shift, 2);
    zip_append(z, part->name, strlen(part->name));
    for (int i = 0; i < fault->shift; i++)
        zip_put(z, 0, 1);
    zip_append(z, part->bytes, part->size);
}

static inline void zip_central(struct zip_writer *z,
                               const struct zip_part *part,
                               const struct zip_fault *fault, size_t place)
{
    uint64_t all_ones = UINT32_MAX, at = place + fault->place;
    zip_put(z, 0x02014b50, 4);
    zip_put(z, 20 | 20 << 16, 4);
    zip_put(z, (uint64_t)fault->flags, 2);
    zip_put(z, (uint64_t)fault->method, 2);
    zip_put(z, 0, 8);
    zip_put(z, fault->is_wide ? all_ones : part->size, 4);
    zip_put(z, fault->is_wide ? all_ones : part->size, 4);
    zip_put(z, strlen(part->name), 2);
    zip_put(z, fault->is_wide ? 28 : 0, 2);
    zip_put(z, 0, 10);
    zip_put(z, fault->is_wide ? all_ones : at, 4);
    zip_append(z, part->name, strlen(part->name));
    if (!fault->is_wide)
        return;
    zip_put(z, 1 | 24 << 16, 4);
    zip_put(z, part->size, 8);
    zip_put(z, part->size, 8);
    zip_put(z, at, 8);
}

static inline void zip_end(struct zip_writer *z, size_t entries, size_t start,
                           const struct zip_fault *fault)
{
    size_t bytes = z->size - start, end = z->size;
    if (fault->is_wide) {
        zip_put(z, 0x06064b50, 4);
        zip_put(z, 44, 8);
        zip_put(z, 0, 12);
        zip_put(z, entries, 8);
        zip_put(z, entries, 8);
        zip_put(z, bytes, 8);
        zip_put(z, start + (uint64_t)fault->offset, 8);
        zip_put(z, 0x07064b50, 4);
        zip_put(z, 0, 4);
        zip_put(z, end, 8);
        zip_put(z, 1, 4);
    }
    zip_put(z, 0x06054b50, 4);
    zip_put(z, 0, 4);
    zip_put(z, entries + (uint64_t)fault->entries, 2);
    zip_put(z, entries + (uint64_t)fault->entries, 2);
    zip_put(z, bytes, 4);
    zip_put(z, start + (uint64_t)fault->offset, 4);
    zip_put(z, 0, 2);
}

static inline void zip_write(const char *folder, const char *name,
                             const struct zip_part *part, size_t parts,
                             const struct zip_fault *fault)
{
    static struct zip_writer z;
    size_t place[16];
    z.size = 0;
    ck_assert(parts <= 16);
    for (size_t i = 0; i < parts; i++) {
        place[i] = z.size;
        zip_local(&z, &part[i], fault);
    }
    size_t start = z.size;
    for (size_t i = 0; i < parts; i++)
        zip_central(&z, &part[i], fault, place[i]);
    zip_end(&z, parts, start, fault);
    tw_write(folder, name, z.bytes, z.size);
}

#endif
