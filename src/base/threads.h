/* A pool of threads that take whole numbered pieces of work. Results never
 * depend on who took what: pieces write to their own places, or into
 * per-worker integer sums that are added afterwards. */
#ifndef TW_BASE_THREADS_H
#define TW_BASE_THREADS_H

#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_threads; /* opaque */

/* worker: 0 .. count-1, which thread runs it; piece: 0 .. pieces-1. */
typedef void tw_piece_fn(void *arg, int worker, int64_t piece);

/* A pool of `count` workers (the caller is worker 0, so count 1 starts no
 * thread). Returns TW_OK, TW_ERR_NOMEM or TW_ERR_IO. */
TW_MUST_USE enum tw_status
tw_threads_create(int count, struct tw_threads **pool, struct tw_error *err);
/* Runs fn for every piece, in any order, and waits for all. Not reentrant. */
void tw_threads_run(struct tw_threads *pool, tw_piece_fn *fn, void *arg,
                    int64_t pieces);
int tw_threads_count(const struct tw_threads *pool);
void tw_threads_destroy(struct tw_threads *pool);

/* Cores this process may use (affinity mask and cgroup quota), at least 1. */
int tw_threads_available(void);

#ifdef __cplusplus
}
#endif
#endif
