/* The few lines that every Check program of ours shares. */
#ifndef TESTS_TW_CHECK_H
#define TESTS_TW_CHECK_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The call succeeds, else its error's text is shown. */
#define TW_OK_OR_FAIL(call, err)                                            \
    do {                                                                    \
        enum tw_status tw_status_ = (call);                                 \
        ck_assert_msg(tw_status_ == TW_OK, "%s: %s",                        \
                      tw_status_text(tw_status_), (err).text);              \
    } while (0)

/* The call fails with that status and its message holds the words. */
#define TW_FAILS_WITH(call, status_, words, err)                            \
    do {                                                                    \
        (err) = (struct tw_error){0};                                       \
        enum tw_status tw_status_ = (call);                                 \
        ck_assert_msg(tw_status_ == (status_), "got '%s' (%s)",             \
                      tw_status_text(tw_status_), (err).text);              \
        ck_assert_msg(strstr((err).text, (words)) != NULL,                  \
                      "message '%s' lacks '%s'", (err).text, (words));      \
    } while (0)

/* Runs one suite; the exit status of a test program. */
static inline int tw_run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
