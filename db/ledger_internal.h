/* Inside the ledger's writer: the open block and the closed ones. */
#ifndef TW_DB_LEDGER_INTERNAL_H
#define TW_DB_LEDGER_INTERNAL_H

#include "db/ledger.h"
#include "db/ledger_format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A growing list of numbers. */
struct twp_list {
    uint32_t *value;
    size_t count, room;
};
/* Room for `more` numbers behind the last: where they go, NULL without
 * memory. */
uint32_t *twp_list_extend(struct twp_list *list, size_t more);

/* The watched neurons of a layer: config.watch[*first] to before the result. */
int twp_watches_of(const struct tw_ledger_config *config, int layer,
                   int *first);

/* What one layer did in the open block. */
struct twp_ledger_layer {
    struct twp_list *nnz;           /* [probes] */
    struct twp_list l1;             /* bfloat16 bits */
    struct twp_list set, set_value; /* all rows' neurons; bfloat16 bits */
    struct twp_list watch_row, watch_value; /* firings of [watch_of] */
    struct twp_list watch_of;       /* place in config.watch */
};

struct twp_blob {
    int kind, def, layer;
    unsigned char *data;
    size_t size;
};

/* A block: where it lies, and its BLOBs once it is closed. */
struct twp_block {
    int64_t document, start;           /* of its first sequence */
    int64_t last_document, last_start; /* and its last */
    int64_t rows, seqs;
    struct twp_blob *blob; /* [blobs] */
    int blobs;
};

struct tw_ledger {
    struct tw_ledger_config config;
    struct twp_block at; /* the open block; no BLOBs */
    struct twp_list step, start, length; /* by sequence */
    struct twp_list token, row_class, nll;
    struct twp_ledger_layer *layer; /* [layers] */
    struct twp_block *pending;      /* closed, not yet saved */
    size_t pendings, pendings_room;
    int64_t pending_bytes;
    int64_t open_id, next_open_id;  /* the open block's row; 0: none */
};

/* ledger_pack.c: the open block's columns as BLOBs of *block. */
TW_MUST_USE enum tw_status twp_block_pack(struct tw_ledger *ledger,
                                          struct twp_block *block,
                                          struct tw_error *err);
void twp_block_fini(struct twp_block *block);
/* Empties the open block. */
void twp_block_clear(struct tw_ledger *ledger);

#ifdef __cplusplus
}
#endif
#endif
