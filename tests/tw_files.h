/* Files that tests write: a folder that goes away, safetensors by hand. */
#ifndef TESTS_TW_FILES_H
#define TESTS_TW_FILES_H

#include <check.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new folder; its path stands in a buffer that the next call reuses. */
static inline const char *tw_folder_make(void)
{
    static char path[2048]; /* tw_in adds a name */
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/twXXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(path));
    return path;
}

static inline int tw_folder_visit(const char *path, const struct stat *status,
                                  int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static inline void tw_folder_remove(const char *folder)
{
    nftw(folder, tw_folder_visit, 16, FTW_DEPTH | FTW_PHYS);
}

/* "folder/name" in one of four buffers used in turn. */
static inline const char *tw_in(const char *folder, const char *name)
{
    static char path[4][4096];
    static unsigned next;
    char *text = path[next++ % 4];
    snprintf(text, sizeof path[0], "%s/%s", folder, name);
    return text;
}

static inline void tw_write(const char *folder, const char *name,
                            const void *bytes, size_t size)
{
    FILE *file = fopen(tw_in(folder, name), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert(size == 0 || fwrite(bytes, size, 1, file) == 1);
    ck_assert_int_eq(fclose(file), 0);
}

static inline void tw_write_text(const char *folder, const char *name,
                                 const char *text)
{
    tw_write(folder, name, text, strlen(text));
}

/* Header (with ' for ", padded by spaces to a multiple of 8) and zeros, or
 * the given bytes, as data. */
static inline void tw_write_safetensors(const char *folder, const char *name,
                                        const char *header, const void *data,
                                        size_t size)
{
    size_t length = strlen(header), padded = (length + 7) / 8 * 8;
    uint8_t *bytes = calloc(1, 8 + padded + size);
    uint64_t stored = padded;
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, &stored, 8);
    memset(bytes + 8, ' ', padded);
    for (size_t i = 0; i < length; i++)
        bytes[8 + i] = header[i] == '\'' ? '"' : (uint8_t)header[i];
    if (data)
        memcpy(bytes + 8 + padded, data, size);
    tw_write(folder, name, bytes, 8 + padded + size);
    free(bytes);
}

#endif
