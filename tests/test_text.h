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
/* A pseudo-random number, the same in every run. */
unsigned test_random(unsigned *state);

#endif
