/* Regular expressions through PCRE2: compiled once, with JIT where the
 * library has it. The steps of each match are bounded, so that a pattern with
 * exponential backtracking ends in an error (a quadratic one is only slow). */
#include <config.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

/* Steps of one match: a floor, and so many a byte of text (a run of spaces
 * is gone back over once). */
#define STEPS_FLOOR 100000u
#define STEPS_A_BYTE 4u
#define JIT_STACK_BYTES (1u << 20)

struct twp_regex {
    pcre2_code *code;
};

struct twp_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* Ruby's ^ and $ are those of lines, its lines end at \n. */
static enum tw_status compile(const char *pattern, size_t size,
                              uint32_t options, struct twp_regex *regex,
                              struct tw_error *err)
{
    int number = 0;
    PCRE2_SIZE offset = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    regex->code = pcre2_compile((PCRE2_SPTR)pattern, size, options, &number,
                                &offset, context);
    pcre2_compile_context_free(context);
    if (regex->code) {
        pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
        return TW_OK;
    }
    PCRE2_UCHAR text[128] = "";
    pcre2_get_error_message(number, text, sizeof text);
    return tw_error_set(err, TW_ERR_FORMAT, "regular expression '%.200s': %s",
                        pattern, (const char *)text);
}

enum tw_status twp_regex_create(const char *pattern, size_t size,
                                bool is_literal, struct twp_regex **out,
                                struct tw_error *err)
{
    struct tw_strbuf translated = {0};
    enum tw_status status = TW_OK;
    struct twp_regex *regex = tw_calloc(1, sizeof *regex);
    if (!regex)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (is_literal) {
        status = compile(pattern, size, PCRE2_UTF | PCRE2_LITERAL, regex, err);
    } else {
        status = twp_regex_translate(pattern, &translated, err);
        if (status == TW_OK)
            status = compile(tw_strbuf_text(&translated), translated.length,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE |
                                 PCRE2_NEVER_BACKSLASH_C,
                             regex, err);
    }
    tw_strbuf_fini(&translated);
    if (status == TW_OK)
        *out = regex;
    else
        twp_regex_destroy(regex);
    return status;
}

void twp_regex_destroy(struct twp_regex *regex)
{
    if (regex)
        pcre2_code_free(regex->code);
    tw_free(regex);
}

struct twp_matcher *twp_matcher_create(size_t text_size)
{
    struct twp_matcher *matcher = tw_calloc(1, sizeof *matcher);
    if (!matcher)
        return NULL;
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    if (!matcher->data || !matcher->context) {
        twp_matcher_destroy(matcher);
        return NULL;
    }
    uint64_t steps = STEPS_FLOOR + (uint64_t)STEPS_A_BYTE * text_size;
    pcre2_set_match_limit(matcher->context, steps > UINT32_MAX
                                                ? UINT32_MAX
                                                : (uint32_t)steps);
    matcher->stack = pcre2_jit_stack_create(1 << 15, JIT_STACK_BYTES, NULL);
    if (matcher->stack) /* NULL as well where there is no JIT */
        pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    return matcher;
}

void twp_matcher_destroy(struct twp_matcher *matcher)
{
    if (!matcher)
        return;
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->stack);
    tw_free(matcher);
}

static enum tw_status match_error(int rc, struct tw_error *err)
{
    PCRE2_UCHAR text[128] = "";
    if (rc == PCRE2_ERROR_NOMEMORY)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (rc == PCRE2_ERROR_MATCHLIMIT)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "a regular expression of the tokenizer takes too "
                            "many steps on this text");
    pcre2_get_error_message(rc, text, sizeof text);
    return tw_error_set(err, TW_ERR_FORMAT,
                        "a regular expression of the tokenizer fails: %s",
                        (const char *)text);
}

enum tw_status twp_regex_find(const struct twp_regex *regex,
                              struct twp_matcher *matcher, const char *text,
                              size_t size, size_t from, size_t span[2],
                              bool *is_found, struct tw_error *err)
{
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(regex->code, (PCRE2_SPTR)text, size, from, options,
                         matcher->data, matcher->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(regex->code, (PCRE2_SPTR)text, size, from,
                         options | PCRE2_NO_JIT, matcher->data,
                         matcher->context);
    *is_found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH)
        return TW_OK;
    if (rc < 0)
        return match_error(rc, err);
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(matcher->data);
    if (at[0] < from || at[1] < at[0]) /* \K can do that */
        return tw_error_set(err, TW_ERR_FORMAT,
                            "a regular expression of the tokenizer moves "
                            "backwards");
    span[0] = at[0];
    span[1] = at[1];
    return TW_OK;
}
