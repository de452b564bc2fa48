/* Byte-pair merges: of the pairs that stand next to each other the one with
 * the lowest rank is joined, the leftmost first, until none is known. Short
 * words scan for it, long ones (a line of ten thousand "=") keep a heap. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

#define SHORT_WORD 32

static int make_slots(struct twp_bpe *bpe, int bits)
{
    struct twp_merge *slot = tw_alloc((size_t)1 << bits, sizeof *slot);
    if (!slot)
        return -1;
    bpe->slot = slot;
    bpe->slots = (size_t)1 << bits;
    bpe->shift = 64 - bits;
    for (size_t i = 0; i < bpe->slots; i++)
        slot[i] = (struct twp_merge){.id = -1};
    return 0;
}

enum tw_status twp_bpe_create(struct twp_bpe *bpe, struct tw_error *err)
{
    if (bpe->slot || make_slots(bpe, 8) == 0)
        return TW_OK;
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

void twp_bpe_fini(struct twp_bpe *bpe)
{
    tw_free(bpe->slot);
    bpe->slot = NULL;
}

static struct twp_merge *find_slot(const struct twp_bpe *bpe, uint64_t pair)
{
    size_t at = (pair * UINT64_C(0x9e3779b97f4a7c15)) >> bpe->shift;
    while (bpe->slot[at].id >= 0 && bpe->slot[at].pair != pair)
        at = (at + 1) & (bpe->slots - 1);
    return &bpe->slot[at];
}

/* Twice the slots, every merge in its new place. */
static int grow(struct twp_bpe *bpe)
{
    struct twp_bpe old = *bpe;
    if (make_slots(bpe, 64 - bpe->shift + 1) != 0)
        return -1;
    for (size_t i = 0; i < old.slots; i++)
        if (old.slot[i].id >= 0)
            *find_slot(bpe, old.slot[i].pair) = old.slot[i];
    tw_free(old.slot);
    return 0;
}

enum tw_status twp_bpe_add(struct twp_bpe *bpe, int32_t left, int32_t right,
                           uint32_t rank, int32_t id, struct tw_error *err)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    enum tw_status status = twp_bpe_create(bpe, err);
    if (status != TW_OK)
        return status;
    if (2 * (bpe->count + 1) > bpe->slots && grow(bpe) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    struct twp_merge *merge = find_slot(bpe, pair);
    bpe->count += merge->id < 0;
    *merge = (struct twp_merge){.pair = pair, .rank = rank, .id = id};
    return TW_OK;
}

const struct twp_merge *twp_bpe_find(const struct twp_bpe *bpe, int32_t left,
                                     int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    const struct twp_merge *merge = find_slot(bpe, pair);
    return merge->id >= 0 ? merge : NULL;
}

/* found[i]: the merge of symbols i and i + 1. */
static void merge_short(const struct twp_bpe *bpe, struct tw_ids *word)
{
    const struct twp_merge *found[SHORT_WORD];
    int32_t *id = word->id;
    size_t count = word->count;
    for (size_t i = 0; i + 1 < count; i++)
        found[i] = twp_bpe_find(bpe, id[i], id[i + 1]);
    for (;;) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i + 1 < count; i++)
            if (found[i] &&
                (best == SIZE_MAX || found[i]->rank < found[best]->rank))
                best = i;
        if (best == SIZE_MAX)
            break;
        id[best] = found[best]->id;
        count--;
        memmove(id + best + 1, id + best + 2,
                (count - best - 1) * sizeof *id);
        if (best + 1 < count) {
            memmove(found + best + 1, found + best + 2,
                    (count - best - 1) * sizeof *found);
            found[best] = twp_bpe_find(bpe, id[best], id[best + 1]);
        }
        if (best > 0)
            found[best - 1] = twp_bpe_find(bpe, id[best - 1], id[best]);
    }
    word->count = count;
}

/* --- Long words: a list of symbols and a heap of pairs --- */

struct link {
    int32_t previous, next; /* -1: none */
};
/* A pair that stood at `left` when it was pushed; it is stale once the pair
 * there has another merge. */
struct candidate {
    const struct twp_merge *merge;
    int32_t left;
};
struct long_word {
    const struct twp_bpe *bpe;
    int32_t *id; /* -1: joined with the symbol before */
    struct link *link;
    struct candidate *heap;
    size_t heaped, capacity;
};

static bool is_before(const struct candidate *a, const struct candidate *b)
{
    if (a->merge->rank != b->merge->rank)
        return a->merge->rank < b->merge->rank;
    return a->left < b->left;
}

static int heap_push(struct long_word *word, int32_t left)
{
    int32_t next = word->link[left].next;
    const struct twp_merge *merge =
        next < 0 ? NULL
                 : twp_bpe_find(word->bpe, word->id[left], word->id[next]);
    if (!merge)
        return 0;
    if (tw_grow((void **)&word->heap, &word->capacity, word->heaped + 1,
                sizeof *word->heap) != 0)
        return -1;
    struct candidate candidate = {merge, left};
    size_t at = word->heaped++;
    while (at > 0 && is_before(&candidate, &word->heap[(at - 1) / 2])) {
        word->heap[at] = word->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    word->heap[at] = candidate;
    return 0;
}

static struct candidate heap_pop(struct long_word *word)
{
    struct candidate *heap = word->heap, top = heap[0];
    struct candidate last = heap[--word->heaped];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < word->heaped) {
        if (child + 1 < word->heaped &&
            is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* Joins the pair at left with its next symbol, unless it is stale. */
static int join(struct long_word *word, const struct candidate *candidate)
{
    int32_t left = candidate->left, right = word->link[left].next;
    if (word->id[left] < 0 || right < 0 ||
        twp_bpe_find(word->bpe, word->id[left], word->id[right]) !=
            candidate->merge)
        return 0;
    word->id[left] = candidate->merge->id;
    word->id[right] = -1;
    int32_t after = word->link[right].next;
    word->link[left].next = after;
    if (after >= 0)
        word->link[after].previous = left;
    if (heap_push(word, left) != 0)
        return -1;
    int32_t before = word->link[left].previous;
    return before >= 0 ? heap_push(word, before) : 0;
}

static int merge_long(const struct twp_bpe *bpe, struct tw_ids *ids)
{
    struct long_word word = {.bpe = bpe, .id = ids->id};
    int result = 0;
    size_t kept = 0;
    word.link = tw_alloc(ids->count, sizeof *word.link);
    if (!word.link)
        return -1;
    for (size_t i = 0; i < ids->count; i++)
        word.link[i] = (struct link){
            (int32_t)i - 1, i + 1 < ids->count ? (int32_t)i + 1 : -1};
    for (size_t i = 0; result == 0 && i < ids->count; i++)
        result = heap_push(&word, (int32_t)i);
    while (result == 0 && word.heaped > 0) {
        struct candidate top = heap_pop(&word);
        result = join(&word, &top);
    }
    for (size_t i = 0; i < ids->count; i++)
        if (word.id[i] >= 0)
            word.id[kept++] = word.id[i];
    ids->count = kept;
    tw_free(word.link);
    tw_free(word.heap);
    return result;
}

enum tw_status twp_merge_word(struct twp_encoder *encoder)
{
    const struct twp_bpe *bpe = &encoder->tokenizer->bpe;
    if (encoder->word.count <= SHORT_WORD)
        merge_short(bpe, &encoder->word);
    else if (merge_long(bpe, &encoder->word) != 0)
        return tw_error_set(encoder->err, TW_ERR_NOMEM, "out of memory");
    return TW_OK;
}
