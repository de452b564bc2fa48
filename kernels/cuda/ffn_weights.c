/* The weights of a feed-forward layer: on the device, or in the block of a
 * layer that the host keeps. W_down stands there twice where a layer can be
 * sparse: rows for the products, columns for the gather, which the device makes
 * of the rows (less than the bus would take for them). */
#include <config.h>

#include "kernels/cuda/layers.h"

#include <cuda_runtime_api.h>

#include "base/memory.h"

enum { GATE, UP, DOWN, DOWN_T };

static enum tw_status load_bias(const struct tw_matrix *m, float **out,
                                struct tw_error *err)
{
    if (!m->data)
        return TW_OK;
    size_t padded = (size_t)(m->cols + TWP_TILE - 1) / TWP_TILE * TWP_TILE;
    float *host = tw_calloc(padded, sizeof *host);
    if (!host)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a bias");
    tw_widen(host, m->data, m->dtype, (size_t)m->cols);
    void *device = NULL;
    enum tw_status status =
        twp_device_alloc(&device, padded * sizeof *host, err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaMemcpy(device, host, padded * sizeof *host,
                                           cudaMemcpyHostToDevice),
                                "a bias", err);
    *out = device;
    tw_free(host);
    return status;
}

void twp_ffn_matrix_bytes(const struct tw_ffn *ffn, size_t *copied,
                          size_t *made)
{
    size_t in = twp_block_align((size_t)ffn->f * (size_t)ffn->d * 2);
    size_t down = (size_t)ffn->d_model * (size_t)ffn->f_stride * 2;
    *copied = (ffn->is_gated ? 2 : 1) * in + twp_block_align(down);
    *made = ffn->can_pack ? in : 0;
}

static enum tw_status make_columns(const struct tw_ffn *ffn, void *down_t,
                                   const void *down, struct CUstream_st *stream,
                                   struct tw_error *err)
{
    size_t bytes = (size_t)ffn->f * (size_t)ffn->d * 2;
    enum tw_status status = TW_OK;
    if (ffn->d != ffn->d_model) /* zeros between */
        status = twp_cuda_check(cudaMemsetAsync(down_t, 0, bytes, stream),
                                "weights", err);
    return status == TW_OK
               ? tw_launch_transpose(down_t, ffn->d, down, ffn->f_stride,
                                     ffn->d_model, ffn->f, stream, err)
               : status;
}

static enum tw_status make_maps(struct tw_ffn *ffn, struct tw_error *err)
{
    int64_t d = ffn->d, f = ffn->f;
    enum tw_status status = TW_OK;
    if (ffn->gate)
        status =
            twp_map_encode(&ffn->gate_map, ffn->type, ffn->gate, f, d, d, err);
    if (status == TW_OK)
        status = twp_map_encode(&ffn->up_map, ffn->type, ffn->up, f, d, d, err);
    if (status == TW_OK)
        status = twp_map_encode(&ffn->down_map, ffn->type, ffn->down,
                                ffn->d_model, f, ffn->f_stride, err);
    return status;
}

static enum tw_status load_matrices(struct tw_ffn *ffn,
                                    const struct tw_ffn_desc *desc,
                                    struct tw_error *err)
{
    const struct {
        const struct tw_matrix *matrix;
        int64_t stride;
        void **device;
    } parts[] = {[GATE] = {&desc->gate, ffn->d, &ffn->gate},
                 [UP] = {&desc->up, ffn->d, &ffn->up},
                 [DOWN] = {&desc->down, ffn->f_stride, &ffn->down}};
    enum tw_status status = TW_OK;
    for (int i = 0; i < DOWN_T && status == TW_OK; i++)
        status = ffn->layer
                     ? twp_layer_put(ffn->layer, parts[i].matrix, ffn->type,
                                     parts[i].stride, &ffn->at[i], err)
                     : twp_matrix_load(parts[i].matrix, ffn->type,
                                       parts[i].stride, parts[i].device, err);
    return status;
}

/* What the device makes of the matrices. */
static enum tw_status complete_here(struct tw_ffn *ffn, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (ffn->can_pack)
        status = twp_device_alloc(&ffn->down_t,
                                  (size_t)ffn->f * (size_t)ffn->d * 2, err);
    if (status == TW_OK && ffn->can_pack)
        status = make_columns(ffn, ffn->down_t, ffn->down, NULL, err);
    if (status == TW_OK)
        status = make_maps(ffn, err);
    if (status == TW_OK)
        status = twp_cuda_check(cudaDeviceSynchronize(), "weights", err);
    return status;
}

enum tw_status twp_ffn_weights_load(struct tw_ffn *ffn,
                                    const struct tw_ffn_desc *desc,
                                    struct tw_error *err)
{
    enum tw_status status = load_matrices(ffn, desc, err);
    if (status == TW_OK)
        status = load_bias(&desc->gate_bias, &ffn->gate_bias, err);
    if (status == TW_OK)
        status = load_bias(&desc->up_bias, &ffn->up_bias, err);
    if (status == TW_OK)
        status = load_bias(&desc->down_bias, &ffn->down_bias, err);
    if (status != TW_OK)
        return status;
    if (!ffn->layer)
        return complete_here(ffn, err);
    ffn->at[DOWN_T] = ffn->layer->room;
    ffn->layer->ffn = ffn;
    return TW_OK;
}

void twp_ffn_weights_free(struct tw_ffn *ffn)
{
    void *owned[] = {ffn->gate, ffn->up, ffn->down, ffn->down_t};
    void *bias[] = {ffn->gate_bias, ffn->up_bias, ffn->down_bias};
    for (size_t i = 0; !ffn->layer && i < sizeof owned / sizeof owned[0]; i++)
        twp_device_free(owned[i]);
    for (size_t i = 0; i < sizeof bias / sizeof bias[0]; i++)
        twp_device_free(bias[i]);
    if (ffn->layer && ffn->layer->ffn == ffn)
        ffn->layer->ffn = NULL;
}

enum tw_status twp_ffn_complete(const struct tw_ffn *ffn, char *block,
                                struct CUstream_st *stream,
                                struct tw_error *err)
{
    if (!ffn->can_pack)
        return TW_OK;
    return make_columns(ffn, block + ffn->at[DOWN_T], block + ffn->at[DOWN],
                        stream, err);
}

enum tw_status twp_ffn_bind(struct tw_ffn *ffn, char *block,
                            struct tw_error *err)
{
    ffn->gate = ffn->is_gated ? block + ffn->at[GATE] : NULL;
    ffn->up = block + ffn->at[UP];
    ffn->down = block + ffn->at[DOWN];
    ffn->down_t = ffn->can_pack ? block + ffn->at[DOWN_T] : NULL;
    return make_maps(ffn, err);
}
