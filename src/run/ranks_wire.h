/* What ranks tell each other: small notes of one size, by whatever carries them
 * (twellscope-mpi.so). Exported by that module under TW_WIRE_SYMBOL. */
#ifndef TW_RUN_RANKS_WIRE_H
#define TW_RUN_RANKS_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tw_note_kind { TW_NOTE_PROGRESS, TW_NOTE_DONE, TW_NOTE_END };

/* PROGRESS and DONE go to rank 0; END, to all others, ends the job. */
struct tw_note {
    int32_t kind, rank;
    int32_t status;           /* DONE: the rank's, END: the job's */
    int32_t is_part_complete; /* DONE */
    int64_t tokens;           /* PROGRESS, as struct tw_progress */
    double seconds, fraction, mean_nnz;
};

/* From the thread that called start alone. */
struct tw_wire {
    const char *version; /* PACKAGE_VERSION */
    /* Joins the others. false: no MPI that answers. */
    bool (*start)(int *rank, int *ranks);
    /* Hands a note over and returns; false: the one before is on its way still,
     * this one is dropped. */
    bool (*post)(int to, const struct tw_note *note);
    bool (*is_posted)(void); /* the last note has left */
    bool (*take)(struct tw_note *note); /* the next that came; false: none */
    void (*stop)(void);                 /* after the last note; waits for all */
};
#define TW_WIRE_SYMBOL "tw_wire"

#ifdef __cplusplus
}
#endif
#endif
