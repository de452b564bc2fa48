/* The dense path's second half.
 *
 *   y = residual + h Wd^T + bd, rows scattered by their list
 *
 * Shapes: h [rows][cols], Wd [d][cols], y and residual [..][d], bf16 or fp16; the sum,
 * bias and residual are added in fp32 and rounded once. FLOPs 2 rows cols d; bytes, h and
 * Wd from L2 (product.cuh), 2 d a row for each of y and residual. Grid: as in pack.cu; 4
 * stages of 48 KiB.
 *
 * A multiplying warpgroup reads its residual from shared memory beside the last steps of
 * its product and leaves y there beside the first ones of the next, 128 columns at a time.
 * The copy engine moves both; rows by a list, which it can't, the spare warps, 16 bytes a
 * lane. They also sum the rows' parts (l1, nnz, histograms of tiles).
 *
 * K 5632 and 8192, d 2048, one H200, by turns with cuBLASLt's product with its residual:
 * 0.94 and 0.96 at M 16384, 0.96 to 0.99 and 1.00 at M 65536; with a dense layer's
 * statistics 0.3 to 1 % more. Lost: three stages with a whole tile in shared memory, 0.99
 * to 1.00 and 1.01 to 1.05; there, half tiles in the last round, boxes by the copy engine
 * and stores beside the next product made no difference; a row's statistics by a warp (up
 * to 1 %); residual and y straight from and to the fragments' 4-byte places, 1.24. */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/down_rows.cuh"
#include "kernels/cuda/launch_mma.h"
#include "kernels/cuda/product.cuh"

namespace {

using namespace product;

constexpr int STAGES = 4;
constexpr int PART = 128, PARTS = TILE_N / PART; // columns in shared memory at a time
constexpr int BOXES = PART / BOX, HALF_BYTES = BOXES * BOX_BYTES;
constexpr int LOW = 56, HIGH = 224; // registers of a spare and of a multiplying thread
constexpr int READ = MORE;          // a multiplying warpgroup has that residual
constexpr int BYTES = smem_bytes(STAGES, 2 * HALF_BYTES) + 2 * 8; // with the residuals' mbarriers
static_assert(BYTES + 4 * TWP_HISTOGRAM <= 227 * 1024, "shared memory");

struct DownParams {
    CUtensorMap h, down;
    CUtensorMap residual_map, y_map; // without a list of rows; boxes of 64 rows
    struct twp_rows rows;
    int steps, d, parts;
    int least; // so few rows are left to down_thin
    const float *bias;
    const uint16_t *residual;
    uint16_t *y;
    struct twp_parts sums;
    bool adds_nnz;
    int cols;
    struct twp_counts counts;
};

/* This warpgroup's half of a tile of y, and before it of the residual, a part at a
 * time: read from shared memory beside the last steps of its product, left there
 * beside the first ones of the next. */
template <enum tw_dtype T> struct Held {
    /* Goes: chunks of a part, then some in which it leaves or comes. */
    static constexpr int AT_ONCE = 4, GOES = PART / 8 / AT_ONCE, PAUSE = 8;
    static constexpr int ALL = PARTS * (GOES + PAUSE) - PAUSE;
    uint32_t pair[64];
    Later<2 * ALL> later; // y's, then the next residual's
    uint32_t base;        // in its staged half
    uint32_t loaded;      // the mbarrier of its residual
    uint32_t parity = 0;
    int half;

    __device__ Held(uint32_t staged, uint32_t barriers, int of)
        : base(boxed_base(staged + of * HALF_BYTES)), loaded(barriers + 8 * of), half(of)
    {
        later.next = ALL;
    }
    __device__ __forceinline__ void load(const DownParams &p, int part, int go)
    {
        if (go == 0) {
            hopper::barrier_wait(loaded, parity);
            parity ^= 1;
        }
#pragma unroll
        for (int at = go * AT_ONCE; at < (go + 1) * AT_ONCE; at += 2) {
            uint32_t v[4] = {};
            if (p.residual)
                hopper::load_blocks(boxed_pair(base, at), v);
#pragma unroll
            for (int i = 0; i < 4; i++) // block i: chunk at + i / 2, rows 8 (i % 2) on
                pair[PART / 4 * part + 2 * at + i] = v[i];
        }
        if (go == GOES - 1 && part < PARTS - 1)
            arrive(READ + half);
    }
    __device__ __forceinline__ void store(int part, int go)
    {
        if (go == 0 && part > 0)
            meet(TAKEN + half);
#pragma unroll
        for (int at = go * AT_ONCE; at < (go + 1) * AT_ONCE; at += 2) {
            const uint32_t *v = pair + PART / 4 * part + 2 * at;
            hopper::store_blocks(boxed_pair(base, at), v[0], v[1], v[2], v[3]);
        }
        if (go == GOES - 1) {
            hopper::proxy_fence();
            arrive(STAGED + half);
        }
    }
    __device__ __forceinline__ void go(const DownParams &p, int number)
    {
        int part = number % ALL / (GOES + PAUSE), within = number % ALL % (GOES + PAUSE);
        if (within >= GOES)
            return;
        if (number < ALL)
            store(part, within);
        else
            load(p, part, within);
    }
    __device__ __forceinline__ void step(const DownParams &p, int left)
    {
        if (later.next < ALL || left < ALL)
            later.step([&](int number) { go(p, number); });
    }
    /* The last tile's. */
    __device__ __forceinline__ void leave(const DownParams &p)
    {
#pragma unroll 1
        while (later.next < ALL)
            later.step([&](int number) { go(p, number); });
    }
    /* The residual becomes y. */
    __device__ __forceinline__ void add(const float (&d)[128], const DownParams &p, int tile)
    {
        later.finish([&](int number) { go(p, number); });
        const float2 *bias = nullptr;
        if (p.bias)
            bias = reinterpret_cast<const float2 *>(p.bias + tile * TILE_N) + threadIdx.x % 4;
#pragma unroll
        for (int j = 0; j < TILE_N / 8; j++) {
            float2 b = bias ? __ldg(bias + 4 * j) : make_float2(0, 0);
#pragma unroll
            for (int i = 0; i < 2; i++) { // chunk j, rows 8 i on
                uint32_t &v = pair[2 * j + i];
                v = hopper::round_pair<T>(d[4 * j + 2 * i] + b.x + common::low_half<T>(v),
                                          d[4 * j + 2 * i + 1] + b.y + common::high_half<T>(v));
            }
        }
        later.open();
    }
};

/* Where a part of a tile's half is: its first row and column. */
struct At {
    int row, column;
    __device__ At(const Schedule<> &at, int half, int part)
        : row(at.row_tile * TILE_M + half * HALF_ROWS),
          column(at.column_tile * TILE_N + part * PART)
    {
    }
};

/* Listed rows between shared memory and y or the residual, two at a time by a warp. */
template <bool IS_LOAD>
__device__ __forceinline__ void move_rows(const DownParams &p, uint32_t staged, At at, int rows)
{
    constexpr int CHUNKS = PART / 8, AT_ONCE = 32 / CHUNKS;
    int lane = threadIdx.x % 32, chunk = lane % CHUNKS, column = at.column + 8 * chunk;
    if (column >= p.d)
        return;
#pragma unroll 2
    for (int r = (threadIdx.x / 32 - 1) * AT_ONCE + lane / CHUNKS; r < HALF_ROWS;
         r += HELPERS / 32 * AT_ONCE) {
        if (at.row + r >= rows)
            break;
        int64_t to = common::number_of(p.rows, at.row + r) * p.d + column;
        uint32_t from = boxed_chunk(staged, r, chunk);
        if (IS_LOAD)
            store_chunk(from, *reinterpret_cast<const uint4 *>(p.residual + to));
        else
            *reinterpret_cast<uint4 *>(p.y + to) = load_chunk(from);
    }
}

/* A part of y out; then the shared memory is free. */
__device__ __forceinline__ void store_part(const DownParams &p, uint32_t staged, At at, int rows)
{
    if (p.rows.list) {
        move_rows<false>(p, staged, at, rows);
    } else if (threadIdx.x == 32) {
        for (int box = 0; box < BOXES; box++)
            hopper::tma_store(&p.y_map, staged + box * BOX_BYTES, at.column + box * BOX, at.row);
        hopper::tma_stores_read();
    }
    __syncwarp();
}

/* A part of the residual in. */
__device__ __forceinline__ void load_part(const DownParams &p, uint32_t staged, uint32_t loaded,
                                          At at, int rows)
{
    if (p.rows.list) {
        hopper::named_sync(COUNTING, HELPERS); // all rows that were there are out
        if (p.residual)
            move_rows<true>(p, staged, at, rows);
        hopper::barrier_arrive_here(loaded); // all that wrote
    } else if (threadIdx.x == 32) {
        if (!p.residual) {
            hopper::barrier_arrive_here(loaded);
        } else {
            hopper::barrier_expect(loaded, HALF_BYTES);
            for (int box = 0; box < BOXES; box++)
                hopper::tma_load(staged + box * BOX_BYTES, &p.residual_map, loaded,
                                 at.column + box * BOX, at.row);
        }
    }
    __syncwarp();
}

/* The tile's share of its rows' statistics: tiles beside it take others, so that no
 * block's spare warps fall behind. */
__device__ __forceinline__ void sum_rows(const DownParams &p, uint32_t *histogram,
                                         const Schedule<> &at, int rows)
{
    constexpr int STEP = down::ROWS_AT_ONCE;
    int warp = HELPERS / 32 - threadIdx.x / 32; // the one that moves boxes last
    for (int group = at.column_tile + at.columns * warp; group < TILE_M / STEP;
         group += at.columns * (HELPERS / 32))
        down::sum_rows(p, histogram, at.row_tile * TILE_M + group * STEP, rows);
    __syncwarp();
}

/* The block's histogram into the layer's. */
__device__ __forceinline__ void publish_tiles(const DownParams &p, const uint32_t *histogram,
                                              int rows)
{
    hopper::named_sync(COUNTING, HELPERS);
    for (int i = threadIdx.x - 32; i < TWP_HISTOGRAM; i += HELPERS)
        if (histogram[i])
            atomicAdd(p.counts.histogram + i, histogram[i]);
    if (blockIdx.x == 0 && threadIdx.x == 32)
        atomicAdd(p.counts.dense_rows, rows);
}

__device__ __forceinline__ void help(const DownParams &p, uint32_t staged, uint32_t loaded,
                                     uint32_t *histogram, Schedule<> at, int rows)
{
    for (; at.has(); at.next()) {
        for (int part = 0; part < PARTS; part++) {
            for (int half = 0; half < 2; half++) {
                if (part > 0)
                    meet(READ + half);
                load_part(p, staged + half * HALF_BYTES, loaded + 8 * half, At(at, half, part),
                          rows);
            }
            if (part == 0 && p.counts.is_on)
                sum_rows(p, histogram, at, rows);
        }
        for (int part = 0; part < PARTS; part++)
            for (int half = 0; half < 2; half++) {
                meet(STAGED + half);
                store_part(p, staged + half * HALF_BYTES, At(at, half, part), rows);
                if (part < PARTS - 1)
                    arrive(TAKEN + half);
            }
    }
    if (p.counts.is_on && p.sums.count)
        publish_tiles(p, histogram, rows);
}

template <enum tw_dtype T>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    down_kernel(const __grid_constant__ DownParams p)
{
    TW_DYNAMIC_SHARED_ALIGNED(raw, 16);
    __shared__ uint32_t histogram[TWP_HISTOGRAM];
    Smem<STAGES> smem(raw, 2 * HALF_BYTES);
    int rows = p.rows.actual ? *p.rows.actual : p.rows.rows;
    if (rows <= p.least)
        return;
    for (int i = threadIdx.x; i < TWP_HISTOGRAM; i += THREADS)
        histogram[i] = 0;
    uint32_t loaded = smem.full + 2 * MAX_STAGES * 8;
    if (threadIdx.x == 0)
        for (int half = 0; half < 2; half++)
            hopper::barrier_init(loaded + 8 * half, p.rows.list ? HELPERS : 1);
    start(smem);
    if (threadIdx.x < 128) {
        hopper::registers_down<LOW>();
        Schedule<> at(rows, (p.d + TILE_N - 1) / TILE_N);
        if (threadIdx.x == 0) {
            Ring<STAGES> ring;
            for (; at.has(); at.next())
                load_tile(smem, ring, &p.h, &p.down, at.row_tile * TILE_M,
                          at.column_tile * TILE_N + at.rank() * (TILE_N / CLUSTER), p.steps,
                          at.rank());
        } else if (threadIdx.x >= 32) {
            help(p, smem.staged, loaded, histogram, at, rows);
        }
        __syncwarp();
    } else {
        hopper::registers_up<HIGH>();
        int half = half_of_thread();
        Held<T> held(smem.staged, loaded, half);
        Ring<STAGES> ring;
        Schedule<> at(rows, (p.d + TILE_N - 1) / TILE_N);
        bool has_any = at.has();
        for (; at.has(); at.next()) {
            float d[128];
            multiply_tile<T>(d, smem, ring, half, p.steps, [&](int left) { held.step(p, left); });
            held.add(d, p, at.column_tile);
        }
        if (has_any)
            held.leave(p);
    }
    hopper::cluster_sync(); // no block leaves while its peer may still write to it
}

template <enum tw_dtype T>
enum tw_status launch(const struct twp_device *device, const DownParams &p, cudaStream_t stream,
                      struct tw_error *err)
{
    cudaFuncSetAttribute(down_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    int blocks = device->multiprocessors / CLUSTER * CLUSTER;
    return common::launch_plain<CLUSTER>("down", down_kernel<T>, blocks, THREADS, BYTES, stream,
                                         err, p);
}

} // namespace

extern "C" enum tw_status tw_launch_down(const struct twp_device *device,
                                         const struct twp_down_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    if (device->path == TW_CUDA_PORTABLE)
        return twp_launch_down_mma(device, args, stream, err);
    struct twp_map residual = {}, y = {};
    enum tw_status status = TW_OK;
    if (!args->rows.list && args->residual)
        status = twp_map_encode_box(&residual, args->type, args->residual, args->rows.rows,
                                    args->d, args->d, staged::BOX, err);
    if (!args->rows.list && status == TW_OK)
        status = twp_map_encode_box(&y, args->type, args->y, args->rows.rows, args->d, args->d,
                                    staged::BOX, err);
    if (status != TW_OK)
        return status;
    DownParams p = {common::map_of(args->h),
                    common::map_of(args->down),
                    common::map_of(&residual),
                    common::map_of(&y),
                    args->rows,
                    (args->cols + TILE_K - 1) / TILE_K,
                    args->d,
                    (args->cols + TWP_PART - 1) / TWP_PART,
                    args->rows.actual ? TWP_THIN_ROWS : 0,
                    args->bias,
                    static_cast<const uint16_t *>(args->residual),
                    static_cast<uint16_t *>(args->y),
                    args->parts,
                    args->adds_nnz,
                    args->cols,
                    args->counts};
    return args->type == TW_F16 ? launch<TW_F16>(device, p, stream, err)
                                : launch<TW_BF16>(device, p, stream, err);
}
