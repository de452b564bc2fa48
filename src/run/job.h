/* What a profile holds while it runs; private to src/run. Opened in the order
 * of the fields, so that nothing on disk changes before everything that can be
 * refused has been. */
#ifndef TW_RUN_JOB_H
#define TW_RUN_JOB_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/profile.h"
#include "base/sha256.h"
#include "base/threads.h"
#include "db/examples.h"
#include "db/ledger.h"
#include "db/store.h"
#include "kernels/ops.h"
#include "model/forward.h"
#include "model/model.h"
#include "run/compare.h"
#include "run/corpus.h"
#include "run/flights.h"
#include "run/plan.h"
#include "run/profile.h"
#include "run/record.h"
#include "run/replay.h"
#include "run/rules.h"
#include "text/batches.h"
#include "text/tokenizer.h"

/* What a commit stores of the run: how far it was at one moment. */
struct tw_job_state {
    const struct tw_profile *profile;
    int64_t next_document, next_start; /* where a resumed run goes on */
};

/* A commit in a thread of its own. */
struct tw_beside {
    struct tw_profile *copy; /* NULL until the first */
    struct tw_job_state state;
    pthread_t thread;
    bool is_on;        /* still to be joined */
    bool is_done;      /* read and written as an atomic */
    double begin, end; /* seconds; end and what follows once it is done */
    enum tw_status status;
    struct tw_error error;
};

struct tw_job {
    const struct tw_profile_options *o;
    struct tw_rules rules;
    struct tw_store *store; /* NULL until the file exists or is made */
    int64_t run;            /* 0 until the first commit */
    bool is_resumed;        /* the run was there already */
    char name[256];
    char writer[40]; /* this process, in the run's row */
    struct tw_model *model;
    struct tw_tokenizer *tokenizer; /* NULL: none there, and not needed */
    const struct tw_ops *ops;
    enum tw_dtype dtype; /* as tw_ops_config's */
    struct tw_runner *runner;
    struct tw_ffn_plan *plans;  /* [layers] */
    char *plan;                 /* their text */
    struct tw_oracle *oracle;   /* --compare, else NULL */
    bool is_within;             /* the oracle's bounds, after the last commit */
    char parity[320];           /* and in words */
    const char *separator_line; /* between documents; NULL: none */
    char separator[256];        /* its room, where the tokenizer names it */
    struct tw_corpus corpus;
    struct tw_replay text_again; /* reads the corpus, also after a plan did */
    int64_t *file_tokens;        /* [corpus.files] text tokens of each */
    struct tw_batch_options text;
    char warning[160]; /* on -c, stored as tag "warning.positions"; or "" */
    struct tw_batches *batches;
    struct tw_facts facts;
    struct tw_threads *pool; /* for recording */
    struct tw_profile *profile;
    struct tw_ledger *ledger;     /* NULL: none is asked for */
    struct tw_examples *examples; /* NULL: likewise */
    struct tw_watch *watch;       /* [watches] ascending */
    int watches;
    struct tw_flights *flights;
    int64_t next_document, next_start;       /* where a resumed run goes on */
    double checkpoint_cost, last_checkpoint; /* seconds */
    struct tw_beside beside;
    struct tw_profile_report *report;
};

/* Seconds of a monotonic clock. */
double tw_job_clock(void);

/* The model's runner on the job's backend, for batches of up to `rows`; with
 * backend `auto` on the CPU where the other can't do the model or what is to be
 * counted, which is said. */
TW_MUST_USE enum tw_status tw_job_open_runner(struct tw_job *job, int64_t rows,
                                              struct tw_error *err);
/* Everything up to the first commit; nothing is written. */
TW_MUST_USE enum tw_status tw_job_open(struct tw_job *job,
                                       struct tw_error *err);
void tw_job_close(struct tw_job *job);

/* The ledger that the options ask for, if any (job_ledger.c). */
TW_MUST_USE enum tw_status tw_job_open_ledger(struct tw_job *job,
                                              struct tw_error *err);
/* Whether the backend has to list each row's active neurons. */
bool tw_job_wants_sets(const struct tw_job *job);
/* What the ledger holds, canonical; "": nothing. */
void tw_job_ledger_text(const struct tw_job *job, char *text, size_t size);
/* So much waits for a commit that it should not wait for its time. */
bool tw_job_ledger_is_full(const struct tw_job *job);

/* Flights for this model and runner that count nothing but their probes; those,
 * the batches and what is asked for beyond are the caller's to add. */
struct tw_flights_config tw_job_flights(const struct tw_job *job);
/* Those that count all that the run is to count (job_runner.c). */
struct tw_flights_config tw_job_counting(const struct tw_job *job);

/* Makes or reads the plan and lets the runner use it (job_plan.c). */
TW_MUST_USE enum tw_status tw_job_plan(struct tw_job *job,
                                       struct tw_error *err);

/* Parts of the commits, inside a transaction (job_facts.c). */
void tw_job_gather(struct tw_job *job);
TW_MUST_USE enum tw_status tw_job_put_definitions(struct tw_job *job,
                                                  struct tw_error *err);
TW_MUST_USE enum tw_status tw_job_put_tags(struct tw_job *job,
                                           struct tw_error *err);
TW_MUST_USE enum tw_status tw_job_put_corpora(struct tw_job *job, bool is_last,
                                              struct tw_error *err);
TW_MUST_USE enum tw_status tw_job_put_pieces(struct tw_job *job,
                                             struct tw_error *err);

/* The first commit: the run's row with its facts, definitions, tags, corpora,
 * token pieces; or for --resume the comparison with the stored run and its
 * counts. Sets is_resumed; report->was_complete if there is nothing to do. */
TW_MUST_USE enum tw_status tw_job_begin(struct tw_job *job,
                                        struct tw_error *err);
/* One transaction of a checkpoint. */
TW_MUST_USE enum tw_status tw_job_commit(struct tw_job *job,
                                         const struct tw_job_state *state,
                                         bool is_last, bool is_patient,
                                         struct tw_error *err);
/* Counts so far, in one transaction (refused where another process has taken
 * the run over); the last one also what is derived and the
 * status 'complete'. TW_ERR_BUSY where another program reads the file;
 * is_patient waits for it, minutes if need be. */
TW_MUST_USE enum tw_status tw_job_checkpoint(struct tw_job *job, bool is_last,
                                             bool is_patient,
                                             struct tw_error *err);

/* A checkpoint beside what follows (job_beside.c): begun, while none runs
 * (false: there can't be one here); is it still under way; waited for, with
 * what it gave (one that met a reader is left out, not an error; TW_OK where
 * there is none). The store is its own until then. */
bool tw_job_beside_start(struct tw_job *job);
bool tw_job_beside_runs(const struct tw_job *job);
TW_MUST_USE enum tw_status tw_job_beside_end(struct tw_job *job,
                                             struct tw_error *err);

#endif
