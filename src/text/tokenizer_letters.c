/* GPT-2's alphabet: a letter for each byte. Printable Latin-1 characters
 * stand for themselves, U+0100 onwards for the others, so that "Gd" with a
 * breve over the G is " d". */
#include <config.h>

#include "text/tokenizer_internal.h"

static bool is_own_letter(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
}

uint32_t twp_letter(unsigned char byte)
{
    uint32_t number = byte; /* among those without a letter of their own */
    if (is_own_letter(byte))
        return byte;
    if (byte >= 0x7f)
        number = byte <= 0xa0 ? byte - 0x7fu + 0x21u : 0x43u;
    return 0x100 + number;
}

/* The byte a letter stands for, -1: not of the alphabet. */
static int letter_byte(uint32_t code)
{
    static const unsigned char ranges[][2] = {
        {0x00, 0x20}, {0x7f, 0xa0}, {0xad, 0xad}};
    if (code < 0x100)
        return is_own_letter(code) ? (int)code : -1;
    code -= 0x100;
    for (int i = 0; i < 3; i++) {
        uint32_t length = ranges[i][1] - ranges[i][0] + 1u;
        if (code < length)
            return (int)(ranges[i][0] + code);
        code -= length;
    }
    return -1;
}

bool twp_letters_to_bytes(const char *letters, size_t size,
                          struct tw_strbuf *out)
{
    size_t before = out->length, length;
    for (size_t i = 0; i < size; i += length) {
        int byte = letter_byte(twp_utf8_get(letters + i, &length));
        if (byte < 0) {
            out->length = before;
            return false;
        }
        tw_strbuf_append(out, &(char){(char)byte}, 1);
    }
    return true;
}

void twp_letters_from_bytes(const char *bytes, size_t size,
                            struct tw_strbuf *out)
{
    char text[4];
    for (size_t i = 0; i < size; i++)
        tw_strbuf_append(
            out, text, twp_utf8_put(twp_letter((unsigned char)bytes[i]), text));
}
