/* Opening a model: checkpoint, family, tensors, facts. */
#include <config.h>

#include "model/model.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "model/family.h"

static enum tw_ffn_path choose_path(const struct tw_model *model,
                                    enum tw_model_path path)
{
    if (path != TW_MODEL_PATH_AUTO)
        return path == TW_MODEL_PATH_TWELL ? TW_FFN_TWELL : TW_FFN_DENSE;
    if (tw_activation_is_sparse(model->activation.act))
        return TW_FFN_TWELL;
    return model->has_apply && model->apply.kind == TW_ACTIVE_GATE_ABS
               ? TW_FFN_TWELL
               : TW_FFN_DENSE;
}

/* A layer has tensors of its own, so a count of layers past the number of
 * tensors is a lie that must not be allocated. */
static enum tw_status make_layers(struct tw_model *model,
                                  enum tw_model_path path, struct tw_error *err)
{
    size_t tensors = model->checkpoint.tensors.count;
    if ((uint64_t)model->layers > tensors)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "config.json: num_hidden_layers %lld but the "
                            "checkpoint has %zu tensors",
                            (long long)model->layers, tensors);
    model->layer = tw_calloc((size_t)model->layers, sizeof *model->layer);
    if (!model->layer)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for layers");
    for (int64_t l = 0; l < model->layers; l++) {
        struct tw_layer *layer = &model->layer[l];
        layer->residual_scale = 1;
        layer->attention = model->attention;
        layer->rope = model->rope.dims > 0 ? &model->rope : NULL;
        layer->ffn = (struct tw_ffn_desc){
            .d_model = model->d_model,
            .d_ff = model->d_ff,
            .activation = model->activation,
            .is_up_activated = model->is_up_activated,
            .path = choose_path(model, path),
            .apply = model->has_apply ? &model->apply : NULL,
        };
    }
    return TW_OK;
}

static bool is_counted(const struct tw_model *model,
                       const struct tw_tensor *tensor)
{
    return tensor->is_used && tensor != model->head_copy;
}

/* The type that nine tenths of the elements have: first the only one that more
 * than half of them can have, then its share. */
static const char *main_type(const struct tw_model *model)
{
    const struct tw_tensors *tensors = &model->checkpoint.tensors;
    const char *type = "mixed";
    int64_t votes = 0, elements = 0;
    for (size_t i = 0; i < tensors->count; i++) {
        const struct tw_tensor *t = &tensors->tensor[i];
        if (!is_counted(model, t))
            continue;
        bool is_same = strcmp(type, tw_tensor_type(t)) == 0;
        votes += is_same ? t->elements : -t->elements;
        if (votes < 0) {
            votes = -votes;
            type = tw_tensor_type(t);
        }
    }
    for (size_t i = 0; i < tensors->count; i++)
        if (is_counted(model, &tensors->tensor[i]) &&
            strcmp(type, tw_tensor_type(&tensors->tensor[i])) == 0)
            elements += tensors->tensor[i].elements;
    return elements > model->parameters - model->parameters / 10 ? type
                                                                 : "mixed";
}

/* Parameters, bytes and the type that most of them have. */
static void count_weights(struct tw_model *model)
{
    const struct tw_tensors *tensors = &model->checkpoint.tensors;
    for (size_t i = 0; i < tensors->count; i++) {
        const struct tw_tensor *t = &tensors->tensor[i];
        if (!is_counted(model, t))
            continue;
        int64_t bytes = t->elements * (int64_t)tw_dtype_size(t->dtype);
        model->parameters += t->elements;
        model->bytes += bytes;
        if (t->owned)
            model->loaded_bytes += bytes;
    }
    model->dtype = main_type(model);
}

/* Messages of families speak of config.json; a GGUF file has none. */
static void name_source(const struct tw_model *model, struct tw_error *err)
{
    static const char usual[] = "config.json";
    const size_t length = sizeof usual - 1;
    const char *file = tw_config_file(model->checkpoint.config);
    if (!err || strcmp(file, usual) == 0 ||
        strncmp(err->text, usual, length) != 0)
        return;
    struct tw_error renamed = {0};
    tw_error_set(&renamed, err->status, "%s%s", file, err->text + length);
    *err = renamed;
}

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    const char *type;
    const struct tw_family *family = NULL;
    enum tw_status status =
        tw_config_text(model->checkpoint.config, "model_type", &type, err);
    if (status == TW_OK)
        status = twp_family_find(type, &family, err);
    if (status != TW_OK)
        return status;
    model->model_type = family->model_type;
    model->family = family;
    status = family->resolve(model, options, err);
    if (model->d_embed == 0)
        model->d_embed = model->d_model;
    if (status == TW_OK)
        status = make_layers(model, options->path, err);
    if (status == TW_OK)
        status = family->bind(model, err);
    return status;
}

enum tw_status tw_model_open(const char *path,
                             const struct tw_model_options *options,
                             struct tw_model **out, struct tw_error *err)
{
    assert(options->threads >= 1);
    struct tw_model *model = tw_calloc(1, sizeof *model);
    if (!model)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a model");
    model->embed_scale = 1;
    model->head_form.scale = 1;
    if (options->apply) {
        model->has_apply = true;
        model->apply = *options->apply;
    }
    enum tw_status status =
        tw_checkpoint_open(path, options->threads, &model->checkpoint, err);
    if (status == TW_OK) {
        status = resolve(model, options, err);
        if (status != TW_OK)
            name_source(model, err);
    }
    if (status == TW_OK) {
        count_weights(model);
        status = tw_tensors_hash(&model->checkpoint.tensors, options->threads,
                                 model->hash, err);
    }
    if (status != TW_OK)
        tw_model_close(model);
    else
        *out = model;
    return status;
}

void tw_model_close(struct tw_model *model)
{
    if (!model)
        return;
    tw_checkpoint_close(&model->checkpoint);
    tw_free(model->inv_freq);
    tw_free(model->local_inv_freq);
    tw_free(model->alibi);
    for (size_t i = 0; i < model->owned_count; i++)
        tw_free(model->owned[i]);
    tw_free(model->owned);
    tw_free(model->layer);
    tw_free(model);
}

/* Buffers that older files store and every implementation recomputes, and what
 * the family is known to carry. */
static bool is_known(const struct tw_model *model, const char *name)
{
    static const char ending[] = "rotary_emb.inv_freq";
    size_t length = strlen(name), tail = sizeof ending - 1;
    if (length >= tail && strcmp(name + length - tail, ending) == 0)
        return true;
    const char *const *part = model->family->ignored;
    for (; part && *part; part++)
        if (strstr(name, *part))
            return true;
    return false;
}

const char *tw_model_unused(const struct tw_model *model, size_t *at)
{
    const struct tw_tensors *tensors = &model->checkpoint.tensors;
    while (*at < tensors->count) {
        const struct tw_tensor *t = &tensors->tensor[(*at)++];
        if (!t->is_used && t != model->head_copy && !is_known(model, t->name))
            return t->name;
    }
    return NULL;
}
