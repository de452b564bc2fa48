/* down.cu's function over mma.sync, on any GPU since compute capability 8.0.
 *
 *   y = residual + h Wd^T + bd, rows scattered by their list
 *
 * Shapes as in down.cu; grid and shared memory as in pack_mma.cu. After the
 * product all warps bring the rows' residual into the staged tile, 16 bytes a
 * lane, add it to their sums in fp32, round once and write the rows out. */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/down_rows.cuh"
#include "kernels/cuda/launch_mma.h"
#include "kernels/cuda/product_mma.cuh"
#include "kernels/cuda/staged.cuh"

namespace
{

using namespace product_mma;
static_assert(HALF_WARPS * down::ROWS_AT_ONCE == HALF_ROWS, "a warp's rows");
using namespace staged;

constexpr int ROW_BYTES = TILE_N * 2;
constexpr int HALF_BYTES = HALF_ROWS * ROW_BYTES;
constexpr int STATIC_BYTES = (4 * TWP_HISTOGRAM + 127) / 128 * 128;
static_assert(2 * HALF_BYTES <= 2 * STAGE_BYTES, "a tile in the ring's memory");

struct DownParams {
    Operands of;
    struct twp_rows rows;
    int d, parts;
    const float *bias;
    const uint16_t *residual;
    uint16_t *y;
    struct twp_parts sums;
    bool adds_nnz;
    int cols;
    struct twp_counts counts;
};

/* The half's rows between shared memory and y or the residual, a warp a row. */
template <bool IS_LOAD> __device__ __forceinline__ void
move_rows(const DownParams &p, uint32_t staged, int place, int rows, int tile)
{
    int lane = threadIdx.x % 32, column = tile * TILE_N + 8 * lane;
    if (column >= p.d)
        return;
#pragma unroll 4
    for (int r = threadIdx.x / 32 % HALF_WARPS; r < rows; r += HALF_WARPS) {
        int64_t at = common::number_of(p.rows, place + r) * p.d + column;
        uint32_t chunk = staged_chunk(staged, ROW_BYTES, r, lane);
        if (IS_LOAD)
            store_chunk(chunk, *reinterpret_cast<const uint4 *>(p.residual + at));
        else
            *reinterpret_cast<uint4 *>(p.y + at) = load_chunk(chunk);
    }
}

/* The staged residual, if any, becomes y. */
template <enum tw_dtype T> __device__ __forceinline__ void
stage_half(const Sums &d, const DownParams &p, uint32_t staged, int tile)
{
    Place at;
#pragma unroll
    for (int n = 0; n < BLOCKS_N; n++) {
        float2 b = bias_pair(p.bias, tile * TILE_N + at.column + 8 * n);
#pragma unroll
        for (int m = 0; m < BLOCKS_M; m++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t word = at.word(staged, ROW_BYTES, m, n, i);
                uint32_t v = p.residual ? load_word(word) : 0;
                hopper::store_word(word, hopper::round_pair<T>(
                                             d[m][n][2 * i] + b.x + common::low_half<T>(v),
                                             d[m][n][2 * i + 1] + b.y + common::high_half<T>(v)));
            }
    }
}

/* The block's histogram into the layer's. */
__device__ __forceinline__ void publish_tiles(const DownParams &p, const uint32_t *histogram,
                                              int rows)
{
    __syncthreads();
    for (int i = threadIdx.x; i < TWP_HISTOGRAM; i += THREADS)
        if (histogram[i])
            atomicAdd(p.counts.histogram + i, histogram[i]);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        atomicAdd(p.counts.dense_rows, rows);
}

template <enum tw_dtype T> __global__ void __launch_bounds__(THREADS, 1)
    down_mma_kernel(const __grid_constant__ DownParams p)
{
    TW_DYNAMIC_SHARED_ALIGNED(raw, 128);
    __shared__ uint32_t histogram[TWP_HISTOGRAM];
    uint32_t memory = hopper::smem_address(raw);
    int half = threadIdx.x / 32 / HALF_WARPS;
    uint32_t staged = epilogue_memory(p.of, memory) + half * HALF_BYTES;
    bool has_tiles = p.counts.is_on && p.sums.count;
    for (int i = threadIdx.x; i < TWP_HISTOGRAM; i += THREADS)
        histogram[i] = 0;
    int all = p.rows.actual ? *p.rows.actual : p.rows.rows;
    Product<false> product(p.of, all, memory, (p.d + TILE_N - 1) / TILE_N);
    for (; product.at.has(); product.next()) {
        Sums d;
        product.multiply<T>(d);
        int place = product.at.row_tile() * TILE_M + half * HALF_ROWS;
        int rows = min(HALF_ROWS, all - place), tile = product.at.column_tile();
        product.begin_epilogue();
        if (p.residual)
            move_rows<true>(p, staged, place, rows, tile);
        product.sync_half();
        stage_half<T>(d, p, staged, tile);
        product.sync_half();
        move_rows<false>(p, staged, place, rows, tile);
        if (p.counts.is_on && tile == 0)
            down::sum_rows(p, histogram,
                           place + threadIdx.x / 32 % HALF_WARPS * down::ROWS_AT_ONCE,
                           place + rows);
    }
    if (has_tiles)
        publish_tiles(p, histogram, all);
}

} // namespace

extern "C" enum tw_status twp_launch_down_mma(const struct twp_device *device,
                                              const struct twp_down_args *args,
                                              struct CUstream_st *stream, struct tw_error *err)
{
    DownParams p = {operands(args->h, args->down, NULL),
                    args->rows,
                    args->d,
                    (args->cols + TWP_PART - 1) / TWP_PART,
                    args->bias,
                    static_cast<const uint16_t *>(args->residual),
                    static_cast<uint16_t *>(args->y),
                    args->parts,
                    args->adds_nnz,
                    args->cols,
                    args->counts};
    int bytes = choose_memory(p.of, device, 2 * HALF_BYTES, STATIC_BYTES);
    auto kernel = args->type == TW_F16 ? down_mma_kernel<TW_F16> : down_mma_kernel<TW_BF16>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return common::launch_plain("down", kernel, device->multiprocessors, THREADS, bytes, stream,
                                err, p);
}
