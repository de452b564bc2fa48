/* The block of a layer's counts: its parts, its zero, its way into the obs.
 * What the second pass counts is second.c's. */
#include <config.h>

#include "kernels/cuda/cuda_internal.h"

#include <cuda_runtime_api.h>
#include <float.h>
#include <math.h>
#include <string.h>

#define ALIGN 256

void *twp_place(char *memory, size_t *at, size_t bytes)
{
    size_t from = (*at + ALIGN - 1) / ALIGN * ALIGN;
    *at = from + bytes;
    return memory ? memory + from : NULL;
}

/* The parts of c->defs definitions. What starts as all ones stands first.
 * Returns the block's bytes, *ones the first part's. */
static size_t carve(int32_t rows, int32_t cols, char *memory,
                    struct twp_counts *c, size_t *ones)
{
    size_t at = 0, r = (size_t)rows, n = (size_t)cols;
    c->bad = twp_place(memory, &at, sizeof *c->bad);
    for (int d = 0; d < c->defs; d++)
        c->first[d] = twp_place(memory, &at, n * sizeof *c->first[d]);
    *ones = (at + ALIGN - 1) / ALIGN * ALIGN;
    for (int d = 0; d < c->defs; d++) {
        c->nnz[d] = twp_place(memory, &at, r * sizeof *c->nnz[d]);
        c->fired[d] = twp_place(memory, &at, n * sizeof *c->fired[d]);
        c->last[d] = twp_place(memory, &at, n * sizeof *c->last[d]);
    }
    c->l1 = twp_place(memory, &at, r * sizeof *c->l1);
    c->histogram = twp_place(memory, &at, TWP_HISTOGRAM * sizeof *c->histogram);
    c->overflow_tiles = twp_place(memory, &at, sizeof *c->overflow_tiles);
    c->overflow_rows = twp_place(memory, &at, sizeof *c->overflow_rows);
    c->dense_rows = twp_place(memory, &at, sizeof *c->dense_rows);
    return at;
}

size_t twp_cuda_counts_bytes(int32_t rows, int32_t cols, int32_t defs)
{
    struct twp_counts counts = {.defs = defs};
    size_t ones;
    return carve(rows, cols, NULL, &counts, &ones);
}

void twp_counts_carve(int32_t rows, int32_t cols, void *memory,
                      struct twp_counts *counts)
{
    size_t ones;
    carve(rows, cols, memory, counts, &ones);
}

enum tw_status twp_counts_clear(const struct twp_counts *counts, int32_t rows,
                                int32_t cols, struct CUstream_st *stream,
                                struct tw_error *err)
{
    struct twp_counts sizes = {.defs = counts->defs};
    size_t ones, bytes = carve(rows, cols, NULL, &sizes, &ones);
    char *memory = (char *)counts->bad;
    cudaError_t error = cudaMemsetAsync(memory, 0xff, ones, stream);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(memory + ones, 0, bytes - ones, stream);
    return twp_cuda_check(error, "clearing counts", err);
}

/* The greatest float <= value, which is >= 0. */
static float rounded_down(double value)
{
    if (value >= (double)FLT_MAX)
        return FLT_MAX;
    float near = (float)value;
    return (double)near > value ? nextafterf(near, 0) : near;
}

struct twp_def twp_def_of(const struct tw_active *active)
{
    struct twp_def def = {.kind = active->kind};
    if (def.kind == TW_ACTIVE_ABS || def.kind == TW_ACTIVE_GATE_ABS)
        def.threshold = rounded_down(active->arg);
    return def;
}

int32_t twp_counts_find(const struct twp_counts *counts, struct twp_def def)
{
    int32_t d = 0;
    while (d < counts->defs && (counts->def[d].kind != def.kind ||
                                counts->def[d].threshold != def.threshold))
        d++;
    return d;
}

void twp_counts_defs(const struct tw_probes *probes, struct twp_counts *counts)
{
    counts->defs = 0;
    for (int p = 0; p < probes->count && counts->defs < TWP_DEFS; p++) {
        struct twp_def def = twp_def_of(&probes->active[p]);
        if (def.kind == TW_ACTIVE_TOPP || def.kind == TW_ACTIVE_TOPK ||
            twp_counts_find(counts, def) < counts->defs)
            continue;
        counts->def[counts->defs++] = def;
    }
}

void twp_columns_merge(const struct twp_columns *host, int probe,
                       struct tw_layer_obs *obs)
{
    memcpy(obs->nnz + (int64_t)probe * obs->rows, host->nnz,
           (size_t)obs->rows * sizeof *obs->nnz);
    for (int64_t n = 0; n < obs->width; n++) {
        int64_t to = (int64_t)probe * obs->width + n;
        if (!host->fired[n])
            continue;
        obs->fired[to] += host->fired[n];
        if (host->first[n] < obs->first[to])
            obs->first[to] = host->first[n];
        uint32_t last = host->last[n] - 1;
        if (obs->last[to] == UINT32_MAX || last > obs->last[to])
            obs->last[to] = last;
    }
}

void twp_cuda_counts_merge(const struct twp_counts *host,
                           const struct tw_probes *probes,
                           struct tw_layer_obs *obs)
{
    static const int widths[TW_TILE_WIDTHS] = {64, 128, 256};
    for (int p = 0; p < probes->count; p++) {
        int32_t d = twp_counts_find(host, twp_def_of(&probes->active[p]));
        if (d < host->defs)
            twp_columns_merge(
                &(struct twp_columns){host->nnz[d], host->fired[d],
                                      host->first[d], host->last[d]},
                p, obs);
    }
    memcpy(obs->l1, host->l1, (size_t)obs->rows * sizeof *obs->l1);
    const uint32_t *from = host->histogram;
    for (int t = 0; t < TW_TILE_WIDTHS; t++)
        for (int i = 0; i <= widths[t]; i++)
            obs->tiles[t][i] += *from++;
    uint64_t skipped = 0;
    for (int64_t r = 0; host->skip && r < obs->rows; r++)
        skipped += host->skip[r] != 0;
    obs->seen[0] += (uint64_t)obs->rows - skipped;
    obs->overflow_tiles += *host->overflow_tiles;
    obs->overflow_rows += *host->overflow_rows;
    obs->dense_rows += *host->dense_rows;
    if (*host->bad != UINT64_MAX) {
        obs->bad_row = (int32_t)(*host->bad >> 32);
        obs->bad_neuron = (int32_t)(*host->bad & 0xffffffffu);
    }
}
