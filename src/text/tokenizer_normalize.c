/* Normalizers: steps over a section of text, one behind the other. A step
 * that changes nothing hands its slice on, one that does writes a buffer; two
 * buffers take turns. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

void twp_normalizer_fini(struct twp_normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->count; i++) {
        twp_regex_destroy(normalizer->step[i].regex);
        tw_free(normalizer->step[i].pattern);
        tw_free(normalizer->step[i].text);
    }
    tw_free(normalizer->step);
    *normalizer = (struct twp_normalizer){0};
}

enum tw_status twp_normalizer_add(struct twp_normalizer *normalizer,
                                  enum twp_step_kind kind,
                                  struct twp_step **out, struct tw_error *err)
{
    if (normalizer->count == TWP_STEPS_MAX)
        return tw_error_set(err, TW_ERR_FORMAT, "more than %d normalizers",
                            TWP_STEPS_MAX);
    if (tw_grow((void **)&normalizer->step, &normalizer->capacity,
                normalizer->count + 1, sizeof *normalizer->step) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    *out = &normalizer->step[normalizer->count++];
    **out = (struct twp_step){.kind = kind};
    return TW_OK;
}

enum tw_status twp_step_texts(struct twp_step *step, const char *pattern,
                              size_t pattern_size, const char *text,
                              size_t size, struct tw_error *err)
{
    step->pattern = tw_strndup(pattern, pattern_size);
    step->pattern_size = pattern_size;
    step->text = tw_strndup(text, size);
    step->text_size = size;
    if (!step->pattern || !step->text)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    return TW_OK;
}

static enum tw_status nfc(const struct twp_step *step,
                          struct twp_matcher *matcher,
                          const struct twp_slice *in, struct tw_strbuf *out,
                          bool *is_changed, struct tw_error *err)
{
    (void)step;
    (void)matcher;
    if (!twp_nfc_is_needed(in->text, in->size))
        return TW_OK;
    *is_changed = true;
    if (twp_nfc_append(in->text, in->size, out) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    return TW_OK;
}

static enum tw_status prepend(const struct twp_step *step,
                              struct twp_matcher *matcher,
                              const struct twp_slice *in, struct tw_strbuf *out,
                              bool *is_changed, struct tw_error *err)
{
    (void)matcher;
    (void)err;
    if (in->size == 0 || (step->is_only_first && !in->is_first))
        return TW_OK;
    *is_changed = true;
    tw_strbuf_append(out, step->text, step->text_size);
    tw_strbuf_append(out, in->text, in->size);
    return TW_OK;
}

/* The next place of the pattern's bytes, NULL: none. */
static const char *find_text(const struct twp_step *step, const char *from,
                             const char *end)
{
    size_t size = step->pattern_size;
    while ((size_t)(end - from) >= size) {
        from = memchr(from, step->pattern[0], (size_t)(end - from) - size + 1);
        if (!from || memcmp(from, step->pattern, size) == 0)
            return from;
        from++;
    }
    return NULL;
}

static enum tw_status replace(const struct twp_step *step,
                              struct twp_matcher *matcher,
                              const struct twp_slice *in, struct tw_strbuf *out,
                              bool *is_changed, struct tw_error *err)
{
    const char *from = in->text, *end = in->text + in->size, *found;
    (void)matcher;
    (void)err;
    while ((found = find_text(step, from, end)) != NULL) {
        *is_changed = true;
        tw_strbuf_append(out, from, (size_t)(found - from));
        tw_strbuf_append(out, step->text, step->text_size);
        from = found + step->pattern_size;
    }
    if (*is_changed)
        tw_strbuf_append(out, from, (size_t)(end - from));
    return TW_OK;
}

/* As the stages cut: an empty match right behind the last one is none. */
static enum tw_status replace_regex(const struct twp_step *step,
                                    struct twp_matcher *matcher,
                                    const struct twp_slice *in,
                                    struct tw_strbuf *out, bool *is_changed,
                                    struct tw_error *err)
{
    size_t from = 0, done = 0, span[2];
    bool is_found = true;
    while (from <= in->size) {
        enum tw_status status =
            twp_regex_find(step->regex, matcher, in->text, in->size, from, span,
                           &is_found, err);
        if (status != TW_OK)
            return status;
        if (!is_found)
            break;
        if (span[1] == span[0] && *is_changed && span[1] == done) {
            from += from < in->size ? twp_utf8_length(in->text + from) : 1;
            continue;
        }
        *is_changed = true;
        tw_strbuf_append(out, in->text + done, span[0] - done);
        tw_strbuf_append(out, step->text, step->text_size);
        from = done = span[1];
    }
    if (*is_changed)
        tw_strbuf_append(out, in->text + done, in->size - done);
    return TW_OK;
}

/* SentencePiece's remove_extra_whitespaces: no spaces at either end, one
 * between words. At the end it takes the mark of a space for one as well. */
static enum tw_status squeeze(const struct twp_step *step,
                              struct twp_matcher *matcher,
                              const struct twp_slice *in, struct tw_strbuf *out,
                              bool *is_changed, struct tw_error *err)
{
    size_t mark = strlen(TWP_SPACE_MARK);
    bool was_space = true;
    (void)step;
    (void)matcher;
    (void)err;
    *is_changed = true;
    for (size_t i = 0; i < in->size; i++) {
        bool is_space = in->text[i] == ' ';
        if (!is_space || !was_space)
            tw_strbuf_append(out, in->text + i, 1);
        was_space = is_space;
    }
    for (;;) {
        if (out->length > 0 && out->data[out->length - 1] == ' ')
            out->length--;
        else if (out->length >= mark && memcmp(out->data + out->length - mark,
                                               TWP_SPACE_MARK, mark) == 0)
            out->length -= mark;
        else
            return TW_OK;
    }
}

enum tw_status twp_normalize(const struct twp_normalizer *normalizer,
                             struct twp_matcher *matcher,
                             struct twp_slice *slice,
                             struct tw_strbuf buffer[2], struct tw_error *err)
{
    static enum tw_status (*const steps[])(
        const struct twp_step *, struct twp_matcher *, const struct twp_slice *,
        struct tw_strbuf *, bool *, struct tw_error *) = {
        [TWP_NFC] = nfc,         [TWP_PREPEND] = prepend,
        [TWP_REPLACE] = replace, [TWP_REPLACE_REGEX] = replace_regex,
        [TWP_SQUEEZE] = squeeze,
    };
    int turn = 0;
    for (size_t i = 0; i < normalizer->count; i++) {
        const struct twp_step *step = &normalizer->step[i];
        struct tw_strbuf *out = &buffer[turn];
        bool is_changed = false;
        tw_strbuf_clear(out);
        enum tw_status status =
            steps[step->kind](step, matcher, slice, out, &is_changed, err);
        if (status != TW_OK)
            return status;
        if (out->is_failed)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
        if (!is_changed)
            continue;
        slice->text = tw_strbuf_text(out);
        slice->size = out->length;
        turn ^= 1;
    }
    return TW_OK;
}
