/* The per-token ledger of a run (profile --per-token, --active-sets, --watch):
 * what every row did in every layer, in blocks of whole sequences, a compressed
 * BLOB a column (db/ledger_format.h). Appended as the run goes, never
 * rewritten but for the open block.
 *
 *     tw_ledger_create(&config, &ledger, &err);
 *     while (next batch)
 *         tw_ledger_add(ledger, &batch, obs, &head, &err);
 *     tw_ledger_save(ledger, store, run, &err);  // inside each checkpoint
 *     tw_ledger_destroy(ledger);
 *
 * Where a block ends depends on the run's sequences alone, so the rows read
 * back are the same for any batch, thread or moment of a checkpoint. */
#ifndef TW_DB_LEDGER_H
#define TW_DB_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/batch.h"
#include "base/error.h"
#include "base/obs.h"
#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_threads;
struct tw_ledger;

/* One neuron of --watch. */
struct tw_watch {
    int32_t layer, neuron;
};

struct tw_ledger_config {
    int layers, probes;
    int64_t width;
    bool has_rows;           /* --per-token: non-zeros of every row */
    bool has_l1, has_loss;   /* with them each row's l1, its loss */
    bool has_sets;           /* --active-sets: the primary's active neurons */
    const struct tw_watch *watch; /* [watches] ascending, borrowed */
    int watches;
    int64_t block_rows;      /* a block ends there; 0: TW_LEDGER_ROWS */
    struct tw_threads *pool; /* layers are compressed on it; NULL: none */
};

/* Sets and watches need obs with set_start, set, set_value. Returns TW_OK or
 * TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status
tw_ledger_create(const struct tw_ledger_config *config,
                 struct tw_ledger **ledger, struct tw_error *err);
/* NULL is allowed. */
void tw_ledger_destroy(struct tw_ledger *ledger);

/* Appends a batch; sequences come in corpus order. obs[layers]. Returns TW_OK,
 * TW_ERR_MISMATCH (obs without sets) or TW_ERR_NOMEM; after an error destroy
 * the ledger. */
TW_MUST_USE enum tw_status tw_ledger_add(struct tw_ledger *ledger,
                                         const struct tw_batch *batch,
                                         const struct tw_layer_obs *obs,
                                         const struct tw_head_obs *head,
                                         struct tw_error *err);
/* Bytes of closed blocks that wait for a save. */
int64_t tw_ledger_pending(const struct tw_ledger *ledger);

/* Inside an open transaction: writes the blocks closed since the last save and
 * the open one as it is. Blocks stay pending until tw_ledger_saved, so that a
 * rolled back transaction loses nothing. */
TW_MUST_USE enum tw_status tw_ledger_save(struct tw_ledger *ledger,
                                          struct tw_store *store, int64_t run,
                                          struct tw_error *err);
/* After the commit. */
void tw_ledger_saved(struct tw_ledger *ledger);

/* A run that goes on: reads its last block back if it is open still. The
 * ledger is fresh. Returns TW_OK, TW_ERR_FORMAT for a damaged block, or the
 * store's error. */
TW_MUST_USE enum tw_status tw_ledger_restore(struct tw_ledger *ledger,
                                             struct tw_store *store,
                                             int64_t run,
                                             struct tw_error *err);

/* At the end of a run or merge, inside the transaction, when document_ is
 * written: numbers each block's sequences in the corpus. */
TW_MUST_USE enum tw_status tw_ledger_number(struct tw_store *store, int64_t run,
                                            struct tw_error *err);

/* A block read back as a batch: sets and watches as fired, first and last of
 * definition 0 (over counted rows), l1 as it was rounded; tiles, magnitudes and
 * other definitions' firings are zero. */
struct tw_ledger_block {
    const struct tw_batch *batch;
    const struct tw_layer_obs *obs; /* [layers], of one expert */
    const struct tw_head_obs *head; /* nll NULL: not recorded */
    bool has_nnz, has_l1, has_sets; /* what was, in every layer */
    bool *watched; /* [layers][width] neurons of --watch so far */
};
typedef enum tw_status tw_ledger_fn(void *arg,
                                    const struct tw_ledger_block *block,
                                    struct tw_error *err);
/* Decodes every BLOB of the run's ledger once; fn's error ends it. Returns
 * TW_OK, TW_ERR_FORMAT naming a damaged block, TW_ERR_NOMEM, or the store's
 * error. The run's layers, width and definitions must be sound. */
TW_MUST_USE enum tw_status tw_ledger_replay(struct tw_store *store,
                                            const char *run, tw_ledger_fn *fn,
                                            void *arg, struct tw_error *err);

/* Copies a part's blocks and examples to the run `to_run`. */
TW_MUST_USE enum tw_status tw_ledger_copy(struct tw_store *to, int64_t to_run,
                                          struct tw_store *from, int64_t run,
                                          struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
