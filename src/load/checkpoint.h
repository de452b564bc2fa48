/* A checkpoint on disk: where it is, its config.json, its tensors. Knows
 * formats, not model families (those are src/model). */
#ifndef TW_LOAD_CHECKPOINT_H
#define TW_LOAD_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "load/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_config; /* a parsed config.json, or what stands for it */
struct tw_gguf;

struct tw_checkpoint {
    char *directory; /* resolved */
    char *name;      /* last path part; for org/name its name */
    struct tw_config *config;
    struct tw_tensors tensors;
    struct tw_gguf *gguf; /* the file, if it is one (load/gguf.h), else NULL */
};

/* model: a directory, a file inside one (config.json, *.safetensors, *.bin,
 * *.gguf), or org/name found offline in the Hugging Face cache ($HF_HUB_CACHE,
 * else $HF_HOME/hub, else ~/.cache/huggingface/hub; refs/main, else the newest
 * snapshot). A GGUF file's config and tensor names are turned into those of the
 * Hugging Face form, its quantised tensors into floats by `threads` threads,
 * and llama.cpp's changes to tensors undone. Returns TW_OK, TW_ERR_NOT_FOUND
 * saying where it looked, or the error of the part that failed. Close with
 * tw_checkpoint_close. */
TW_MUST_USE enum tw_status tw_checkpoint_open(const char *model, int threads,
                                              struct tw_checkpoint *checkpoint,
                                              struct tw_error *err);
void tw_checkpoint_close(struct tw_checkpoint *checkpoint);

/* "GGUF, 1 file: 211 Q4_1, 61 float32 tensors". */
void tw_checkpoint_describe(const struct tw_checkpoint *checkpoint, char *text,
                            size_t size);

/* The directory alone, for tokenizers and info (tw_free). */
TW_MUST_USE enum tw_status tw_checkpoint_find(const char *model,
                                              char **directory, char **name,
                                              struct tw_error *err);

/* config.json. Every lookup is remembered, so that `info` can list the fields
 * used and those ignored. A dotted name descends
 * ("rope_parameters.rope_theta", "layer_types.3": a list's member). The _or
 * forms give `fallback` where the field is absent or null; the others fail with
 * TW_ERR_FORMAT "config.json: no field 'x'", a field of the wrong type fails in
 * both ("config.json: field 'x' is not an integer"). NaN and Infinity, which
 * Python writes, have no type. */
TW_MUST_USE enum tw_status tw_config_open(const char *path,
                                          struct tw_config **config,
                                          struct tw_error *err);
void tw_config_close(struct tw_config *config);
bool tw_config_has(struct tw_config *config, const char *field);
/* There, but null: a family's default does not hold then. */
bool tw_config_is_null(struct tw_config *config, const char *field);
/* Members of a list; 0 where the field is absent or null. */
TW_MUST_USE enum tw_status tw_config_length(struct tw_config *config,
                                            const char *field, size_t *length,
                                            struct tw_error *err);
/* From here on names are those of the object `field` ("text_config"). Once. */
TW_MUST_USE enum tw_status tw_config_enter(struct tw_config *config,
                                           const char *field,
                                           struct tw_error *err);
TW_MUST_USE enum tw_status tw_config_int(struct tw_config *config,
                                         const char *field, int64_t *value,
                                         struct tw_error *err);
TW_MUST_USE enum tw_status tw_config_int_or(struct tw_config *config,
                                            const char *field, int64_t fallback,
                                            int64_t *value,
                                            struct tw_error *err);
TW_MUST_USE enum tw_status tw_config_real(struct tw_config *config,
                                          const char *field, double *value,
                                          struct tw_error *err);
TW_MUST_USE enum tw_status tw_config_real_or(struct tw_config *config,
                                             const char *field, double fallback,
                                             double *value,
                                             struct tw_error *err);
TW_MUST_USE enum tw_status tw_config_bool_or(struct tw_config *config,
                                             const char *field, bool fallback,
                                             bool *value, struct tw_error *err);
/* Borrowed until tw_config_close. */
TW_MUST_USE enum tw_status tw_config_text(struct tw_config *config,
                                          const char *field, const char **value,
                                          struct tw_error *err);
TW_MUST_USE enum tw_status tw_config_text_or(struct tw_config *config,
                                             const char *field,
                                             const char *fallback,
                                             const char **value,
                                             struct tw_error *err);
/* Where a top-level field came from ("llama.block_count", "assumed: ..."),
 * NULL: it stands in config.json. */
const char *tw_config_origin(const struct tw_config *config, const char *field);
/* What messages call it: "config.json", or the GGUF file's base name. */
const char *tw_config_file(const struct tw_config *config);
/* Notes that something else holds instead of a top-level field (of the entered
 * object), for `info`: "the family's code is ReLU". Without memory the note is
 * lost. */
void tw_config_override(struct tw_config *config, const char *field,
                        const char *why);
/* Calls fn for each top-level field in the file's order, and then for those of
 * an entered object by their dotted names: its JSON text (cut at 200 bytes),
 * whether a lookup used it, and why it does not hold (NULL: it does). */
typedef void tw_config_field_fn(void *arg, const char *field, const char *json,
                                bool is_used, const char *why);
void tw_config_each(struct tw_config *config, tw_config_field_fn *fn,
                    void *arg);

#ifdef __cplusplus
}
#endif
#endif
