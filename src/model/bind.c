/* Tensors bound to matrices: by name, the embedding and its head. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "model/family.h"

static struct tw_matrix matrix_of(const struct tw_tensor *tensor)
{
    bool is_matrix = tensor->dims == 2;
    return (struct tw_matrix){
        .data = tensor->data,
        .dtype = tensor->dtype,
        .rows = is_matrix ? tensor->shape[0] : 1,
        .cols = is_matrix ? tensor->shape[1] : tensor->shape[0],
    };
}

enum tw_status twp_take(struct tw_model *model, const char *prefix,
                        const char *name, int64_t rows, int64_t cols,
                        struct tw_matrix *matrix, struct tw_error *err)
{
    char text[160];
    const struct tw_tensor *tensor;
    const int64_t shape[] = {rows, cols};
    int dims = rows > 0 ? 2 : 1;
    snprintf(text, sizeof text, "%s%s%s", prefix ? prefix : "",
             prefix ? "." : "", name);
    enum tw_status status =
        tw_tensors_take(&model->checkpoint.tensors, text, dims,
                        shape + 2 - dims, false, &tensor, err);
    if (status == TW_OK)
        *matrix = matrix_of(tensor);
    return status;
}

static bool is_same(const struct tw_tensor *a, const struct tw_tensor *b)
{
    return a->dtype == b->dtype && a->elements == b->elements &&
           memcmp(a->data, b->data,
                  (size_t)a->elements * tw_dtype_size(a->dtype)) == 0;
}

/* config.json ties the head: a head in the file is a copy, or not used. */
static void tie_head(struct tw_model *model, const char *embed,
                     const char *head)
{
    struct tw_tensors *tensors = &model->checkpoint.tensors;
    const struct tw_tensor *in_file = tw_tensors_find(tensors, head);
    const char *note = "tied";
    char text[80];
    model->head = model->embed;
    if (in_file && is_same(in_file, tw_tensors_find(tensors, embed))) {
        model->head_copy = in_file;
        snprintf(text, sizeof text, "tied; %s is a copy", head);
        note = text;
    } else if (in_file) {
        snprintf(text, sizeof text, "tied by config.json; %s differs, unused",
                 head);
        note = text;
        tw_log(TW_LOG_WARNING,
               "config.json ties the head to %s, but %s differs from it and "
               "is not used: is tie_word_embeddings right?",
               embed, head);
    }
    snprintf(model->head_source, sizeof model->head_source, "%s (%s)", embed,
             note);
}

enum tw_status twp_embedding(struct tw_model *model, const char *embed,
                             const char *head, bool is_tied,
                             struct tw_error *err)
{
    const struct tw_tensor *tensor =
        tw_tensors_find(&model->checkpoint.tensors, embed);
    if (tensor && tensor->dims == 2 && tensor->shape[0] != model->vocab)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "config.json: vocab_size %lld but %s has %lld rows",
                            (long long)model->vocab, embed,
                            (long long)tensor->shape[0]);
    enum tw_status status = twp_take(model, NULL, embed, model->vocab,
                                     model->d_embed, &model->embed, err);
    if (status != TW_OK)
        return status;
    if (is_tied) {
        tie_head(model, embed, head);
        return TW_OK;
    }
    snprintf(model->head_source, sizeof model->head_source, "%s", head);
    return twp_take(model, NULL, head, model->vocab, model->d_embed,
                    &model->head, err);
}
