/* The dense path's second half.
 *
 *   y = residual + h Wd^T + bd, rows scattered by their list
 *
 * Shapes: h [rows][cols], Wd [d][cols], y and residual [..][d], bf16; the sum,
 * bias and residual are added in fp32 and rounded once. FLOPs 2 rows cols d.
 * Grid: as in pack.cu; 4 stages of 48 KiB, no staged tile: the epilogue stores
 * from registers, since its mainloop is cols / 64 steps long. Warps 1-3 sum the
 * rows' partial l1 while the first column tile is multiplied. */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/product.cuh"

namespace {

using namespace product;

constexpr int STAGES = 4;
constexpr uint32_t FULL_WARP = 0xffffffffu;

struct DownParams {
    CUtensorMap h, down;
    struct twp_rows rows;
    int steps, d, parts;
    const float *bias;
    const uint16_t *residual;
    uint16_t *y;
    const float *l1_part;
    struct twp_counts counts;
};

__device__ __forceinline__ int64_t number_of(const struct twp_rows &rows, int place)
{
    return rows.list ? rows.list[place] : place;
}

__device__ __forceinline__ void store_half(const float (&d)[128], const DownParams &p, int place,
                                           int tile, int rows)
{
    int lane = threadIdx.x % 32;
    int column = tile * TILE_N + 2 * (lane % 4);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int mine = place + threadIdx.x % 128 / 32 * 16 + lane / 4 + 8 * i;
        if (mine >= rows)
            continue;
        int64_t at = number_of(p.rows, mine) * p.d;
#pragma unroll
        for (int j = 0; j < TILE_N / 8; j++) {
            int c = column + 8 * j;
            if (c >= p.d)
                continue;
            float low = d[4 * j + 2 * i], high = d[4 * j + 2 * i + 1];
            if (p.bias) {
                float2 b = __ldg(reinterpret_cast<const float2 *>(p.bias + c));
                low += b.x;
                high += b.y;
            }
            if (p.residual) {
                uint32_t r = *reinterpret_cast<const uint32_t *>(p.residual + at + c);
                low += common::low_half(r);
                high += common::high_half(r);
            }
            *reinterpret_cast<uint32_t *>(p.y + at + c) = hopper::round_pair(low, high);
        }
    }
}

/* A warp a row: partial sums added in one order. */
__device__ __forceinline__ void sum_l1(const DownParams &p, int place, int rows)
{
    int lane = threadIdx.x % 32;
    for (int r = place + threadIdx.x / 32 - 1; r < place + TILE_M && r < rows;
         r += HELPERS / 32) {
        float sum = 0;
        for (int i = lane; i < p.parts; i += 32)
            sum += p.l1_part[(int64_t)r * p.parts + i];
        for (int step = 16; step > 0; step /= 2)
            sum += __shfl_xor_sync(FULL_WARP, sum, step);
        if (lane == 0)
            p.counts.l1[number_of(p.rows, r)] = sum;
    }
}

__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    down_kernel(const __grid_constant__ DownParams p)
{
    extern __shared__ uint8_t raw[];
    Smem<STAGES> smem(raw, 0);
    int rows = p.rows.actual ? *p.rows.actual : p.rows.rows;
    if (rows == 0)
        return;
    Schedule at(rows, (p.d + TILE_N - 1) / TILE_N);
    start(smem);
    if (threadIdx.x < 128) {
        hopper::registers_down<REGISTERS_LOW>();
        if (threadIdx.x == 0) {
            Ring<STAGES> ring;
            for (; at.has(); at.next())
                load_tile(smem, ring, &p.h, &p.down, at.row_tile * TILE_M,
                          at.column_tile * TILE_N + at.rank * (TILE_N / CLUSTER), p.steps,
                          at.rank);
        } else if (threadIdx.x >= 32 && p.counts.is_on) {
            for (; at.has(); at.next())
                if (at.column_tile == 0)
                    sum_l1(p, at.row_tile * TILE_M, rows);
        }
        __syncwarp();
    } else {
        hopper::registers_up<REGISTERS_HIGH>();
        int half = threadIdx.x / 128 - 1;
        Ring<STAGES> ring;
        for (; at.has(); at.next()) {
            float d[128];
            multiply_tile(d, smem, ring, half, p.steps);
            store_half(d, p, at.row_tile * TILE_M + half * HALF_ROWS, at.column_tile, rows);
        }
    }
    __syncwarp();
    hopper::cluster_sync(); // no block leaves while its peer may still write to it
}

} // namespace

extern "C" enum tw_status tw_launch_down(const struct twp_device *device,
                                         const struct twp_down_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    DownParams p = {common::map_of(args->h),
                    common::map_of(args->down),
                    args->rows,
                    (args->cols + TILE_K - 1) / TILE_K,
                    args->d,
                    (args->cols + TWP_PART - 1) / TWP_PART,
                    args->bias,
                    static_cast<const uint16_t *>(args->residual),
                    static_cast<uint16_t *>(args->y),
                    args->l1_part,
                    args->counts};
    int bytes = smem_bytes(STAGES, 0);
    cudaFuncSetAttribute(down_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    int blocks = device->multiprocessors / CLUSTER * CLUSTER;
    down_kernel<<<blocks, THREADS, bytes, stream>>>(p);
    return common::launched("down", err);
}
