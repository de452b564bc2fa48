/* The one way for talk to leave a room. */
#include <config.h>

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static tw_log_fn *installed;
static void *installed_arg;

void tw_log_sink(tw_log_fn *sink, void *arg)
{
    installed = sink;
    installed_arg = arg;
}

void tw_log(enum tw_log_level level, const char *format, ...)
{
    if (!installed)
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    installed(installed_arg, level, text);
}
