/* A growing byte string. */
#include <config.h>

#include "base/strbuf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

void tw_strbuf_fini(struct tw_strbuf *buffer)
{
    tw_free(buffer->data);
    *buffer = (struct tw_strbuf){0};
}

void tw_strbuf_clear(struct tw_strbuf *buffer)
{
    buffer->length = 0;
    if (buffer->data)
        buffer->data[0] = '\0';
}

static bool reserve(struct tw_strbuf *buffer, size_t more)
{
    if (buffer->is_failed || more > SIZE_MAX - buffer->length - 1 ||
        tw_grow((void **)&buffer->data, &buffer->capacity,
                buffer->length + more + 1, 1) != 0)
        buffer->is_failed = true;
    return !buffer->is_failed;
}

void tw_strbuf_append(struct tw_strbuf *buffer, const void *bytes, size_t size)
{
    if (!reserve(buffer, size))
        return;
    if (size)
        memcpy(buffer->data + buffer->length, bytes, size);
    buffer->length += size;
    buffer->data[buffer->length] = '\0';
}

void tw_strbuf_puts(struct tw_strbuf *buffer, const char *text)
{
    tw_strbuf_append(buffer, text, strlen(text));
}

void tw_strbuf_printf(struct tw_strbuf *buffer, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size >= 0 && reserve(buffer, (size_t)size)) {
        vsnprintf(buffer->data + buffer->length, (size_t)size + 1, format,
                  again);
        buffer->length += (size_t)size;
    }
    va_end(again);
}

const char *tw_strbuf_text(const struct tw_strbuf *buffer)
{
    return buffer->data ? buffer->data : "";
}

char *tw_strbuf_take(struct tw_strbuf *buffer)
{
    tw_strbuf_append(buffer, "", 0);
    char *text = buffer->is_failed ? NULL : buffer->data;
    if (buffer->is_failed)
        tw_free(buffer->data);
    *buffer = (struct tw_strbuf){0};
    return text;
}
