/* Batches in memory of their own: src/text lends one until it is asked for the
 * next.
 *
 *     struct twp_batch_copy copy = {0};
 *     twp_batch_copy_add(&copy, &batch, 0, batch.seqs, &err);
 *     ... copy.batch ...
 *     twp_batch_copy_fini(&copy);
 */
#ifndef TW_RUN_BATCH_COPY_H
#define TW_RUN_BATCH_COPY_H

#include <stddef.h>

#include "base/batch.h"
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zeroed: empty. */
struct twp_batch_copy {
    struct tw_batch batch; /* its arrays are these */
    int64_t *offset, *document, *start;
    int32_t *token;
    uint8_t *row_class;
    size_t offset_room, document_room, start_room, token_room, class_room;
};

void twp_batch_copy_clear(struct twp_batch_copy *copy);
/* Sequences [first, first + count) of another batch, behind those that are
 * there. Returns TW_OK, or TW_ERR_NOMEM with the copy as it was. */
TW_MUST_USE enum tw_status twp_batch_copy_add(struct twp_batch_copy *copy,
                                              const struct tw_batch *from,
                                              int64_t first, int64_t count,
                                              struct tw_error *err);
void twp_batch_copy_fini(struct twp_batch_copy *copy);

#ifdef __cplusplus
}
#endif
#endif
