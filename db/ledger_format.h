/* The ledger's BLOBs: columns of numbers of one block of sequences, cut into
 * byte planes and compressed with zlib. Includes base only, for it is built
 * twice: into the program and into the SQLite extension. BLOBs come from
 * strangers: every size is checked before memory is taken.
 *
 *     BLOB     version 1 | sections | sections x (bytes, count) | zlib stream
 *              1 byte      1 byte     1 byte, 4 bytes LE
 *     stream   section after section; of each, plane after plane: all lowest
 *              bytes, then all second ones, ... `bytes` planes of `count`
 *
 * What the sections of each kind are stands in doc/FORMAT.md. */
#ifndef TW_DB_LEDGER_FORMAT_H
#define TW_DB_LEDGER_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_LEDGER_VERSION  1
#define TW_LEDGER_SECTIONS 4         /* of a BLOB, at most */
#define TW_LEDGER_ROWS     16384     /* a block ends at the first sequence that
                                      * reaches them */
#define TW_LEDGER_LIMIT    (1 << 28) /* numbers of a section, at most */

/* Columns of a block; stored, so numbers never change. */
enum tw_ledger_kind {
    TW_LEDGER_SEQUENCES, /* document steps, starts, lengths: bytes 4, 4, 4 */
    TW_LEDGER_TOKENS,    /* ids, 4 */
    TW_LEDGER_CLASSES,   /* row_class, 1 */
    TW_LEDGER_NLL,       /* float bits, 4 */
    TW_LEDGER_NNZ,       /* by definition and layer, 4 */
    TW_LEDGER_L1,        /* by layer, upper half of the float's bits, 2 */
    TW_LEDGER_SET,       /* by layer: the neurons by falling count (4), then
                          * steps between the ranks of each row's (4) */
    TW_LEDGER_VALUES,    /* by layer, in the set's order: upper halves, 2 */
    TW_LEDGER_WATCH,     /* by layer: neurons, firings of each (4, 4), then
                          * steps between rows and float bits (4, 4) */
    TW_LEDGER_KINDS
};

/* count numbers of `bytes` bytes each (1 to 4), kept as 32 bits. */
struct tw_section {
    int bytes;
    uint32_t count;
    uint32_t *value;
};

/* Writes a BLOB: *blob is new (tw_free). Returns TW_OK or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status tw_ledger_pack(const struct tw_section *sections,
                                          int count, unsigned char **blob,
                                          size_t *size, struct tw_error *err);

/* Reads one of exactly `count` sections: their bytes are given and must agree,
 * their counts must not exceed those given; count and value (tw_free) are
 * filled. Memory taken is at most what the BLOB's own size can hold. Returns
 * TW_OK, TW_ERR_FORMAT saying what is wrong (nothing is then to be freed), or
 * TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status tw_ledger_unpack(const void *blob, size_t size,
                                            struct tw_section *sections,
                                            int count, struct tw_error *err);

/* The upper half of a float's bits, to nearest, ties to even; and back. */
uint32_t tw_ledger_narrow(float value);
float tw_ledger_widen(uint32_t half);

#ifdef __cplusplus
}
#endif
#endif
