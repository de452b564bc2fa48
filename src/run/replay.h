/* A source of documents that can be read from its start a second time, as far
 * as it was read the first time, an error at its end included: how a plan sees
 * the text before it is counted, standard input too.
 *
 *     tw_replay_init(&replay, &corpus.documents);
 *     ... replay.documents ...
 *     tw_replay_rewind(&replay);
 *     ... replay.documents, all of them ...
 *     tw_replay_fini(&replay);         // before the source is closed
 */
#ifndef TW_RUN_REPLAY_H
#define TW_RUN_REPLAY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/documents.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_replay {
    struct tw_documents documents; /* to be read; close is NULL */
    struct tw_documents from;      /* borrowed */
    struct tw_document *kept;      /* [count] copies, but the last: that is the
                                    * source's until it is asked for another */
    size_t count, room, at;
    bool is_recording;
    enum tw_status failed; /* the source's, at the end of what was read */
    struct tw_error error;
};

/* The replay must not move in memory from here on. */
void tw_replay_init(struct tw_replay *replay, const struct tw_documents *from);
/* What was read is given again, and nothing more is kept. Once. */
void tw_replay_rewind(struct tw_replay *replay);
void tw_replay_fini(struct tw_replay *replay);

#ifdef __cplusplus
}
#endif
#endif
