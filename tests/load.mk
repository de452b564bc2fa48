# Tests of load.
