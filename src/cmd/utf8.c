/* UTF-8 decoding and terminal columns, without a locale: the tables hold the
 * common ranges, a rare mark may be off by a column. */
#include <config.h>

#include "cmd/utf8.h"

static int tail(const char *text, size_t size, int length, uint32_t lowest,
                uint32_t *code)
{
    if (size < (size_t)length)
        return 0;
    uint32_t value = *code;
    for (int i = 1; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if ((byte & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (byte & 0x3f);
    }
    if (value < lowest || value > 0x10ffff ||
        (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *code = value;
    return length;
}

int tw_utf8_next(const char *text, size_t size, uint32_t *code)
{
    unsigned char first = (unsigned char)text[0];
    *code = first;
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first < 0xe0) {
        *code = first & 0x1f;
        return tail(text, size, 2, 0x80, code);
    }
    if (first >= 0xe0 && first < 0xf0) {
        *code = first & 0x0f;
        return tail(text, size, 3, 0x800, code);
    }
    if (first >= 0xf0 && first < 0xf5) {
        *code = first & 0x07;
        return tail(text, size, 4, 0x10000, code);
    }
    return 0;
}

static bool is_in(uint32_t code, const uint32_t (*ranges)[2], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

int tw_utf8_columns(uint32_t code)
{
    static const uint32_t none[][2] = {
        {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},
        {0x610, 0x61a},   {0x64b, 0x65f},   {0x900, 0x902},
        {0x93c, 0x93c},   {0x941, 0x948},   {0x94d, 0x94d},
        {0xe31, 0xe31},   {0xe34, 0xe3a},   {0xe47, 0xe4e},
        {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200d},
        {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
        {0xfeff, 0xfeff}, {0xe0100, 0xe01ef},
    };
    static const uint32_t wide[][2] = {
        {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
        {0xa960, 0xa97c},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},
        {0xfe30, 0xfe6f},   {0xff01, 0xff60},   {0xffe0, 0xffe6},
        {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff},
        {0x20000, 0x3fffd},
    };
    if (is_in(code, none, sizeof none / sizeof *none))
        return 0;
    return is_in(code, wide, sizeof wide / sizeof *wide) ? 2 : 1;
}

bool tw_utf8_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) ||
           (code >= 0x200e && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}
