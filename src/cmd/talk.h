/* What goes to stderr while a command runs: messages of the rooms, and a
 * progress line (a bar on a terminal, plain lines otherwise). */
#ifndef TW_CMD_TALK_H
#define TW_CMD_TALK_H

#include <signal.h>

#include "run/progress.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Installs the log sink; verbosity 0: warnings and notes, 1: debug too. */
void tw_talk_start(const char *command);
void tw_talk_verbose(void);
/* One of several: messages begin "rank N: ". */
void tw_talk_rank(int rank);

/* A tw_progress_fn; arg unused. */
void tw_talk_progress(void *arg, const struct tw_progress *progress);
/* Ends a bar that stands on the terminal's last line. */
void tw_talk_progress_end(void);

/* SIGINT and SIGTERM set this to the signal's number; a second SIGINT ends the
 * program at once. */
extern volatile sig_atomic_t tw_talk_stop;
void tw_talk_catch_signals(void);

#ifdef __cplusplus
}
#endif
#endif
