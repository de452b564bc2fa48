/* The product of the portable kernels: C = A B^T in tiles of 128 x 256, fp32
 * sums, 16-bit operands along K in steps of 64.
 *
 * A block is 8 warps of 64 x 64 each, two halves of 64 rows. cp.async fills a
 * ring of stages, each thread its part; an mbarrier says that a stage is full,
 * another that all warps are done with it, so that warps need not keep step: the
 * halves drift apart by up to the ring, and one's epilogue stands beside the
 * other's product. Blocks are persistent; the tile order is arithmetic (groups
 * of GROUP row tiles, down the rows first) so that what runs at once shares rows
 * of A and B in the L2 cache. Where shared memory has room for the ring and the
 * epilogue's part, the next tile's first stages are on their way during the
 * epilogue; else the epilogue uses the ring's memory. What isn't an mma stands
 * between mma: a warp alone keeps its tensor core busy (an mma.sync takes 6
 * cycles there on an H200, 62 % of WGMMA's rate) as long as it doesn't stop, and
 * two share one. Each element's sum runs
 * along K in one order, whatever the tile: a row's bits don't depend on its
 * place. */
#ifndef TW_KERNELS_CUDA_PRODUCT_MMA_CUH
#define TW_KERNELS_CUDA_PRODUCT_MMA_CUH

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/staged.cuh"

namespace product_mma
{

constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 64, BLOCKS_K = TILE_K / 16;
constexpr int MAX_STAGES = 3;
constexpr int GROUP = 8;
constexpr int WARPS = 8, THREADS = WARPS * 32;
constexpr int WARP_M = 64, WARP_N = 64, WARPS_N = TILE_N / WARP_N;
constexpr int BLOCKS_M = WARP_M / 16, BLOCKS_N = WARP_N / 8; // of a warp's tile
constexpr int HALF_ROWS = WARP_M, HALF_WARPS = WARPS_N;
constexpr int LINE = TILE_K * 2;         // bytes of a stage's row
constexpr int CHUNKS = TILE_K / 8;       // of 16 bytes
constexpr int LOADED = THREADS / CHUNKS; // rows that all threads load at once
constexpr int A_BYTES = TILE_M * LINE, STAGE_BYTES = (TILE_M + TILE_N) * LINE;
/* Lanes that say that their warp is done with a stage. All for racecheck, to which one's
 * word isn't the others'. */
#ifndef TW_RACECHECK
constexpr int RELEASING = 1;
#else
constexpr int RELEASING = 32;
#endif
constexpr int SLOT_BYTES = 32;                       // of a warp, see Feed
constexpr int BARRIERS = 128 + WARPS * SLOT_BYTES;   // bytes before the ring, with slots
static_assert(TILE_M / WARP_M * WARPS_N == WARPS, "a tile of warps");
static_assert(LINE == 128, "the swizzle of a row");
static_assert(TILE_M % LOADED == 0 && TILE_N % LOADED == 0 && LOADED % 16 == 0, "loads");
static_assert(2 * MAX_STAGES * 8 <= 128 && BARRIERS % 128 == 0, "barriers");

/* A warp's sums: [16-row block][8-column block][mma::multiply's four]. */
typedef float Sums[BLOCKS_M][BLOCKS_N][4];

/* A matrix [..][k], rows `stride` apart. */
struct Matrix {
    const uint16_t *data;
    int64_t stride;
};

/* One product. dual not NULL: a tile of B is blocks of 8 rows of b and of dual in
 * turn, 128 of each, so that a warp's even column blocks are b's and the next
 * odd ones the same columns of dual. */
struct Operands {
    Matrix a, b;
    const uint16_t *dual; // as b
    int k, columns;       // of C: rows of b and of dual
    int stages;
    bool is_ahead; // the epilogue has memory of its own
};

/* Where a chunk of a stage's row is: 8 rows' chunks of one column hit all banks. */
__device__ __forceinline__ int swizzled(int row, int chunk)
{
    return row * LINE + ((chunk ^ row % 8) << 4);
}

/* The tiles of this block, one after another. */
struct Raster {
    int heights, columns;
    int first, within; // row tile of the group, and the number in it

    __device__ Raster(int rows, int column_tiles)
        : heights((rows + TILE_M - 1) / TILE_M), columns(column_tiles), first(0),
          within(blockIdx.x)
    {
        place();
    }
    __device__ bool has() const
    {
        return within < height() * columns;
    }
    __device__ void next()
    {
        within += gridDim.x;
        place();
    }
    __device__ void place()
    {
        for (; within >= GROUP * columns; within -= GROUP * columns)
            first += GROUP;
    }
    __device__ int height() const { return min(GROUP, heights - first); }
    __device__ int column_tile() const
    {
        if (heights - first >= GROUP) // without a division
            return within / GROUP;
        return within / (heights - first);
    }
    __device__ int row_tile() const { return first + within - column_tile() * height(); }
};

/* Place in the ring: barriers for full and for empty, then stages. */
struct Ring {
    uint32_t memory;
    int stages, stage;
    uint32_t parity;

    __device__ Ring(uint32_t from, int count) : memory(from), stages(count), stage(0), parity(0) {}
    __device__ uint32_t tiles() const { return memory + BARRIERS + stage * STAGE_BYTES; }
    __device__ uint32_t full() const { return memory + stage * 8; }
    __device__ uint32_t empty() const { return full() + MAX_STAGES * 8; }
    __device__ Ring after() const
    {
        Ring next = *this;
        if (++next.stage == stages) {
            next.stage = 0;
            next.parity ^= 1;
        }
        return next;
    }
};

/* Where a tile starts: bytes from the operands' first rows, and how many rows there
 * are from there on; none: no such tile. */
struct Start {
    int64_t a, b;
    int a_rows, b_rows;
};

/* Fills the ring, stage after stage, tile after tile. A thread loads the same
 * chunk of rows LOADED apart; rows that don't exist keep what is there, which
 * reaches sums of such rows and columns alone. Where the next tile starts is worked
 * out before a product and lies in the warp's slot, so that no registers are needed for
 * that beside the sums. */
template <bool DUAL> struct Feed {
    static constexpr int A_LOADS = TILE_M / LOADED, B_LOADS = TILE_N / LOADED;
    static constexpr int LOADS = A_LOADS + B_LOADS;
    static constexpr int B_STEP = DUAL ? LOADED / 2 : LOADED;
    const Operands &of;
    const char *a, *b;  // this thread's first chunk of the next stage
    int a_rows, b_rows; // from its row on
    uint32_t line;      // where it goes, in bytes from the stage
    uint32_t slot;
    int rows, steps, step; // of the tile

    __device__ Feed(const Operands &operands, int all_rows, uint32_t memory)
        : of(operands), line(swizzled(threadIdx.x / CHUNKS, threadIdx.x % CHUNKS)),
          slot(memory + 128 + threadIdx.x / 32 * SLOT_BYTES), rows(all_rows),
          steps((of.k + TILE_K - 1) / TILE_K)
    {
    }
    /* This thread's first row of b or dual in a tile. */
    __device__ static int b_row()
    {
        int row = threadIdx.x / CHUNKS;
        return DUAL ? row / 16 * 8 + row % 8 : row;
    }
    __device__ Start start(const Raster &at) const
    {
        if (!at.has())
            return {0, 0, 0, 0};
        int row = at.row_tile() * TILE_M, column = at.column_tile() * (DUAL ? TILE_N / 2 : TILE_N);
        return {row * of.a.stride * 2, column * of.b.stride * 2, rows - row, of.columns - column};
    }
    __device__ void open(const Start &tile)
    {
        int row = threadIdx.x / CHUNKS, within = threadIdx.x % CHUNKS * 16;
        const uint16_t *data = DUAL && row / 8 % 2 ? of.dual : of.b.data;
        a = reinterpret_cast<const char *>(of.a.data + row * of.a.stride) + within + tile.a;
        b = reinterpret_cast<const char *>(data + b_row() * of.b.stride) + within + tile.b;
        a_rows = tile.a_rows - row;
        b_rows = tile.b_rows - b_row();
        step = 0;
    }
    __device__ void leave(const Start &tile)
    {
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            hopper::store_chunk(slot, make_uint4((uint32_t)tile.a, (uint32_t)(tile.a >> 32),
                                                 (uint32_t)tile.b, (uint32_t)(tile.b >> 32)));
            hopper::store_word(slot + 16, tile.a_rows);
            hopper::store_word(slot + 20, tile.b_rows);
        }
        __syncwarp();
    }
    __device__ bool has_stage() const { return step < steps; }
    /* The tile is done: the one that was left, if the ring is free for it. */
    __device__ void next_tile()
    {
        uint4 v = hopper::load_chunk(slot);
        Start tile = {(int64_t)((uint64_t)v.y << 32 | v.x), (int64_t)((uint64_t)v.w << 32 | v.z),
                      (int)hopper::load_word(slot + 16), (int)hopper::load_word(slot + 20)};
        open(of.is_ahead ? tile : Start{0, 0, 0, 0});
    }
    /* The loads from .. to - 1 of the next stage, into that one. */
    __device__ __forceinline__ void load(const Ring &into, int from, int to)
    {
        uint32_t bytes = step * TILE_K + (int)threadIdx.x % CHUNKS * 8 < of.k ? 16 : 0;
        uint32_t a_step = (uint32_t)of.a.stride * 2 * LOADED;
        uint32_t b_step = (uint32_t)of.b.stride * 2 * B_STEP;
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int n = i < A_LOADS ? i : i - A_LOADS;
            if (i >= from && i < to)
                mma::copy_async(into.tiles() + line + i * LOADED * LINE,
                                i < A_LOADS ? a + n * a_step : b + n * b_step, bytes,
                                i < A_LOADS ? a_rows > n * LOADED : b_rows > n * B_STEP);
        }
    }
    /* That was all of it. */
    __device__ __forceinline__ void finish_stage(const Ring &into)
    {
        mma::copy_arrive(mma::of_lane_0(into.full()));
        a += LINE;
        b += LINE;
        step++;
    }
};

/* In place of work beside a product. */
struct Nothing {
    __device__ void operator()(int) {}
};

/* The product of one tile after another; all threads of the block alike. */
template <bool DUAL> struct Product {
    static constexpr int ROWS = BLOCKS_K * BLOCKS_M; // a stage's rows of blocks, 8 mma each
    static constexpr int TURN = ROWS - BLOCKS_M + 1; // from there on the next stage is read
    static constexpr int FED_ROWS = 3;               // beside which a stage is fed
    static constexpr int EARLY = 3;                  // rows from a test to its answer's use
    Raster at; // the tile
    Feed<DUAL> feed;
    Ring ring, last; // the stage, and the one that is fed during it
    uint32_t a, b;   // this lane's first blocks, in bytes from the stage
    int steps;

    __device__ Product(const Operands &of, int rows, uint32_t memory, int column_tiles)
        : at(rows, column_tiles), feed(of, rows, memory), ring(memory, of.stages), last(ring),
          steps(feed.steps)
    {
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        a = memory + BARRIERS + swizzled(warp / WARPS_N * WARP_M + lane % 16, lane / 16);
        b = memory + BARRIERS + A_BYTES +
            swizzled(warp % WARPS_N * WARP_N + lane / 16 * 8 + lane % 8, lane / 8 % 2);
        if (threadIdx.x == 0)
            for (int s = 0; s < MAX_STAGES; s++) {
                mma::barrier_init(memory + s * 8, THREADS);
                mma::barrier_init(memory + (MAX_STAGES + s) * 8, WARPS * RELEASING);
            }
        __syncthreads();
        leave_next();
        fill();
    }
    /* The tile's stages but one, which its first step feeds. */
    __device__ void fill()
    {
        feed.open(feed.start(at));
        last = ring;
        for (int s = 1; s < ring.stages; s++) {
            mma::barrier_wait(last.empty(), last.parity ^ 1);
            feed.load(last, 0, Feed<DUAL>::LOADS);
            finish_feed();
        }
    }
    __device__ void leave_next()
    {
        Raster following = at;
        following.next();
        feed.leave(feed.start(following));
    }
    __device__ __forceinline__ void finish_feed()
    {
        feed.finish_stage(last);
        last = last.after();
    }
    /* Of block i along K of a stage: 16 rows of A, 16 of B. */
    __device__ __forceinline__ void load_a(uint32_t (&v)[4], const Ring &from, int i, int m)
    {
        hopper::load_blocks((a ^ i * 32) + from.stage * STAGE_BYTES + m * 16 * LINE, v);
    }
    __device__ __forceinline__ void load_b(uint32_t (&v)[4], const Ring &from, int i, int n)
    {
        hopper::load_blocks((b ^ i * 32) + from.stage * STAGE_BYTES + n * 16 * LINE, v);
    }
    /* This warp is done with the stage. */
    __device__ __forceinline__ void release()
    {
        __syncwarp();
        if (threadIdx.x % 32 < RELEASING)
            mma::barrier_arrive(ring.empty());
    }
    /* One stage's part of d. What a row of blocks needs is loaded beside the one
     * before: 16 rows of A, and B's next block along K by parts; so is the ring fed, in
     * thirds. Barriers are tested early, since an answer takes as long as 6 mma, and
     * waited for only where they weren't over. Of two stages, the other is fed and this
     * one released as early as can be; of more, the one before is fed late, when all
     * warps are done with it. beside(row): other work, a part after each row. */
    template <enum tw_dtype T, bool IS_LAST, bool IS_OF_TWO, typename Beside>
    __device__ __forceinline__ void multiply_stage(Sums &d, uint32_t (&va)[BLOCKS_M][4],
                                                   uint32_t (&vb)[2][BLOCKS_N / 2][4],
                                                   Beside &beside)
    {
        constexpr int FED = IS_OF_TWO ? 0 : TURN, LOADS = Feed<DUAL>::LOADS;
        constexpr int RELEASED = IS_OF_TWO ? ROWS - BLOCKS_M : ROWS - 2; // A is read until there
        Ring after = ring.after();
        bool is_free = false, is_full = IS_LAST;
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            int i = row / BLOCKS_M, m = row % BLOCKS_M;
            if (row == FED - EARLY)
                is_free = mma::barrier_is_over(last.empty(), last.parity ^ 1) && feed.has_stage();
            if (row == TURN - EARLY && !IS_LAST)
                is_full = mma::barrier_is_over(after.full(), after.parity);
            if (row == FED && !is_free) {
                mma::barrier_wait(last.empty(), last.parity ^ 1);
                if (!feed.has_stage())
                    feed.next_tile();
            }
            if (row == TURN && !is_full)
                mma::barrier_wait(after.full(), after.parity);
#pragma unroll
            for (int next = row + 1; next < ROWS; next++)
                if (row == RELEASED || (row < RELEASED && next == row + 1))
                    load_a(va[next % BLOCKS_M], ring, next / BLOCKS_M, next % BLOCKS_M);
            if (row == RELEASED)
                release();
            if (row == ROWS - 1 && !IS_LAST)
                load_a(va[0], after, 0, 0);
            if (i + 1 < BLOCKS_K)
                load_b(vb[(i + 1) % 2][m], ring, i + 1, m);
            else if (!IS_LAST && row >= TURN)
                for (int n = row == TURN ? 0 : row - TURN + 1; n <= row - TURN + 1; n++)
                    load_b(vb[0][n], after, 0, n);
            if (row >= FED && row < FED + FED_ROWS)
                feed.load(last, (row - FED) * LOADS / FED_ROWS, (row - FED + 1) * LOADS / FED_ROWS);
#pragma unroll
            for (int n = 0; n < BLOCKS_N; n++)
                mma::multiply<T>(d[m][n], va[m], vb[i % 2][n / 2][n % 2 * 2],
                                 vb[i % 2][n / 2][n % 2 * 2 + 1]);
            if (row == FED + FED_ROWS - 1)
                finish_feed();
            beside(row);
        }
        ring = after;
    }
    template <enum tw_dtype T, bool IS_OF_TWO, typename Beside> __device__ __forceinline__ void
    multiply_tile(Sums &d, Beside &beside)
    {
        uint32_t va[BLOCKS_M][4], vb[2][BLOCKS_N / 2][4];
#pragma unroll
        for (int i = 0; i < BLOCKS_M * BLOCKS_N * 4; i++)
            d[i / 4 / BLOCKS_N][i / 4 % BLOCKS_N][i % 4] = 0;
        mma::barrier_wait(ring.full(), ring.parity);
        load_a(va[0], ring, 0, 0);
#pragma unroll
        for (int n = 0; n < BLOCKS_N / 2; n++)
            load_b(vb[0][n], ring, 0, n);
#pragma unroll 1
        for (int step = 1; step < steps; step++)
            multiply_stage<T, false, IS_OF_TWO>(d, va, vb, beside);
        multiply_stage<T, true, IS_OF_TWO>(d, va, vb, beside);
    }
    /* d = this warp's part of the tile. Work beside it: with more than two stages, else
     * it is left to the caller. */
    template <enum tw_dtype T, typename Beside = Nothing> __device__ __forceinline__ void
    multiply(Sums &d, Beside &&beside = Nothing())
    {
        Nothing nothing;
        if (ring.stages == 2)
            multiply_tile<T, true>(d, nothing);
        else
            multiply_tile<T, false>(d, beside);
    }
    /* The epilogue's memory is this half's, and what the last one left in it read. */
    __device__ __forceinline__ void begin_epilogue()
    {
        if (feed.of.is_ahead)
            sync_half();
        else
            __syncthreads();
    }
    /* The half's warps wait for each other. */
    __device__ __forceinline__ void sync_half()
    {
        hopper::named_sync(1 + threadIdx.x / 32 / HALF_WARPS, HALF_WARPS * 32);
    }
    /* On to the next tile. */
    __device__ void next()
    {
        at.next();
        leave_next();
        if (feed.of.is_ahead || !at.has())
            return;
        for (int s = 1; s < ring.stages; s++, ring = ring.after()) // fed with nothing
            release();
        __syncthreads();
        fill();
    }
};

/* Where a thread's sums are in its half of the tile: row + 16 m + 8 i and column
 * + 8 n of block [m][n]. */
struct Place {
    int row, chunk, column;

    __device__ Place()
    {
        int lane = threadIdx.x % 32;
        row = lane / 4;
        chunk = threadIdx.x / 32 % WARPS_N * BLOCKS_N;
        column = 8 * chunk + 2 * (lane % 4);
    }
    /* Two of them in the half's staged tile. */
    __device__ __forceinline__ uint32_t word(uint32_t staged, int row_bytes, int m, int n,
                                             int i) const
    {
        return staged::staged_chunk(staged, row_bytes, row + 16 * m + 8 * i, chunk + n) +
               threadIdx.x % 4 * 4;
    }
};

__device__ __forceinline__ float2 bias_pair(const float *bias, int column)
{
    return bias ? __ldg(reinterpret_cast<const float2 *>(bias + column)) : make_float2(0, 0);
}

/* ---- the host's side ---- */

/* Shared memory of a block whose epilogue needs that much; into `of` what fits:
 * stages first, then the epilogue beside them. of_kernel: what it has statically. */
inline int choose_memory(Operands &of, const struct twp_device *device, int epilogue,
                         int of_kernel = 0)
{
    int room = device->shared_bytes - BARRIERS - of_kernel;
    int steps = (of.k + TILE_K - 1) / TILE_K;
    of.stages = room / STAGE_BYTES < MAX_STAGES ? room / STAGE_BYTES : MAX_STAGES;
    of.stages = of.stages < steps + 1 ? of.stages : steps + 1; // see Feed
    of.is_ahead = of.stages * STAGE_BYTES + epilogue <= room;
    return BARRIERS + of.stages * STAGE_BYTES + (of.is_ahead ? epilogue : 0);
}

/* The epilogue's memory. */
__device__ __forceinline__ uint32_t epilogue_memory(const Operands &of, uint32_t memory)
{
    return memory + BARRIERS + (of.is_ahead ? of.stages * STAGE_BYTES : 0);
}

/* dual may be NULL. */
inline Operands operands(const struct twp_map *a, const struct twp_map *b,
                         const struct twp_map *dual)
{
    auto data = [](const struct twp_map *map) { return static_cast<const uint16_t *>(map->data); };
    return {{data(a), a->stride},
            {data(b), b->stride},
            dual ? data(dual) : nullptr,
            (int)a->cols,
            (int)b->rows,
            0,
            false};
}

} // namespace product_mma

#endif
