/* Stages that change the text they hand on: an added space, Metaspace, and
 * the bytes' letters for the stages that stand behind ByteLevel. */
#include <config.h>

#include <string.h>

#include "text/tokenizer_internal.h"

/* The later stages over text that stands for other text; the first of the
 * document stays the first. */
static enum tw_status run_copy(struct twp_encoder *encoder, size_t stage,
                               struct tw_strbuf *copy, bool is_first)
{
    const char *first = encoder->first;
    enum tw_status status;
    if (copy->is_failed)
        status = tw_error_set(encoder->err, TW_ERR_NOMEM, "out of memory");
    else {
        encoder->first = is_first ? copy->data : NULL;
        status = twp_stages_run(encoder, stage, copy->data, copy->length);
        encoder->first = first;
    }
    tw_strbuf_fini(copy);
    return status;
}

enum tw_status twp_stage_add_space(struct twp_encoder *encoder, size_t number,
                                   const char *text, size_t size)
{
    struct tw_strbuf spaced = {0};
    if (text[0] == ' ')
        return twp_stages_run(encoder, number + 1, text, size);
    tw_strbuf_puts(&spaced, " ");
    tw_strbuf_append(&spaced, text, size);
    return run_copy(encoder, number + 1, &spaced, text == encoder->first);
}

/* There is one such stage at most, so that one buffer serves all slices. */
enum tw_status twp_stage_letters(struct twp_encoder *encoder, size_t number,
                                 const char *text, size_t size)
{
    struct tw_strbuf *letters = &encoder->letters;
    tw_strbuf_clear(letters);
    twp_letters_from_bytes(text, size, letters);
    if (letters->is_failed)
        return tw_error_set(encoder->err, TW_ERR_NOMEM, "out of memory");
    encoder->is_letters = true;
    enum tw_status status =
        twp_stages_run(encoder, number + 1, letters->data, letters->length);
    encoder->is_letters = false;
    return status;
}

static bool starts_with_mark(const struct twp_stage *stage, const char *text,
                             size_t size)
{
    return size >= stage->mark_size &&
           memcmp(text, stage->mark, stage->mark_size) == 0;
}

/* Spaces become marks; one comes before the text where the scheme says so and
 * none stands there. */
static void put_marked(const struct twp_stage *stage, const char *text,
                       size_t size, bool is_first, struct tw_strbuf *out)
{
    bool has_mark =
        size > 0 && (text[0] == ' ' || starts_with_mark(stage, text, size));
    bool is_asked = stage->prepend == TWP_PREPEND_ALWAYS ||
                    (stage->prepend == TWP_PREPEND_FIRST && is_first);
    if (is_asked && !has_mark)
        tw_strbuf_append(out, stage->mark, stage->mark_size);
    while (size > 0) {
        const char *space = memchr(text, ' ', size);
        size_t length = space ? (size_t)(space - text) : size;
        tw_strbuf_append(out, text, length);
        if (space)
            tw_strbuf_append(out, stage->mark, stage->mark_size);
        text += length + (space != NULL);
        size -= length + (space != NULL);
    }
}

/* Every mark starts a part. */
static enum tw_status run_parts(struct twp_encoder *encoder, size_t number,
                                const char *text, size_t size)
{
    const struct twp_stage *stage = &encoder->tokenizer->stages.stage[number];
    enum tw_status status = TW_OK;
    size_t start = 0;
    for (size_t at = 1; status == TW_OK && at <= size; at++) {
        if (at < size && !starts_with_mark(stage, text + at, size - at))
            continue;
        status = twp_stages_run(encoder, number + 1, text + start, at - start);
        start = at;
    }
    return status;
}

enum tw_status twp_stage_metaspace(struct twp_encoder *encoder, size_t number,
                                   const char *text, size_t size)
{
    const struct twp_stage *stage = &encoder->tokenizer->stages.stage[number];
    struct tw_strbuf marked = {0};
    bool is_first = text == encoder->first;
    put_marked(stage, text, size, is_first, &marked);
    if (!stage->is_split)
        return run_copy(encoder, number + 1, &marked, is_first);
    const char *first = encoder->first;
    enum tw_status status;
    encoder->first = is_first ? marked.data : NULL;
    if (marked.is_failed)
        status = tw_error_set(encoder->err, TW_ERR_NOMEM, "out of memory");
    else
        status = run_parts(encoder, number, marked.data, marked.length);
    encoder->first = first;
    tw_strbuf_fini(&marked);
    return status;
}
