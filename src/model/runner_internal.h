/* Inside src/model: what a runner holds. */
#ifndef TW_MODEL_RUNNER_INTERNAL_H
#define TW_MODEL_RUNNER_INTERNAL_H

#include "model/forward.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A layer's weights in the backend's form. */
struct tw_loaded {
    struct tw_weight *q, *k, *v, *o;
    struct tw_ffn *ffn;
};

/* Activation buffers, [rows][width]. */
enum tw_buffer {
    TW_X,      /* the residual stream, [D] */
    TW_NORMED, /* [D] */
    TW_Q,      /* [H*head_dim] */
    TW_K,      /* [kv_heads*head_dim] */
    TW_V,      /* [kv_heads*head_dim] */
    TW_MIXED,  /* what attention gives, [H*head_dim] */
    TW_BUFFERS
};

struct tw_runner {
    const struct tw_model *model;
    const struct tw_ops *ops;
    void *ctx;
    struct tw_loaded *layer; /* [L] */
    struct tw_weight *embed, *head; /* tied: the same */
    void *buffer[TW_BUFFERS];
    int64_t rows;         /* that the buffers hold */
};

/* Room for batches of `rows` rows. */
TW_MUST_USE enum tw_status twp_runner_grow(struct tw_runner *runner,
                                           int64_t rows, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
