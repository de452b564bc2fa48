/* What the two files of test_vocabularies share. */
#ifndef TESTS_TEST_VOCABULARIES_H
#define TESTS_TEST_VOCABULARIES_H

#include <check.h>

#include "text/vocab.h"

Suite *vocabularies_hostile_suite(void);
/* tests/data/tokenizers/NAME, valid until the next call. */
const char *test_data(const char *name);
/* A small vocabulary of either kind; its arrays are constants. */
struct tw_vocab test_vocab(bool is_llama);

#endif
