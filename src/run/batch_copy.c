/* Batches in memory of their own. */
#include <config.h>

#include "run/batch_copy.h"

#include <string.h>

#include "base/memory.h"

static int grow(struct twp_batch_copy *c, int64_t rows, int64_t seqs)
{
    size_t r = (size_t)rows, s = (size_t)seqs;
    int is_short =
        tw_grow((void **)&c->offset, &c->offset_room, s + 1, sizeof *c->offset);
    is_short |= tw_grow((void **)&c->document, &c->document_room, s,
                        sizeof *c->document);
    is_short |=
        tw_grow((void **)&c->start, &c->start_room, s, sizeof *c->start);
    is_short |=
        tw_grow((void **)&c->token, &c->token_room, r, sizeof *c->token);
    is_short |= tw_grow((void **)&c->row_class, &c->class_room, r,
                        sizeof *c->row_class);
    return is_short;
}

/* The batch's arrays moved, or are about to be there. */
static void point(struct twp_batch_copy *c)
{
    c->batch.offset = c->offset;
    c->batch.document = c->document;
    c->batch.start = c->start;
    c->batch.token = c->token;
    c->batch.row_class = c->row_class;
}

void twp_batch_copy_clear(struct twp_batch_copy *c)
{
    c->batch.rows = c->batch.seqs = 0;
}

enum tw_status twp_batch_copy_add(struct twp_batch_copy *c,
                                  const struct tw_batch *from, int64_t first,
                                  int64_t count, struct tw_error *err)
{
    int64_t begin = from->offset[first];
    int64_t rows = from->offset[first + count] - begin;
    int64_t at = c->batch.rows, seq = c->batch.seqs;
    int is_short = grow(c, at + rows, seq + count);
    point(c);
    if (is_short)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a batch");
    c->offset[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        c->offset[seq + i + 1] = at + from->offset[first + i + 1] - begin;
        c->document[seq + i] = from->document[first + i];
        c->start[seq + i] = from->start[first + i];
    }
    memcpy(c->token + at, from->token + begin, (size_t)rows * sizeof *c->token);
    memcpy(c->row_class + at, from->row_class + begin, (size_t)rows);
    c->batch.rows += rows;
    c->batch.seqs += count;
    return TW_OK;
}

void twp_batch_copy_fini(struct twp_batch_copy *c)
{
    tw_free(c->offset);
    tw_free(c->document);
    tw_free(c->start);
    tw_free(c->token);
    tw_free(c->row_class);
    *c = (struct twp_batch_copy){0};
}
