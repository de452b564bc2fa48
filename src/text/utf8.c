/* UTF-8: checking, and characters of text that was checked. */
#include <config.h>

#include <string.h>

#include "text/tokenizer_internal.h"

/* Bytes of the valid character at p (left bytes there), 0: not valid. Follows
 * Unicode's table 3-7: no overlong forms, no surrogates, at most U+10FFFF. */
static size_t check_character(const unsigned char *p, size_t left)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t length;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    if (p[0] < 0xe0) {
        length = 2;
    } else if (p[0] < 0xf0) {
        length = 3;
        low = p[0] == 0xe0 ? 0xa0 : 0x80;
        high = p[0] == 0xed ? 0x9f : 0xbf;
    } else {
        length = 4;
        low = p[0] == 0xf0 ? 0x90 : 0x80;
        high = p[0] == 0xf4 ? 0x8f : 0xbf;
    }
    if (left < length || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

size_t twp_utf8_check(const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t at = 0;
    while (at < size) {
        uint64_t eight;
        while (size - at >= sizeof eight) {
            memcpy(&eight, p + at, sizeof eight);
            if (eight & UINT64_C(0x8080808080808080))
                break;
            at += sizeof eight;
        }
        if (at == size)
            break;
        size_t length = check_character(p + at, size - at);
        if (length == 0)
            break;
        at += length;
    }
    return at;
}

size_t twp_utf8_length(const char *text)
{
    unsigned char c = (unsigned char)text[0];
    return c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

uint32_t twp_utf8_get(const char *text, size_t *length)
{
    const unsigned char *p = (const unsigned char *)text;
    *length = twp_utf8_length(text);
    if (*length == 1)
        return p[0];
    uint32_t code = p[0] & (0x7fu >> *length);
    for (size_t i = 1; i < *length; i++)
        code = code << 6 | (p[i] & 0x3fu);
    return code;
}

size_t twp_utf8_put(uint32_t code, char *out)
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(code | lead[length]);
    return length;
}
