# Tests of analysis.
