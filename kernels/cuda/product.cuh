/* The product of all three Hopper kernels: C = A B^T in tiles of 128 x 256,
 * fp32 sums, 16-bit operands along K in steps of 64.
 *
 * A block is three warpgroups: warp 0 loads (TMA), warps 1-3 are free for the
 * epilogue's slow part, warpgroups 1 and 2 multiply 64 rows each. Two blocks
 * make a cluster: two tiles of A below each other and one tile of B, of which
 * each block loads half for both. Blocks are persistent; the tile order is
 * arithmetic (groups of GROUP row pairs, down the rows first) so that what runs
 * at once shares rows of A and B in the L2 cache. Each element's sum runs along
 * K in one order, whatever the tile: a row's bits don't depend on its place. */
#ifndef TW_KERNELS_CUDA_PRODUCT_CUH
#define TW_KERNELS_CUDA_PRODUCT_CUH

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/staged.cuh"

namespace product {

using namespace staged;

constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 64;
constexpr int CLUSTER = 2;
constexpr int GROUP = 8;
constexpr int THREADS = 384;
constexpr int HELPERS = 96;          // warps 1-3
constexpr int HALF_ROWS = 64;        // of a consumer warpgroup
constexpr int A_BYTES = TILE_M * TILE_K * 2;
constexpr int B_BYTES = TILE_N * TILE_K * 2;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int STAGED_BYTES = TILE_M * TILE_N * 2; // a tile in 16 bits
constexpr int ALIGN = 1024;          // the swizzle's period
constexpr int MAX_STAGES = 4;
constexpr int REGISTERS_LOW = 72, REGISTERS_HIGH = 216;
static_assert(128 * REGISTERS_LOW + 256 * REGISTERS_HIGH <= 65536, "register file");
static_assert(A_BYTES % ALIGN == 0 && B_BYTES % (2 * ALIGN) == 0, "swizzled tiles");

/* Named barriers: of a consumer warpgroup and the spare warps, one a warpgroup (MORE: what
 * a kernel names), and of the spare warps. */
constexpr int STAGED = 1, TAKEN = 3, MORE = 5, COUNTING = 7;
constexpr int HANDOVER = 128 + HELPERS;

constexpr int smem_bytes(int stages, int staged_bytes)
{
    return ALIGN + stages * STAGE_BYTES + staged_bytes + 2 * MAX_STAGES * 8;
}
static_assert(smem_bytes(3, STAGED_BYTES) <= 227 * 1024, "shared memory with staging");
static_assert(smem_bytes(4, 0) <= 227 * 1024, "shared memory without staging");

#ifndef TW_RACECHECK
constexpr int HANDOVER_BYTES = 0; // static shared memory
/* At a barrier of a consumer warpgroup and the spare warps, whole warps of either: without
 * waiting for the other side, and waiting for it. */
__device__ __forceinline__ void arrive(int barrier)
{
    hopper::named_arrive(barrier, HANDOVER);
}
__device__ __forceinline__ void meet(int barrier)
{
    hopper::named_sync(barrier, HANDOVER);
}
__device__ __forceinline__ void start_handover() {}
#else
/* The same by mbarriers: compute-sanitizer's racecheck takes what a thread wrote before it
 * only arrived at a named barrier for unordered, from the second time on. */
constexpr int HANDOVER_BYTES = ALIGN; // before dynamic memory that is aligned
__device__ __forceinline__ uint32_t handover(int barrier)
{
    __shared__ uint64_t barriers[COUNTING];
    return hopper::smem_address(barriers + barrier);
}
__device__ __forceinline__ void arrive(int barrier)
{
    hopper::barrier_arrive_here(handover(barrier));
}
__device__ __forceinline__ void meet(int barrier)
{
    hopper::barrier_meet(handover(barrier));
}
__device__ __forceinline__ void start_handover()
{
    for (int barrier = STAGED; barrier < COUNTING; barrier++)
        hopper::barrier_init(handover(barrier), HANDOVER);
}
#endif

/* Shared addresses of a block's parts. */
template <int STAGES> struct Smem {
    uint32_t tiles, staged, full, empty;

    __device__ Smem(const void *raw, int staged_bytes)
    {
        tiles = (hopper::smem_address(raw) + ALIGN - 1) / ALIGN * ALIGN;
        staged = tiles + STAGES * STAGE_BYTES;
        full = staged + staged_bytes;
        empty = full + MAX_STAGES * 8;
    }
    __device__ uint32_t a(int stage) const { return tiles + stage * STAGE_BYTES; }
    __device__ uint32_t b(int stage) const { return a(stage) + A_BYTES; }
};

/* Place in the ring of stages. */
template <int STAGES> struct Ring {
    int stage = 0;
    uint32_t parity = 0;
    __device__ void next()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

/* The tiles of this block, one after another. HALVES: those of a last round that
 * would leave half of the clusters idle are half tiles, of 64 rows, which the first
 * warpgroup multiplies. */
template <bool HALVES = false> struct Schedule {
    int pairs, columns, index;
    int row_tile = 0, column_tile = 0;
    int whole; // tiles before the first half tile

    __device__ Schedule(int rows, int column_tiles)
        : pairs((rows + CLUSTER * TILE_M - 1) / (CLUSTER * TILE_M)), columns(column_tiles),
          index(blockIdx.x / CLUSTER), whole(pairs * column_tiles)
    {
        int rest = whole % step();
        if (HALVES && 2 * rest <= step())
            whole -= rest;
        place();
    }
    /* Read again where they are wanted: registers are scarce. */
    __device__ static int step() { return gridDim.x / CLUSTER; }
    __device__ static uint32_t rank() { return hopper::cluster_rank(); }
    __device__ int total() const
    {
        int tiles = pairs * columns;
        return HALVES ? 2 * tiles - whole : tiles;
    }
    __device__ bool is_half() const { return HALVES && index >= whole; }
    __device__ int halves() const { return is_half() ? 1 : 2; }
    /* This block's first row of the tile. */
    __device__ int row() const
    {
        return row_tile * TILE_M + (is_half() ? (int)rank() * HALF_ROWS : 0);
    }
    __device__ bool has() const { return index < total(); }
    __device__ bool has_next() const { return index + step() < total(); }
    __device__ void next()
    {
        index += step();
        place();
    }
    __device__ void place()
    {
        int tile = is_half() ? whole + (index - whole) / 2 : index;
        int first = tile / (GROUP * columns) * GROUP;
        int within = tile - first * columns;
        int height = min(GROUP, pairs - first);
        if (height < 1)
            return;
        row_tile = (first + within % height) * CLUSTER +
                   (is_half() ? (index - whole) % 2 : (int)rank());
        column_tile = within / height;
    }
};

/* Barriers ready in both blocks of the cluster. All threads. */
template <int STAGES> __device__ void start(const Smem<STAGES> &smem)
{
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            hopper::barrier_init(smem.full + 8 * s, 1);
            hopper::barrier_init(smem.empty + 8 * s, 2 * CLUSTER);
        }
        start_handover();
        hopper::barrier_init_fence();
    }
    __syncthreads();
    hopper::cluster_sync();
}

/* One thread. b: this block's half of B's tile, row b_row on. */
template <int STAGES>
__device__ void load_tile(const Smem<STAGES> &smem, Ring<STAGES> &ring, const CUtensorMap *a,
                          const CUtensorMap *b, int a_row, int b_row, int steps, uint32_t rank)
{
    for (int k = 0; k < steps; k++, ring.next()) {
        uint32_t full = smem.full + 8 * ring.stage;
        hopper::barrier_wait(smem.empty + 8 * ring.stage, ring.parity ^ 1);
        hopper::barrier_expect(full, STAGE_BYTES);
        hopper::tma_load(smem.a(ring.stage), a, full, k * TILE_K, a_row);
        hopper::tma_multicast(smem.b(ring.stage) + rank * (B_BYTES / CLUSTER), b, full,
                              k * TILE_K, b_row, (1 << CLUSTER) - 1);
    }
}

/* A consumer warpgroup is done with a stage, in both blocks. */
template <int STAGES> __device__ __forceinline__ void release(const Smem<STAGES> &smem, int stage)
{
    int thread = threadIdx.x % 128;
    if (thread < CLUSTER)
        hopper::barrier_arrive(smem.empty + 8 * stage, thread);
}

/* This consumer warpgroup's number, 0 or 1; the same register of all threads, so
 * that operand addresses are kept per warp. */
__device__ __forceinline__ int half_of_thread()
{
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / 128 - 1, 0);
}

/* What a warpgroup has left to do of a tile, in PARTS parts, one beside each step of
 * its next product: stores to shared memory and shuffles wait behind the products' own
 * reads of it, and nothing is multiplied while a warpgroup waits. part(i): part i,
 * which is a constant where it is expanded. */
template <int PARTS> struct Later {
    int next = PARTS;

    __device__ __forceinline__ void open() { next = 0; }
    template <typename F> __device__ __forceinline__ void step(F part)
    {
        if (next >= PARTS)
            return;
#pragma unroll
        for (int i = 0; i < PARTS; i++)
            if (next == i)
                part(i);
        next++;
    }
    /* What the product was too short for. */
    template <typename F> __device__ __forceinline__ void finish(F part)
    {
#pragma unroll 1
        while (next < PARTS)
            step(part);
    }
};

/* d = this warpgroup's 64 rows of the tile. beside(left): other work beside each
 * step, of which so many follow. */
template <enum tw_dtype T, int STAGES, typename F>
__device__ __forceinline__ void multiply_tile(float (&d)[128], const Smem<STAGES> &smem,
                                              Ring<STAGES> &ring, int half, int steps, F beside)
{
    uint64_t first = hopper::tile_descriptor(smem.a(0) + half * (A_BYTES / 2));
    uint64_t rest = first >> 32 << 32; // the same of all
    uint32_t first_a = (uint32_t)first, to_b = (A_BYTES - half * (A_BYTES / 2)) / 16;
    int held = -1;
    for (int k = 0; k < steps; k++, ring.next()) {
        hopper::barrier_wait(smem.full + 8 * ring.stage, ring.parity);
        uint32_t a = first_a + ring.stage * (STAGE_BYTES / 16);
        hopper::wgmma_fence();
#pragma unroll
        for (int i = 0; i < TILE_K / 16; i++)
            hopper::wgmma<T>(d, rest | (a + 2 * i), rest | (a + to_b + 2 * i), k + i > 0);
        hopper::wgmma_commit();
        hopper::wgmma_wait<1>();
        if (held >= 0)
            release(smem, held);
        held = ring.stage;
        beside(steps - 1 - k);
    }
    hopper::wgmma_wait<0>();
    release(smem, held);
}

template <enum tw_dtype T, int STAGES>
__device__ __forceinline__ void multiply_tile(float (&d)[128], const Smem<STAGES> &smem,
                                              Ring<STAGES> &ring, int half, int steps)
{
    multiply_tile<T>(d, smem, ring, half, steps, [](int) {});
}

/* The second warpgroup's part of a half tile: none, but what is beside. */
template <int STAGES, typename F>
__device__ __forceinline__ void skip_tile(const Smem<STAGES> &smem, Ring<STAGES> &ring, int steps,
                                          F beside)
{
    for (int k = 0; k < steps; k++, ring.next()) {
        hopper::barrier_wait(smem.full + 8 * ring.stage, ring.parity);
        release(smem, ring.stage);
        beside();
    }
}

/* Where a thread's store_blocks go in a staged tile of 64 rows of `row_bytes`,
 * 16-byte chunks swizzled by the row's low three bits: chunk pair j (even) is
 * at base ^ (j << 4). */
__device__ __forceinline__ uint32_t staged_base(uint32_t staged, int row_bytes)
{
    int thread = threadIdx.x % 128, lane = thread % 32;
    int row = thread / 32 * 16 + (lane / 8 % 2) * 8 + lane % 8;
    return staged + row * row_bytes + (((lane / 16) ^ (row % 8)) << 4);
}

/* The same in boxes. */
__device__ __forceinline__ uint32_t boxed_base(uint32_t staged)
{
    return staged_base(staged, 2 * BOX);
}

/* Chunk pair j of it. */
__device__ __forceinline__ uint32_t boxed_pair(uint32_t base, int j)
{
    return (base ^ j % 8 << 4) + j / 8 * BOX_BYTES;
}

} // namespace product

#endif
