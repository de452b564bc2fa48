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

void twp_letters(uint32_t letter[256])
{
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; byte++)
        letter[byte] = is_own_letter(byte) ? byte : next++;
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
    uint32_t letter[256];
    char text[4];
    twp_letters(letter);
    for (size_t i = 0; i < size; i++)
        tw_strbuf_append(out, text,
                         twp_utf8_put(letter[(unsigned char)bytes[i]], text));
}
