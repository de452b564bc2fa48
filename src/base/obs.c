/* Life cycle of one layer's observations. */
#include <config.h>

#include "base/obs.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

static const int tile_widths[TW_TILE_WIDTHS] = {64, 128, 256};

enum tw_status tw_layer_obs_init(struct tw_layer_obs *obs, int64_t max_rows,
                                 int64_t width, int probes, int experts,
                                 int with_magnitudes, struct tw_error *err)
{
    assert(max_rows > 0 && width > 0 && probes > 0 && experts > 0);
    *obs = (struct tw_layer_obs){
        .width = (int32_t)width, .probes = probes, .experts = experts};
    size_t rows = (size_t)max_rows, w = (size_t)width, p = (size_t)probes;
    int is_short = 0;
    obs->nnz = tw_calloc(p * rows, sizeof *obs->nnz);
    obs->fired = tw_calloc(p * w, sizeof *obs->fired);
    obs->first = tw_calloc(p * w, sizeof *obs->first);
    obs->last = tw_calloc(p * w, sizeof *obs->last);
    obs->seen = tw_calloc((size_t)experts, sizeof *obs->seen);
    obs->l1 = tw_calloc(rows, sizeof *obs->l1);
    for (int i = 0; i < TW_TILE_WIDTHS; i++) {
        obs->tiles[i] = tw_calloc((size_t)tile_widths[i] + 1, sizeof(uint64_t));
        is_short |= !obs->tiles[i];
    }
    if (with_magnitudes) {
        obs->abs_sum = tw_calloc(w, sizeof *obs->abs_sum);
        obs->abs_max = tw_calloc(w, sizeof *obs->abs_max);
        obs->magnitude = tw_calloc(TW_MAGNITUDE_BINS, sizeof *obs->magnitude);
        is_short |= !obs->abs_sum || !obs->abs_max || !obs->magnitude;
    }
    if (is_short || !obs->nnz || !obs->fired || !obs->first || !obs->last ||
        !obs->seen || !obs->l1) {
        tw_layer_obs_fini(obs);
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for counters");
    }
    return TW_OK;
}

enum tw_status tw_layer_obs_want_sets(struct tw_layer_obs *obs,
                                      int64_t max_rows, struct tw_error *err)
{
    obs->set_start = tw_calloc((size_t)max_rows + 1, sizeof *obs->set_start);
    return obs->set_start ? TW_OK
                          : tw_error_set(err, TW_ERR_NOMEM,
                                         "out of memory for active sets");
}

enum tw_status tw_layer_obs_set_room(struct tw_layer_obs *obs, int64_t entries,
                                     struct tw_error *err)
{
    if (entries <= obs->set_room)
        return TW_OK;
    uint32_t *set = tw_realloc(obs->set, (size_t)entries, sizeof *set);
    obs->set = set ? set : obs->set;
    float *value = tw_realloc(obs->set_value, (size_t)entries, sizeof *value);
    obs->set_value = value ? value : obs->set_value;
    if (!set || !value)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for active sets");
    obs->set_room = entries;
    return TW_OK;
}

void tw_layer_obs_reset(struct tw_layer_obs *obs, int64_t rows)
{
    size_t w = (size_t)obs->width, p = (size_t)obs->probes;
    obs->rows = (int32_t)rows;
    memset(obs->nnz, 0, p * (size_t)rows * sizeof *obs->nnz);
    memset(obs->fired, 0, p * w * sizeof *obs->fired);
    memset(obs->first, 0xff, p * w * sizeof *obs->first);
    memset(obs->last, 0xff, p * w * sizeof *obs->last);
    memset(obs->seen, 0, (size_t)obs->experts * sizeof *obs->seen);
    memset(obs->l1, 0, (size_t)rows * sizeof *obs->l1);
    for (int i = 0; i < TW_TILE_WIDTHS; i++)
        memset(obs->tiles[i], 0,
               ((size_t)tile_widths[i] + 1) * sizeof(uint64_t));
    if (obs->magnitude) {
        memset(obs->abs_sum, 0, w * sizeof *obs->abs_sum);
        memset(obs->abs_max, 0, w * sizeof *obs->abs_max);
        memset(obs->magnitude, 0, TW_MAGNITUDE_BINS * sizeof(uint64_t));
    }
    obs->overflow_tiles = obs->overflow_rows = obs->dense_rows = 0;
    obs->bad_row = obs->bad_neuron = -1;
}

void tw_layer_obs_fini(struct tw_layer_obs *obs)
{
    tw_free(obs->nnz);
    tw_free(obs->fired);
    tw_free(obs->first);
    tw_free(obs->last);
    tw_free(obs->seen);
    tw_free(obs->l1);
    for (int i = 0; i < TW_TILE_WIDTHS; i++)
        tw_free(obs->tiles[i]);
    tw_free(obs->abs_sum);
    tw_free(obs->abs_max);
    tw_free(obs->magnitude);
    tw_free(obs->set_start);
    tw_free(obs->set);
    tw_free(obs->set_value);
    *obs = (struct tw_layer_obs){0};
}
