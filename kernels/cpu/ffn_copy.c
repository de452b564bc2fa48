/* Copies of a layer's weights in the shapes the kernels read: panels for the
 * dense products, rows of W_down^T for the sparse pass. All keep the stored
 * type, so a 16-bit model needs 16-bit copies.
 *
 * A copy is made at first use. It stays if the context's budget (keep_bytes)
 * has room, else layer_end takes it back into a small pool, so that the next
 * layer's copy finds its pages mapped. Bytes: each copy reads and writes its
 * matrix once, in blocks that move whole cache lines on both sides: W_down^T of
 * 4096 x 14336 in bf16 takes 50 ms on two cores, where blocks of 32 x 32 took
 * 180 and plain loops 220; its panels take 20 ms. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

#define SPARES 4

struct twp_ffn_shared {
    int layers;          /* loaded in this context */
    struct tw_ffn *open; /* those with passing copies */
    struct twp_copy spare[SPARES];
};

enum tw_status twp_ffn_share(struct twp_cpu *cpu, struct tw_error *err)
{
    if (!cpu->ffn)
        cpu->ffn = tw_calloc(1, sizeof *cpu->ffn);
    if (!cpu->ffn)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a layer");
    cpu->ffn->layers++;
    return TW_OK;
}

void twp_ffn_unshare(struct twp_cpu *cpu)
{
    assert(cpu->ffn && cpu->ffn->layers > 0);
    if (--cpu->ffn->layers > 0)
        return;
    for (int i = 0; i < SPARES; i++)
        tw_free(cpu->ffn->spare[i].data);
    tw_free(cpu->ffn);
    cpu->ffn = NULL;
}

/* Memory of that size, a spare one if one fits without waste. */
static void *take_memory(struct twp_cpu *cpu, size_t *bytes)
{
    for (int i = 0; i < SPARES; i++) {
        struct twp_copy *spare = &cpu->ffn->spare[i];
        if (!spare->data || spare->bytes < *bytes || spare->bytes / 2 > *bytes)
            continue;
        void *data = spare->data;
        *bytes = spare->bytes;
        *spare = (struct twp_copy){0};
        return data;
    }
    return tw_alloc_aligned(*bytes, 1);
}

static void give_memory(struct twp_cpu *cpu, struct twp_copy *copy)
{
    struct twp_copy *spare = cpu->ffn->spare, *to = spare;
    for (int i = 0; i < SPARES; i++)
        if (spare[i].bytes < to->bytes)
            to = &spare[i];
    if (to->bytes < copy->bytes) { // the smallest makes room
        tw_free(to->data);
        *to = *copy;
    } else {
        tw_free(copy->data);
    }
    *copy = (struct twp_copy){0};
}

struct build {
    const struct tw_matrix *from;
    void *to;
    int64_t stride; /* of rows, elements */
};

/* Panels of a 32-bit type, or of words of two 16-bit elements. `words` are
 * whole words of a row; a last odd element is put by the caller. */
static void panel_words(uint32_t *to, const char *row0, size_t row_bytes,
                        int64_t rows, int64_t words)
{
    for (int64_t k0 = 0; k0 < words; k0 += 16) {
        int64_t k1 = words - k0 < 16 ? words : k0 + 16;
        for (int64_t j = 0; j < TWP_PANEL; j++) {
            const char *row = row0 + (size_t)j * row_bytes;
            for (int64_t k = k0; k < k1; k++) {
                uint32_t word = 0;
                if (j < rows)
                    memcpy(&word, row + 4 * k, sizeof word);
                to[k * TWP_PANEL + j] = word;
            }
        }
    }
}

static void build_panel(void *arg, int worker, int64_t panel)
{
    (void)worker;
    const struct build *b = arg;
    const struct tw_matrix *m = b->from;
    size_t size = tw_dtype_size(m->dtype), row_bytes = (size_t)m->cols * size;
    int64_t words = m->dtype == TW_F32 ? m->cols : m->cols / 2;
    bool is_odd = m->dtype != TW_F32 && m->cols % 2;
    int64_t n0 = panel * TWP_PANEL;
    int64_t rows = m->rows - n0 < TWP_PANEL ? m->rows - n0 : TWP_PANEL;
    uint32_t *to = (uint32_t *)b->to + panel * (words + is_odd) * TWP_PANEL;
    const char *row0 = (const char *)m->data + (size_t)n0 * row_bytes;
    panel_words(to, row0, row_bytes, rows, words);
    for (int64_t j = 0; is_odd && j < TWP_PANEL; j++) {
        uint16_t last = 0;
        if (j < rows)
            memcpy(&last, row0 + (size_t)(j + 1) * row_bytes - 2, 2);
        to[words * TWP_PANEL + j] = last;
    }
}

#define STRIP 64  /* rows of a transposed strip */
#define DEPTH 128 /* columns of it that are put at once */

/* to[f][d] = from[d][f] for a block that lies in cache. */
static void flip16(uint16_t *to, const uint16_t *from)
{
    for (int f = 0; f < STRIP; f++)
        for (int d = 0; d < DEPTH; d++)
            to[f * DEPTH + d] = from[d * STRIP + f];
}

static void flip32(uint32_t *to, const uint32_t *from)
{
    for (int f = 0; f < STRIP; f++)
        for (int d = 0; d < DEPTH; d++)
            to[f * DEPTH + d] = from[d * STRIP + f];
}

/* Rows f0 .. f0+63 of to[f][d] from from[d][f]; columns past d are zero. Whole
 * lines go through a block on the stack, since the rows of both sides are often
 * multiples of 4 KiB apart, which few ways of a cache can hold. */
static void build_transposed(void *arg, int worker, int64_t strip)
{
    (void)worker;
    const struct build *b = arg;
    const struct tw_matrix *m = b->from;
    size_t size = tw_dtype_size(m->dtype), stride = (size_t)b->stride * size;
    int64_t f0 = strip * STRIP;
    size_t n = (size_t)(m->cols - f0 < STRIP ? m->cols - f0 : STRIP);
    uint32_t in[DEPTH * STRIP], out[DEPTH * STRIP];
    memset(in, 0, sizeof in);
    for (int64_t d0 = 0; d0 < b->stride; d0 += DEPTH) {
        int64_t d1 = m->rows - d0 < DEPTH ? m->rows : d0 + DEPTH;
        if (d1 - d0 < DEPTH)
            memset(in, 0, sizeof in);
        for (int64_t d = d0; d < d1; d++)
            memcpy((char *)in + (size_t)(d - d0) * STRIP * size,
                   (const char *)m->data + (size_t)(d * m->cols + f0) * size,
                   n * size);
        if (size == 2)
            flip16((void *)out, (const void *)in);
        else
            flip32(out, in);
        char *to = (char *)b->to + (size_t)f0 * stride + (size_t)d0 * size;
        size_t left = stride - (size_t)d0 * size, line = DEPTH * size;
        for (size_t f = 0; f < n; f++)
            memcpy(to + f * stride, (const char *)out + f * line,
                   left < line ? left : line);
    }
}

static void build_padded(void *arg, int worker, int64_t strip)
{
    (void)worker;
    const struct build *b = arg;
    const struct tw_matrix *m = b->from;
    size_t size = tw_dtype_size(m->dtype), used = (size_t)m->cols * size;
    size_t stride = (size_t)b->stride * size;
    for (int64_t f = strip * STRIP; f < (strip + 1) * STRIP && f < m->rows;
         f++) {
        char *to = (char *)b->to + (size_t)f * stride;
        memcpy(to, (const char *)m->data + (size_t)f * used, used);
        memset(to + used, 0, stride - used);
    }
}

static const struct tw_matrix *source_of(const struct tw_ffn *ffn,
                                         enum twp_copy_kind kind)
{
    if (kind == TWP_GATE_PANELS)
        return &ffn->desc.gate;
    if (kind == TWP_UP_PANELS || kind == TWP_UP_ROWS)
        return &ffn->desc.up;
    return &ffn->desc.down;
}

static size_t copy_bytes(const struct tw_ffn *ffn, enum twp_copy_kind kind)
{
    const struct tw_matrix *m = source_of(ffn, kind);
    size_t size = tw_dtype_size(m->dtype);
    if (kind == TWP_UP_ROWS || kind == TWP_DOWN_ROWS)
        return (size_t)ffn->desc.d_ff * (size_t)ffn->width * size;
    size_t words = (size_t)(size == 4 ? m->cols : (m->cols + 1) / 2);
    size_t panels = (size_t)(m->rows + TWP_PANEL - 1) / TWP_PANEL;
    return panels * words * TWP_PANEL * 4;
}

enum tw_status twp_ffn_copy(struct twp_cpu *cpu, struct tw_ffn *ffn,
                            enum twp_copy_kind kind, struct tw_error *err)
{
    struct twp_copy *copy = &ffn->copy[kind];
    if (copy->data)
        return TW_OK;
    size_t bytes = copy_bytes(ffn, kind);
    copy->is_kept = cpu->kept_bytes + (int64_t)bytes <= cpu->keep_bytes;
    copy->data =
        copy->is_kept ? tw_alloc_aligned(bytes, 1) : take_memory(cpu, &bytes);
    if (!copy->data)
        return tw_error_set(err, TW_ERR_NOMEM,
                            "out of memory for a layer's weights");
    copy->bytes = bytes;
    if (copy->is_kept) {
        cpu->kept_bytes += (int64_t)bytes;
    } else if (!ffn->is_open) {
        ffn->is_open = true;
        ffn->next = cpu->ffn->open;
        cpu->ffn->open = ffn;
    }
    const struct tw_matrix *from = source_of(ffn, kind);
    struct build build = {from, copy->data, ffn->width};
    int64_t strips = (ffn->desc.d_ff + STRIP - 1) / STRIP;
    if (kind == TWP_DOWN_ROWS)
        tw_threads_run(cpu->threads, build_transposed, &build, strips);
    else if (kind == TWP_UP_ROWS)
        tw_threads_run(cpu->threads, build_padded, &build, strips);
    else
        tw_threads_run(cpu->threads, build_panel, &build,
                       (from->rows + TWP_PANEL - 1) / TWP_PANEL);
    return TW_OK;
}

void twp_ffn_drop(struct twp_cpu *cpu, struct tw_ffn *ffn, bool with_kept)
{
    for (int i = 0; i < TWP_COPIES; i++) {
        struct twp_copy *copy = &ffn->copy[i];
        if (!copy->data || (copy->is_kept && !with_kept))
            continue;
        if (copy->is_kept) {
            cpu->kept_bytes -= (int64_t)copy->bytes;
            tw_free(copy->data);
            *copy = (struct twp_copy){0};
        } else {
            give_memory(cpu, copy);
        }
    }
    if (!ffn->is_open)
        return;
    struct tw_ffn **at = &cpu->ffn->open;
    while (*at != ffn)
        at = &(*at)->next;
    *at = ffn->next;
    ffn->is_open = false;
}

void twp_cpu_ffn_layer_end(struct twp_cpu *cpu)
{
    while (cpu->ffn && cpu->ffn->open)
        twp_ffn_drop(cpu, cpu->ffn->open, false);
}
