# Tests of model.
