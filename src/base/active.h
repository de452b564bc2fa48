/* Definitions of "active": which neurons of a row count as firing (DESIGN
 * contract "Active"). h is the input of the down projection, the pattern is
 * act(gate) != 0 (gated) or act(up) != 0 (plain). */
#ifndef TW_BASE_ACTIVE_H
#define TW_BASE_ACTIVE_H

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tw_active_kind {
    TW_ACTIVE_HIDDEN,   /* h != 0, the default and the paper's count */
    TW_ACTIVE_GATE,     /* the pattern */
    TW_ACTIVE_ABS,      /* |h| > arg */
    TW_ACTIVE_GATE_ABS, /* |act(gate)| > arg (CATS); plain: |act(up)| */
    TW_ACTIVE_TOPP,     /* fewest neurons, largest |h| first (ties to the lower
                         * number), that hold arg of the row's sum |h| */
    TW_ACTIVE_TOPK,     /* the arg largest |h| (ties to the lower number), of
                         * those that are not zero */
    TW_ACTIVE_KINDS
};

struct tw_active {
    enum tw_active_kind kind;
    double arg;    /* threshold, share or number; 0 where none */
    char name[48]; /* canonical: "hidden", "abs:0.01", "topk:32" */
};

/* Parses "hidden", "gate", "abs:T", "gate-abs:T" (T >= 0), "topp:P"
 * (0 < P <= 1), "topk:K" (K >= 1). Equal definitions get equal names. Returns
 * TW_OK, or TW_ERR_USAGE naming what is wrong. */
TW_MUST_USE enum tw_status tw_active_parse(const char *text,
                                           struct tw_active *active,
                                           struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
