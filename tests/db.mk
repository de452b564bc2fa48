# Tests of db.
