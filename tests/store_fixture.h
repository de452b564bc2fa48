/* A folder of its own for each test of db/store, and a store in it. */
#ifndef TW_TESTS_STORE_FIXTURE_H
#define TW_TESTS_STORE_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/store.h"
#include "tw_check.h"

static char folder[64], path[96];

static inline void setup(void)
{
    strcpy(folder, "/tmp/tw_storeXXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.sqlite", folder);
}

static inline void teardown(void)
{
    char journal[128];
    snprintf(journal, sizeof journal, "%s-journal", path);
    unlink(journal);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* nothing else was left behind */
}

static inline struct tw_store *open_store(enum tw_store_mode mode)
{
    struct tw_error err = {0};
    struct tw_store *store = NULL;
    TW_OK_OR_FAIL(tw_store_open(path, mode, &store, &err), err);
    return store;
}

#endif
