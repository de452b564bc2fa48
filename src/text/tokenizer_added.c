/* Added tokens: found in the text before anything is split, the longest at
 * the leftmost place. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

void twp_added_fini(struct twp_added_set *set)
{
    tw_free(set->added);
    tw_free(set->node);
    *set = (struct twp_added_set){0};
}

/* The child of *link's list for a byte, made where it is not there; -1
 * without memory. link is an index, as nodes move when they grow. */
static int32_t child(struct twp_added_set *set, int32_t parent, uint8_t byte)
{
    int32_t head = parent < 0 ? set->first[byte] : set->node[parent].child;
    for (int32_t at = head; at >= 0; at = set->node[at].sibling)
        if (set->node[at].byte == byte)
            return at;
    if (tw_grow((void **)&set->node, &set->nodes_capacity, set->nodes + 1,
                sizeof *set->node) != 0)
        return -1;
    int32_t made = (int32_t)set->nodes++;
    set->node[made] = (struct twp_node){
        .child = -1, .sibling = head, .token = -1, .byte = byte};
    if (parent < 0)
        set->first[byte] = made;
    else
        set->node[parent].child = made;
    return made;
}

enum tw_status twp_added_add(struct twp_added_set *set, const char *content,
                             size_t size, const struct twp_added *added,
                             struct tw_error *err)
{
    if (size > TWP_ADDED_BYTES_MAX)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "added token '%.*s...' has %zu bytes, more than "
                            "the %d allowed",
                            60, content, size, TWP_ADDED_BYTES_MAX);
    if (size == 0)
        return TW_OK;
    if (set->nodes == 0)
        for (int byte = 0; byte < 256; byte++)
            set->first[byte] = -1;
    int32_t at = -1;
    for (size_t i = 0; i < size; i++) {
        at = child(set, at, (uint8_t)content[i]);
        if (at < 0)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    if (set->node[at].token >= 0) { /* given again: the last stands */
        set->added[set->node[at].token] = *added;
        return TW_OK;
    }
    if (tw_grow((void **)&set->added, &set->capacity, set->count + 1,
                sizeof *set->added) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    set->node[at].token = (int32_t)set->count;
    set->added[set->count++] = *added;
    return TW_OK;
}

/* The longest token at text[at]; its end, 0: none. */
static size_t match(const struct twp_added_set *set, const char *text,
                    size_t size, size_t at, const struct twp_added **added)
{
    size_t end = 0;
    int32_t node = set->first[(unsigned char)text[at]];
    for (size_t i = at; node >= 0;) {
        i++;
        if (set->node[node].token >= 0) {
            *added = &set->added[set->node[node].token];
            end = i;
        }
        if (i == size)
            break;
        node = set->node[node].child;
        while (node >= 0 && set->node[node].byte != (unsigned char)text[i])
            node = set->node[node].sibling;
    }
    return end;
}

/* Whether the one character at text[at] is of the class. */
static enum tw_status is_of(struct twp_encoder *encoder,
                            const struct twp_regex *class, const char *text,
                            size_t at, bool *is_it)
{
    size_t span[2];
    return twp_regex_find(class, encoder->matcher, text + at,
                          twp_utf8_length(text + at), 0, span, is_it,
                          encoder->err);
}

static size_t character_before(const char *text, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

/* A single word has no word character on either side. */
static enum tw_status is_single(struct twp_encoder *encoder, const char *text,
                                size_t size, const size_t span[2], bool *is_it)
{
    const struct twp_regex *word = encoder->tokenizer->word_char;
    bool before = false, after = false;
    enum tw_status status = TW_OK;
    if (span[0] > 0)
        status = is_of(encoder, word, text, character_before(text, span[0]),
                       &before);
    if (status == TW_OK && span[1] < size)
        status = is_of(encoder, word, text, span[1], &after);
    *is_it = !before && !after;
    return status;
}

/* Spaces beside the token that it takes in. */
static enum tw_status strip(struct twp_encoder *encoder, const char *text,
                            size_t size, const struct twp_added *added,
                            size_t span[2])
{
    const struct twp_regex *space = encoder->tokenizer->space;
    enum tw_status status = TW_OK;
    bool is_space = true;
    while (added->lstrip && span[0] > 0 && status == TW_OK && is_space) {
        size_t before = character_before(text, span[0]);
        status = is_of(encoder, space, text, before, &is_space);
        if (is_space)
            span[0] = before;
    }
    is_space = true;
    while (added->rstrip && span[1] < size && status == TW_OK && is_space) {
        status = is_of(encoder, space, text, span[1], &is_space);
        if (is_space)
            span[1] += twp_utf8_length(text + span[1]);
    }
    return status;
}

/* One match: what stands before it goes to rest, its id goes out. A token
 * that does not count here is left in the text. */
static enum tw_status take(struct twp_encoder *encoder, const char *text,
                           size_t size, const struct twp_added *added,
                           size_t span[2], size_t *done, twp_rest_fn *rest)
{
    bool is_single_word = true;
    enum tw_status status = TW_OK;
    if (added->is_special && !encoder->parse_special)
        return TW_OK;
    if (added->single_word)
        status = is_single(encoder, text, size, span, &is_single_word);
    if (status != TW_OK || !is_single_word)
        return status;
    status = strip(encoder, text, size, added, span);
    if (status == TW_OK && span[0] > *done)
        status = rest(encoder, text + *done, span[0] - *done);
    *done = span[1];
    if (status == TW_OK)
        status = tw_ids_push(encoder->ids, added->id, encoder->err);
    return status;
}

enum tw_status twp_added_split(struct twp_encoder *encoder,
                               const struct twp_added_set *set,
                               const char *text, size_t size, twp_rest_fn *rest)
{
    enum tw_status status = TW_OK;
    size_t done = 0, at = 0;
    while (set->nodes > 0 && at < size && status == TW_OK) {
        const struct twp_added *added = NULL;
        size_t end = set->first[(unsigned char)text[at]] < 0
                         ? 0
                         : match(set, text, size, at, &added);
        if (end == 0) {
            at++;
            continue;
        }
        size_t span[2] = {at, end};
        at = end;
        status = take(encoder, text, size, added, span, &done, rest);
    }
    if (status == TW_OK && done < size)
        status = rest(encoder, text + done, size - done);
    return status;
}
