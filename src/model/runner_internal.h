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
    TW_FFN_IN, /* [D] normed for a parallel feed-forward part; as needed */
    TW_PART,   /* [D] what a part adds, before it is added; as needed */
    TW_NARROW, /* [E] before embed_in and after embed_out; as needed */
    TW_Q,      /* [H*head_dim] */
    TW_K,      /* [kv_heads*head_dim] */
    TW_V,      /* [kv_heads*head_dim] */
    TW_MIXED,  /* what attention gives, [H*head_dim] */
    TW_BUFFERS
};

/* A batch from submit to collect. */
#define TWP_MAX_FLIGHTS 4
struct twp_flight {
    struct tw_batch batch; /* its arrays are the caller's */
    struct tw_layer_obs *obs;
    bool is_timed;
    bool is_done; /* the backend is done with it, with that status: */
    enum tw_status status;
    struct tw_error error;
};

struct tw_runner {
    const struct tw_model *model;
    const struct tw_ops *ops;
    void *ctx;
    struct tw_loaded *layer;                            /* [L] */
    struct tw_weight *embed, *head;                     /* tied: the same */
    struct tw_weight *embed_in, *embed_out, *positions; /* NULL: none */
    void *buffer[TW_BUFFERS];
    int64_t rows; /* that the buffers hold */
    int64_t most_rows; /* that they are made for at once */
    bool has_marks;    /* around each layer */
    struct twp_flight flight[TWP_MAX_FLIGHTS]; /* ring: */
    int oldest, flights;                       /* its first, how many */
    double last_ns, busy_ns; /* of the last batch, of all */
};

/* Marks of a layer. */
enum twp_mark {
    TWP_MARK_LAYER, /* its input is there */
    TWP_MARK_FFN,   /* before and after the operation ffn */
    TWP_MARK_FFN_END,
    TWP_MARK_LAYER_END,
    TWP_MARKS
};
/* The backend's numbers of a layer's mark, and of a batch's first and last. */
int twp_mark_index(int64_t layer, enum twp_mark mark);
int twp_mark_batch(int flight, bool is_end);
/* Puts a mark where layers have them. */
TW_MUST_USE enum tw_status twp_mark_put(struct tw_runner *runner, int index,
                                        struct tw_error *err);

/* The started batch of `rows` through the network. */
TW_MUST_USE enum tw_status twp_runner_pass(struct tw_runner *runner,
                                           int64_t rows,
                                           const struct tw_probes *probes,
                                           struct tw_layer_obs *obs,
                                           struct tw_head_obs *head,
                                           const struct tw_logits *logits,
                                           struct tw_error *err);
/* Waits for every batch in flight; they are still to be collected. */
void twp_runner_wait(struct tw_runner *runner);

/* What a layer's part gives is added by the product itself unless something
 * stands between: a norm, a factor. */
bool twp_is_added_directly(const struct tw_layer *layer,
                           const struct tw_norm *out_norm);
/* Does the feed-forward part read the residual stream itself? */
bool twp_reads_stream(const struct tw_layer *layer);

/* Floats of a row in all the buffers that the model needs. */
int64_t twp_runner_width(const struct tw_model *model);

/* Room for batches of `rows` rows, or of most_rows if that is more. */
TW_MUST_USE enum tw_status twp_runner_grow(struct tw_runner *runner,
                                           int64_t rows, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
