/* Re-creates a golden checkpoint from its tensors.json: see the head of
 * scripts/make_goldens.py for the rule that gives every element. */
#ifndef TESTS_GOLDEN_MAKE_H
#define TESTS_GOLDEN_MAKE_H

/* Writes the weights (files of .safetensors, with an index where there are
 * several) of the case in `from` into `folder`, and a copy of its config.json.
 * Fails the test on any fault. */
void golden_make(const char *from, const char *folder);

#endif
