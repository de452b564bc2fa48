# Tests of text.
