/* Files for the tests of src/text. */
#include <config.h>

#include "test_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tw_check.h"

enum { FILES_MAX = 16 };
static char folder[512];
static char paths[FILES_MAX][640];
static int count;

void test_folder_make(void)
{
    const char *top = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/tw-text-XXXXXX", top ? top : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    count = 0;
}

void test_folder_remove(void)
{
    for (int i = 0; i < count; i++)
        unlink(paths[i]);
    rmdir(folder);
}

const char *test_folder(void)
{
    return folder;
}

const char *test_write(const char *name, const void *bytes, size_t size)
{
    char path[640];
    int at = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    while (at < count && strcmp(paths[at], path) != 0)
        at++;
    ck_assert_int_lt(at, FILES_MAX);
    if (at == count)
        strcpy(paths[count++], path);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
    return paths[at];
}

const char *test_write_text(const char *name, const char *text)
{
    return test_write(name, text, strlen(text));
}

const char *test_shared(const char *name)
{
    static char path[1024];
    const char *top = getenv("TW_SHARED");
    snprintf(path, sizeof path, "%s/%s", top ? top : "../shared", name);
    if (access(path, R_OK) == 0)
        return path;
    printf("SKIP: %s is not there\n", path);
    return NULL;
}

unsigned test_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}
