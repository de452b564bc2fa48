/* The ten lines that end a profile, from the published views. */
#ifndef TW_CMD_SUMMARY_H
#define TW_CMD_SUMMARY_H

#include <stdio.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

TW_MUST_USE enum tw_status tw_summary_print(FILE *out, const char *db,
                                            const char *run,
                                            struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
