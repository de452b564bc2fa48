/* The spare warps of hidden.cu: h out of shared memory, and its counts. */
#ifndef TW_KERNELS_CUDA_HIDDEN_COUNT_CUH
#define TW_KERNELS_CUDA_HIDDEN_COUNT_CUH

#include "kernels/cuda/hidden_plan.cuh"

namespace hidden {

/* One thread: a part of h out of shared memory. */
template <Mode MODE>
__device__ __forceinline__ void store_half(const Params &p, uint32_t staged, int half, int place,
                                           int number)
{
    for (int box = 0; box < planes::COLUMNS / BOX; box++)
        hopper::tma_store(&p.h_map, staged + half * Plan<MODE>::HALF_BYTES + box * BOX_BYTES,
                          number * planes::COLUMNS + box * BOX, place + half * HALF_ROWS);
}

/* Which values of h aren't zero, where its rows were: 16 lanes a row. */
template <Mode MODE> __device__ __forceinline__ void copy_bits(uint32_t staged)
{
    constexpr int CHUNKS = planes::COLUMNS / 8, AT_ONCE = 32 / CHUNKS;
    int lane = threadIdx.x % 32, chunk = lane % CHUNKS;
    for (int r = (threadIdx.x / 32 - 1) * AT_ONCE + lane / CHUNKS; r < TILE_M;
         r += HELPERS / 32 * AT_ONCE) {
        uint32_t half = staged + r / HALF_ROWS * Plan<MODE>::HALF_BYTES;
        uint4 v = load_chunk(boxed_chunk(half, r % HALF_ROWS, chunk));
        __syncwarp(); // the whole row is read
        hopper::store_byte(copied_row<MODE>(staged, r) + chunk, nonzero_bits(v));
    }
}

/* A row's counts of one part under the definitions of the plane; `also`: another
 * plane that has the same bits, or the plane. But for so many, which down adds. */
__device__ __forceinline__ void add_row(const Params &p, int plane, int also, int number, int row,
                                        uint2 n, uint32_t left)
{
    uint32_t more = n.x + n.y - left; // modulo 2^32
    for (int def = 0; def < p.counts.defs && more; def++) // route counts a routed row's pattern
        if ((p.plane_of[def] == plane || p.plane_of[def] == also) &&
            (p.sums.count || p.counts.def[def].kind != TW_ACTIVE_GATE))
            atomicAdd(p.counts.nnz[def] + row, more);
    if (plane == 0 && p.sums.count)
        p.sums.count[number * p.sums.stride + row] = n.x | n.y << 8;
}

/* Row `row` of a part's plane. */
template <Mode MODE, planes::Layout L>
__device__ __forceinline__ uint4 load_row(uint32_t staged, int plane, int row)
{
    uint32_t half = staged + row / HALF_ROWS * Plan<MODE>::HALF_BYTES;
    return load_chunk(L == planes::COPIED ? copied_row<MODE>(staged, row)
                                          : plane_row<MODE>(half, plane, row % HALF_ROWS));
}

/* How many of these counts down adds: those of the pattern. */
template <Mode MODE, planes::Layout L>
__device__ __forceinline__ uint32_t left_to_down(const Params &p, uint32_t staged, int row, uint2 n)
{
    if (MODE != FAST || !p.leaves_nnz)
        return 0;
    if (L == planes::COPIED)
        n = planes::row_counts<planes::MULTIPLIED>(
            load_row<FAST, planes::MULTIPLIED>(staged, 0, row));
    return n.x + n.y;
}

/* A plane over all rows of part `number`, 64 of its columns (side 0 or 1). */
template <Mode MODE, planes::Layout L>
__device__ __forceinline__ void count_plane(const Params &p, uint32_t staged, int place,
                                            int number, int rows, int plane, int also, int side)
{
    int lane = threadIdx.x % 32;
    planes::Column column[2];
#pragma unroll
    for (int group = 0; group < TILE_M / 32; group++) {
        int mine = place + 32 * group + lane;
        uint4 bits = load_row<MODE, L>(staged, plane, 32 * group + lane);
        bool is_counted = mine < rows;
        if (is_counted && side == 0) {
            uint2 n = planes::row_counts<L>(bits);
            add_row(p, plane, also, number, number_of(p.rows, mine), n,
                    left_to_down<MODE, L>(p, staged, 32 * group + lane, n));
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

/* is_same: `hidden` is the pattern. */
template <bool GATED, Mode MODE>
__device__ __forceinline__ void count_part(const Params &p, uint32_t staged, int place, int number,
                                           int rows, bool is_same)
{
    constexpr int STEP = HELPERS / 32;
    int planes = MODE == FAST ? 1 : p.planes, warp = threadIdx.x / 32 - 1;
    if (number >= p.parts)
        return;
#pragma unroll 1
    for (int unit = warp; unit < planes * 2; unit += STEP) {
        int plane = unit / 2, also = MODE == FAST && GATED && is_same ? 1 : plane;
        count_plane<MODE, planes::MULTIPLIED>(p, staged, place, number, rows, plane, also,
                                              unit % 2);
    }
    if (MODE == FAST && GATED && !is_same)
        for (int side = warp; side < 2; side += STEP)
            count_plane<MODE, planes::COPIED>(p, staged, place, number, rows, 1, 1, side);
}

/* Tells the multiplying warpgroups. */
__device__ __forceinline__ void tell(int barrier, int halves)
{
    __syncwarp();
    for (int half = 0; half < halves; half++)
        arrive(barrier + half);
}

/* One part of a tile. differs: a word of each half, set where `hidden` isn't the
 * pattern. is_last: nobody waits for its room. */
template <bool GATED, Mode MODE>
__device__ __forceinline__ void help_part(const Params &p, uint32_t staged, uint32_t differs,
                                          int place, int halves, int number, int rows,
                                          bool is_last)
{
    bool is_counting = MODE != OFF && p.counts.is_on;
    bool is_same = true, is_free = !is_counting || MODE == FAST;
    for (int half = 0; half < halves; half++) {
        meet(STAGED + half);
        if (threadIdx.x == 32)
            store_half<MODE>(p, staged, half, place, number);
        __syncwarp();
    }
    if (MODE == FAST && GATED && is_counting && p.planes > 1)
        is_same = is_free = !(hopper::load_word(differs) | hopper::load_word(differs + 4));
    if (threadIdx.x == 32)
        hopper::tma_stores_read();
    __syncwarp();
    if (!is_same) {
        hopper::named_sync(COUNTING, HELPERS); // h is out
        copy_bits<MODE>(staged);
        __syncwarp();
        hopper::named_sync(COUNTING, HELPERS); // and all bits are written
    }
    if (is_free && !is_last)
        tell(TAKEN, halves);
    if (is_counting)
        count_part<GATED, MODE>(p, staged, place, number, rows, is_same);
    if (!is_same && threadIdx.x < 34)
        hopper::store_word(differs + 4 * (threadIdx.x - 32), 0);
    if (!is_free && !is_last)
        tell(TAKEN, halves);
    if (MODE == FAST && is_counting && !is_last)
        tell(COUNTED, halves);
}

template <bool GATED, Mode MODE>
__device__ __forceinline__ void help(const Params &p, uint32_t staged, uint32_t differs,
                                     Schedule<true> at, int all_rows)
{
    constexpr int PARTS = Shape<GATED>::PARTS;
    for (; at.has(); at.next()) {
        int place = at.row(), halves = at.halves();
        int rows = min(all_rows, place + halves * HALF_ROWS);
#pragma unroll 1
        for (int part = 0; part < PARTS; part++)
            help_part<GATED, MODE>(p, staged, differs, place, halves,
                                   at.column_tile * PARTS + part, rows,
                                   part == PARTS - 1 && !at.has_next());
    }
}

} // namespace hidden

#endif
