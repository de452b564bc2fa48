/* Status codes of every fallible function: 0 is success, errors are negative.
 * One X-macro list gives the enum and the names, so they cannot diverge. */
#ifndef TW_BASE_STATUS_H
#define TW_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define TW_STATUS_LIST(X)                                                      \
    X(OK, 0, "ok")                                                             \
    X(ERR_USAGE, -1, "wrong usage") /* exit 2 */                               \
    X(ERR_NOMEM, -2, "out of memory")                                          \
    X(ERR_IO, -3, "input/output error")                                        \
    X(ERR_FORMAT, -4, "malformed file")                                        \
    X(ERR_UNSUPPORTED, -5, "not supported")                                    \
    X(ERR_NOT_FOUND, -6, "not found")                                          \
    X(ERR_EXISTS, -7, "exists already")                                        \
    X(ERR_MISMATCH, -8, "does not match")                                      \
    X(ERR_NUMERIC, -9, "not a finite number")                                  \
    X(ERR_FULL, -10, "no space left or read-only")                             \
    X(ERR_DB, -11, "database error")                                           \
    X(ERR_STOPPED, -12, "stopped at a checkpoint") /* exit 75 */               \
    X(ERR_OVERFLOW, -13, "a sum exceeds 64 bits")                              \
    X(ERR_LOST, -14, "complete, but something was lost") /* exit 3 */          \
    X(ERR_BUSY, -15, "in use by another program")

enum tw_status {
#define TW_STATUS_ENUM(name, value, text) TW_##name = value,
    TW_STATUS_LIST(TW_STATUS_ENUM)
#undef TW_STATUS_ENUM
};

/* Every function that returns enum tw_status is marked with this. */
#define TW_MUST_USE           __attribute__((warn_unused_result))
#define TW_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* The status in words, a static string; "unknown status" if not in the list. */
const char *tw_status_text(enum tw_status status);

#ifdef __cplusplus
}
#endif
#endif
