/* Rewriting is by rows, each written once, by whichever thread. */
#include <config.h>

#include "load/gguf_rewrite.h"

#include <string.h>

#include "base/memory.h"
#include "base/threads.h"

enum { PIECE_VALUES = 1 << 16 };

/* One stored tensor to be rewritten. */
struct twp_rewrite_job {
    const struct twp_gguf_tensor *from;
    enum twp_gguf_undo undo;
    int64_t rows, cols, head_dim;
    size_t item; /* bytes of a written value */
    uint8_t *out;
    int64_t piece, pieces; /* the first, and how many, of all jobs' pieces */
};

enum tw_status twp_gguf_misfit(const struct twp_gguf_file *file,
                               const struct twp_gguf_tensor *t,
                               const char *cause, struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_FORMAT, "%s: tensor '%.200s' %s",
                        file->name, t->name, cause);
}

/* The size of a head, by the rows that a change of order is about. */
static enum tw_status fit_heads(const struct twp_gguf_file *file,
                                const struct twp_rewrite *w,
                                struct twp_rewrite_job *job,
                                struct tw_error *err)
{
    int64_t count = 1;
    bool is_rope = job->undo == TWP_UNDO_ROPE_Q || job->undo == TWP_UNDO_ROPE_K;
    if (job->undo == TWP_UNDO_ROPE_Q)
        count = w->q_heads;
    else if (job->undo == TWP_UNDO_ROPE_K)
        count = w->kv_heads;
    else if (job->undo == TWP_UNDO_QKV)
        count = w->q_heads + 2 * w->kv_heads;
    else
        return TW_OK;
    job->head_dim = job->rows / count;
    if (job->rows % count != 0 || (is_rope && job->head_dim % 2 != 0))
        return twp_gguf_misfit(file, job->from,
                               "has rows that are not whole attention heads",
                               err);
    return TW_OK;
}

/* Where a stored row belongs. */
static int64_t place_row(const struct twp_rewrite_job *job,
                         const struct twp_rewrite *w, int64_t row)
{
    int64_t d = job->head_dim, head, in_head, share, group, part;
    if (d == 0)
        return row;
    head = row / d;
    in_head = row % d;
    if (job->undo != TWP_UNDO_QKV)
        return head * d + in_head % 2 * (d / 2) + in_head / 2;
    share =
        w->q_heads / w->kv_heads; /* q heads of a group; then its k, its v */
    if (head < w->q_heads) {
        group = head / share;
        part = head % share;
    } else {
        group = (head - w->q_heads) % w->kv_heads;
        part = share + (head - w->q_heads) / w->kv_heads;
    }
    return (group * (share + 2) + part) * d + in_head;
}

/* A stored row's values, as they will be written. */
static void read_row(const struct twp_rewrite_job *job, int64_t row,
                     uint8_t *out)
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

static void scatter(const struct twp_rewrite_job *job, int64_t row,
                    const uint8_t *values)
{
    for (int64_t c = 0; c < job->cols; c++)
        memcpy(job->out + (size_t)(c * job->rows + row) * job->item,
               values + (size_t)c * job->item, job->item);
}

static const struct twp_rewrite_job *find_job(const struct twp_rewrite *work,
                                              int64_t piece)
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

static int64_t piece_rows(const struct twp_rewrite_job *job)
{
    return job->cols < PIECE_VALUES ? PIECE_VALUES / job->cols : 1;
}

static void run_piece(void *arg, int worker, int64_t piece)
{
    const struct twp_rewrite *work = arg;
    const struct twp_rewrite_job *job = find_job(work, piece);
    int64_t step = piece_rows(job), from = (piece - job->piece) * step;
    int64_t to = from + step < job->rows ? from + step : job->rows;
    size_t row_bytes = (size_t)job->cols * job->item;
    uint8_t *buffer = work->row + (size_t)worker * work->row_bytes;
    for (int64_t r = from; r < to; r++) {
        if (job->undo == TWP_UNDO_TRANSPOSE) {
            read_row(job, r, buffer);
            scatter(job, r, buffer);
        } else {
            int64_t place = place_row(job, work, r);
            read_row(job, r, job->out + (size_t)place * row_bytes);
        }
    }
}

/* A vector whose order changes is a matrix of one column. */
static void set_job(struct twp_rewrite_job *job,
                    const struct twp_gguf_tensor *from, enum twp_gguf_undo undo)
{
    bool is_column =
        from->dims == 1 && undo != TWP_UNDO_PLUS_ONE && undo != TWP_UNDO_NONE;
    int64_t cols = is_column ? 1 : from->shape[from->dims - 1];
    *job = (struct twp_rewrite_job){.from = from,
                                    .undo = undo,
                                    .cols = cols,
                                    .rows = from->elements / cols,
                                    .item = tw_dtype_size(from->type->dtype)};
}

enum tw_status twp_rewrite_add(struct twp_rewrite *work,
                               const struct twp_gguf_file *file,
                               const struct twp_gguf_tensor *from,
                               enum twp_gguf_undo undo, struct tw_tensor *to,
                               struct tw_error *err)
{
    struct twp_rewrite_job *job = &work->job[work->jobs];
    set_job(job, from, undo);
    if (job->cols % from->type->values != 0 ||
        (undo == TWP_UNDO_PLUS_ONE && from->type->dtype != TW_F32))
        return twp_gguf_misfit(file, from,
                               "has a type that its use does not allow", err);
    enum tw_status status = fit_heads(file, work, job, err);
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
    const struct twp_rewrite_job *last = work->jobs > 0 ? job - 1 : NULL;
    job->piece = last ? last->piece + last->pieces : 0;
    job->pieces = (job->rows + piece_rows(job) - 1) / piece_rows(job);
    work->jobs++;
    return TW_OK;
}

static enum tw_status find_heads(struct tw_gguf *gguf,
                                 const struct twp_gguf_arch *arch,
                                 struct twp_rewrite *w, struct tw_error *err)
{
    const struct twp_gguf_making making = {.gguf = gguf, .arch = arch};
    enum tw_status status =
        twp_gguf_number(&making, ".attention.head_count", 1, &w->q_heads, err);
    if (status == TW_OK)
        status = twp_gguf_number(&making, ".attention.head_count_kv",
                                 w->q_heads, &w->kv_heads, err);
    if (status == TW_OK &&
        (w->q_heads < 1 || w->kv_heads < 1 || w->q_heads > INT32_MAX ||
         w->kv_heads > INT32_MAX || w->q_heads % w->kv_heads != 0))
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "%s: %lld attention heads cannot share %lld "
                              "key-value heads",
                              gguf->file[0].name, (long long)w->q_heads,
                              (long long)w->kv_heads);
    return status;
}

enum tw_status twp_rewrite_run(struct twp_rewrite *work, int threads,
                               struct tw_error *err)
{
    struct tw_threads *pool = NULL;
    if (work->jobs == 0)
        return TW_OK;
    const struct twp_rewrite_job *last = &work->job[work->jobs - 1];
    work->row = tw_alloc_aligned((size_t)threads, work->row_bytes);
    if (!work->row)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a row");
    enum tw_status status = tw_threads_create(threads, &pool, err);
    if (status == TW_OK)
        tw_threads_run(pool, run_piece, work, last->piece + last->pieces);
    tw_threads_destroy(pool);
    return status;
}

enum tw_status twp_rewrite_init(struct twp_rewrite *rewrite,
                                struct tw_gguf *gguf,
                                const struct twp_gguf_arch *arch,
                                size_t tensors, struct tw_error *err)
{
    *rewrite = (struct twp_rewrite){.row_bytes = 64};
    rewrite->job = tw_alloc(tensors, sizeof *rewrite->job);
    if (!rewrite->job)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for tensors");
    return find_heads(gguf, arch, rewrite, err);
}

void twp_rewrite_fini(struct twp_rewrite *rewrite)
{
    tw_free(rewrite->job);
    tw_free(rewrite->row);
}
