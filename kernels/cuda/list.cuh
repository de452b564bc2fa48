/* The entries of 8 rows, listed by one warp: a row's own list, ascending by neuron,
 * and, gated, the rows' stream, by group of neurons, then row, then neuron, which
 * is how dots.cu meets them. Lanes are tiles; places come from sums, so no atomics
 * are needed and every run gives the same order. Part of route.cu. */
#ifndef TW_KERNELS_CUDA_LIST_CUH
#define TW_KERNELS_CUDA_LIST_CUH

#include "kernels/cuda/counting.cuh"

namespace list {

using common::FULL_WARP;

constexpr int ROWS = TWP_STREAM_ROWS;
constexpr int AT_ONCE = 4; // entries of a tile that are loaded together
constexpr uint32_t ROUTED = 0xffffffffu;

/* Shared memory of a warp: [groups + 1][ROWS], at first the entries of each row
 * before each group, then what turns a place in the row's list into one in the
 * stream. */
__host__ __device__ constexpr int table_bytes(int groups)
{
    return (groups + 1) * ROWS * 4;
}

struct Rows {
    int first;       // number of the first
    uint32_t absent; // bit r: that row is routed, or there is none
    __device__ bool has(int r) const { return !(absent >> r & 1); }
};

__device__ __forceinline__ uint32_t count_word(const struct twp_route_args &a, const Rows &rows,
                                               int r, int tile)
{
    bool is_in = tile < a.in.tiles && rows.has(r);
    return is_in ? a.in.count[(int64_t)(rows.first + r) * a.in.tiles + tile] : 0;
}

/* Entries in this lane's tile and in the tiles of the lanes below. */
__device__ __forceinline__ uint32_t scan_tiles(uint32_t word)
{
    uint32_t upto = __dp4a(word, 0x01010101u, 0u);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        uint32_t below = __shfl_up_sync(FULL_WARP, upto, step);
        upto += threadIdx.x % 32 >= step ? below : 0;
    }
    return upto;
}

/* units * 2^32 / units, so that umulhi divides quarters of tiles. */
__device__ __forceinline__ uint32_t group_of(const struct twp_list &l, uint32_t quarter)
{
    return l.units == 1 ? quarter : __umulhi(quarter, 0xffffffffu / l.units + 1);
}

/* How many entries of each row come before each group. */
__device__ __forceinline__ void note_starts(const struct twp_route_args &a, const Rows &rows,
                                            uint32_t *table)
{
    int lane = threadIdx.x % 32;
    uint32_t listed[ROWS] = {};
    for (int from = 0; from < a.in.tiles; from += 32) {
        uint32_t word[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            word[r] = count_word(a, rows, r, from + lane);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            uint32_t upto = scan_tiles(word[r]);
            uint32_t before = listed[r] + upto - __dp4a(word[r], 0x01010101u, 0u);
#pragma unroll
            for (int k = 0; k < 4; k++, before += word[r] & 0xff, word[r] >>= 8) {
                uint32_t quarter = 4 * (from + lane) + k, group = group_of(a.list, quarter);
                if (from + lane < a.in.tiles && group * a.list.units == quarter)
                    table[group * ROWS + r] = before;
            }
            listed[r] += __shfl_sync(FULL_WARP, upto, 31);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (lane == r) {
            table[a.list.groups * ROWS + r] = listed[r];
            if (rows.first + r < a.rows)
                a.list.n[rows.first + r] = rows.has(r) ? listed[r] : ROUTED;
        }
    __syncwarp();
}

/* The groups' starts in the stream, and the table's second meaning. */
__device__ __forceinline__ void place_groups(const struct twp_route_args &a, const Rows &rows,
                                             uint32_t *table)
{
    int groups = a.list.groups;
    uint32_t *starts = a.list.group_start + (int64_t)(rows.first / ROWS) * (groups + 1);
    for (int from = 0; from <= groups; from += 32) {
        int group = from + threadIdx.x % 32;
        uint32_t at[ROWS] = {}, after[ROWS] = {}, place = 0;
        if (group <= groups)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                at[r] = table[group * ROWS + r];
                after[r] = group < groups ? table[(group + 1) * ROWS + r] : at[r];
                place += at[r];
            }
        __syncwarp();
        if (group <= groups) {
            starts[group] = place;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                table[group * ROWS + r] = place - at[r];
                place += after[r] - at[r];
            }
        }
        __syncwarp();
    }
}

/* Where an entry goes, besides its row's list. */
__device__ __forceinline__ void stream_entry(const struct twp_route_args &a, const Rows &rows,
                                             const uint32_t *table, int r, int64_t at,
                                             uint32_t number, uint32_t neuron)
{
    constexpr int UNIT = TWP_TILE / 4;
    uint32_t group = group_of(a.list, neuron / UNIT);
    uint32_t place = table[group * ROWS + r] + number;
    a.list.place[at] = place;
    a.list.stream[(int64_t)rows.first * a.list.room + place] =
        (uint16_t)((neuron - group * a.list.units * UNIT) | r << 10);
}

__device__ __forceinline__ void list_row(const struct twp_route_args &a, const Rows &rows,
                                         const uint32_t *table, int r)
{
    int lane = threadIdx.x % 32, row = rows.first + r;
    bool is_counted = a.is_plain && a.counts.is_on;
    counting::RowSums sums;
    uint32_t listed = 0;
    for (int from = 0; from < a.in.tiles; from += 32) {
        int tile = from + lane;
        uint32_t word = count_word(a, rows, r, tile), count = __dp4a(word, 0x01010101u, 0u);
        uint32_t upto = scan_tiles(word), before = listed + upto - count;
        const uint32_t *entries = a.in.entry + ((int64_t)row * a.in.tiles + tile) * a.in.slots;
#pragma unroll 1
        for (uint32_t i = 0; i < count; i += AT_ONCE) {
            uint32_t entry[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                entry[j] = i + j < count ? __ldcs(entries + i + j) : 0;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                if (i + j < count) {
                    int64_t at = (int64_t)row * a.list.room + before + i + j;
                    uint32_t neuron = tile * TWP_TILE + (entry[j] & 0xff);
                    float value = __uint_as_float(entry[j] & common::VALUE_BITS);
                    a.list.neuron[at] = neuron;
                    a.list.value[at] = value;
                    if (!a.is_plain)
                        stream_entry(a, rows, table, r, at, before + i + j, neuron);
                    if (is_counted)
                        counting::add_entry(a.counts, sums, neuron, value, value, row);
                }
        }
        listed += __shfl_sync(FULL_WARP, upto, 31);
    }
    if (is_counted && rows.has(r))
        counting::finish_row(a.counts, sums, row);
}

/* The whole warp. */
__device__ __forceinline__ void list_rows(const struct twp_route_args &a, const Rows &rows,
                                          uint32_t *table)
{
    note_starts(a, rows, table);
    if (!a.is_plain)
        place_groups(a, rows, table);
#pragma unroll 2
    for (int r = 0; r < ROWS; r++)
        list_row(a, rows, table, r);
}

} // namespace list

#endif
