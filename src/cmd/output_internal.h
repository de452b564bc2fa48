/* Between output.c and output_table.c. */
#ifndef TW_CMD_OUTPUT_INTERNAL_H
#define TW_CMD_OUTPUT_INTERNAL_H

#include "cmd/output.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes and clears the line. */
TW_MUST_USE enum tw_status twp_output_flush(struct tw_strbuf *line, FILE *out,
                                            struct tw_error *err);
/* table, md, latex: all rows are kept until the columns' widths are known. */
TW_MUST_USE enum tw_status twp_output_aligned(struct tw_query *query,
                                              enum tw_format format, FILE *out,
                                              struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
