/* A resolved model: what config.json means for its family, every tensor bound
 * and checked, the activation in use and where it came from. Ready for any
 * backend; holds no compute state (that is src/model/forward.h).
 *
 *     struct tw_model *model;
 *     struct tw_model_options options = {.threads = 2};
 *     tw_model_open("sparselm-tiny", &options, &model, &err);
 *     printf("%s from %s\n", model->activation.name,
 *            model->activation_source);
 *     tw_model_close(model);
 *
 * To add a family: one row in families.c and one small file (family.h).
 *
 * Shape letters of this room: B sequences of a batch, T their tokens, D model
 * width, E embedding width (D but for OPT 350m), F hidden neurons, H heads, L
 * layers, V vocabulary. */
#ifndef TW_MODEL_MODEL_H
#define TW_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "kernels/ops.h"
#include "load/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How feed-forward layers are computed. */
enum tw_model_path {
    TW_MODEL_PATH_AUTO, /* TwELL where the activation, or --apply gate-abs,
                         * leaves zeros; else dense */
    TW_MODEL_PATH_TWELL,
    TW_MODEL_PATH_DENSE
};

struct tw_model_options {
    const char *activation;        /* NAME[:ARG] instead of the family's */
    const struct tw_active *apply; /* --apply, copied; NULL: none */
    enum tw_model_path path;
    int threads; /* for hashing, >= 1 */
};

/* One transformer layer, as a set of facts that the forward pass follows:
 *
 *     a = out_norm(attention(q_norm, k_norm, rope of attn_norm(x)))
 *     x = sum_norm(x + residual_scale a)
 *
 * and the same for the feed-forward part. Absent matrices have data NULL,
 * absent norms kind TW_NORM_NONE. */
struct tw_layer {
    struct tw_norm attn_norm; /* before attention */
    struct tw_matrix q;       /* [H*head_dim][D] */
    struct tw_matrix k, v;    /* [kv_heads*head_dim][D] */
    struct tw_matrix o;       /* [D][H*head_dim] */
    struct tw_matrix q_bias, k_bias, v_bias, o_bias;
    struct tw_norm q_norm, k_norm; /* before rope */
    const struct tw_rope *rope;    /* of the model; NULL: none */
    struct tw_attention attention;
    struct tw_norm attn_out_norm; /* of what attention adds (Gemma 2, OLMo 2) */
    struct tw_norm attn_sum_norm; /* of the sum (OPT 350m) */
    struct tw_norm ffn_norm;      /* before the feed-forward part */
    struct tw_ffn_desc ffn;
    struct tw_norm ffn_out_norm, ffn_sum_norm;
    float residual_scale; /* on what either part adds; 1 */
    /* Both parts read the layer's input, and their sum is added (GPT-NeoX).
     * Without ffn_norm the feed-forward part reads what attention reads. */
    bool is_parallel;
};

struct tw_family;

struct tw_model {
    /* Facts, for printing and for the database. */
    const char *model_type;         /* the table's, static: "llama" */
    const struct tw_family *family; /* that row, for this room */
    int64_t layers, d_model, d_ff;  /* L, D, F */
    int64_t heads, kv_heads, head_dim;
    int64_t d_embed; /* E; 0 while resolving: as d_model */
    int64_t vocab;
    int64_t max_position;   /* that the model was made for; 0: unsaid */
    int64_t position_limit; /* no sequence can be longer; 0: no limit */
    char limit_reason[96];  /* of position_limit: "learned positions" */
    int64_t experts;        /* 0: dense feed-forward layers */
    bool is_gated;
    struct tw_activation activation;
    char activation_source[160]; /* "config.json", "override", "family..." */
    bool is_activation_assumed;    /* no file names it */
    char head_source[160];       /* "lm_head.weight", "... (tied)" */
    char position_text[160];     /* "rope, theta 5e+05, llama3 x8" */
    const char *dtype;           /* of nine tenths of the elements, else
                                  * "mixed": static */
    int64_t parameters, bytes;   /* of the tensors in use */
    int64_t loaded_bytes;        /* of those, not mapped but made at loading:
                                  * GGUF's blocks turned into floats */
    char hash[65];               /* tw_tensors_hash */

    /* The network. Matrices point into the mapped checkpoint or into owned. */
    struct tw_matrix embed; /* [V][E] */
    float embed_scale;
    struct tw_matrix embed_in;  /* [D][E] after embed, may be absent */
    struct tw_matrix positions; /* [.][D] learned, may be absent: */
    int64_t position_first;     /* its row for position 0 */
    struct tw_norm embed_norm;  /* of the first layer's input */
    struct tw_layer *layer;     /* [L] */
    struct tw_norm final_norm;
    struct tw_matrix embed_out; /* [E][D] before the head, may be absent */
    struct tw_matrix head;      /* [V][E]; tied: the same data as embed */
    struct tw_head head_form;   /* bias, soft cap, scale */
    struct tw_rope rope;        /* dims 0: none */
    struct tw_rope local_rope;  /* of sliding layers, if it differs */
    float *inv_freq;            /* [rope.dims/2], rope points here */
    float *local_inv_freq;
    float *alibi; /* [H] slopes or NULL, owned */
    /* What layers start from, until a family says otherwise. */
    struct tw_norm norm; /* kind, eps, offset */
    struct tw_attention attention;
    bool is_up_activated; /* dReLU */
    void **owned;         /* copies of what is stored another way */
    size_t owned_count;
    int64_t owned_bytes;
    bool has_apply;
    struct tw_active apply;

    const struct tw_tensor *head_copy; /* a head equal to the tied embedding:
                                        * not counted, not unused; or NULL */
    struct tw_checkpoint checkpoint;   /* directory, name, config, tensors */
};

/* Opens a checkpoint (as tw_checkpoint_open finds it), resolves its family by
 * model_type alone, binds and checks every tensor, hashes them all. Returns
 * TW_OK; TW_ERR_UNSUPPORTED for a family, activation or option that is not
 * supported, naming it and what is; TW_ERR_MISMATCH for a tensor of another
 * shape; TW_ERR_NOT_FOUND for a missing one; TW_ERR_NUMERIC for NaN or Inf in
 * weights; or what tw_checkpoint_open gives. */
TW_MUST_USE enum tw_status tw_model_open(const char *path,
                                         const struct tw_model_options *options,
                                         struct tw_model **model,
                                         struct tw_error *err);
void tw_model_close(struct tw_model *model);

/* Tensors of the file that the model does not use, by name; those that the
 * family is known to carry and not need (rotary_emb.inv_freq, causal masks,
 * predictors) are left out. NULL: no more.
 *     for (size_t at = 0; (name = tw_model_unused(model, &at));) */
const char *tw_model_unused(const struct tw_model *model, size_t *at);

/* Memory that a pass with batches of `rows` rows needs on the cpu backend. */
struct tw_model_memory {
    int64_t mapped_bytes;  /* weights as stored, paged in from the file */
    int64_t loaded_bytes;  /* floats made of quantised weights, and weights in
                            * another order than the file's */
    int64_t copied_bytes;  /* copies of fused or transposed weights */
    int64_t widened_bytes; /* float copies of the weights that are not F32, if
                            * all are kept between batches */
    int64_t layer_bytes;   /* such copies of the largest layer or the head:
                            * what is needed if none are kept */
    int64_t buffer_bytes;  /* activations */
    int64_t obs_bytes;     /* counts: one definition */
};
void tw_model_memory(const struct tw_model *model, int64_t rows,
                     struct tw_model_memory *memory);

/* Writes "llama, llama_sparse_relu": the families of the table. */
void tw_model_families(char *text, size_t size);
/* Calls fn for each family of the table: its model_type, and a line on what is
 * particular in it. */
typedef void tw_family_fn(void *arg, const char *model_type, const char *note);
void tw_model_each_family(tw_family_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif
