/* The dense path's second half.
 *
 *   y = residual + h Wd^T + bd, rows scattered by their list
 *
 * Shapes: h [rows][cols], Wd [d][cols], y and residual [..][d], bf16 or fp16;
 * the sum,
 * bias and residual are added in fp32 and rounded once. FLOPs 2 rows cols d.
 * Grid, stages: as in pack.cu. While a tile is multiplied, warps 1-3 write the
 * last one out of its staged form and fill that with the residual of this one,
 * 16 bytes a lane; they also sum the rows' partial l1 and, of a dense layer, fill
 * the histograms of tiles. Lost: residual and y
 * straight from and to the fragments' 4-byte places, 1.24 of cuBLASLt's product
 * with its residual, against 0.99-1.06 now. */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/down_rows.cuh"
#include "kernels/cuda/launch_mma.h"
#include "kernels/cuda/product.cuh"

namespace {

using namespace product;

constexpr int STAGES = 3;
constexpr int ROW_BYTES = TILE_N * 2;
constexpr int HALF_BYTES = HALF_ROWS * ROW_BYTES;
constexpr int COUNTING = 5; // the barrier of the spare warps
static_assert(smem_bytes(STAGES, STAGED_BYTES) + 4 * TWP_HISTOGRAM <= 227 * 1024, "shared memory");

struct DownParams {
    CUtensorMap h, down;
    struct twp_rows rows;
    int steps, d, parts;
    int least; // so few rows are left to down_thin
    const float *bias;
    const uint16_t *residual;
    uint16_t *y;
    const float *l1_part;
    const uint32_t *count; // [rows][tiles], or NULL
    bool adds_nnz;
    int cols, tiles;
    struct twp_counts counts;
};

/* The staged residual, if any, becomes y. */
template <enum tw_dtype T>
__device__ __forceinline__ void stage_half(const float (&d)[128], const DownParams &p,
                                           uint32_t staged, int tile)
{
    uint32_t base = staged_base(staged, ROW_BYTES);
    const float2 *bias = nullptr;
    if (p.bias)
        bias = reinterpret_cast<const float2 *>(p.bias + tile * TILE_N) + threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j += 2) {
        uint32_t v[4] = {};
        if (p.residual)
            hopper::load_blocks(base ^ (j << 4), v);
#pragma unroll
        for (int i = 0; i < 4; i++) { // block i: chunk j + i / 2, rows 8 (i % 2) on
            float2 b = bias ? __ldg(bias + 4 * (j + i / 2)) : make_float2(0, 0);
            v[i] = hopper::round_pair<T>(d[4 * j + 2 * i] + b.x + common::low_half<T>(v[i]),
                                      d[4 * j + 2 * i + 1] + b.y + common::high_half<T>(v[i]));
        }
        hopper::store_blocks(base ^ (j << 4), v[0], v[1], v[2], v[3]);
    }
}

/* A half tile's rows between shared memory and y or the residual. */
template <bool IS_LOAD>
__device__ __forceinline__ void move_rows(const DownParams &p, uint32_t staged, int place,
                                          int tile, int rows)
{
    int lane = threadIdx.x % 32, column = tile * TILE_N + 8 * lane;
    if (column >= p.d)
        return;
#pragma unroll 4
    for (int r = threadIdx.x / 32 - 1; r < HALF_ROWS; r += HELPERS / 32) {
        if (place + r >= rows)
            break;
        int64_t at = common::number_of(p.rows, place + r) * p.d + column;
        uint32_t chunk = staged_chunk(staged, ROW_BYTES, r, lane);
        if (IS_LOAD)
            store_chunk(chunk, *reinterpret_cast<const uint4 *>(p.residual + at));
        else
            *reinterpret_cast<uint4 *>(p.y + at) = load_chunk(chunk);
    }
}

/* The tile's share of its rows: each tile beside it takes others, so that no
 * block's spare warps fall behind. */
__device__ __forceinline__ void sum_rows(const DownParams &p, uint32_t *histogram,
                                         const Schedule<> &at, int rows)
{
    int first = at.row_tile * TILE_M, end = min(first + TILE_M, rows);
    for (int r = first + at.column_tile + at.columns * (threadIdx.x / 32 - 1); r < end;
         r += at.columns * (HELPERS / 32))
        down::sum_row(p, histogram, r);
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

__device__ __forceinline__ void help(const DownParams &p, uint32_t staged, uint32_t *histogram,
                                     Schedule<> at, int rows)
{
    bool has_tiles = p.counts.is_on && p.count;
    for (bool is_first = true; at.has(); is_first = false) {
        Schedule<> last = at;
        if (!is_first)
            at.next();
        for (int half = 0; half < 2; half++) {
            uint32_t mine = staged + half * HALF_BYTES;
            if (!is_first) {
                hopper::named_sync(STAGED + half, HANDOVER);
                move_rows<false>(p, mine, last.row_tile * TILE_M + half * HALF_ROWS,
                                 last.column_tile, rows);
            }
            if (!at.has())
                continue;
            __syncwarp();
            if (p.residual)
                move_rows<true>(p, mine, at.row_tile * TILE_M + half * HALF_ROWS, at.column_tile,
                                rows);
            __syncwarp();
            hopper::named_arrive(TAKEN + half, HANDOVER);
        }
        if (p.counts.is_on && at.has())
            sum_rows(p, histogram, at, rows);
    }
    if (has_tiles)
        publish_tiles(p, histogram, rows);
}

template <enum tw_dtype T>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    down_kernel(const __grid_constant__ DownParams p)
{
    TW_DYNAMIC_SHARED_ALIGNED(raw, 16);
    __shared__ uint32_t histogram[TWP_HISTOGRAM];
    Smem<STAGES> smem(raw, STAGED_BYTES);
    int rows = p.rows.actual ? *p.rows.actual : p.rows.rows;
    if (rows <= p.least)
        return;
    Schedule<> at(rows, (p.d + TILE_N - 1) / TILE_N);
    for (int i = threadIdx.x; i < TWP_HISTOGRAM; i += THREADS)
        histogram[i] = 0;
    start(smem);
    if (threadIdx.x < 128) {
        hopper::registers_down<REGISTERS_LOW>();
        if (threadIdx.x == 0) {
            Ring<STAGES> ring;
            for (; at.has(); at.next())
                load_tile(smem, ring, &p.h, &p.down, at.row_tile * TILE_M,
                          at.column_tile * TILE_N + at.rank() * (TILE_N / CLUSTER), p.steps,
                          at.rank());
        } else if (threadIdx.x >= 32) {
            help(p, smem.staged, histogram, at, rows);
        }
        __syncwarp();
    } else {
        hopper::registers_up<REGISTERS_HIGH>();
        int half = threadIdx.x / 128 - 1;
        Ring<STAGES> ring;
        for (; at.has(); at.next()) {
            float d[128];
            multiply_tile<T>(d, smem, ring, half, p.steps);
            hopper::named_sync(TAKEN + half, HANDOVER);
            stage_half<T>(d, p, smem.staged + half * HALF_BYTES, at.column_tile);
            hopper::named_arrive(STAGED + half, HANDOVER);
        }
    }
    hopper::cluster_sync(); // no block leaves while its peer may still write to it
}

template <enum tw_dtype T>
enum tw_status launch(const struct twp_device *device, const DownParams &p, cudaStream_t stream,
                      struct tw_error *err)
{
    int bytes = smem_bytes(STAGES, STAGED_BYTES);
    cudaFuncSetAttribute(down_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    int blocks = device->multiprocessors / CLUSTER * CLUSTER;
    return common::launch_plain<CLUSTER>("down", down_kernel<T>, blocks, THREADS, bytes, stream,
                                         err, p);
}

} // namespace

extern "C" enum tw_status tw_launch_down(const struct twp_device *device,
                                         const struct twp_down_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    if (device->path == TW_CUDA_PORTABLE)
        return twp_launch_down_mma(device, args, stream, err);
    DownParams p = {common::map_of(args->h),
                    common::map_of(args->down),
                    args->rows,
                    (args->cols + TILE_K - 1) / TILE_K,
                    args->d,
                    (args->cols + TWP_PART - 1) / TWP_PART,
                    args->rows.actual ? TWP_THIN_ROWS : 0,
                    args->bias,
                    static_cast<const uint16_t *>(args->residual),
                    static_cast<uint16_t *>(args->y),
                    args->l1_part,
                    args->count,
                    args->adds_nnz,
                    args->cols,
                    (args->cols + TWP_TILE - 1) / TWP_TILE,
                    args->counts};
    return args->type == TW_F16 ? launch<TW_F16>(device, p, stream, err)
                                : launch<TW_BF16>(device, p, stream, err);
}
