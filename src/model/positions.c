/* Positions that are not rotary: learned rows, and attention with linear
 * biases. */
#include <config.h>

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "model/family.h"

void twp_learned_positions(struct tw_model *model)
{
    model->position_limit = model->max_position;
    snprintf(model->limit_reason, sizeof model->limit_reason,
             "learned positions");
    snprintf(model->position_text, sizeof model->position_text, "learned");
}

/* Of n heads, the largest power of two p not above n have slopes 2^(-8 i / p),
 * i from 1; the others every second one of the sequence for 2 p. Powers of a
 * float32 base, as the Hugging Face code has them. */
enum tw_status twp_alibi(struct tw_model *model, struct tw_error *err)
{
    int64_t power = 1;
    while (power * 2 <= model->heads)
        power *= 2;
    float base = (float)exp2(-8.0 / (double)power);
    float between = (float)exp2(-4.0 / (double)power);
    model->alibi = tw_alloc((size_t)model->heads, sizeof *model->alibi);
    if (!model->alibi)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for slopes");
    for (int64_t i = 0; i < model->heads; i++)
        model->alibi[i] = i < power
                              ? powf(base, (float)(i + 1))
                              : powf(between, (float)(2 * (i - power) + 1));
    for (int64_t l = 0; l < model->layers; l++)
        model->layer[l].attention.alibi = model->alibi;
    return TW_OK;
}
