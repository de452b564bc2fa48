/* Training logs: the table of known columns, rows by step and layer, and their
 * way into the database. */
#include <config.h>

#include "run/trainlog.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "run/trainlog_internal.h"

#define FILE_LIMIT ((size_t)1 << 28)
#define STEP_LIMIT 9007199254740992.0 /* 2^53: whole in a double */

/* Names as trainers write them. Times without a unit in their name ("t",
 * "step_time") and sums over a whole run ("train_loss") are not here. */
static const struct {
    const char *name;
    int is;
    enum tw_train_field field;
    double scale;
} known[] = {
    {"step", TWP_IS_STEP, 0, 1},
    {"_step", TWP_IS_STEP, 0, 1},
    {"Step", TWP_IS_STEP, 0, 1},
    {"global_step", TWP_IS_STEP, 0, 1},
    {"train/global_step", TWP_IS_STEP, 0, 1},
    {"trainer/global_step", TWP_IS_STEP, 0, 1},
    {"tokens", TWP_IS_VALUE, TW_TRAIN_TOKENS, 1},
    {"train/tokens", TWP_IS_VALUE, TW_TRAIN_TOKENS, 1},
    {"tokens_seen", TWP_IS_VALUE, TW_TRAIN_TOKENS, 1},
    {"num_input_tokens_seen", TWP_IS_VALUE, TW_TRAIN_TOKENS, 1},
    {"train/num_input_tokens_seen", TWP_IS_VALUE, TW_TRAIN_TOKENS, 1},
    {"ce", TWP_IS_VALUE, TW_TRAIN_CE, 1},
    {"train/ce", TWP_IS_VALUE, TW_TRAIN_CE, 1},
    {"ce_loss", TWP_IS_VALUE, TW_TRAIN_CE, 1},
    {"train/ce_loss", TWP_IS_VALUE, TW_TRAIN_CE, 1},
    {"loss", TWP_IS_VALUE, TW_TRAIN_LOSS, 1},
    {"train/loss", TWP_IS_VALUE, TW_TRAIN_LOSS, 1},
    {"l1", TWP_IS_VALUE, TW_TRAIN_L1, 1},
    {"train/l1", TWP_IS_VALUE, TW_TRAIN_L1, 1},
    {"l1_loss", TWP_IS_VALUE, TW_TRAIN_L1, 1},
    {"train/l1_loss", TWP_IS_VALUE, TW_TRAIN_L1, 1},
    {"l1_coefficient", TWP_IS_VALUE, TW_TRAIN_L1_COEFFICIENT, 1},
    {"l1_coeff", TWP_IS_VALUE, TW_TRAIN_L1_COEFFICIENT, 1},
    {"train/l1_coefficient", TWP_IS_VALUE, TW_TRAIN_L1_COEFFICIENT, 1},
    {"lr", TWP_IS_VALUE, TW_TRAIN_LR, 1},
    {"train/lr", TWP_IS_VALUE, TW_TRAIN_LR, 1},
    {"learning_rate", TWP_IS_VALUE, TW_TRAIN_LR, 1},
    {"train/learning_rate", TWP_IS_VALUE, TW_TRAIN_LR, 1},
    {"grad_norm", TWP_IS_VALUE, TW_TRAIN_GRAD_NORM, 1},
    {"train/grad_norm", TWP_IS_VALUE, TW_TRAIN_GRAD_NORM, 1},
    {"step_ns", TWP_IS_VALUE, TW_TRAIN_STEP_NS, 1},
    {"step_ms", TWP_IS_VALUE, TW_TRAIN_STEP_NS, 1e6},
    {"tokens_per_ms", TWP_IS_VALUE, TW_TRAIN_TOKENS_PER_MS, 1},
    {"tokens_per_second", TWP_IS_VALUE, TW_TRAIN_TOKENS_PER_MS, 1e-3},
    {"train_tokens_per_second", TWP_IS_VALUE, TW_TRAIN_TOKENS_PER_MS, 1e-3},
    {"train/tokens_per_second", TWP_IS_VALUE, TW_TRAIN_TOKENS_PER_MS, 1e-3},
    {"peak_bytes", TWP_IS_VALUE, TW_TRAIN_PEAK_BYTES, 1},
    {"nnz", TWP_IS_VALUE, TW_TRAIN_MEAN_NNZ, 1},
    {"train/nnz", TWP_IS_VALUE, TW_TRAIN_MEAN_NNZ, 1},
    {"mean_nnz", TWP_IS_VALUE, TW_TRAIN_MEAN_NNZ, 1},
    {"train/mean_nnz", TWP_IS_VALUE, TW_TRAIN_MEAN_NNZ, 1},
    {"max_nnz", TWP_IS_VALUE, TW_TRAIN_MAX_NNZ, 1},
    {"train/max_nnz", TWP_IS_VALUE, TW_TRAIN_MAX_NNZ, 1},
    {"alive", TWP_IS_VALUE, TW_TRAIN_ALIVE, 1},
    {"train/alive", TWP_IS_VALUE, TW_TRAIN_ALIVE, 1},
    {"dense_rows", TWP_IS_VALUE, TW_TRAIN_DENSE_ROWS, 1},
};

static struct twp_column look_up(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == length &&
            memcmp(known[i].name, name, length) == 0)
            return (struct twp_column){known[i].is, known[i].field, -1,
                                       known[i].scale};
    return (struct twp_column){TWP_IS_UNKNOWN, 0, -1, 0};
}

/* "NAME/7", "NAME.7", "NAME_7", "NAME/layer_7", "NAME_layer7": where NAME and
 * the layer are; false if it is no such name. */
static bool cut_layer(const char *name, size_t *length, int32_t *layer)
{
    size_t end = strlen(name), at = end;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    if (at == end || end - at > 5 || at == 0)
        return false;
    *layer = (int32_t)strtol(name + at, NULL, 10);
    bool has_mark = strchr("/._", name[at - 1]) != NULL;
    at -= has_mark;
    if (at >= 5 && memcmp(name + at - 5, "layer", 5) == 0) {
        at -= 5;
        has_mark = at > 0 && strchr("/._", name[at - 1]) != NULL;
        at -= has_mark;
    }
    *length = at;
    return has_mark;
}

struct twp_column twp_column_find(const char *name)
{
    size_t length;
    int32_t layer;
    struct twp_column column = look_up(name, strlen(name));
    if (column.is != TWP_IS_UNKNOWN || !cut_layer(name, &length, &layer))
        return column;
    column = look_up(name, length);
    if (column.is != TWP_IS_VALUE || column.field < TW_TRAIN_MEAN_NNZ ||
        layer >= TWP_MAX_LAYERS)
        column.is = TWP_IS_UNKNOWN;
    column.layer = layer;
    return column;
}

void twp_reader_unknown(struct twp_reader *r, const char *name)
{
    /* ", NAME," in ", a, b,": names with commas are rare and only listed. */
    if (!*name)
        name = "(no name)";
    const char *list = tw_strbuf_text(&r->log->unknown);
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at++)
        if ((at == list || at[-1] == ' ') &&
            (at[length] == '\0' || at[length] == ','))
            return;
    if (r->log->unknown.length < 400)
        tw_strbuf_printf(&r->log->unknown, "%s%s", *list ? ", " : "", name);
}

enum tw_status twp_reader_step(const struct twp_reader *r, double value,
                               int64_t *step, struct tw_error *err)
{
    if (!(value >= 0 && value <= STEP_LIMIT) || floor(value) != value)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: row %lld: step %g is no whole number", r->path,
                            (long long)r->row, value);
    *step = (int64_t)value;
    return TW_OK;
}

enum tw_status twp_reader_add(struct twp_reader *r, int64_t step,
                              const struct twp_column *column, double value,
                              struct tw_error *err)
{
    struct tw_trainlog *log = r->log;
    struct tw_train_row *last = log->rows ? &log->row[log->rows - 1] : NULL;
    if (!isfinite(value))
        return TW_OK;
    if (!last || last->step != step || last->layer != column->layer ||
        !isnan(last->value[column->field])) {
        if (tw_grow((void **)&log->row, &log->room, log->rows + 1,
                    sizeof *log->row) != 0)
            return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                                r->path);
        last = &log->row[log->rows++];
        last->step = step;
        last->layer = column->layer;
        last->order = r->order++;
        for (int i = 0; i < TW_TRAIN_FIELDS; i++)
            last->value[i] = NAN;
    }
    last->value[column->field] = value * column->scale;
    return TW_OK;
}

/* --- Rows of one step and layer become one --- */

static int by_place(const void *a, const void *b)
{
    const struct tw_train_row *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void gather(struct tw_trainlog *log)
{
    size_t kept = 0;
    if (log->rows > 0)
        qsort(log->row, log->rows, sizeof *log->row, by_place);
    for (size_t i = 0; i < log->rows; i++) {
        struct tw_train_row *row = &log->row[i];
        struct tw_train_row *into = kept ? &log->row[kept - 1] : NULL;
        if (!into || into->step != row->step || into->layer != row->layer) {
            log->row[kept++] = *row;
            continue;
        }
        for (int f = 0; f < TW_TRAIN_FIELDS; f++)
            if (!isnan(row->value[f]))
                into->value[f] = row->value[f];
    }
    log->rows = kept;
    for (size_t i = 0; i < kept; i++) {
        log->steps += i == 0 || log->row[i].step != log->row[i - 1].step;
        if (log->row[i].layer >= log->layers)
            log->layers = log->row[i].layer + 1;
    }
}

/* The first character says what the file is. */
static enum tw_status read_text(struct twp_reader *r, char *text, size_t size,
                                struct tw_error *err)
{
    size_t at = strspn(text, " \t\r\n");
    if (at == size)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: an empty file", r->path);
    if (strlen(text) != size)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: not a text file", r->path);
    if (text[at] == '{' || text[at] == '[')
        return twp_read_json(r, text, size, err);
    return twp_read_csv(r, text, size, err);
}

enum tw_status tw_trainlog_read(const char *path, struct tw_trainlog *log,
                                struct tw_error *err)
{
    struct twp_reader r = {.log = log, .path = path};
    char *text = NULL;
    size_t size = 0;
    *log = (struct tw_trainlog){0};
    enum tw_status status = tw_file_read(path, FILE_LIMIT, &text, &size, err);
    if (status == TW_OK && size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        memcpy(text, "   ", 3); /* a byte order mark */
    if (status == TW_OK)
        status = read_text(&r, text, size, err);
    tw_free(text);
    if (status != TW_OK)
        return status;
    gather(log);
    if (log->rows == 0)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: no row with a step and a known column", path);
    return TW_OK;
}

void tw_trainlog_fini(struct tw_trainlog *log)
{
    tw_free(log->row);
    tw_strbuf_fini(&log->unknown);
    *log = (struct tw_trainlog){0};
}

/* --- Into the database --- */

static int64_t whole(double value)
{
    return isnan(value) || fabs(value) > STEP_LIMIT ? TW_NULL : llrint(value);
}

/* Rows [from, to) are one step's. */
static double mean_over_layers(const struct tw_trainlog *log, size_t from,
                               size_t to, enum tw_train_field field)
{
    double sum = 0;
    int64_t count = 0;
    if (log->row[from].layer < 0 && !isnan(log->row[from].value[field]))
        return log->row[from].value[field];
    for (size_t i = from; i < to; i++)
        if (log->row[i].layer >= 0 && !isnan(log->row[i].value[field])) {
            sum += log->row[i].value[field];
            count++;
        }
    return count ? sum / (double)count : NAN;
}

static enum tw_status store_step(const struct tw_trainlog *log, size_t from,
                                 size_t to, struct tw_store *store, int64_t run,
                                 struct tw_error *err)
{
    double none[TW_TRAIN_FIELDS];
    for (int f = 0; f < TW_TRAIN_FIELDS; f++)
        none[f] = NAN;
    const double *v = log->row[from].layer < 0 ? log->row[from].value : none;
    struct tw_store_step s = {
        .step = log->row[from].step,
        .tokens = whole(v[TW_TRAIN_TOKENS]),
        .dense_rows = whole(v[TW_TRAIN_DENSE_ROWS]),
        .step_ns = whole(v[TW_TRAIN_STEP_NS]),
        .peak_bytes = whole(v[TW_TRAIN_PEAK_BYTES]),
        .ce = v[TW_TRAIN_CE],
        .loss = v[TW_TRAIN_LOSS],
        .l1 = v[TW_TRAIN_L1],
        .l1_coefficient = v[TW_TRAIN_L1_COEFFICIENT],
        .lr = v[TW_TRAIN_LR],
        .grad_norm = v[TW_TRAIN_GRAD_NORM],
        .mean_nnz = mean_over_layers(log, from, to, TW_TRAIN_MEAN_NNZ),
        .alive = mean_over_layers(log, from, to, TW_TRAIN_ALIVE),
        .tokens_per_ms = v[TW_TRAIN_TOKENS_PER_MS]};
    return tw_store_put_step(store, run, &s, err);
}

enum tw_status tw_trainlog_store(const struct tw_trainlog *log,
                                 struct tw_store *store, int64_t run,
                                 struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (size_t from = 0, to; from < log->rows && status == TW_OK; from = to) {
        for (to = from;
             to < log->rows && log->row[to].step == log->row[from].step; to++)
            ;
        status = store_step(log, from, to, store, run, err);
        for (size_t i = from; i < to && status == TW_OK; i++) {
            const struct tw_train_row *row = &log->row[i];
            struct tw_store_step_layer layer = {
                .step = row->step,
                .layer = row->layer,
                .max_nnz = whole(row->value[TW_TRAIN_MAX_NNZ]),
                .dense_rows = whole(row->value[TW_TRAIN_DENSE_ROWS]),
                .mean_nnz = row->value[TW_TRAIN_MEAN_NNZ],
                .alive = row->value[TW_TRAIN_ALIVE]};
            if (row->layer >= 0)
                status = tw_store_put_step_layer(store, run, &layer, err);
        }
    }
    return status;
}
