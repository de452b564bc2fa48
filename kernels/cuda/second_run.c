/* The second pass of a call: its memory, and its kernels row by row. Dense rows
 * come in parts of bounded memory: the fp32 h of one is used and gone before
 * the next part is hidden. */
#include <config.h>

#include "kernels/cuda/second.h"

#include "kernels/cuda/context.h"

#define BLOCKS_EACH 4 /* of select, on a multiprocessor */

enum tw_status twp_second_init(struct twp_cuda *cuda, struct tw_error *err)
{
    struct twp_second_memory *second = &cuda->second;
    second->part_bytes = TWP_SECOND_BYTES;
    cudaError_t error =
        cudaEventCreateWithFlags(&second->written, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error =
            cudaEventCreateWithFlags(&second->copied, cudaEventDisableTiming);
    return twp_cuda_check(error, "event", err);
}

void twp_second_fini(struct twp_cuda *cuda)
{
    struct twp_second_memory *second = &cuda->second;
    twp_memory_fini(&second->work);
    twp_memory_fini(&second->sets);
    if (second->written)
        cudaEventDestroy(second->written);
    if (second->copied)
        cudaEventDestroy(second->copied);
}

static int32_t part_rows(const struct twp_cuda *cuda, const struct tw_ffn *ffn,
                         int32_t rows, int matrices)
{
    int64_t row_bytes = ffn->f_stride * matrices * (int64_t)sizeof(float);
    int64_t part = cuda->second.part_bytes / row_bytes / TWP_SECOND_STEP;
    part = (part > 1 ? part : 1) * TWP_SECOND_STEP;
    if (part < rows)
        return (int32_t)part;
    return rows > 0 ? rows : 1;
}

static size_t carve(const struct tw_ffn *ffn, int32_t rows,
                    const struct twp_second_wish *wish, char *memory,
                    struct twp_second_call *c)
{
    size_t at = 0, r = (size_t)rows, part = (size_t)c->part;
    size_t wide = part * (size_t)ffn->f_stride * sizeof *c->h;
    size_t listed = r * (size_t)(ffn->tiles * ffn->slots);
    struct twp_second *to = &c->to;
    bool has_top = false;
    for (int32_t d = 0; d < wish->defs; d++) {
        size_t words = r * (size_t)to->words;
        to->bits[d] = twp_place(memory, &at, words * sizeof *to->bits[d]);
        has_top |= wish->def[d].def.kind == TW_ACTIVE_TOPP;
    }
    if (has_top)
        to->scratch = twp_place(
            memory, &at, (size_t)(to->blocks * to->room) * sizeof *to->scratch);
    c->h = twp_place(memory, &at, wide);
    if (twp_second_needs_gate(ffn, wish, false))
        c->gate = twp_place(memory, &at, wide);
    if (!ffn->is_dense && twp_second_needs_gate(ffn, wish, true))
        c->listed_gate =
            twp_place(memory, &at, listed * sizeof *c->listed_gate);
    c->list = twp_place(memory, &at, r * sizeof *c->list);
    c->actual = twp_place(memory, &at, (r / part + 1) * sizeof *c->actual);
    return at;
}

enum tw_status twp_second_take(struct twp_cuda *cuda, const struct tw_ffn *ffn,
                               int32_t rows, const struct twp_second_wish *wish,
                               struct twp_second_call *call,
                               struct tw_error *err)
{
    int matrices = twp_second_needs_gate(ffn, wish, false) ? 2 : 1;
    int32_t blocks = cuda->device.multiprocessors * BLOCKS_EACH;
    struct twp_second *to = &call->to;
    to->rows = rows;
    to->cols = ffn->f;
    to->words = (ffn->f + 31) / 32;
    to->blocks = blocks < rows ? blocks : rows;
    to->room = twp_second_room(ffn->f);
    to->defs = wish->defs;
    for (int32_t d = 0; d < wish->defs; d++)
        to->def[d] = wish->def[d];
    call->cuda = cuda;
    call->part = part_rows(cuda, ffn, rows, matrices);
    size_t bytes = carve(ffn, rows, wish, NULL, call);
    enum tw_status status =
        twp_memory_grow(cuda, &cuda->second.work, bytes, err);
    if (status == TW_OK)
        carve(ffn, rows, wish, cuda->second.work.at, call);
    return status;
}

int32_t twp_second_parts(const struct twp_second_call *call,
                         const struct twp_rows *rows)
{
    return (rows->rows + call->part - 1) / call->part;
}

enum tw_status twp_second_divide(const struct twp_second_call *call,
                                 const struct twp_rows *rows,
                                 struct CUstream_st *stream,
                                 struct tw_error *err)
{
    if (twp_second_parts(call, rows) < 2)
        return TW_OK;
    return tw_launch_parts(rows, call->part, call->list, call->actual, stream,
                           err);
}

struct twp_rows twp_second_part(const struct twp_second_call *call,
                                const struct twp_rows *rows, int32_t i)
{
    if (twp_second_parts(call, rows) < 2)
        return *rows;
    int32_t from = i * call->part, left = rows->rows - from;
    return (struct twp_rows){.rows = left < call->part ? left : call->part,
                             .actual = call->actual + i,
                             .list =
                                 (rows->list ? rows->list : call->list) + from};
}

enum tw_status twp_second_rows(const struct twp_second_call *call,
                               const struct tw_ffn *ffn,
                               const struct twp_rows *rows,
                               const struct twp_list *list,
                               const struct twp_packed *packed,
                               struct CUstream_st *stream, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    struct twp_second to = call->to;
    struct twp_second_h h = {.rows = *rows, .stride = ffn->f_stride};
    for (int32_t d = 0; d < to.defs; d++)
        to.def[d].def = twp_second_rule(ffn, to.def[d].def, list != NULL);
    if (list) {
        h.list = *list;
        h.a = call->listed_gate;
    } else {
        h.h = call->h;
        h.a = call->gate;
    }
    if (list && call->listed_gate)
        status = tw_launch_gates(packed, list, rows->rows, call->listed_gate,
                                 stream, err);
    if (status == TW_OK)
        status = tw_launch_select(&to, &h, stream, err);
    if (status == TW_OK && call->magnitudes.abs_sum)
        status = tw_launch_magnitudes(&to, &h, &call->magnitudes, stream, err);
    if (status == TW_OK && call->start)
        status = twp_second_sets(call, &to, &h, err);
    return status;
}

enum tw_status twp_second_end(const struct twp_second_call *call,
                              struct CUstream_st *stream, struct tw_error *err)
{
    return tw_launch_columns(&call->to, stream, err);
}
