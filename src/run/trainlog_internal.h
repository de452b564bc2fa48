/* Between the readers of training logs. */
#ifndef TW_RUN_TRAINLOG_INTERNAL_H
#define TW_RUN_TRAINLOG_INTERNAL_H

#include <stdbool.h>

#include "run/trainlog.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TWP_MAX_LAYERS = 1 << 16 };

/* What a column is: a value of the step or of one layer. */
struct twp_column {
    enum { TWP_IS_UNKNOWN, TWP_IS_STEP, TWP_IS_VALUE, TWP_IS_IGNORED } is;
    enum tw_train_field field;
    int32_t layer; /* -1: the step itself */
    double scale;
};
/* By its name in the file, a layer's number included: "nnz/3", "nnz_layer3". */
struct twp_column twp_column_find(const char *name);

/* A reader's state: the file and the row it is in. */
struct twp_reader {
    struct tw_trainlog *log;
    const char *path;
    int64_t row, order; /* row of the file, from 1 */
};
/* Names a column that nothing is known of, once. */
void twp_reader_unknown(struct twp_reader *r, const char *name);
/* One value; step < 0 is an error. NaN and infinities are dropped. */
TW_MUST_USE enum tw_status twp_reader_add(struct twp_reader *r, int64_t step,
                                          const struct twp_column *column,
                                          double value, struct tw_error *err);
/* A step's number out of a double; the row is named where it is none. */
TW_MUST_USE enum tw_status twp_reader_step(const struct twp_reader *r,
                                           double value, int64_t *step,
                                           struct tw_error *err);

TW_MUST_USE enum tw_status twp_read_json(struct twp_reader *r, const char *text,
                                         size_t size, struct tw_error *err);
TW_MUST_USE enum tw_status twp_read_csv(struct twp_reader *r, char *text,
                                        size_t size, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
