# Tests of cmd.
