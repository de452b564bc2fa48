/* Files for the tests of src/text. */
#include <config.h>

#include "test_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/tokenizer.h"
#include "tw_check.h"

enum { FILES_MAX = 16 };
static char folder[512];
static char paths[FILES_MAX][640];
static int files;

void test_folder_make(void)
{
    const char *top = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/tw-text-XXXXXX", top ? top : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    files = 0;
}

void test_folder_remove(void)
{
    for (int i = 0; i < files; i++)
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
    while (at < files && strcmp(paths[at], path) != 0)
        at++;
    ck_assert_int_lt(at, FILES_MAX);
    if (at == files)
        strcpy(paths[files++], path);
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

static void check_ggml_text(const struct tw_tokenizer *tokenizer,
                            const char *text, const char *line)
{
    struct tw_error err = {0};
    struct tw_ids ids = {0};
    size_t count = 0;
    char *stop;
    TW_OK_OR_FAIL(tw_tokenizer_encode(tokenizer, text, strlen(text), true,
                                      &ids, &err),
                  err);
    for (;; line = stop) {
        long id = strtol(line, &stop, 10);
        if (stop == line)
            break;
        ck_assert_msg(count < ids.count && ids.id[count] == id,
                      "'%s': id %zu is not %ld", text, count, id);
        count++;
    }
    ck_assert_uint_eq(count, ids.count);
    tw_ids_fini(&ids);
}

int test_ggml(const struct tw_tokenizer *tokenizer, char *texts, char *lines)
{
    static const char line[] = "\n__ggml_vocab_test__\n";
    int checked = 0;
    for (;; checked++) {
        char *end = strstr(texts, line), *next = strchr(lines, '\n');
        if (!end || !next)
            return checked;
        *end = *next = '\0';
        check_ggml_text(tokenizer, texts, lines);
        texts = end + sizeof line - 1;
        lines = next + 1;
    }
}

unsigned test_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}
