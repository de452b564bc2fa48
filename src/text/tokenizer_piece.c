/* Pieces made printable. */
#include <config.h>

#include "base/strbuf.h"
#include "text/tokenizer_internal.h"

/* Characters that a terminal shows: no controls, line separators, marks of
 * direction, or codes for private use and nothing. */
static bool is_printable(uint32_t code)
{
    static const uint32_t hidden[][2] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},
        {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
        {0xe000, 0xf8ff}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb},
        {0xfffe, 0xffff}, {0xe0000, 0x10ffff}};
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (code >= hidden[i][0] && code <= hidden[i][1])
            return false;
    return true;
}

static void put_bytes(struct tw_strbuf *out, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        tw_strbuf_printf(out, "<0x%02X>", (unsigned char)bytes[i]);
}

char *tw_piece_printable(const char *bytes, size_t size)
{
    struct tw_strbuf out = {0};
    size_t at = 0, valid = 0;
    while (at < size) {
        if (at >= valid)
            valid = at + twp_utf8_check(bytes + at, size - at);
        if (at == valid) { /* a stray byte */
            put_bytes(&out, bytes + at++, 1);
            continue;
        }
        size_t length;
        uint32_t code = twp_utf8_get(bytes + at, &length);
        if (code == '\n')
            tw_strbuf_puts(&out, "\\n");
        else if (code == '\t')
            tw_strbuf_puts(&out, "\\t");
        else if (is_printable(code))
            tw_strbuf_append(&out, bytes + at, length);
        else
            put_bytes(&out, bytes + at, length);
        at += length;
    }
    return tw_strbuf_take(&out);
}
