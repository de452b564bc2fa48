/* The dense path's second half for a few rows: as down.cu, same bits.
 *
 *   y = residual + h Wd^T + bd, rows scattered by their list
 *
 * Shapes as there. A block is one warpgroup and a tile of 64 x 64: the sum along
 * cols (5632) of one of down.cu's tiles takes 61 us however few its rows are, and
 * 8 of its 66 clusters would work. Grid: d / 64 times TWP_THIN_ROWS / 64 blocks,
 * of which those without rows leave; so do all where there are more rows than
 * that, as down.cu's do where there are fewer. 6 stages of 16 KiB, loaded by all
 * threads (cp.async), four of them ahead. */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/down_rows.cuh"

namespace {

constexpr int TILE = 64, TILE_K = 64, THREADS = 128, STAGES = 6, AHEAD = STAGES - 2;
constexpr int HALF_BYTES = TILE * TILE_K * 2, STAGE_BYTES = 2 * HALF_BYTES;
constexpr int ALIGN = 1024; // the swizzle's period
constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + ALIGN;
static_assert(SHARED_BYTES <= 113 * 1024, "two blocks a multiprocessor");
static_assert(TWP_THIN_ROWS % TILE == 0, "whole tiles");

/* 64 rows by 64 columns of a matrix, zeros outside, rows of 128 bytes swizzled by
 * their low three bits. */
__device__ __forceinline__ void load_tile(uint32_t to, const uint16_t *matrix, int64_t stride,
                                          int row, int rows, int column, int cols)
{
#pragma unroll
    for (int i = 0; i < TILE * 8 / THREADS; i++) {
        int at = threadIdx.x + i * THREADS, r = at / 8, chunk = at % 8;
        bool is_in = row + r < rows && column + chunk * 8 < cols;
        const uint16_t *from = matrix + (row + r) * stride + column + chunk * 8;
        hopper::copy_async(to + r * 128 + ((chunk ^ r % 8) << 4), is_in ? from : matrix, is_in);
    }
}

__device__ __forceinline__ void load_stage(const struct twp_down_args &a, uint32_t tiles, int k,
                                           int row, int rows)
{
    uint32_t to = tiles + k % STAGES * STAGE_BYTES;
    load_tile(to, static_cast<const uint16_t *>(a.h_data), a.stride, row, rows, k * TILE_K,
              a.cols);
    load_tile(to + HALF_BYTES, static_cast<const uint16_t *>(a.down_data), a.stride,
              blockIdx.x * TILE, a.down_rows, k * TILE_K, a.cols);
}

/* The products of a stage are waited for while the next one's are on their way; a
 * stage is overwritten two steps after it was read. */
template <enum tw_dtype T>
__device__ __forceinline__ void multiply(float (&sum)[32], const struct twp_down_args &a,
                                         uint32_t tiles, int row, int rows)
{
    int steps = (a.cols + TILE_K - 1) / TILE_K;
    for (int k = 0; k < AHEAD; k++) {
        if (k < steps)
            load_stage(a, tiles, k, row, rows);
        hopper::copy_commit();
    }
    for (int k = 0; k < steps; k++) {
        hopper::copy_wait<AHEAD - 1>();
        hopper::proxy_fence();
        __syncthreads();
        uint64_t x = hopper::tile_descriptor(tiles + k % STAGES * STAGE_BYTES);
        uint64_t w = x + (HALF_BYTES >> 4);
        hopper::wgmma_fence();
#pragma unroll
        for (int i = 0; i < TILE_K / 16; i++)
            hopper::wgmma_narrow<T>(sum, x + 2 * i, w + 2 * i, k + i > 0);
        hopper::wgmma_commit();
        if (k + AHEAD < steps)
            load_stage(a, tiles, k + AHEAD, row, rows);
        hopper::copy_commit();
        hopper::wgmma_wait<1>();
    }
    hopper::wgmma_wait<0>();
}

template <enum tw_dtype T>
__device__ __forceinline__ void store(const float (&sum)[32], const struct twp_down_args &a,
                                      int row, int rows)
{
    int lane = threadIdx.x % 32;
    uint16_t *y = static_cast<uint16_t *>(a.y);
    const uint16_t *residual = static_cast<const uint16_t *>(a.residual);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int place = row + threadIdx.x / 32 * 16 + lane / 4 + 8 * i;
        if (place >= rows)
            continue;
        int64_t at = common::number_of(a.rows, place) * a.d;
#pragma unroll
        for (int j = 0; j < TILE / 8; j++) {
            int column = blockIdx.x * TILE + 8 * j + 2 * (lane % 4);
            if (column >= a.d)
                continue;
            uint32_t r = residual ? *reinterpret_cast<const uint32_t *>(residual + at + column) : 0;
            float2 b = a.bias ? __ldg(reinterpret_cast<const float2 *>(a.bias + column))
                              : make_float2(0, 0);
            *reinterpret_cast<uint32_t *>(y + at + column) =
                hopper::round_pair<T>(sum[4 * j + 2 * i] + b.x + common::low_half<T>(r),
                                      sum[4 * j + 2 * i + 1] + b.y + common::high_half<T>(r));
        }
    }
}

template <enum tw_dtype T>
__global__ void __launch_bounds__(THREADS) down_thin_kernel(const struct twp_down_args a)
{
    TW_DYNAMIC_SHARED_ALIGNED(raw, 16);
    uint32_t tiles = (hopper::smem_address(raw) + ALIGN - 1) / ALIGN * ALIGN;
    common::let_next_start();
    common::wait_for_last();
    int rows = *a.rows.actual, row = blockIdx.y * TILE;
    if (row >= rows || rows > TWP_THIN_ROWS)
        return;
    float sum[32];
    multiply<T>(sum, a, tiles, row, rows);
    store<T>(sum, a, row, rows);
    if (!a.counts.is_on || blockIdx.x > 0)
        return;
    for (int r = row + threadIdx.x; r < row + TILE && r < rows; r += THREADS)
        a.counts.l1[common::number_of(a.rows, r)] = down::sum_l1(a.parts, a.cols, r);
}

template <enum tw_dtype T>
enum tw_status launch(const struct twp_down_args &args, cudaStream_t stream, struct tw_error *err)
{
    cudaFuncSetAttribute(down_thin_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         SHARED_BYTES);
    dim3 blocks((args.d + TILE - 1) / TILE, TWP_THIN_ROWS / TILE);
    return common::launch("down_thin", down_thin_kernel<T>, blocks, THREADS, SHARED_BYTES, stream,
                          err, args);
}

} // namespace

extern "C" enum tw_status tw_launch_down_thin(const struct twp_down_args *args,
                                              struct CUstream_st *stream, struct tw_error *err)
{
    return args->type == TW_F16 ? launch<TW_F16>(*args, stream, err)
                                : launch<TW_BF16>(*args, stream, err);
}
