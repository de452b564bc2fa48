/* GGUF tensors as a checkpoint's: renamed, blocks to floats, and llama.cpp's
 * changes undone. What needs neither points into the map; the rest is written
 * to memory of its own, row by row, each row once, by whichever thread. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "load/gguf_arch.h"
#include "load/load_internal.h"

enum { NAME_BYTES = 256, PIECE_VALUES = 1 << 16 };

/* Attention heads, for the orders of rows. */
struct heads {
    int64_t q, kv;
};

/* One stored tensor to be rewritten. */
struct job {
    const struct twp_gguf_tensor *from;
    enum twp_gguf_undo undo;
    int64_t rows, cols, head_dim;
    size_t item; /* bytes of a written value */
    uint8_t *out;
    int64_t piece, pieces; /* the first, and how many, of all jobs' pieces */
};

struct work {
    struct heads heads;
    struct job *job;
    size_t jobs;
    uint8_t *row; /* [threads][row_bytes]: a row before it is scattered */
    size_t row_bytes;
};

static const struct twp_gguf_name *match(const struct twp_gguf_name *names,
                                         const char *name, int64_t *layer,
                                         const char **suffix)
{
    for (; names && names->gguf; names++) {
        const char *form = names->gguf, *at = name;
        while (*form && (*form == '%' || *form == *at)) {
            if (*form == '%') {
                char *end;
                if (*at < '0' || *at > '9')
                    break;
                *layer = strtoll(at, &end, 10);
                at = end;
            } else {
                at++;
            }
            form++;
        }
        if (!*form && (*at == '\0' || strcmp(at, ".weight") == 0 ||
                       strcmp(at, ".bias") == 0)) {
            *suffix = at;
            return names;
        }
    }
    return NULL;
}

/* The Hugging Face name; a name that the table lacks stays as it is. */
static enum tw_status rename_tensor(struct tw_gguf *gguf,
                                    const struct twp_gguf_arch *arch,
                                    const char *name, const char **renamed,
                                    enum twp_gguf_undo *undo,
                                    struct tw_error *err)
{
    int64_t layer = 0;
    const char *suffix = "", *percent;
    char text[NAME_BYTES];
    const struct twp_gguf_name *rule =
        match(arch->more_names, name, &layer, &suffix);
    if (!rule)
        rule = match(arch->names, name, &layer, &suffix);
    *undo = rule ? rule->undo : TWP_UNDO_NONE;
    *renamed = name;
    if (!rule)
        return TW_OK;
    percent = strchr(rule->hf, '%');
    if (percent)
        snprintf(text, sizeof text, "%.*s%lld%s%s", (int)(percent - rule->hf),
                 rule->hf, (long long)layer, percent + 1, suffix);
    else
        snprintf(text, sizeof text, "%s%s", rule->hf, suffix);
    if (strcmp(suffix, ".bias") == 0 &&
        (*undo == TWP_UNDO_PLUS_ONE || *undo == TWP_UNDO_TRANSPOSE))
        *undo = TWP_UNDO_NONE;
    return twp_arena_text(&gguf->file[0].arena, text, strlen(text), renamed,
                          err);
}

static enum tw_status misfit(const struct twp_gguf_file *file,
                             const struct twp_gguf_tensor *t, const char *cause,
                             struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_FORMAT, "%s: tensor '%.200s' %s",
                        file->name, t->name, cause);
}

/* The size of a head, by the rows that a change of order is about. */
static enum tw_status fit_heads(const struct twp_gguf_file *file,
                                const struct heads *heads, struct job *job,
                                struct tw_error *err)
{
    int64_t count = 1;
    bool is_rope = job->undo == TWP_UNDO_ROPE_Q || job->undo == TWP_UNDO_ROPE_K;
    if (job->undo == TWP_UNDO_ROPE_Q)
        count = heads->q;
    else if (job->undo == TWP_UNDO_ROPE_K)
        count = heads->kv;
    else if (job->undo == TWP_UNDO_QKV)
        count = heads->q + 2 * heads->kv;
    else
        return TW_OK;
    job->head_dim = job->rows / count;
    if (job->rows % count != 0 || (is_rope && job->head_dim % 2 != 0))
        return misfit(file, job->from,
                      "has rows that are not whole attention heads", err);
    return TW_OK;
}

/* Where a stored row belongs. */
static int64_t place_row(const struct job *job, const struct heads *heads,
                         int64_t row)
{
    int64_t d = job->head_dim, head, in_head, share, group, part;
    if (d == 0)
        return row;
    head = row / d;
    in_head = row % d;
    if (job->undo != TWP_UNDO_QKV)
        return head * d + in_head % 2 * (d / 2) + in_head / 2;
    share = heads->q / heads->kv; /* q heads of a group; then its k, its v */
    if (head < heads->q) {
        group = head / share;
        part = head % share;
    } else {
        group = (head - heads->q) % heads->kv;
        part = share + (head - heads->q) / heads->kv;
    }
    return (group * (share + 2) + part) * d + in_head;
}

/* A stored row's values, as they will be written. */
static void read_row(const struct job *job, int64_t row, uint8_t *out)
{
    const struct tw_gguf_type *type = job->from->type;
    int64_t blocks = job->cols / type->values;
    size_t bytes = (size_t)blocks * (size_t)type->bytes;
    const uint8_t *in = job->from->data + (size_t)row * bytes;
    float *values = (float *)(void *)out;
    if (!type->dequant) {
        memcpy(out, in, bytes);
    } else {
        for (int64_t b = 0; b < blocks; b++)
            type->dequant(in + b * type->bytes, values + b * type->values);
    }
    if (job->undo == TWP_UNDO_PLUS_ONE)
        for (int64_t i = 0; i < job->cols; i++)
            values[i] -= 1.0f;
}

static void scatter(const struct job *job, int64_t row, const uint8_t *values)
{
    for (int64_t c = 0; c < job->cols; c++)
        memcpy(job->out + (size_t)(c * job->rows + row) * job->item,
               values + (size_t)c * job->item, job->item);
}

static const struct job *find_job(const struct work *work, int64_t piece)
{
    size_t low = 0, high = work->jobs;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (work->job[middle].piece <= piece)
            low = middle;
        else
            high = middle;
    }
    return &work->job[low];
}

static int64_t piece_rows(const struct job *job)
{
    return job->cols < PIECE_VALUES ? PIECE_VALUES / job->cols : 1;
}

static void run_piece(void *arg, int worker, int64_t piece)
{
    const struct work *work = arg;
    const struct job *job = find_job(work, piece);
    int64_t step = piece_rows(job), from = (piece - job->piece) * step;
    int64_t to = from + step < job->rows ? from + step : job->rows;
    size_t row_bytes = (size_t)job->cols * job->item;
    uint8_t *buffer = work->row + (size_t)worker * work->row_bytes;
    for (int64_t r = from; r < to; r++) {
        if (job->undo == TWP_UNDO_TRANSPOSE) {
            read_row(job, r, buffer);
            scatter(job, r, buffer);
        } else {
            int64_t place = place_row(job, &work->heads, r);
            read_row(job, r, job->out + (size_t)place * row_bytes);
        }
    }
}

/* A vector whose order changes is a matrix of one column. */
static void set_job(struct job *job, const struct twp_gguf_tensor *from,
                    enum twp_gguf_undo undo)
{
    bool is_column =
        from->dims == 1 && undo != TWP_UNDO_PLUS_ONE && undo != TWP_UNDO_NONE;
    int64_t cols = is_column ? 1 : from->shape[from->dims - 1];
    *job = (struct job){.from = from,
                        .undo = undo,
                        .cols = cols,
                        .rows = from->elements / cols,
                        .item = tw_dtype_size(from->type->dtype)};
}

static enum tw_status add_job(struct work *work,
                              const struct twp_gguf_file *file,
                              const struct twp_gguf_tensor *from,
                              enum twp_gguf_undo undo, struct tw_tensor *to,
                              struct tw_error *err)
{
    struct job *job = &work->job[work->jobs];
    set_job(job, from, undo);
    if (job->cols % from->type->values != 0 ||
        (undo == TWP_UNDO_PLUS_ONE && from->type->dtype != TW_F32))
        return misfit(file, from, "has a type that its use does not allow",
                      err);
    enum tw_status status = fit_heads(file, &work->heads, job, err);
    if (status != TW_OK)
        return status;
    to->owned = tw_alloc_aligned((size_t)from->elements, job->item);
    if (!to->owned)
        return tw_error_set(err, TW_ERR_NOMEM,
                            "%s: out of memory for tensor '%.200s'", file->name,
                            from->name);
    to->data = job->out = to->owned;
    if (undo == TWP_UNDO_TRANSPOSE && from->dims == 2) {
        to->shape[0] = from->shape[1];
        to->shape[1] = from->shape[0];
        if ((size_t)job->cols * job->item > work->row_bytes)
            work->row_bytes = (size_t)job->cols * job->item;
    }
    const struct job *last = work->jobs > 0 ? job - 1 : NULL;
    job->piece = last ? last->piece + last->pieces : 0;
    job->pieces = (job->rows + piece_rows(job) - 1) / piece_rows(job);
    work->jobs++;
    return TW_OK;
}

static struct tw_tensor describe(const struct twp_gguf_tensor *from,
                                 const char *name, const char *file)
{
    struct tw_tensor to = {.name = name,
                           .dtype = from->type->dtype,
                           .stored =
                               from->type->dequant ? from->type->name : NULL,
                           .dims = from->dims,
                           .elements = from->elements,
                           .data = from->data,
                           .file = file};
    memcpy(to.shape, from->shape, sizeof from->shape);
    return to;
}

/* Room for one tensor more. */
static enum tw_status grow(struct tw_tensors *set, size_t *capacity,
                           struct tw_error *err)
{
    void *array = set->tensor;
    if (tw_grow(&array, capacity, set->count + 1, sizeof *set->tensor) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for tensors");
    set->tensor = array;
    return TW_OK;
}

/* Rows of a matrix as vectors NAME.0.weight, NAME.1.weight, ... */
static enum tw_status add_stack(struct tw_gguf *gguf, struct tw_tensors *set,
                                size_t *capacity,
                                const struct twp_gguf_file *file,
                                const struct twp_gguf_tensor *from,
                                const char *name, struct tw_error *err)
{
    int64_t rows = from->dims == 2 ? from->shape[0] : 1;
    int64_t cols = from->elements / rows;
    const char *dot = strrchr(name, '.');
    if (from->type->dequant || !dot)
        return misfit(file, from, "has a type that its use does not allow",
                      err);
    for (int64_t r = 0; r < rows; r++) {
        char text[NAME_BYTES];
        enum tw_status status = grow(set, capacity, err);
        if (status != TW_OK)
            return status;
        struct tw_tensor *to = &set->tensor[set->count];
        snprintf(text, sizeof text, "%.*s.%lld%s", (int)(dot - name), name,
                 (long long)r, dot);
        *to = describe(from, NULL, file->name);
        to->dims = 1;
        to->shape[0] = to->elements = cols;
        to->data =
            from->data + (size_t)(r * cols) * tw_dtype_size(from->type->dtype);
        status = twp_arena_text(&gguf->file[0].arena, text, strlen(text),
                                &to->name, err);
        if (status != TW_OK)
            return status;
        set->count++;
    }
    return TW_OK;
}

static enum tw_status
add_tensor(struct tw_gguf *gguf, const struct twp_gguf_arch *arch,
           struct work *work, struct tw_tensors *set, size_t *capacity,
           const struct twp_gguf_file *file, const struct twp_gguf_tensor *from,
           struct tw_error *err)
{
    const char *name;
    enum twp_gguf_undo undo;
    if (arch->has_rope && strncmp(from->name, "rope_factors_", 13) == 0)
        return TW_OK; /* the config holds them */
    enum tw_status status =
        rename_tensor(gguf, arch, from->name, &name, &undo, err);
    if (status == TW_OK && undo == TWP_UNDO_STACK)
        return add_stack(gguf, set, capacity, file, from, name, err);
    if (status == TW_OK)
        status = grow(set, capacity, err);
    if (status != TW_OK)
        return status;
    struct tw_tensor *to = &set->tensor[set->count++];
    *to = describe(from, name, file->name);
    if (undo == TWP_UNDO_NONE && !from->type->dequant)
        return TW_OK;
    return add_job(work, file, from, undo, to, err);
}

static enum tw_status add_all(struct tw_gguf *gguf,
                              const struct twp_gguf_arch *arch,
                              struct work *work, struct tw_tensors *set,
                              struct tw_error *err)
{
    enum tw_status status = TW_OK;
    size_t total = 0, capacity = 0;
    for (size_t f = 0; f < gguf->files; f++)
        total += gguf->file[f].tensors;
    work->job = tw_alloc(total, sizeof *work->job);
    set->file = tw_calloc(gguf->files, sizeof *set->file);
    if (!work->job || !set->file)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for tensors");
    for (size_t f = 0; f < gguf->files && status == TW_OK; f++) {
        const struct twp_gguf_file *file = &gguf->file[f];
        set->file[set->files++].name = tw_strdup(file->name);
        if (!set->file[f].name)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
        for (size_t i = 0; i < file->tensors && status == TW_OK; i++)
            status = add_tensor(gguf, arch, work, set, &capacity, file,
                                &file->tensor[i], err);
    }
    return status;
}

static enum tw_status run_work(struct work *work, int threads,
                               struct tw_error *err)
{
    struct tw_threads *pool = NULL;
    if (work->jobs == 0)
        return TW_OK;
    const struct job *last = &work->job[work->jobs - 1];
    work->row = tw_alloc_aligned((size_t)threads, work->row_bytes);
    if (!work->row)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a row");
    enum tw_status status = tw_threads_create(threads, &pool, err);
    if (status == TW_OK)
        tw_threads_run(pool, run_piece, work, last->piece + last->pieces);
    tw_threads_destroy(pool);
    return status;
}

static enum tw_status find_heads(struct tw_gguf *gguf,
                                 const struct twp_gguf_arch *arch,
                                 struct heads *heads, struct tw_error *err)
{
    const struct twp_gguf_making making = {.gguf = gguf, .arch = arch};
    enum tw_status status =
        twp_gguf_number(&making, ".attention.head_count", 1, &heads->q, err);
    if (status == TW_OK)
        status = twp_gguf_number(&making, ".attention.head_count_kv", heads->q,
                                 &heads->kv, err);
    if (status == TW_OK &&
        (heads->q < 1 || heads->kv < 1 || heads->q > INT32_MAX ||
         heads->kv > INT32_MAX || heads->q % heads->kv != 0))
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "%s: %lld attention heads cannot share %lld "
                              "key-value heads",
                              gguf->file[0].name, (long long)heads->q,
                              (long long)heads->kv);
    return status;
}

enum tw_status twp_gguf_tensors(struct tw_gguf *gguf,
                                const struct twp_gguf_arch *arch, int threads,
                                struct tw_tensors *tensors,
                                struct tw_error *err)
{
    struct work work = {.row_bytes = 64};
    struct tw_tensors set = {0};
    enum tw_status status = find_heads(gguf, arch, &work.heads, err);
    if (status == TW_OK)
        status = add_all(gguf, arch, &work, &set, err);
    if (status == TW_OK)
        status = run_work(&work, threads, err);
    if (status == TW_OK)
        status = twp_tensors_sort(&set, err);
    tw_free(work.job);
    tw_free(work.row);
    if (status != TW_OK)
        tw_tensors_close(&set);
    else
        *tensors = set;
    return status;
}
