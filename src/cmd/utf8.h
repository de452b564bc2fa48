/* Text for a terminal: code points, their columns, and what may not be shown
 * as it is. */
#ifndef TW_CMD_UTF8_H
#define TW_CMD_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the code point at text (1..4) with its value in *code; 0 if the
 * bytes are no UTF-8 (overlong forms and surrogates are none). size > 0. */
int tw_utf8_next(const char *text, size_t size, uint32_t *code);
/* Terminal columns: 0 for combining marks, 2 for wide ones. */
int tw_utf8_columns(uint32_t code);
/* Control characters, and those that turn the direction of writing. */
bool tw_utf8_is_control(uint32_t code);

#ifdef __cplusplus
}
#endif
#endif
