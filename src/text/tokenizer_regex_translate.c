/* Patterns of tokenizer.json are in Oniguruma's Ruby syntax. This rewrites
 * what PCRE2 reads otherwise and refuses what it can't say:
 *
 *   \s, \S     Unicode's White_Space; PCRE2 would add U+180E
 *   \w, \W     letters, marks, digits and connectors as Oniguruma lists
 *              them, with its six Latin-1 numbers; \b and \B go by these
 *   \uHHHH     \x{HHHH}
 *   [a[b]]     [ab]
 *   [a[^b]], [a&&b], \h, (?m), {n,m}+   other meanings: refused, by name */
#include <config.h>

#include <ctype.h>
#include <string.h>

#include "text/tokenizer_internal.h"

#define SPACES                                                        \
    "\\t-\\r\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}"     \
    "\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define WORD TWP_WORD_CLASS "\\xb2\\xb3\\xb9\\xbc-\\xbe"
#define BEHIND "(?<=[" WORD "])"
#define NOT_BEHIND "(?<![" WORD "])"
#define AHEAD "(?=[" WORD "])"
#define NOT_AHEAD "(?![" WORD "])"

static enum tw_status refuse(const char *what, struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_UNSUPPORTED, "%s in a regular expression",
                        what);
}

static bool is_hex4(const char *p)
{
    for (int i = 0; i < 4; i++)
        if (!isxdigit((unsigned char)p[i]))
            return false;
    return true;
}

/* What stands for a class or an edge; is_class: between brackets as well,
 * without its own. */
static const struct {
    char letter;
    bool is_class;
    const char *text;
} escapes[] = {
    {'s', true, "[" SPACES "]"},
    {'w', true, "[" WORD "]"},
    {'S', false, "[^" SPACES "]"},
    {'W', false, "[^" WORD "]"},
    {'b', false, "(?:" BEHIND NOT_AHEAD "|" NOT_BEHIND AHEAD ")"},
    {'B', false, "(?:" BEHIND AHEAD "|" NOT_BEHIND NOT_AHEAD ")"},
};

/* False: the escape means the same to both. */
static bool put_class(char letter, bool is_inside, struct tw_strbuf *out)
{
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        const char *text = escapes[i].text;
        if (escapes[i].letter != letter || (is_inside && !escapes[i].is_class))
            continue;
        if (is_inside)
            tw_strbuf_append(out, text + 1, strlen(text) - 2);
        else
            tw_strbuf_puts(out, text);
        return true;
    }
    return false;
}

/* p stands behind a backslash; returns what was read through *next. */
static enum tw_status escape(const char *p, bool is_inside, const char **next,
                             struct tw_strbuf *out, struct tw_error *err)
{
    *next = p + (*p != '\0');
    if (*p == 'h' || *p == 'H')
        return refuse("\\h", err);
    if (is_inside && *p == 'W')
        return refuse("\\W between brackets", err);
    if (put_class(*p, is_inside, out))
        return TW_OK;
    if (*p == 'u' && is_hex4(p + 1)) {
        tw_strbuf_printf(out, "\\x{%.4s}", p + 1);
        *next = p + 5;
    } else {
        tw_strbuf_puts(out, "\\");
        tw_strbuf_append(out, p, (size_t)(*next - p));
    }
    return TW_OK;
}

/* A bracket in a bracket adds its members (Bloom's pattern has one): its own
 * brackets drop out. Where more depends on them it is refused. */
static enum tw_status nested(const char *p, int *depth, struct tw_error *err)
{
    if (*p == ']') {
        --*depth;
        return p[1] == '-' ? refuse("- behind a bracket in brackets", err)
                           : TW_OK;
    }
    ++*depth;
    if (p[1] == '^')
        return refuse("[^ between brackets", err);
    return p[-1] == '-' ? refuse("- before a bracket in brackets", err)
                        : TW_OK;
}

/* A bracket at p; *next stands behind its end. */
static enum tw_status class(const char *p, const char **next,
                            struct tw_strbuf *out, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    size_t head = p[1] == '^' ? 2 : 1;
    int depth = 0;
    tw_strbuf_append(out, p, head);
    p += head;
    while (status == TW_OK && *p && (*p != ']' || depth > 0)) {
        const char *end = p[0] == '[' && p[1] == ':' ? strstr(p, ":]") : NULL;
        size_t length = end ? (size_t)(end + 2 - p) : 1;
        if (p[0] == '\\') {
            status = escape(p + 1, true, &p, out, err);
        } else if (p[0] == '&' && p[1] == '&') {
            status = refuse("&& between brackets", err);
        } else if (!end && (p[0] == '[' || p[0] == ']')) {
            status = nested(p++, &depth, err);
        } else {
            tw_strbuf_append(out, p, length);
            p += length;
        }
    }
    if (*p) /* no end: PCRE2 says so */
        tw_strbuf_append(out, p++, 1);
    *next = p;
    return status;
}

/* "(?m" in Ruby lets the dot match a newline. */
static bool sets_m(const char *p)
{
    if (p[0] != '(' || p[1] != '?')
        return false;
    size_t letters = strspn(p + 2, "imx-");
    return (p[2 + letters] == ':' || p[2 + letters] == ')') &&
           memchr(p + 2, 'm', letters) != NULL;
}

/* "{n,m}+" at p: Ruby repeats the interval, PCRE2 makes it possessive. */
static bool is_repeated_interval(const char *p)
{
    if (*p != '{')
        return false;
    size_t digits = strspn(p + 1, "0123456789,");
    return digits > 0 && p[1 + digits] == '}' && p[2 + digits] == '+';
}

enum tw_status twp_regex_translate(const char *pattern, struct tw_strbuf *out,
                                   struct tw_error *err)
{
    enum tw_status status = TW_OK;
    const char *p = pattern;
    while (status == TW_OK && *p) {
        if (*p == '\\')
            status = escape(p + 1, false, &p, out, err);
        else if (*p == '[')
            status = class(p, &p, out, err);
        else if (sets_m(p))
            status = refuse("(?m)", err);
        else if (is_repeated_interval(p))
            status = refuse("{n,m}+", err);
        else
            tw_strbuf_append(out, p++, 1);
    }
    if (status == TW_OK && out->is_failed)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    return status;
}
