/* Documents read twice. */
#include <config.h>

#include "run/replay.h"

#include <string.h>

#include "base/memory.h"

/* The document in memory of its own. */
static enum tw_status copy(struct tw_document *document, struct tw_error *err)
{
    char *text = NULL;
    int32_t *ids = NULL;
    if (document->text)
        text = tw_alloc(document->size ? document->size : 1, 1);
    if (document->ids)
        ids = tw_alloc((size_t)document->count + 1, sizeof *ids);
    if ((document->text && !text) || (document->ids && !ids)) {
        tw_free(text);
        tw_free(ids);
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    if (text)
        memcpy(text, document->text, document->size);
    if (ids)
        memcpy(ids, document->ids, (size_t)document->count * sizeof *ids);
    document->text = text;
    document->ids = ids;
    return TW_OK;
}

static void drop(struct tw_document *document)
{
    tw_free((void *)(uintptr_t)document->text);
    tw_free((void *)(uintptr_t)document->ids);
}

static enum tw_status record(struct tw_replay *r, struct tw_document *document,
                             bool *has_document, struct tw_error *err)
{
    struct tw_document *last = r->count ? &r->kept[r->count - 1] : NULL;
    enum tw_status status = last ? copy(last, err) : TW_OK;
    if (status != TW_OK) {
        r->count--; /* it is the source's still */
        return status;
    }
    void *array = r->kept;
    if (tw_grow(&array, &r->room, r->count + 1, sizeof *r->kept) != 0) {
        if (last)
            drop(last);
        r->count -= last != NULL;
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    r->kept = array;
    status = r->from.next(r->from.state, document, has_document, &r->error);
    r->failed = status;
    if (status != TW_OK)
        tw_error_set(err, status, "%s", r->error.text);
    /* The end, too, leaves a last entry that is not owned. */
    r->kept[r->count++] =
        status == TW_OK && *has_document ? *document : (struct tw_document){0};
    return status;
}

static enum tw_status next(void *state, struct tw_document *document,
                           bool *has_document, struct tw_error *err)
{
    struct tw_replay *r = state;
    if (r->is_recording)
        return record(r, document, has_document, err);
    while (r->at < r->count) {
        *document = r->kept[r->at++];
        *has_document = document->text || document->ids;
        if (*has_document)
            return TW_OK;
    }
    if (r->failed != TW_OK)
        return tw_error_set(err, r->failed, "%s", r->error.text);
    return r->from.next(r->from.state, document, has_document, err);
}

void tw_replay_init(struct tw_replay *r, const struct tw_documents *from)
{
    *r = (struct tw_replay){.documents = {.state = r, .next = next},
                            .from = *from,
                            .is_recording = true};
}

void tw_replay_rewind(struct tw_replay *r)
{
    r->is_recording = false;
    r->at = 0;
}

void tw_replay_fini(struct tw_replay *r)
{
    for (size_t i = 0; i + 1 < r->count; i++)
        drop(&r->kept[i]);
    tw_free(r->kept);
    *r = (struct tw_replay){0};
}
