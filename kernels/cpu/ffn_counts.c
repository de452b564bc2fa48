/* The worker-private sums of one call: their memory, and how they are added to
 * the observations. Addition, minimum and maximum alone, so the order of the
 * workers leaves no trace. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"

#include <string.h>

static size_t padded_bytes(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static size_t probe_bytes(const struct twp_ffn_call *call)
{
    return padded_bytes((size_t)call->probes->count *
                        (size_t)call->ffn->padded * sizeof(uint32_t));
}

size_t twp_counts_bytes(const struct twp_ffn_call *call)
{
    size_t wide = (size_t)call->ffn->padded;
    size_t bytes = padded_bytes(sizeof(struct twp_counts));
    bytes += 3 * probe_bytes(call);
    if (call->obs->magnitude)
        bytes += wide * (sizeof(int64_t) + sizeof(float));
    return bytes;
}

struct twp_counts *twp_counts_start(const struct twp_ffn_call *call,
                                    void *memory)
{
    size_t probe = probe_bytes(call);
    memset(memory, 0, twp_counts_bytes(call));
    struct twp_counts *c = memory;
    char *at = (char *)memory + padded_bytes(sizeof *c);
    c->fired = (uint32_t *)(void *)at;
    c->first = (uint32_t *)(void *)(at + probe);
    c->last = (uint32_t *)(void *)(at + 2 * probe);
    memset(c->first, 0xff, probe); // none; a `last` of none is told by fired
    if (call->obs->magnitude) {
        c->abs_sum = (int64_t *)(void *)(at + 3 * probe);
        c->abs_max = (float *)(void *)(c->abs_sum + call->ffn->padded);
    }
    c->bad_row = c->bad_neuron = -1;
    return c;
}

static bool merge_magnitudes(struct tw_layer_obs *obs,
                             const struct twp_counts *c)
{
    bool is_overflown = c->is_overflown;
    for (int b = 0; b < TW_MAGNITUDE_BINS; b++)
        obs->magnitude[b] += c->magnitude[b];
    for (int64_t n = 0; n < obs->width; n++) {
        is_overflown |= __builtin_add_overflow(obs->abs_sum[n], c->abs_sum[n],
                                               &obs->abs_sum[n]);
        if (c->abs_max[n] > obs->abs_max[n])
            obs->abs_max[n] = c->abs_max[n];
    }
    return is_overflown;
}

static void merge_sums(struct tw_layer_obs *obs, const struct twp_counts *c)
{
    static const int widths[TW_TILE_WIDTHS] = {64, 128, 256};
    for (int t = 0; t < TW_TILE_WIDTHS; t++)
        for (int i = 0; i <= widths[t]; i++)
            obs->tiles[t][i] += c->tiles[t][i];
    obs->seen[0] += c->seen;
    obs->overflow_tiles += c->overflow_tiles;
    obs->overflow_rows += c->overflow_rows;
    obs->dense_rows += c->dense_rows;
    if (c->bad_row >= 0 && (obs->bad_row < 0 || c->bad_row < obs->bad_row)) {
        obs->bad_row = c->bad_row;
        obs->bad_neuron = c->bad_neuron;
    }
}

static void merge_probes(const struct twp_ffn_call *call,
                         const struct twp_counts *c)
{
    struct tw_layer_obs *obs = call->obs;
    for (int p = 0; p < call->probes->count; p++)
        for (int64_t n = 0; n < obs->width; n++) {
            int64_t to = p * (int64_t)obs->width + n;
            int64_t from = p * call->ffn->padded + n;
            if (!c->fired[from])
                continue;
            obs->fired[to] += c->fired[from];
            if (c->first[from] < obs->first[to])
                obs->first[to] = c->first[from];
            if (obs->last[to] == UINT32_MAX || c->last[from] > obs->last[to])
                obs->last[to] = c->last[from];
        }
}

enum tw_status twp_counts_merge(const struct twp_ffn_call *call,
                                struct tw_error *err)
{
    bool is_overflown = false;
    for (int w = 0; w < call->cpu->workers; w++) {
        const struct twp_counts *c = call->counts[w];
        if (!c)
            continue;
        merge_sums(call->obs, c);
        merge_probes(call, c);
        if (call->obs->magnitude)
            is_overflown |= merge_magnitudes(call->obs, c);
    }
    if (is_overflown)
        return tw_error_set(err, TW_ERR_OVERFLOW,
                            "the sum of |h| of a neuron exceeds 64 bits");
    return TW_OK;
}
