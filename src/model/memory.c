/* How much memory a pass needs, for `info` and before a run. */
#include <config.h>

#include "model/runner_internal.h"

static int64_t widened(const struct tw_matrix *matrix)
{
    if (!matrix->data || matrix->dtype == TW_F32)
        return 0;
    return matrix->rows * matrix->cols * (int64_t)sizeof(float);
}

static int64_t widened_layer(const struct tw_layer *l)
{
    return widened(&l->q) + widened(&l->k) + widened(&l->v) + widened(&l->o) +
           widened(&l->ffn.gate) + widened(&l->ffn.up) + widened(&l->ffn.down);
}

static int64_t obs_bytes(const struct tw_model *model, int64_t rows)
{
    int64_t row = sizeof(uint32_t) + sizeof(float);
    int64_t neuron = sizeof(uint64_t) + 2 * sizeof(uint32_t);
    return model->layers * (rows * row + model->d_ff * neuron);
}

void tw_model_memory(const struct tw_model *model, int64_t rows,
                     struct tw_model_memory *memory)
{
    int64_t width = twp_runner_width(model);
    *memory = (struct tw_model_memory){
        .mapped_bytes = model->bytes - model->loaded_bytes,
        .loaded_bytes = model->loaded_bytes,
        .copied_bytes = model->owned_bytes,
        .widened_bytes = widened(&model->head),
        .layer_bytes = widened(&model->head),
        .buffer_bytes = rows * (width + model->d_ff) * (int64_t)sizeof(float),
        .obs_bytes = obs_bytes(model, rows),
    };
    for (int64_t l = 0; l < model->layers; l++) {
        int64_t bytes = widened_layer(&model->layer[l]);
        memory->widened_bytes += bytes;
        if (bytes > memory->layer_bytes)
            memory->layer_bytes = bytes;
    }
}
