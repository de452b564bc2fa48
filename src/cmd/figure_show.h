/* One figure, or all that have data, into their files. */
#ifndef TW_CMD_FIGURE_SHOW_H
#define TW_CMD_FIGURE_SHOW_H

#include "cmd/figure.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TW_FIGURE_MANY = 64 }; /* of --run, of --set */

/* All borrowed from the command line. */
struct tw_figure_request {
    const char *name;   /* a figure, a number of the paper, or "all" */
    const char *out;    /* a file; for "all" a folder or a pattern with %s */
    const char *active; /* NULL: each run's primary definition */
    const char *runs[TW_FIGURE_MANY], *settings[TW_FIGURE_MANY];
    size_t run_count, setting_count;
    bool is_kept, has_paper; /* has_paper: the paper's points too */
};

TW_MUST_USE enum tw_status
tw_figure_show(struct tw_store *store, const struct tw_figure_dirs *dirs,
               const struct tw_figure_request *request, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
