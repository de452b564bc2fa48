/* Files from strangers, changed at random: a fixed seed, a few seconds. No
 * change may crash the readers (run under the sanitizers), or make them ask
 * for more memory than twice the file, or 1 MiB for small ones, and for the
 * floats that a sound file's blocks become. */
#include <config.h>

#include <dirent.h>

#include "base/memory.h"
#include "load/checkpoint.h"
#include "load/gguf.h"
#include "tw_check.h"
#include "tw_files.h"

enum { BIN_ROUNDS = 1500, GGUF_ROUNDS = 500, LIMIT = 1 << 18 };

static const char *folder;
static uint64_t state;

static void setup(void)
{
    static char path[2048];
    snprintf(path, sizeof path, "%s", tw_folder_make());
    folder = path;
    state = 20231;
}

static void teardown(void)
{
    tw_folder_remove(folder);
}

static uint64_t next(void)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t read_file(const char *name, uint8_t *bytes)
{
    char path[4096];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/data/%s", top ? top : ".", name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "no %s", path);
    size_t size = fread(bytes, 1, LIMIT, file);
    fclose(file);
    return size;
}

/* One to four changes: a byte, a bit, a number at its limits, a piece that is
 * moved, or the end cut off. */
static size_t change(uint8_t *bytes, size_t size)
{
    static const uint64_t numbers[] = {0,          1,         0x7f,
                                       0xff,       0xffff,    0x7fffffff,
                                       0xffffffff, INT64_MAX, UINT64_MAX};
    for (uint64_t n = 1 + next() % 4; n > 0; n--) {
        size_t at = next() % size, length = 1 + next() % 16;
        size_t from = next() % size;
        switch (next() % 5) {
        case 0:
            bytes[at] = (uint8_t)next();
            break;
        case 1:
            bytes[at] ^= (uint8_t)(1 << next() % 8);
            break;
        case 2:
            length = (size_t)1 << next() % 4;
            if (at + length <= size)
                memcpy(bytes + at, &numbers[next() % 9], length);
            break;
        case 3:
            if (at + length <= size && from + length <= size)
                memmove(bytes + at, bytes + from, length);
            break;
        default:
            if (next() % 8 == 0)
                size = at + 1;
        }
    }
    return size;
}

/* Bytes asked for while `name` was opened and closed. */
static uint64_t try_open(const char *name, int *opened)
{
    struct tw_error err = {0};
    struct tw_tensors set;
    struct tw_checkpoint c;
    struct tw_vocab vocab;
    struct tw_gguf *gguf;
    char path[4096];
    snprintf(path, sizeof path, "%s", tw_in(folder, name));
    uint64_t before = tw_alloc_total(), asked;
    if (strcmp(name, "x.bin") == 0) {
        if (tw_tensors_open_file(path, &set, &err) == TW_OK) {
            *opened += 1;
            tw_tensors_close(&set);
        }
        return tw_alloc_total() - before;
    }
    if (tw_gguf_open(path, &gguf, &err) == TW_OK) {
        enum tw_status status = tw_gguf_vocab(gguf, &vocab, &err);
        (void)status;
        tw_gguf_close(gguf);
    }
    asked = tw_alloc_total() - before;
    err = (struct tw_error){0};
    if (tw_checkpoint_open(path, 1, &c, &err) == TW_OK) {
        *opened += 1;
        tw_checkpoint_close(&c);
    }
    return asked;
}

/* Changes the file's first `head` bytes (all: 0), round after round. */
static void fuzz(const char *from, const char *name, uint8_t *whole,
                 size_t size, size_t head, int rounds)
{
    static uint8_t bytes[LIMIT];
    int opened = 0;
    for (int i = 0; i < rounds; i++) {
        memcpy(bytes, whole, size);
        size_t changed = change(bytes, head ? head : size);
        if (changed == head)
            changed = size;
        tw_write(folder, name, bytes, changed);
        uint64_t asked = try_open(name, &opened);
        uint64_t allowed = 2 * changed > 1 << 20 ? 2 * changed : 1 << 20;
        ck_assert_msg(asked <= allowed + 16384, "round %d of %s: %llu bytes", i,
                      from, (unsigned long long)asked);
    }
    printf("%s: %d of %d still opened\n", from, opened, rounds);
}

START_TEST(bin)
{
    static const char *const names[] = {"bin/state.bin", "bin/view.bin"};
    static uint8_t whole[LIMIT];
    size_t size = read_file(names[_i], whole);
    fuzz(names[_i], "x.bin", whole, size, 0, BIN_ROUNDS);
}
END_TEST

/* A converted model's head, before zeros for weights: changes meet what is
 * parsed, and some files still open. */
START_TEST(gguf)
{
    static const char *const names[] = {"llama_llama3", "gpt2_relu", "bloom",
                                        "stablelm_bias"};
    static uint8_t whole[LIMIT];
    char name[100];
    snprintf(name, sizeof name, "gguf/%s.rows", names[_i]);
    size_t end = read_file(name, whole);
    whole[end < LIMIT ? end : LIMIT - 1] = '\0';
    size_t size = (size_t)atol((const char *)whole);
    ck_assert_uint_lt(size, LIMIT);
    memset(whole, 0, sizeof whole);
    snprintf(name, sizeof name, "gguf/%s.head", names[_i]);
    size_t head = read_file(name, whole);
    fuzz(name, "x.gguf", whole, size, head, GGUF_ROUNDS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("foreign_fuzz");
    TCase *core = tcase_create("core");
    tcase_set_timeout(core, 60);
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_loop_test(core, bin, 0, 2);
    tcase_add_loop_test(core, gguf, 0, 4);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
