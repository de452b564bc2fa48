/* Rows of counts: sums, tile histograms, and which rows go the dense way.
 *
 *   nnz[row] = sum of its counts; routed: a tile with more than `slots` entries,
 *   or more than row_limit in all
 *
 * route: a warp a row at a time, 8 rows a warp, 64 a block; reads 4 bytes a
 * tile. Small counts, nearly all of them, are kept in 8-bit fields of a lane's
 * registers, the others go to shared memory at once. A row's route depends on
 * the row alone. gather: a block for the same 64 rows finds their places from
 * the sums of the blocks before it, so that the list ascends, and copies x. */
#include "kernels/cuda/common.cuh"

namespace {

constexpr int WARPS = 8, ROWS_OF_WARP = TWP_ROUTE_ROWS / WARPS;
using common::FULL_WARP;
constexpr int AT_64 = 0, AT_128 = 65, AT_256 = AT_128 + 129;

/* How often the smallest counts came, in 8-bit fields: 0..3 of each width, and 4..7
 * of 256 columns. Larger ones go to `rest` at once. */
struct Small {
    uint32_t field[4] = {};

    /* A field's one; none past the fields. */
    __device__ static uint32_t one(uint32_t value) { return __funnelshift_lc(0, 1, 8 * value); }

    __device__ __forceinline__ void add(uint32_t word, int cols, uint32_t *rest)
    {
        uint32_t halves = (word & 0xff00ff) + (word >> 8 & 0xff00ff);
        uint32_t low = halves & 0xffff, high = halves >> 16, all = low + high;
#pragma unroll
        for (int i = 0; i < 4; i++)
            field[0] += one(word >> 8 * i & 0xff);
        field[1] += one(low) + one(high);
        field[2] += one(all);
        field[3] += one(all - 4);
        if (cols < TWP_TILE) { // parts that aren't there counted as zeros
            field[0] -= (TWP_TILE - cols) / 64;
            field[1] -= (TWP_TILE - cols) / 128;
        }
        if (all < 4) // so none is larger
            return;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if ((word >> 8 * i & 0xff) >= 4)
                atomicAdd(rest + AT_64 + (word >> 8 * i & 0xff), 1);
        if (low >= 4)
            atomicAdd(rest + AT_128 + low, 1);
        if (high >= 4)
            atomicAdd(rest + AT_128 + high, 1);
        if (all >= 8)
            atomicAdd(rest + AT_256 + all, 1);
    }
    /* At the latest after 63 tiles. */
    __device__ __forceinline__ void flush(uint32_t *histogram)
    {
        const int at[4] = {AT_64, AT_128, AT_256, AT_256 + 4};
#pragma unroll
        for (int w = 0; w < 4; w++) {
            uint32_t even = __reduce_add_sync(FULL_WARP, field[w] & 0xff00ff);
            uint32_t odd = __reduce_add_sync(FULL_WARP, field[w] >> 8 & 0xff00ff);
            if (threadIdx.x % 32 < 4) {
                int i = threadIdx.x % 32;
                uint32_t n = (i % 2 ? odd : even) >> (i / 2 * 16) & 0xffff;
                atomicAdd(histogram + at[w] + i, n);
            }
            field[w] = 0;
        }
    }
};

__global__ void __launch_bounds__(WARPS * 32) route_kernel(const struct twp_route_args a)
{
    __shared__ uint32_t histogram[TWP_HISTOGRAM];
    __shared__ uint32_t tiles_over, rows_over, rows_routed;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    common::let_next_start();
    for (int i = threadIdx.x; i < TWP_HISTOGRAM; i += WARPS * 32)
        histogram[i] = 0;
    if (threadIdx.x == 0)
        tiles_over = rows_over = rows_routed = 0;
    __syncthreads();
    common::wait_for_last();
    Small small;
    int first = blockIdx.x * TWP_ROUTE_ROWS + warp * ROWS_OF_WARP;
    int nnz[ROWS_OF_WARP] = {}, over[ROWS_OF_WARP] = {};
    for (int from = 0; from < a.in.tiles; from += 32) {
        int tile = from + lane;
        uint32_t word[ROWS_OF_WARP];
#pragma unroll
        for (int r = 0; r < ROWS_OF_WARP; r++)
            word[r] = tile < a.in.tiles && first + r < a.rows
                          ? a.in.count[(int64_t)(first + r) * a.in.tiles + tile]
                          : 0;
#pragma unroll
        for (int r = 0; r < ROWS_OF_WARP; r++) {
            int count = __dp4a(word[r], 0x01010101u, 0u);
            nnz[r] += count;
            over[r] += count > a.in.slots;
            bool is_counted = tile < a.in.tiles && first + r < a.rows && a.counts.is_on &&
                              !(a.counts.skip && a.counts.skip[first + r]);
            if (is_counted)
                small.add(word[r], a.in.cols - tile * TWP_TILE, histogram);
        }
        if (a.counts.is_on)
            small.flush(histogram);
    }
#pragma unroll
    for (int r = 0; r < ROWS_OF_WARP; r++) {
        int sum = __reduce_add_sync(FULL_WARP, nnz[r]);
        int overs = __reduce_add_sync(FULL_WARP, over[r]);
        if (lane != 0 || first + r >= a.rows)
            continue;
        for (int d = 0; a.counts.is_on && d < a.counts.defs; d++)
            if (a.counts.def[d].kind == TW_ACTIVE_GATE)
                a.counts.nnz[d][first + r] = sum;
        bool is_routed = overs > 0 || sum > a.row_limit;
        a.is_routed[first + r] = is_routed;
        if (is_routed)
            atomicAdd(&rows_routed, 1);
        if (overs > 0) {
            atomicAdd(&rows_over, 1);
            atomicAdd(&tiles_over, overs);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0)
        a.block_routed[blockIdx.x] = rows_routed;
    if (!a.counts.is_on)
        return;
    for (int i = threadIdx.x; i < TWP_HISTOGRAM; i += WARPS * 32)
        if (histogram[i])
            atomicAdd(a.counts.histogram + i, histogram[i]);
    if (threadIdx.x == 0 && rows_routed) {
        atomicAdd(a.counts.dense_rows, rows_routed);
        if (rows_over) {
            atomicAdd(a.counts.overflow_rows, rows_over);
            atomicAdd(a.counts.overflow_tiles, tiles_over);
        }
    }
}

/* Rows routed in the blocks before this one. All threads. */
__device__ int routed_before(const int32_t *block_routed)
{
    __shared__ int sums[WARPS];
    int sum = 0;
    for (int b = threadIdx.x; b < (int)blockIdx.x; b += WARPS * 32)
        sum += block_routed[b];
    sum = __reduce_add_sync(FULL_WARP, sum);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < WARPS; w++)
        sum += sums[w];
    return sum;
}

__global__ void __launch_bounds__(WARPS * 32) gather_kernel(const struct twp_gather_args a)
{
    __shared__ int32_t found[TWP_ROUTE_ROWS];
    common::let_next_start();
    common::wait_for_last();
    int mine = a.block_routed[blockIdx.x];
    bool is_last = blockIdx.x == gridDim.x - 1;
    if (mine == 0 && !is_last)
        return;
    int before = routed_before(a.block_routed);
    if (is_last && threadIdx.x == 0)
        *a.actual = before + mine;
    if (threadIdx.x < 32) {
        int lane = threadIdx.x, place = 0;
        for (int part = 0; part < TWP_ROUTE_ROWS; part += 32) {
            int row = blockIdx.x * TWP_ROUTE_ROWS + part + lane;
            bool is_routed = row < a.rows && a.is_routed[row];
            uint32_t all = __ballot_sync(FULL_WARP, is_routed);
            if (is_routed)
                found[place + __popc(all & ((1u << lane) - 1))] = row;
            place += __popc(all);
        }
    }
    __syncthreads();
    int chunks = a.k / 8; // of 16 bytes
    const uint4 *x = static_cast<const uint4 *>(a.x);
    uint4 *out = static_cast<uint4 *>(a.out);
    for (int i = threadIdx.x / 32; i < mine; i += WARPS) {
        if (threadIdx.x % 32 == 0)
            a.list[before + i] = found[i];
        for (int c = threadIdx.x % 32; c < chunks; c += 32)
            out[(int64_t)(before + i) * chunks + c] = x[(int64_t)found[i] * chunks + c];
    }
}

constexpr int SIDE = 32; // of a square that a block transposes

__global__ void transpose_kernel(uint16_t *out, int64_t stride_out, const uint16_t *in,
                                 int64_t stride_in, int rows, int cols)
{
    __shared__ uint16_t square[SIDE][SIDE + 2];
    int row = blockIdx.y * SIDE, col = blockIdx.x * SIDE;
    for (int i = threadIdx.y; i < SIDE; i += blockDim.y)
        if (row + i < rows && col + (int)threadIdx.x < cols)
            square[i][threadIdx.x] = in[(row + i) * stride_in + col + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < SIDE; i += blockDim.y)
        if (col + i < cols && row + (int)threadIdx.x < rows)
            out[(col + i) * stride_out + row + threadIdx.x] = square[threadIdx.x][i];
}

__global__ void repitch_kernel(uint16_t *out, int64_t stride_out, const uint16_t *in,
                               int64_t stride_in, int cols)
{
    out += blockIdx.x * stride_out;
    in += blockIdx.x * stride_in;
    for (int i = threadIdx.x; i < stride_out; i += blockDim.x)
        out[i] = i < cols ? in[i] : 0;
}

} // namespace

extern "C" enum tw_status tw_launch_check(const struct twp_device *device, struct tw_error *err)
{
    cudaFuncAttributes attributes;
    if (cudaFuncGetAttributes(&attributes, route_kernel) == cudaSuccess)
        return TW_OK;
    cudaGetLastError(); // not the next call's
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "cuda: this build has no kernels for compute capability %d.%d",
                        device->capability / 10, device->capability % 10);
}

extern "C" enum tw_status tw_launch_route(const struct twp_device *device,
                                          const struct twp_route_args *args,
                                          struct CUstream_st *stream, struct tw_error *err)
{
    (void)device;
    int blocks = (args->rows + TWP_ROUTE_ROWS - 1) / TWP_ROUTE_ROWS;
    return common::launch("route", route_kernel, blocks, WARPS * 32, 0, stream, err, *args);
}

extern "C" enum tw_status tw_launch_gather(const struct twp_gather_args *args,
                                           struct CUstream_st *stream, struct tw_error *err)
{
    int blocks = (args->rows + TWP_ROUTE_ROWS - 1) / TWP_ROUTE_ROWS;
    return common::launch("gather", gather_kernel, blocks, WARPS * 32, 0, stream, err, *args);
}

extern "C" enum tw_status tw_launch_transpose(void *out, int64_t stride_out, const void *in,
                                              int64_t stride_in, int32_t rows, int32_t cols,
                                              struct CUstream_st *stream, struct tw_error *err)
{
    dim3 grid((cols + SIDE - 1) / SIDE, (rows + SIDE - 1) / SIDE);
    return common::launch_plain("transpose", transpose_kernel, grid, dim3(SIDE, 8), 0, stream, err,
                                static_cast<uint16_t *>(out), stride_out,
                                static_cast<const uint16_t *>(in), stride_in, rows, cols);
}

extern "C" enum tw_status tw_launch_repitch(void *out, int64_t stride_out, const void *in,
                                            int64_t stride_in, int32_t rows, int32_t cols,
                                            struct CUstream_st *stream, struct tw_error *err)
{
    return common::launch_plain("repitch", repitch_kernel, rows, 256, 0, stream, err,
                                static_cast<uint16_t *>(out), stride_out,
                                static_cast<const uint16_t *>(in), stride_in, cols);
}
