/* Re-creates a golden checkpoint from its tensors.json: see the head of
 * scripts/make_goldens.py for the rule that gives every element. */
#ifndef TESTS_GOLDEN_MAKE_H
#define TESTS_GOLDEN_MAKE_H

#include <jansson.h>

/* Writes the weights (files of .safetensors, with an index where there are
 * several) of the case in `from` into `folder`, and a copy of its config.json.
 * Fails the test on any fault. */
void golden_make(const char *from, const char *folder);

/* The same in two steps, for tests that spoil something between: a JSON file of
 * the case (json_decref), and the weights that a list of tensors asks for. */
json_t *golden_read(const char *from, const char *name);
void golden_weights(json_t *list, const char *folder);
void golden_config(json_t *config, const char *folder);

#endif
