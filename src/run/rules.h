/* The rules of a run: how text becomes rows, which rows count, what is counted
 * as active. Parsed from the command line once, stored with the run as
 * canonical text, compared on --resume. */
#ifndef TW_RUN_RULES_H
#define TW_RUN_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/active.h"
#include "base/error.h"
#include "kernels/activation.h"
#include "run/profile.h"
#include "text/batches.h"
#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_MAX_ACTIVE 16
#define TW_MAX_TAG    120 /* bytes of a tag's key */

struct tw_rules {
    struct tw_active active[TW_MAX_ACTIVE]; /* the first is the primary */
    int n_active;
    struct tw_active apply;
    bool has_apply;
    enum tw_split split;
    bool skip_bos, skip_special;
    int64_t skip_first;
    char skip[64];        /* canonical: "none", "bos,special,first:4" */
    const char *bos_rule; /* "auto", "yes", "no": static */
    bool is_bos_forced, is_bos_off;
};

/* Returns TW_OK or TW_ERR_USAGE naming the option. */
TW_MUST_USE enum tw_status
tw_rules_parse(const struct tw_profile_options *options, struct tw_rules *rules,
               struct tw_error *err);

/* The key of a tag KEY=VALUE; TW_ERR_USAGE where it is none. */
TW_MUST_USE enum tw_status tw_rules_tag(const char *tag,
                                        char key[TW_MAX_TAG + 1],
                                        struct tw_error *err);

/* The BOS id put before each sequence: the tokenizer's own rule, or for
 * --bos yes `config_bos` (the model's bos_token_id, -1: none); -1: none is
 * added. Ids without a tokenizer get none by "auto". */
TW_MUST_USE enum tw_status tw_rules_bos(const struct tw_rules *rules,
                                        const struct tw_tokenizer *tokenizer,
                                        int64_t config_bos, int32_t *bos,
                                        struct tw_error *err);

/* The separator line of text files: `doc_sep` as given, or for "auto" the
 * tokenizer's end-of-text piece; NULL: none. Borrowed, or from `room`. */
const char *tw_rules_separator(const char *doc_sep,
                               const struct tw_tokenizer *tokenizer, char *room,
                               int room_bytes);

#ifdef __cplusplus
}
#endif
#endif
