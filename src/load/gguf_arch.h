/* Inside src/load: what llama.cpp's converter makes of each architecture, as
 * tables, so that it can be turned back into the Hugging Face form that
 * src/model knows: fields of config.json, tensor names, orders of rows. To
 * add an architecture: a row in gguf_llama.c or gguf_gpt.c. */
#ifndef TW_LOAD_GGUF_ARCH_H
#define TW_LOAD_GGUF_ARCH_H

#include <jansson.h>

#include "load/gguf_internal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the converter did to a tensor and loading undoes. */
enum twp_gguf_undo {
    TWP_UNDO_NONE,
    TWP_UNDO_ROPE_Q, /* rotary pairs side by side: half-split again */
    TWP_UNDO_ROPE_K,
    TWP_UNDO_QKV,       /* all q, all k, all v: by groups of heads again */
    TWP_UNDO_PLUS_ONE,  /* a norm's weight + 1 */
    TWP_UNDO_JOIN,      /* q, k and v in one: three tensors again */
    TWP_UNDO_TRANSPOSE, /* GPT-2's Conv1D: [in][out] again */
    TWP_UNDO_STACK      /* rows of one tensor: tensors NAME.0, NAME.1, ... */
};

/* '%' is the layer; ".weight" or ".bias" follow. */
struct twp_gguf_name {
    const char *gguf, *hf; /* gguf NULL: the end */
    enum twp_gguf_undo undo;
};

enum twp_gguf_field_kind {
    TWP_FIELD_INT,
    TWP_FIELD_COUNT, /* an integer; 0: none, left out */
    TWP_FIELD_REAL,
    TWP_FIELD_BOOL
};

/* A field of config.json and the key it comes from; a key that starts with '.'
 * has the architecture before it. */
struct twp_gguf_field {
    const char *field, *key; /* field NULL: the end */
    enum twp_gguf_field_kind kind;
    bool is_optional;
};

/* What one architecture's config needs beside its fields. */
struct twp_gguf_making {
    struct tw_gguf *gguf;
    const struct twp_gguf_arch *arch;
    struct tw_config *config;
};
typedef enum tw_status twp_gguf_more_fn(struct twp_gguf_making *making,
                                        struct tw_error *err);

/* A field that is true where a tensor is there (or, is_when_absent, is not). */
struct twp_gguf_presence {
    const char *field, *tensor; /* field NULL: the end */
    bool is_when_absent;
};

struct twp_gguf_arch {
    const char *name;       /* general.architecture */
    const char *model_type; /* Hugging Face's */
    const char *only_with;  /* a tensor that this row is for, or NULL */
    const struct twp_gguf_field *fields, *more_fields;
    const char *width_field;      /* the rows of blk.0.ffn_up, or NULL: a key */
    const char *activation_field; /* "hidden_act"; NULL: the family's */
    const char *activation;       /* what llama.cpp runs */
    bool has_rope;
    const struct twp_gguf_presence *presences; /* or NULL */
    const struct twp_gguf_name *names, *more_names;
    twp_gguf_more_fn *more; /* or NULL */
};

/* Rows of the table, ended by a row without a name. */
extern const struct twp_gguf_arch twp_gguf_llama_likes[];
extern const struct twp_gguf_arch twp_gguf_gpt_likes[];

/* The tables' last rows. */
#define TWP_GGUF_NO_FIELD                                                      \
    {                                                                          \
        NULL, NULL, TWP_FIELD_INT, true                                        \
    }
#define TWP_GGUF_NO_NAME                                                       \
    {                                                                          \
        NULL, NULL, TWP_UNDO_NONE                                              \
    }
#define TWP_GGUF_NO_PRESENCE                                                   \
    {                                                                          \
        NULL, NULL, false                                                      \
    }

/* The row of general.architecture, or TW_ERR_UNSUPPORTED listing the table. */
TW_MUST_USE enum tw_status twp_gguf_arch_find(const struct tw_gguf *gguf,
                                              const struct twp_gguf_arch **arch,
                                              struct tw_error *err);
/* The value of a key of the first file (see struct twp_gguf_field), or NULL;
 * *full the key's whole name, borrowed, if it is there. */
const struct twp_gguf_value *twp_gguf_key(const struct twp_gguf_making *making,
                                          const char *key, const char **full);
/* A key's integer, of an array the item that all are; fallback where absent.
 * TW_ERR_FORMAT naming the key where it is no such number. */
TW_MUST_USE enum tw_status twp_gguf_number(const struct twp_gguf_making *making,
                                           const char *key, int64_t fallback,
                                           int64_t *number,
                                           struct tw_error *err);
/* The same for a real number. */
TW_MUST_USE enum tw_status
twp_gguf_real_number(const struct twp_gguf_making *making, const char *key,
                     double fallback, double *number, struct tw_error *err);
/* Sets the fields of a table that ends with field NULL. */
TW_MUST_USE enum tw_status
twp_gguf_put_fields(struct twp_gguf_making *making,
                    const struct twp_gguf_field *fields, struct tw_error *err);
/* Sets a field to a constant that follows from the architecture. */
TW_MUST_USE enum tw_status twp_gguf_constant(struct twp_gguf_making *making,
                                             const char *field, json_t *value,
                                             struct tw_error *err);

/* The config that a converter started from, as far as the file tells. */
TW_MUST_USE enum tw_status twp_gguf_config(struct tw_gguf *gguf,
                                           const struct twp_gguf_arch *arch,
                                           struct tw_config **config,
                                           struct tw_error *err);
/* rope_parameters of a making. */
TW_MUST_USE enum tw_status twp_gguf_rope(struct twp_gguf_making *making,
                                         struct tw_error *err);

/* Every tensor under its Hugging Face name, blocks turned into floats and the
 * converter's changes undone, in `threads` threads. Names and mapped data are
 * the gguf's, which must outlive the set. */
TW_MUST_USE enum tw_status
twp_gguf_tensors(struct tw_gguf *gguf, const struct twp_gguf_arch *arch,
                 int threads, struct tw_tensors *tensors, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
