/* A growing byte string, always NUL-terminated. Zero-initialise; a failed
 * append sets `is_failed` and later appends do nothing, so that only the end
 * has to check. */
#ifndef TW_BASE_STRBUF_H
#define TW_BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_strbuf {
    char *data; /* NULL until something was appended */
    size_t length, capacity;
    bool is_failed; /* an allocation failed */
};

void tw_strbuf_fini(struct tw_strbuf *buffer);
void tw_strbuf_clear(struct tw_strbuf *buffer); /* length 0, memory kept */
void tw_strbuf_append(struct tw_strbuf *buffer, const void *bytes, size_t size);
void tw_strbuf_puts(struct tw_strbuf *buffer, const char *text);
void tw_strbuf_printf(struct tw_strbuf *buffer, const char *format, ...)
    TW_PRINTF(2, 3);
/* The text so far, "" if nothing; borrowed. */
const char *tw_strbuf_text(const struct tw_strbuf *buffer);
/* Gives the memory to the caller (tw_free) and empties the buffer; NULL if an
 * append failed. */
char *tw_strbuf_take(struct tw_strbuf *buffer);

#ifdef __cplusplus
}
#endif
#endif
