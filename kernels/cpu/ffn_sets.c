/* The primary's active neurons of every row, in compressed rows. Workers
 * append parts of rows to lists of their own; a row's parts come from one
 * worker, columns ascending, so that laying them out row by row leaves no trace
 * of who counted what. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"

#include <string.h>

#include "base/memory.h"

struct part {
    uint32_t row, count;
};

struct twp_sets {
    uint32_t *neuron;
    float *value;
    struct part *part;
    size_t count, neuron_room, value_room, parts, part_room;
    bool is_short; /* out of memory */
};

struct twp_sets *twp_sets_create(int workers)
{
    return tw_calloc((size_t)workers, sizeof(struct twp_sets));
}

void twp_sets_destroy(struct twp_sets *sets, int workers)
{
    for (int w = 0; sets && w < workers; w++) {
        tw_free(sets[w].neuron);
        tw_free(sets[w].value);
        tw_free(sets[w].part);
    }
    tw_free(sets);
}

struct twp_sets *twp_sets_of(struct twp_sets *sets, int worker)
{
    return sets ? &sets[worker] : NULL;
}

static bool reserve(struct twp_sets *s, size_t more)
{
    s->is_short |=
        tw_grow((void **)&s->neuron, &s->neuron_room, s->count + more,
                sizeof *s->neuron) != 0 ||
        tw_grow((void **)&s->value, &s->value_room, s->count + more,
                sizeof *s->value) != 0 ||
        tw_grow((void **)&s->part, &s->part_room, s->parts + 1,
                sizeof *s->part) != 0;
    return !s->is_short;
}

void twp_sets_begin(struct twp_sets *s, int64_t row, int64_t most)
{
    if (reserve(s, (size_t)most))
        s->part[s->parts++] = (struct part){(uint32_t)row, 0};
}

void twp_sets_add(struct twp_sets *s, uint32_t neuron, float h)
{
    if (s->is_short)
        return;
    s->neuron[s->count] = neuron;
    s->value[s->count++] = h;
    s->part[s->parts - 1].count++;
}

void twp_sets_bits(struct twp_sets *s, int64_t row, const uint64_t *bits,
                   const float *h, int64_t n)
{
    int64_t most = 0;
    for (int64_t word = 0; word < n / 64; word++)
        most += __builtin_popcountll(bits[word]);
    twp_sets_begin(s, row, most);
    for (int64_t word = 0; word < n / 64; word++)
        for (uint64_t left = bits[word]; left; left &= left - 1) {
            int64_t at = 64 * word + __builtin_ctzll(left);
            twp_sets_add(s, (uint32_t)at, h[at]);
        }
}

/* obs->set_start serves as each row's cursor while its parts are laid out. */
static void lay_out(struct tw_layer_obs *obs, const struct twp_sets *s)
{
    size_t at = 0;
    for (size_t i = 0; i < s->parts; i++) {
        struct part part = s->part[i];
        int64_t to = obs->set_start[part.row];
        if (part.count > 0) {
            memcpy(obs->set + to, s->neuron + at,
                   part.count * sizeof *obs->set);
            memcpy(obs->set_value + to, s->value + at,
                   part.count * sizeof *obs->set_value);
        }
        obs->set_start[part.row] += part.count;
        at += part.count;
    }
}

enum tw_status twp_sets_finish(const struct twp_sets *sets, int workers,
                               struct tw_layer_obs *obs, struct tw_error *err)
{
    bool is_short = false;
    int64_t total = 0;
    for (int w = 0; w < workers; w++)
        is_short |= sets[w].is_short;
    for (int32_t r = 0; r < obs->rows; r++) {
        obs->set_start[r] = total;
        total += obs->nnz[r];
    }
    if (is_short)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for active sets");
    enum tw_status status = tw_layer_obs_set_room(obs, total, err);
    if (status != TW_OK)
        return status;
    for (int w = 0; w < workers; w++)
        lay_out(obs, &sets[w]);
    memmove(obs->set_start + 1, obs->set_start,
            (size_t)obs->rows * sizeof *obs->set_start);
    obs->set_start[0] = 0;
    return TW_OK;
}
