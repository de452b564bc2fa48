/* `profile`: a checkpoint over a corpus, counted and stored.
 *
 *     struct tw_profile_options options = tw_profile_defaults;
 *     options.model = "models/mine";
 *     options.files = (const char *[]){"text.txt"};
 *     options.n_files = 1;
 *     options.db = "twellscope.sqlite";
 *     tw_profile_run(&options, &report, &err);
 */
#ifndef TW_RUN_PROFILE_H
#define TW_RUN_PROFILE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "run/progress.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The command line, parsed but not interpreted; strings are borrowed. See the
 * man page for meanings. Start from tw_profile_defaults. */
struct tw_profile_options {
    const char *model, *tokenizer; /* tokenizer: folder, NULL: the model's */
    const char *const *files;
    int n_files;
    const char *prompt, *compare; /* instead of files; else NULL */
    const char *db, *name;        /* name NULL: made from the model's */
    const char *scratch;          /* folder to count in (tw_scratch_run) */
    bool is_resume, is_replace;
    int ctx; /* 0: min(2048, the model's limit) */
    int batch_tokens;
    int threads; /* 0: all cores */
    const char *backend;
    int device;
    const char *activation, *apply; /* NULL: the model's own, none */
    const char *plan;               /* run or file; NULL: made here */
    const char *plan_db; /* where --plan finds a run; NULL: db */
    const char *const *active;      /* definitions; none: hidden */
    int n_active;
    const char *skip, *split, *bos, *doc_sep, *field;
    bool has_ledger, no_ledger_l1, has_sets; /* --per-token, --no-l1,
                                              * --active-sets */
    const char *watch; /* --watch: "L:N,..." or a file of that; NULL */
    int64_t examples;  /* --examples: contexts a neuron; 0: none */
    bool has_magnitudes, no_loss, is_strict, is_dry_run, no_parse_special;
    int64_t limit;             /* -1: none */
    int64_t shard, shards;     /* 0, 1: the whole */
    double checkpoint_seconds; /* negative: max(10 s, 50 x its cost) */
    double time_limit_seconds; /* negative: none */
    double tolerance;          /* --compare; negative: the defaults */
    const char *const *tags;   /* "key=value" */
    int n_tags;
    const char *command;         /* the command line, for run_info */
    volatile sig_atomic_t *stop; /* non-zero: stop at a checkpoint */
    tw_progress_fn *progress;
    void *progress_arg;
};
extern const struct tw_profile_options tw_profile_defaults;

/* Where the time went, seconds: one after the other, so that what is left of
 * the total is what none of them is. */
struct tw_profile_times {
    double load;    /* model, tokenizer and corpus opened, weights checked */
    double start;   /* the backend, the weights brought to it */
    double plan;    /* the text's first rows run and looked at */
    double begin;   /* the first commit, or what is stored read again */
    double text;    /* read, tokenized, cut */
    double compute; /* what is waited for: tw_flights_times */
    double record;  /* counts added up */
    double checkpoint;
    double close; /* everything given back, the backend's memory too */
    double total;
    double device_busy; /* share of the time between the first batch and the
                         * last, on the backend's clock; NaN: not known */
    int checkpoints;
};

/* What main needs to say afterwards; strings are owned by the report. */
struct tw_profile_report {
    char name[256];  /* the run's name */
    char writer[40]; /* this process in the run's row; "": not begun */
    bool is_complete;
    bool was_complete; /* --resume of a run that was complete already */
    bool is_stored;    /* false after a dry run */
    int64_t tokens, vocab;
    double mean_nll; /* NaN without loss */
    struct tw_profile_times times;
};

/* Runs it. Returns TW_OK; TW_ERR_STOPPED after a signal or the time limit
 * (resume it); TW_ERR_LOST where --strict or --compare's bounds are broken;
 * else the error, with the run left as 'failed' and its cause where it had
 * begun. */
TW_MUST_USE enum tw_status
tw_profile_run(const struct tw_profile_options *options,
               struct tw_profile_report *report, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
