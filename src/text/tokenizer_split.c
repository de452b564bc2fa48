/* Split stages: each cuts a slice at its matches and hands the parts on at
 * once, holding back one part at most, whatever the text's length. */
#include <config.h>

#include <string.h>

#include "text/tokenizer_internal.h"

/* Parts of one slice on their way to the next stage. */
struct cutter {
    struct twp_encoder *encoder;
    const struct twp_stage *stage;
    size_t next; /* stage */
    const char *text;
    size_t start, end; /* the part held back */
    bool is_held, was_match;
};

/* What is held back goes on; parts that are empty are none. */
static enum tw_status flush(struct cutter *cutter)
{
    bool is_held = cutter->is_held && cutter->end > cutter->start;
    cutter->is_held = false;
    if (!is_held)
        return TW_OK;
    return twp_stages_run(cutter->encoder, cutter->next,
                          cutter->text + cutter->start,
                          cutter->end - cutter->start);
}

/* Whether a part grows the one held back instead of following it. */
static bool joins(const struct cutter *cutter, bool is_match)
{
    if (!cutter->is_held)
        return false;
    switch (cutter->stage->behavior) {
    case TWP_CONTIGUOUS:
        return is_match == cutter->was_match;
    case TWP_WITH_PREVIOUS:
        return is_match && !cutter->was_match;
    case TWP_WITH_NEXT:
        return !is_match && cutter->was_match;
    default:
        return false;
    }
}

static enum tw_status part(struct cutter *cutter, size_t start, size_t end,
                           bool is_match)
{
    enum tw_status status = TW_OK;
    is_match ^= cutter->stage->is_inverted;
    if (cutter->stage->behavior == TWP_REMOVED && is_match)
        return TW_OK;
    if (joins(cutter, is_match)) {
        cutter->end = end;
    } else {
        status = flush(cutter);
        cutter->start = start;
        cutter->end = end;
        cutter->is_held = true;
    }
    cutter->was_match = is_match;
    return status;
}

/* An empty match right behind the last one is none: look on one character
 * later. */
static enum tw_status cut(struct cutter *cutter, size_t size)
{
    struct twp_encoder *encoder = cutter->encoder;
    size_t from = 0, done = 0, span[2] = {0};
    bool is_found = true, has_last = false;
    enum tw_status status = TW_OK;
    while (status == TW_OK && from <= size) {
        status =
            twp_regex_find(cutter->stage->regex, encoder->matcher, cutter->text,
                           size, from, span, &is_found, encoder->err);
        if (status != TW_OK || !is_found)
            break;
        if (span[1] == span[0] && has_last && span[1] == done) {
            from += from < size ? twp_utf8_length(cutter->text + from) : 1;
            continue;
        }
        if (span[0] > done)
            status = part(cutter, done, span[0], false);
        if (status == TW_OK)
            status = part(cutter, span[0], span[1], true);
        from = done = span[1];
        has_last = true;
    }
    if (status == TW_OK && done < size)
        status = part(cutter, done, size, false);
    return status == TW_OK ? flush(cutter) : status;
}

static enum tw_status run_cut(struct twp_encoder *encoder, size_t number,
                              const char *text, size_t size)
{
    const struct twp_stage *stage = &encoder->tokenizer->stages.stage[number];
    if (!stage->regex)
        return twp_stages_run(encoder, number + 1, text, size);
    struct cutter cutter = {
        .encoder = encoder, .stage = stage, .next = number + 1, .text = text};
    return cut(&cutter, size);
}

enum tw_status twp_stages_run(struct twp_encoder *encoder, size_t number,
                              const char *text, size_t size)
{
    static enum tw_status (*const runs[])(struct twp_encoder *, size_t,
                                          const char *, size_t) = {
        [TWP_CUT] = run_cut,
        [TWP_ADD_SPACE] = twp_stage_add_space,
        [TWP_METASPACE] = twp_stage_metaspace,
        [TWP_LETTERS] = twp_stage_letters,
    };
    const struct tw_tokenizer *tokenizer = encoder->tokenizer;
    if (number < tokenizer->stages.count)
        return runs[tokenizer->stages.stage[number].kind](encoder, number, text,
                                                          size);
    if (tokenizer->characters)
        return twp_characters_encode(encoder, text, size);
    return twp_word_encode(encoder, text, size);
}
