/* A run's own row: its facts as text by column of run_, which of them identify
 * it (compared on --resume), and the first and last commits around counting. */
#ifndef TW_RUN_RECORD_H
#define TW_RUN_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_MAX_FACTS 48

/* column: a column of run_; text NULL: NULL. Facts with is_identity must agree
 * with the stored run when it is resumed; `option` names them in the error. */
struct tw_fact {
    const char *column, *option;
    char *text;
    bool is_identity;
};

struct tw_facts {
    struct tw_fact fact[TW_MAX_FACTS];
    int count;
    bool is_short; /* out of memory */
};

void tw_facts_text(struct tw_facts *facts, const char *column,
                   const char *option, const char *text);
void tw_facts_int(struct tw_facts *facts, const char *column,
                  const char *option, int64_t value);
void tw_facts_fini(struct tw_facts *facts);

/* Writes every fact into the run's row. */
TW_MUST_USE enum tw_status tw_facts_store(const struct tw_facts *facts,
                                          struct tw_store *store, int64_t run,
                                          struct tw_error *err);
/* Compares the identifying ones; TW_ERR_MISMATCH names the first that differs
 * with both values. */
TW_MUST_USE enum tw_status tw_facts_compare(const struct tw_facts *facts,
                                            struct tw_store *store, int64_t run,
                                            const char *name,
                                            struct tw_error *err);

/* The run's definitions, or the SHA-256s of its corpora, space separated in
 * order, against `text`; as tw_facts_compare. */
enum tw_list { TW_LIST_ACTIVE, TW_LIST_CORPORA };
TW_MUST_USE enum tw_status tw_record_compare_list(struct tw_store *store,
                                                  int64_t run, const char *name,
                                                  enum tw_list list,
                                                  const char *text,
                                                  struct tw_error *err);

/* Sets `finished` to now, UTC. */
TW_MUST_USE enum tw_status
tw_record_finished(struct tw_store *store, int64_t run, struct tw_error *err);

/* Rows that ran dense, over all layers. */
TW_MUST_USE enum tw_status tw_record_dense_rows(struct tw_store *store,
                                                int64_t run, int64_t *rows,
                                                struct tw_error *err);

/* A free name: `wanted`, then wanted-2, wanted-3, ... */
TW_MUST_USE enum tw_status tw_record_free_name(struct tw_store *store,
                                               const char *wanted, char *name,
                                               size_t name_bytes,
                                               struct tw_error *err);
/* The name a run gets in file db before it is opened there: `given`, or the
 * model's own, free in db where there is a file. Returns TW_OK or the error of
 * the model or the file. */
TW_MUST_USE enum tw_status tw_record_choose_name(const char *db,
                                                 const char *given,
                                                 const char *model, char *name,
                                                 size_t name_bytes,
                                                 struct tw_error *err);

/* Marks a begun run as failed with its cause, in a transaction of its own, if
 * `writer` is still the one that counts; where that can't be written (disk
 * full) it stays 'interrupted'. */
void tw_record_failure(struct tw_store *store, int64_t run, const char *writer,
                       const char *cause);

#ifdef __cplusplus
}
#endif
#endif
