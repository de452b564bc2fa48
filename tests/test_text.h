/* What the tests of src/text share: a folder of their own for files, and the
 * shared material's place. */
#ifndef TESTS_TEST_TEXT_H
#define TESTS_TEST_TEXT_H

#include <stddef.h>

/* A fresh folder for one test (checked fixture). */
void test_folder_make(void);
void test_folder_remove(void);
const char *test_folder(void);
/* Writes a file there; its path, borrowed until the folder goes. */
const char *test_write(const char *name, const void *bytes, size_t size);
const char *test_write_text(const char *name, const char *text);
/* TW_SHARED/name, NULL (said on stdout) where it is not there. */
const char *test_shared(const char *name);
/* What a tokenizer asks for: at once the word cache (64 Ki slots of 64 bytes
 * and one to align them) or twice the file; all in all, freed or not, the
 * cache and the table of pairs, in a JSON file ids of 8 bytes without a token;
 * the rest goes with the file's size. */
#define TEST_CACHE_BYTES ((size_t)64 * 65537)
#define TEST_FIXED_BYTES (TEST_CACHE_BYTES + ((size_t)160 << 10))
#define TEST_IDS_BYTES ((size_t)8 << 16)
#define TEST_TIMES ((size_t)16)

struct tw_tokenizer;
/* Texts between separator lines, their ids one line each: all must be so.
 * Returns how many there are; writes into both. */
int test_ggml(const struct tw_tokenizer *tokenizer, char *texts, char *lines);
/* A pseudo-random number, the same in every run. */
unsigned test_random(unsigned *state);

#endif
