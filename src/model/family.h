/* Inside src/model: the table of families, and what their files share.
 *
 * A family is a row: its model_type, how config.json fills the model's facts,
 * how the checkpoint's tensors are bound. resolve runs first; between the two,
 * model.c checks the facts against the checkpoint and makes the layers. What
 * the families share are parts: sizes, rotary positions (rope.c), and a form of
 * tensor names that one function binds (bind_form.c). doc/FAMILIES.md shows how
 * a family is added. */
#ifndef TW_MODEL_FAMILY_H
#define TW_MODEL_FAMILY_H

#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_family {
    const char *model_type;
    const char *note; /* what is particular, a line for `info --list` */
    /* Fills sizes, activation, rope, norm, attention: all that config.json
     * says. model->layer is NULL still. */
    enum tw_status (*resolve)(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err);
    /* Binds every tensor; model->layer has room for all. */
    enum tw_status (*bind)(struct tw_model *model, struct tw_error *err);
    /* Parts of names of tensors that are known and not needed, NULL-ended; may
     * be NULL. */
    const char *const *ignored;
};

/* The row of a model_type, or TW_ERR_UNSUPPORTED listing the table. */
TW_MUST_USE enum tw_status twp_family_find(const char *model_type,
                                           const struct tw_family **family,
                                           struct tw_error *err);

/* ---- config.json -------------------------------------------------------- */

/* The integer `field`, 1 to 2^31-1; fallback 0: it must be there. */
TW_MUST_USE enum tw_status twp_size(struct tw_model *model, const char *field,
                                    int64_t fallback, int64_t *value,
                                    struct tw_error *err);

/* Names of the fields that hold the sizes; NULL: the family has no such field
 * and the size is derived. */
struct twp_size_names {
    const char *d_model, *d_ff, *layers, *heads, *kv_heads, *head_dim;
    const char *max_position;
    int64_t default_head_dim; /* 0: d_model / heads */
    int64_t default_d_ff;     /* 0: the field must be there; -4: 4 d_model */
    /* Of published files that leave them out; 0: the field must be there, and
     * key-value heads are as many as heads. */
    int64_t default_heads, default_kv_heads, default_vocab;
    int64_t default_max_position;
};
/* All of them, vocab_size, and that heads share key-value heads evenly. Sets
 * model->attention with scale 1 / sqrt(head_dim). Refuses quantization_config.
 */
TW_MUST_USE enum tw_status twp_sizes(struct tw_model *model,
                                     const struct twp_size_names *names,
                                     struct tw_error *err);

/* The one of two names of a field that config.json has; the first if none. */
const char *twp_either(struct tw_model *model, const char *first,
                       const char *second);

/* A number of which null means none (0); absent: `fallback`. Negative ones are
 * refused. */
TW_MUST_USE enum tw_status twp_optional(struct tw_model *model,
                                        const char *field, double fallback,
                                        double *value, struct tw_error *err);
/* A factor: more than 0. fallback 0: it must be there. */
TW_MUST_USE enum tw_status twp_factor(struct tw_model *model, const char *field,
                                      double fallback, double *value,
                                      struct tw_error *err);

/* model->norm: its kind, and eps from `field`, between 0 and 1. */
TW_MUST_USE enum tw_status twp_norm_eps(struct tw_model *model,
                                        enum tw_norm_kind kind,
                                        const char *field, double fallback,
                                        struct tw_error *err);

/* Sets activation and its source: the override if there is one, else `name`
 * (fatrelu takes its argument from config.json's hidden_act_param). */
TW_MUST_USE enum tw_status
twp_activation(struct tw_model *model, const struct tw_model_options *options,
               const char *name, const char *source, struct tw_error *err);
/* The same by the config field that names it; where it is absent the family's
 * own default. */
TW_MUST_USE enum tw_status
twp_activation_or(struct tw_model *model,
                  const struct tw_model_options *options, const char *field,
                  const char *fallback, struct tw_error *err);
/* The same; the field must be there. */
TW_MUST_USE enum tw_status
twp_activation_field(struct tw_model *model,
                     const struct tw_model_options *options, const char *field,
                     struct tw_error *err);

/* TW_ERR_UNSUPPORTED unless the boolean `field` is absent or `wanted`. */
TW_MUST_USE enum tw_status twp_only_bool(struct tw_model *model,
                                         const char *field, bool wanted,
                                         struct tw_error *err);

/* What a family says where config.json says nothing. */
struct twp_rope_rules {
    int64_t dims;    /* rotated; 0: head_dim times the fraction */
    double fraction; /* partial_rotary_factor; 0: whole heads, and a file that
                      * says otherwise is refused */
    double theta;    /* 0: 10000 */
    bool is_interleaved;
};
/* rope_parameters, rope_scaling and rope_theta into model->rope, and
 * position_limit where a scaling rule depends on the sequence's length. */
TW_MUST_USE enum tw_status twp_rope(struct tw_model *model,
                                    const struct twp_rope_rules *rules,
                                    struct tw_error *err);
/* Frequencies of the object ("rope_parameters.full_attention", NULL: no
 * scaling), theta where it has none, of `dims` dimensions; *inv_freq is the
 * caller's. Appends to position_text. */
TW_MUST_USE enum tw_status twp_rope_of(struct tw_model *model,
                                       const char *object, double theta,
                                       int64_t dims, struct tw_rope *rope,
                                       float **inv_freq, struct tw_error *err);

/* max_position is a limit: there is no row for the positions past it. */
void twp_learned_positions(struct tw_model *model);

/* Every layer's slopes for attention with linear biases. After twp_bind, which
 * vouches for the number of heads. */
TW_MUST_USE enum tw_status twp_alibi(struct tw_model *model,
                                     struct tw_error *err);

/* sliding_window: 1 to 2^31-1 keys; null: 0, none; absent: `fallback`. */
TW_MUST_USE enum tw_status twp_window(struct tw_model *model, int64_t fallback,
                                      int64_t *window, struct tw_error *err);

/* Which layers see only a window of the last keys: those that layer_types calls
 * so, where config.json has it, else those of is_sliding(number, pattern). */
struct twp_windows {
    int64_t window; /* keys; 0: all after all */
    bool (*is_sliding)(int64_t number, int64_t pattern); /* NULL: none */
    int64_t pattern;
    const struct tw_rope *rope; /* of such layers; NULL: as all */
};
TW_MUST_USE enum tw_status twp_windows(struct tw_model *model,
                                       const struct twp_windows *windows,
                                       struct tw_error *err);

/* ---- tensors ------------------------------------------------------------ */

/* Takes "PREFIX.NAME" (prefix NULL: NAME) of shape [rows][cols], or [cols]
 * where rows is 0. */
TW_MUST_USE enum tw_status twp_take(struct tw_model *model, const char *prefix,
                                    const char *name, int64_t rows,
                                    int64_t cols, struct tw_matrix *matrix,
                                    struct tw_error *err);

/* Binds embed, which must have config.json's vocab_size rows, and the head:
 * `head` ("lm_head.weight") or, with is_tied, the embedding. */
TW_MUST_USE enum tw_status twp_embedding(struct tw_model *model,
                                         const char *embed, const char *head,
                                         bool is_tied, struct tw_error *err);

/* Rows first .. first+rows-1, where they lie. */
struct tw_matrix twp_rows(const struct tw_matrix *from, int64_t first,
                          int64_t rows);
/* The same of a vector (rows 1). */
struct tw_matrix twp_part(const struct tw_matrix *from, int64_t first,
                          int64_t count);
/* A copy, owned by the model, of rows that aren't together: of each of `groups`
 * runs of `stride` rows those from `first` on, `rows` of them. A vector is
 * taken as that many rows of one. */
TW_MUST_USE enum tw_status
twp_gather(struct tw_model *model, const struct tw_matrix *from, int64_t groups,
           int64_t stride, int64_t first, int64_t rows, struct tw_matrix *out,
           struct tw_error *err);
/* An owned copy, [cols][rows]. */
TW_MUST_USE enum tw_status twp_transpose(struct tw_model *model,
                                         const struct tw_matrix *from,
                                         struct tw_matrix *out,
                                         struct tw_error *err);
/* An owned [count][cols] of vectors of one type. */
TW_MUST_USE enum tw_status twp_stack(struct tw_model *model,
                                     const struct tw_matrix *from,
                                     int64_t count, struct tw_matrix *out,
                                     struct tw_error *err);

enum twp_qk_norm {
    TWP_QK_HEAD,  /* one weight [head_dim] for every head */
    TWP_QK_EACH,  /* [heads][head_dim] */
    TWP_QK_WHOLE, /* [heads*head_dim], over the whole width */
};

/* Where a family's tensors stand: names of modules, to which ".weight" and
 * ".bias" are added. Those of a layer follow "LAYERS.n."; NULL: no such part.
 * A norm is model->norm with its weights. */
struct twp_form {
    /* What all names but the head's may begin with, "" for nothing, up to NULL:
     * the first with which the embedding is there. NULL: nothing. */
    const char *const *bases;
    const char *embed_in, *embed_out;
    const char *embed, *positions, *embed_norm, *layers, *final_norm, *head;
    const char *attn_norm, *attn_out_norm, *attn_sum_norm;
    const char *ffn_norm, *ffn_out_norm, *ffn_sum_norm;
    const char *q, *k, *v, *o;
    const char *qkv; /* one tensor: rows of q, then k, then v */
    const char *q_norm, *k_norm;
    const char *gate, *up, *down; /* down NULL: the family binds all three */
    const char *gate_up;          /* one tensor: rows of gate, then up */
    enum twp_qk_norm qk_norm;
    bool is_qkv_grouped; /* instead: for each key-value head its q's, k, v */
    bool is_transposed;  /* layers' weights are [in][out] (GPT-2's Conv1D) */
    bool has_qkv_bias, has_o_bias, has_ffn_bias, has_norm_bias, has_head_bias;
    bool is_norm_bare; /* norms have no weights */
    bool is_parallel;  /* of all layers */
    bool is_tied;
};
/* Binds all that the form names. */
TW_MUST_USE enum tw_status twp_bind(struct tw_model *model,
                                    const struct twp_form *form,
                                    struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
