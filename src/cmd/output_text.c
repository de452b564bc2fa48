/* Cells as text: numbers, hex, JSON strings, printable text. */
#include <config.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/output.h"
#include "cmd/utf8.h"

void tw_put_real(struct tw_strbuf *text, double value)
{
    char digits[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    tw_strbuf_puts(text, digits);
    if (!strpbrk(digits, ".en"))
        tw_strbuf_puts(text, ".0");
}

void tw_put_hex(struct tw_strbuf *text, const char *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        tw_strbuf_append(text, &digits[byte >> 4], 1);
        tw_strbuf_append(text, &digits[byte & 15], 1);
    }
}

static const char *short_escape(uint32_t code)
{
    switch (code) {
    case '\n':
        return "\\n";
    case '\t':
        return "\\t";
    case '\r':
        return "\\r";
    default:
        return NULL;
    }
}

static void put_json_code(struct tw_strbuf *text, const char *bytes, int length,
                          uint32_t code)
{
    const char *escape = short_escape(code);
    if (length == 0)
        tw_strbuf_puts(text, "\\ufffd");
    else if (escape)
        tw_strbuf_puts(text, escape);
    else if (code < 0x20 || code == 0x7f)
        tw_strbuf_printf(text, "\\u%04x", (unsigned)code);
    else {
        if (code == '"' || code == '\\')
            tw_strbuf_puts(text, "\\");
        tw_strbuf_append(text, bytes, (size_t)length);
    }
}

void tw_put_json_string(struct tw_strbuf *text, const char *bytes, size_t size)
{
    tw_strbuf_puts(text, "\"");
    for (size_t i = 0; i < size;) {
        uint32_t code;
        int length = tw_utf8_next(bytes + i, size - i, &code);
        put_json_code(text, bytes + i, length, code);
        i += length ? (size_t)length : 1;
    }
    tw_strbuf_puts(text, "\"");
}

static void put_printable_code(struct tw_strbuf *text, const char *bytes,
                               int length, uint32_t code)
{
    const char *escape = short_escape(code);
    if (escape && length)
        tw_strbuf_puts(text, escape);
    else if (length == 0 || (length == 1 && tw_utf8_is_control(code)))
        tw_strbuf_printf(text, "\\x%02x", (unsigned)(unsigned char)*bytes);
    else if (tw_utf8_is_control(code))
        tw_strbuf_printf(text, "\\u{%04x}", (unsigned)code);
    else
        tw_strbuf_append(text, bytes, (size_t)length);
}

void tw_put_printable(struct tw_strbuf *text, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint32_t code;
        int length = tw_utf8_next(bytes + i, size - i, &code);
        put_printable_code(text, bytes + i, length, code);
        i += length ? (size_t)length : 1;
    }
}

static const char *latex_escape(char c)
{
    switch (c) {
    case '\\':
        return "\\textbackslash{}";
    case '^':
        return "\\textasciicircum{}";
    case '~':
        return "\\textasciitilde{}";
    case '<':
        return "\\textless{}";
    case '>':
        return "\\textgreater{}";
    case '|':
        return "\\textbar{}";
    case '{':
        return "\\{";
    case '}':
        return "\\}";
    case '$':
        return "\\$";
    case '&':
        return "\\&";
    case '#':
        return "\\#";
    case '%':
        return "\\%";
    case '_':
        return "\\_";
    default:
        return NULL;
    }
}

void tw_put_latex(struct tw_strbuf *text, const char *plain)
{
    for (const char *c = plain; *c; c++) {
        const char *escape = latex_escape(*c);
        if (escape)
            tw_strbuf_puts(text, escape);
        else
            tw_strbuf_append(text, c, 1);
    }
}

void tw_put_sql_quoted(struct tw_strbuf *text, const char *bytes, size_t size,
                       char quote)
{
    tw_strbuf_append(text, &quote, 1);
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == quote)
            tw_strbuf_append(text, &quote, 1);
        tw_strbuf_append(text, &bytes[i], 1);
    }
    tw_strbuf_append(text, &quote, 1);
}
