/* The few lines that every Check program of ours shares. */
#ifndef TESTS_TW_CHECK_H
#define TESTS_TW_CHECK_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The call succeeds, else its error's text is shown. */
#define TW_OK_OR_FAIL(call, err)                                               \
    do {                                                                       \
        enum tw_status tw_status_ = (call);                                    \
        ck_assert_msg(tw_status_ == TW_OK, "%s: %s",                           \
                      tw_status_text(tw_status_), (err).text);                 \
    } while (0)

/* The call fails with that status and its message holds the words. */
#define TW_FAILS_WITH(call, status_, words, err)                               \
    do {                                                                       \
        (err) = (struct tw_error){0};                                          \
        enum tw_status tw_status_ = (call);                                    \
        ck_assert_msg(tw_status_ == (status_), "got '%s' (%s)",                \
                      tw_status_text(tw_status_), (err).text);                 \
        ck_assert_msg(strstr((err).text, (words)) != NULL,                     \
                      "message '%s' lacks '%s'", (err).text, (words));         \
    } while (0)

static inline int tw_run_suite_as(Suite *suite, enum fork_status fork_status)
{
    SRunner *runner = srunner_create(suite);
    if (fork_status == CK_NOFORK)
        srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Runs one suite; the exit status of a test program. */
static inline int tw_run_suite(Suite *suite)
{
    return tw_run_suite_as(suite, CK_FORK_GETENV);
}

/* The same in this process: a CUDA context survives no fork. */
static inline int tw_run_suite_here(Suite *suite)
{
    return tw_run_suite_as(suite, CK_NOFORK);
}

#endif
