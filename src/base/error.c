/* Status names and the error object. */
#include <config.h>

#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *tw_status_text(enum tw_status status)
{
    switch (status) {
#define TW_STATUS_CASE(name, value, text)                                      \
    case TW_##name:                                                            \
        return text;
        TW_STATUS_LIST(TW_STATUS_CASE)
#undef TW_STATUS_CASE
    }
    return "unknown status";
}

/* Names come from hostile files: nothing that moves a terminal's cursor. */
static void clean(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            *c = '?';
}

enum tw_status tw_error_set(struct tw_error *err, enum tw_status status,
                            const char *format, ...)
{
    if (!err || err->status != TW_OK)
        return status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    clean(err->text);
    err->status = status;
    return status;
}

static enum tw_status errno_status(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EROFS:
        return TW_ERR_FULL;
    case ENOENT:
        return TW_ERR_NOT_FOUND;
    case ENOMEM:
        return TW_ERR_NOMEM;
    default:
        return TW_ERR_IO;
    }
}

enum tw_status tw_error_errno(struct tw_error *err, int error_number,
                              const char *format, ...)
{
    char text[768];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tw_error_set(err, errno_status(error_number), "%s: %s", text,
                        strerror(error_number));
}

void tw_error_prefix(struct tw_error *err, const char *format, ...)
{
    if (!err || err->status == TW_OK)
        return;
    char prefix[400], joined[sizeof err->text + sizeof prefix + 2];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    snprintf(joined, sizeof joined, "%s: %s", prefix, err->text);
    memcpy(err->text, joined, sizeof err->text - 1);
    err->text[sizeof err->text - 1] = '\0';
    clean(err->text);
}
