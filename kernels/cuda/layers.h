/* Layers that the device's memory doesn't hold: their matrices lie in the
 * host's, as the device wants them, and are copied into a ring of two blocks,
 * one layer ahead of what computes. Private to kernels/cuda and its tests. */
#ifndef TW_KERNELS_CUDA_LAYERS_H
#define TW_KERNELS_CUDA_LAYERS_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda_internal.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TWP_BLOCKS 2

/* A layer on the host: what is copied to the head of a block. */
struct twp_layer {
    char *host;         /* pinned, of streaming->layer_bytes */
    size_t room, used;  /* bytes */
    struct tw_ffn *ffn; /* which makes the rest of the block, or NULL */
};

struct twp_block {
    char *at;
    struct twp_layer *holds; /* NULL: none whole */
    cudaEvent_t ready;       /* it is copied */
    cudaEvent_t passed;      /* nothing computes with what was there before */
};

struct twp_streaming {
    int64_t count, streamed; /* layers of the model, of them on the host */
    struct twp_layer *layer; /* [streamed] */
    size_t layer_bytes, block_bytes;
    struct twp_block block[TWP_BLOCKS];
    int current; /* the block asked for last */
    cudaStream_t copy;
    char text[160]; /* for the user */
};

struct twp_cuda;

/* place.c: the ops row's slots. */
enum tw_status twp_cuda_layer_load(void *ctx, const struct tw_layers *layers,
                                   int64_t number, struct tw_error *err);
const char *twp_cuda_weights(void *ctx);
/* NULL is allowed; the device is done with it. */
void twp_streaming_destroy(struct twp_streaming *streaming);

/* Matrices in a block start at multiples of it. */
static inline size_t twp_block_align(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* ring.c. Makes the blocks and room for the layers; sizes and counts are set
 * beforehand. Returns TW_OK or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status twp_ring_init(struct twp_streaming *streaming,
                                         struct tw_error *err);
/* Also of one half made. */
void twp_ring_fini(struct twp_streaming *streaming);
/* The layer's block for what is launched on the context's stream from here to
 * the next such call, which waits there until it is filled; the next layer
 * starts to be copied. */
TW_MUST_USE enum tw_status twp_ring_enter(struct twp_cuda *cuda,
                                          struct twp_layer *layer, char **block,
                                          struct tw_error *err);

/* weights.c. A place in the layer's block for the matrix as `type`, rows
 * `stride` apart: its offset. */
TW_MUST_USE enum tw_status twp_layer_put(struct twp_layer *layer,
                                         const struct tw_matrix *matrix,
                                         enum tw_dtype type, int64_t stride,
                                         size_t *offset, struct tw_error *err);

/* ffn_weights.c. Bytes of a layer's matrices: copied, and made of them behind
 * on the device. */
void twp_ffn_matrix_bytes(const struct tw_ffn *ffn, size_t *copied,
                          size_t *made);
/* Weights of a twp_ffn_shape, on the device or, where ffn->layer isn't NULL,
 * in that one. */
TW_MUST_USE enum tw_status twp_ffn_weights_load(struct tw_ffn *ffn,
                                                const struct tw_ffn_desc *desc,
                                                struct tw_error *err);
void twp_ffn_weights_free(struct tw_ffn *ffn);
/* On the stream, once the layer's copy is in the block: the rest of it. */
TW_MUST_USE enum tw_status twp_ffn_complete(const struct tw_ffn *ffn,
                                            char *block,
                                            struct CUstream_st *stream,
                                            struct tw_error *err);
/* The weights are those in the block. */
TW_MUST_USE enum tw_status twp_ffn_bind(struct tw_ffn *ffn, char *block,
                                        struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
