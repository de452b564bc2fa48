/* What a block of attention_wgmma.cuh is, which rows and keys it takes, and how they
 * come to shared memory. */
#ifndef TW_KERNELS_CUDA_ATTENTION_FORM_CUH
#define TW_KERNELS_CUDA_ATTENTION_FORM_CUH

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch_model.h"
#include "kernels/cuda/wgmma.cuh"

namespace attention_wgmma {

constexpr int GROUP_ROWS = 64, ROW_BYTES = 128; // a product's rows; 64 columns of 16 bits

struct Params {
    CUtensorMap q, k, v; // boxes of 64 columns by GROUP_ROWS rows, by N rows
    uint16_t *y;
    const int32_t *offset, *tile_seq, *tile_place;
    int32_t *work; // see struct twp_device_batch
    int32_t tiles, heads, kv_heads;
    int32_t window; // INT32_MAX: all
    float c;        // scale log2 e
};

/* Heads of DIM, a block of GROUPS warpgroups with 64 queries each, tiles of N
 * keys, STAGES pairs of tiles in shared memory, BLOCKS on a multiprocessor. KEEP:
 * Q's fragments stay in registers. OVERLAP: the next tile's scores are multiplied
 * together with this one's values. TURNS: a warpgroup has the tensor cores while
 * the others weigh.
 *
 * Where a multiprocessor has one block, this stays: a further warpgroup, of which
 * one thread works, loads the rows and keys of one item (rows of a sequence and
 * head) after the other, the next one's while the last of this one's are
 * multiplied. Where it has two, each has one item and loads by its first thread. */
template <int DIM_, int GROUPS_, int N_, int STAGES_, int BLOCKS_, bool KEEP_, bool OVERLAP_,
          bool TURNS_>
struct Form {
    static constexpr int DIM = DIM_, GROUPS = GROUPS_, N = N_, STAGES = STAGES_, BLOCKS = BLOCKS_;
    static constexpr bool KEEP = KEEP_, OVERLAP = OVERLAP_, TURNS = TURNS_;
    static constexpr bool HAS_LOADER = BLOCKS == 1;
    static constexpr int ROWS = GROUPS * GROUP_ROWS;
    static constexpr int THREADS = (GROUPS + HAS_LOADER) * 128;
    static constexpr int BOXES = (DIM + 63) / 64; // of 64 columns
    static constexpr int CHUNKS = DIM / 8;        // of 16 bytes in a row
    static constexpr int TILE_BYTES = BOXES * N * ROW_BYTES;
    static constexpr int Q_BYTES = BOXES * GROUP_ROWS * ROW_BYTES; // of a warpgroup
    /* Shared memory: Q, pairs of K and V, rows of y (with a loader; else in Q's
     * place), the item, barriers: Q here, Q done with, pairs here, pairs back. */
    static constexpr int PAIRS_AT = GROUPS * Q_BYTES;
    static constexpr int ROWS_AT = HAS_LOADER ? PAIRS_AT + STAGES * 2 * TILE_BYTES : 0;
    static constexpr int ITEM_AT = PAIRS_AT + STAGES * 2 * TILE_BYTES + (HAS_LOADER ? PAIRS_AT : 0);
    static constexpr int BARRIERS_AT = ITEM_AT + 16;
    static constexpr int BYTES = BARRIERS_AT + (2 + 2 * STAGES) * 8;
    static constexpr int LAG = STAGES > 2 ? 2 : 1;                 // pairs, see load_behind
    static constexpr int LOW = 24, HIGH = GROUPS == 3 ? 160 : 240; // registers
    static_assert(DIM % 16 == 0 && N % 16 == 0 && N <= 256, "whole products");
    static_assert(N * ROW_BYTES % 1024 == 0, "the swizzle's period");
    static_assert(BLOCKS * (BYTES + 1024) <= 228 * 1024, "shared memory");
    static_assert(BLOCKS > 1 || 128 * LOW + GROUPS * 128 * HIGH <= 65536, "register file");
    static_assert(STAGES > 1, "pairs under way");
    static_assert(HAS_LOADER ? OVERLAP : !TURNS, "turns go on from item to item");
};

/* Addresses in the block's shared memory, which stands on what it's given. */
template <typename F> __device__ __forceinline__ uint32_t queries_here(uint32_t memory)
{
    return memory + F::BARRIERS_AT;
}
template <typename F> __device__ __forceinline__ uint32_t queries_done(uint32_t memory)
{
    return memory + F::BARRIERS_AT + 8;
}

/* The ring of stages: a tile of K, and V's of the same keys or, OVERLAP, of those
 * before, so that K is alone in the first pair and V in the last. */
template <typename F> struct Ring {
    uint32_t memory;
    int stage = 0;
    uint32_t parity = 0;

    __device__ explicit Ring(uint32_t from) : memory(from) {}
    __device__ uint32_t k() const { return memory + F::PAIRS_AT + stage * 2 * F::TILE_BYTES; }
    __device__ uint32_t v() const { return k() + F::TILE_BYTES; }
    __device__ uint32_t full() const { return memory + F::BARRIERS_AT + 16 + 8 * stage; }
    __device__ uint32_t empty() const { return full() + 8 * F::STAGES; }
    __device__ void next()
    {
        if (++stage == F::STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

/* A warp's common number, which the compiler then knows to be one: addresses and
 * loops are the warp's, not a thread's. */
__device__ __forceinline__ int common_number(int x)
{
    return __shfl_sync(common::FULL_WARP, x, 0);
}

/* An item: rows of one sequence and head, and the keys they see. */
template <typename F> struct Item {
    int first, length; // of the sequence
    int start, have;   // queries
    int head, column;  // column: of K and V
    int begin, tiles;  // first key, tiles of keys
    int pairs;         // of tiles
    int groups;        // warpgroups that have a row

    /* By its number. */
    __device__ Item(const Params &p, int number)
    {
        const int tile = number % p.tiles, seq = p.tile_seq[tile];
        first = p.offset[seq];
        length = p.offset[seq + 1] - first;
        start = p.tile_place[tile];
        head = number / p.tiles;
        complete(p);
    }
    /* By what packed() gave. */
    __device__ Item(const Params &p, const uint4 &what)
        : first(common_number(what.x)), length(common_number(what.y)),
          start(common_number(what.z)), head(common_number(what.w))
    {
        complete(p);
    }
    __device__ uint4 packed() const { return make_uint4(first, length, start, head); }

    __device__ void complete(const Params &p)
    {
        column = head / (p.heads / p.kv_heads) * F::DIM;
        have = min(F::ROWS, length - start);
        begin = start >= p.window ? (start - p.window + 1) / F::N * F::N : 0;
        tiles = (start + have - begin + F::N - 1) / F::N;
        pairs = tiles + F::OVERLAP;
        groups = (have + GROUP_ROWS - 1) / GROUP_ROWS;
    }
};

/* ---- loads, by one thread ---- */

template <typename F>
__device__ __forceinline__ void load_tile(uint32_t to, const CUtensorMap *map, uint32_t full,
                                          int column, int row)
{
#pragma unroll
    for (int box = 0; box < F::BOXES; box++)
        hopper::tma_load(to + box * F::N * ROW_BYTES, map, full, column + box * 64, row);
}

template <typename F>
__device__ __forceinline__ void load_queries(const Params &p, const Item<F> &item, uint32_t memory)
{
    const uint32_t full = queries_here<F>(memory);
    hopper::barrier_expect(full, item.groups * F::Q_BYTES);
    for (int group = 0; group < item.groups; group++)
        for (int box = 0; box < F::BOXES; box++)
            hopper::tma_load(memory + group * F::Q_BYTES + box * GROUP_ROWS * ROW_BYTES, &p.q,
                             full, item.head * F::DIM + box * 64,
                             item.first + item.start + group * GROUP_ROWS);
}

/* Once all have given its stage back. */
template <typename F>
__device__ __forceinline__ void load_pair(const Params &p, const Item<F> &item,
                                          const Ring<F> &ring, int pair)
{
    const int key = item.first + item.begin + pair * F::N;
    const bool has_k = pair < item.tiles, has_v = !F::OVERLAP || pair > 0;
    hopper::barrier_wait(ring.empty(), ring.parity ^ 1);
    hopper::barrier_expect(ring.full(), (has_k + has_v) * F::TILE_BYTES);
    if (has_k)
        load_tile<F>(ring.k(), &p.k, ring.full(), item.column, key);
    if (has_v)
        load_tile<F>(ring.v(), &p.v, ring.full(), item.column, key - (F::OVERLAP ? F::N : 0));
}

/* ---- the loader: items one after another ---- */

/* Blocks take items as they come to them. The last to find none leaves the counters
 * as they were. */
__device__ __forceinline__ int next_item(const Params &p)
{
    return gridDim.x + atomicAdd(&p.work[0], 1);
}
__device__ __forceinline__ void end_items(const Params &p)
{
    __threadfence();
    if (atomicAdd(&p.work[1], 1) == (int)gridDim.x - 1)
        p.work[0] = p.work[1] = 0;
}

/* Says which item is next (head -1: none), once all are done with Q's place. */
template <typename F>
__device__ __forceinline__ void announce(uint32_t memory, uint32_t parity, const uint4 &what)
{
    hopper::barrier_wait(queries_done<F>(memory), parity ^ 1);
    hopper::store_chunk(memory + F::ITEM_AT, what);
}

template <typename F> __device__ __forceinline__ void load_items(const Params &p, uint32_t memory)
{
    Ring<F> ring(memory);
    uint32_t parity = 0;
    for (int number = blockIdx.x; number < p.tiles * p.heads; number = next_item(p)) {
        const Item<F> item(p, number);
        load_pair(p, item, ring, 0);
        ring.next();
        announce<F>(memory, parity, item.packed());
        load_queries(p, item, memory);
        parity ^= 1;
        for (int pair = 1; pair < item.pairs; pair++, ring.next())
            load_pair(p, item, ring, pair);
    }
    announce<F>(memory, parity, make_uint4(0, 0, 0, UINT32_MAX));
    hopper::barrier_arrive_here(queries_here<F>(memory));
    end_items(p);
}

} // namespace attention_wgmma

#endif
