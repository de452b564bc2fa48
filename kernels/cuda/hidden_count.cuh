/* The spare warps of hidden.cu: h out of shared memory, and its counts. */
#ifndef TW_KERNELS_CUDA_HIDDEN_COUNT_CUH
#define TW_KERNELS_CUDA_HIDDEN_COUNT_CUH

#include "kernels/cuda/hidden_plan.cuh"

namespace hidden {

/* Bit i: value i of 8 isn't zero. */
__device__ __forceinline__ uint32_t nonzero_bits(uint4 v)
{
    uint32_t pairs = nonzero_tops(v.x) >> 6 | nonzero_tops(v.y) >> 4 | nonzero_tops(v.z) >> 2 |
                     nonzero_tops(v.w); // odd bits from 9 and from 25 on
    return (pairs >> 9 & 0x55) | (pairs >> 24 & 0xaa);
}

/* How many values aren't zero, of even columns in the lower half, of odd ones above. */
__device__ __forceinline__ uint32_t nonzero_numbers(uint4 v)
{
    constexpr uint32_t BELOW_SIGN = 0x7fff7fff;
    return hopper::nonzero_halves(v.x & BELOW_SIGN) + hopper::nonzero_halves(v.y & BELOW_SIGN) +
           hopper::nonzero_halves(v.z & BELOW_SIGN) + hopper::nonzero_halves(v.w & BELOW_SIGN);
}

/* Warps 1-3 go over the rows of a half tile of h, 16 bytes a lane; f(row, chunk,
 * value) for each, the whole warp at once. */
template <bool GATED, typename F>
__device__ __forceinline__ void for_rows(uint32_t staged, F f)
{
    constexpr int CHUNKS = Shape<GATED>::COLS / 8, AT_ONCE = 32 / CHUNKS;
    int lane = threadIdx.x % 32, chunk = lane % CHUNKS;
#pragma unroll 4
    for (int r = (threadIdx.x / 32 - 1) * AT_ONCE + lane / CHUNKS; r < HALF_ROWS;
         r += HELPERS / 32 * AT_ONCE)
        f(r, chunk, load_chunk(staged_chunk(staged, Shape<GATED>::ROW_BYTES, r, chunk)));
}

/* Which values of h aren't zero, where the row was. */
template <bool GATED>
__device__ __forceinline__ void store_bits(uint32_t staged, int row, int chunk, uint4 v)
{
    __syncwarp(); // the whole row is read
    hopper::store_byte(copied_row<GATED>(staged, chunk / 16, row) + chunk % 16, nonzero_bits(v));
}

/* Rows of h out; also their bits (FAST, plain), or how many aren't zero (FAST,
 * gated). */
template <bool GATED, Mode MODE>
__device__ __forceinline__ void write_rows(const Params &p, uint32_t staged, int place, int tile,
                                           int rows, uint32_t &nonzeros)
{
    int first = tile * Shape<GATED>::COLS;
    uint16_t *to = p.h + place * p.stride + first;
    for_rows<GATED>(staged, [&](int r, int chunk, uint4 v) {
        if (place + r < rows && first + 8 * chunk < p.cols)
            *reinterpret_cast<uint4 *>(to + r * p.stride + 8 * chunk) = v;
        if (MODE == FAST && GATED)
            nonzeros += nonzero_numbers(v);
        if (MODE == FAST && !GATED)
            store_bits<GATED>(staged, r, chunk, v);
    });
}

/* A row's counts of one part under the definitions of the plane; `also`: another
 * plane that has the same bits, or the plane. But for so many, which down adds. */
__device__ __forceinline__ void add_row(const Params &p, int plane, int also, int number, int row,
                                        uint2 n, uint32_t left)
{
    uint32_t more = n.x + n.y - left; // modulo 2^32
    for (int def = 0; def < p.counts.defs && more; def++) // route counts a routed row's pattern
        if ((p.plane_of[def] == plane || p.plane_of[def] == also) &&
            (p.count || p.counts.def[def].kind != TW_ACTIVE_GATE))
            atomicAdd(p.counts.nnz[def] + row, more);
    if (plane != 0 || !p.count)
        return;
    int tiles = (p.cols + TWP_TILE - 1) / TWP_TILE;
    uint16_t *half = reinterpret_cast<uint16_t *>(p.count + (int64_t)row * tiles) + number;
    half[0] = n.x | n.y << 8;
    if (number == p.parts - 1 && number % 2 == 0)
        half[1] = 0;
}

/* Row `row` of a tile's plane. */
template <bool GATED, Mode MODE, planes::Layout L>
__device__ __forceinline__ uint4 load_row(uint32_t staged, int plane, int part, int row)
{
    uint32_t half = staged + row / HALF_ROWS * Plan<GATED, MODE>::HALF_BYTES;
    int within = row % HALF_ROWS;
    return load_chunk(L == planes::COPIED ? copied_row<GATED>(half, part, within)
                                          : plane_row<GATED, MODE>(half, plane, part, within));
}

/* How many of these counts down adds: those of the pattern. */
template <bool GATED, Mode MODE, planes::Layout L>
__device__ __forceinline__ uint32_t left_to_down(const Params &p, uint32_t staged, int row, uint2 n)
{
    if (MODE != FAST || !p.leaves_nnz)
        return 0;
    if (GATED && L == planes::COPIED)
        n = planes::row_counts<planes::MULTIPLIED>(
            load_row<GATED, FAST, planes::MULTIPLIED>(staged, 0, 0, row));
    return n.x + n.y;
}

/* A plane's part over all rows of the tile, 64 of its columns (side 0 or 1). */
template <bool GATED, Mode MODE, planes::Layout L>
__device__ __forceinline__ void count_plane(const Params &p, uint32_t staged, int place, int tile,
                                            int rows, int plane, int also, int part, int side)
{
    int lane = threadIdx.x % 32, number = tile * Shape<GATED>::PARTS + part;
    planes::Column column[2];
    if (number >= p.parts)
        return;
#pragma unroll
    for (int group = 0; group < TILE_M / 32; group++) {
        int mine = place + 32 * group + lane;
        uint4 bits = load_row<GATED, MODE, L>(staged, plane, part, 32 * group + lane);
        bool is_counted = mine < rows;
        if (is_counted && side == 0) {
            uint2 n = planes::row_counts<L>(bits);
            add_row(p, plane, also, number, number_of(p.rows, mine), n,
                    left_to_down<GATED, MODE, L>(p, staged, 32 * group + lane, n));
        }
        if (is_counted && p.counts.skip)
            is_counted = !p.counts.skip[number_of(p.rows, mine)];
        uint32_t counted = __ballot_sync(FULL_WARP, is_counted);
#pragma unroll
        for (int i = 0; i < 2; i++)
            column[i].rows[group] =
                planes::transpose(planes::column_word<L>(bits, 2 * side + i)) & counted;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int at = number * planes::COLUMNS + planes::column_of<L>(2 * side + i, lane);
        for (int def = 0; def < p.counts.defs && column[i].any(); def++)
            if (p.plane_of[def] == plane || p.plane_of[def] == also)
                planes::publish(p.counts, def, at, column[i],
                                [&](int row) { return number_of(p.rows, place + row); });
    }
}

/* FAST and gated: is `hidden` the pattern in this tile? The one is a part of the
 * other, so their sums tell. All spare warps. */
template <bool GATED>
__device__ __forceinline__ bool is_hidden_pattern(uint32_t staged, uint32_t sums, int nonzeros,
                                                  int tile_rows)
{
    int warp = threadIdx.x / 32 - 1, lane = threadIdx.x % 32, over = -nonzeros;
    for (int row = threadIdx.x - 32; row < tile_rows; row += HELPERS) {
        uint2 n = planes::row_counts<planes::MULTIPLIED>(
            load_row<GATED, FAST, planes::MULTIPLIED>(staged, 0, 0, row));
        over += n.x + n.y;
    }
    over = __reduce_add_sync(FULL_WARP, over);
    if (lane == 0)
        hopper::store_word(sums + 4 * warp, over);
    hopper::named_sync(COUNTING, HELPERS);
    int all = 0;
    for (int w = 0; w < HELPERS / 32; w++)
        all += hopper::load_word(sums + 4 * w);
    return all == 0;
}

template <bool GATED, Mode MODE>
__device__ __forceinline__ void count_tile(const Params &p, uint32_t staged, uint32_t sums,
                                           int place, int tile, int rows, int nonzeros,
                                           int tile_rows)
{
    constexpr int PARTS = Shape<GATED>::PARTS, STEP = HELPERS / 32;
    constexpr bool IS_COPIED = MODE == FAST && !GATED;
    int planes = p.planes, also = 0, warp = threadIdx.x / 32 - 1;
    if (MODE == FAST && GATED && p.planes > 1) {
        if (is_hidden_pattern<GATED>(staged, sums, nonzeros, tile_rows)) {
            also = 1;
        } else {
            for (int half = 0; half < 2; half++) {
                uint32_t at = staged + half * Plan<GATED, MODE>::HALF_BYTES;
                for_rows<GATED>(at, [&](int r, int chunk, uint4 v) {
                    store_bits<GATED>(at, r, chunk, v);
                });
            }
        }
        planes = 1;
    }
    hopper::named_sync(COUNTING, HELPERS); // all bits are written
#pragma unroll 1
    for (int unit = warp; unit < planes * PARTS * 2; unit += STEP) {
        int plane = unit / 2 / PARTS;
        count_plane<GATED, MODE, IS_COPIED ? planes::COPIED : planes::MULTIPLIED>(
            p, staged, place, tile, rows, plane, also ? also : plane, unit / 2 % PARTS, unit % 2);
    }
    if (MODE == FAST && GATED && p.planes > 1 && !also)
        for (int side = warp; side < 2; side += STEP)
            count_plane<GATED, MODE, planes::COPIED>(p, staged, place, tile, rows, 1, 1, 0, side);
}

template <bool GATED, Mode MODE>
__device__ __forceinline__ void help(const Params &p, uint32_t staged, uint32_t sums,
                                     Schedule<true> at, int all_rows)
{
    constexpr int HALF_BYTES = Plan<GATED, MODE>::HALF_BYTES;
    for (; at.has(); at.next()) {
        int place = at.row(), tile_rows = at.halves() * HALF_ROWS;
        int rows = min(all_rows, place + tile_rows);
        uint32_t nonzeros = 0;
        for (int half = 0; half < at.halves(); half++) {
            hopper::named_sync(STAGED + half, HANDOVER);
            write_rows<GATED, MODE>(p, staged + half * HALF_BYTES, place + half * HALF_ROWS,
                                    at.column_tile, rows, nonzeros);
        }
        if (MODE != OFF && p.counts.is_on)
            count_tile<GATED, MODE>(p, staged, sums, place, at.column_tile, rows,
                                    (nonzeros & 0xffff) + (nonzeros >> 16), tile_rows);
        __syncwarp();
        for (int half = 0; half < 2 && at.has_next(); half++)
            hopper::named_arrive(TAKEN + half, HANDOVER);
    }
}

} // namespace hidden

#endif
