/* What a neuron has over the rows:
 *     columns     bits -> fired, first, last, of each definition
 *     magnitudes  abs_sum += round(|h| 2^20), abs_max, bins of log2 |h|
 * of rows that aren't skipped; integers and maxima, so free of order.
 *
 * columns: a tile of 32 rows by 32 words of bits, read by rows (128 bytes a warp)
 * and turned in shared memory, a padded word a row against bank conflicts; a lane
 * then has 32 rows of one column, and adds up 1024 rows before three atomics.
 * cols / 8 bytes a row. magnitudes, dense: a thread a column, 4 bytes a number,
 * a histogram for each thread, [bin][thread], so that a warp's threads have a bank
 * each and need no atomics: 32 KB, 7 blocks of 128 threads a multiprocessor. Lists:
 * a warp a row, atomics for each entry. */
#include "kernels/cuda/planes.cuh"
#include "kernels/cuda/second_rows.cuh"

using namespace second;

namespace {

constexpr int WARPS = 8;
constexpr int SIDE = 32;       // rows and words of a tile
constexpr int TILES = 32;      // that a block adds up
constexpr int COLUMNS = 128;   // of a block of magnitudes
constexpr int ROWS = 512;      // that a block of magnitudes takes

/* ---- columns ---- */

struct Column {
    uint32_t fired = 0, first = 0xffffffff, last = 0;

    /* rows: bit i is row base + i. */
    __device__ __forceinline__ void add(uint32_t rows, uint32_t base)
    {
        if (!rows)
            return;
        fired += __popc(rows);
        first = min(first, base + __ffs(rows) - 1);
        last = base + 32 - __clz(rows);
    }
    __device__ __forceinline__ void publish(const struct twp_second &s, int def, int column) const
    {
        if (!fired)
            return;
        atomicAdd(s.fired[def] + column, fired);
        atomicMin(s.first[def] + column, first);
        atomicMax(s.last[def] + column, last);
    }
};

__global__ void __launch_bounds__(WARPS * 32) columns_kernel(const struct twp_second s)
{
    constexpr int EACH = SIDE / WARPS;
    __shared__ uint32_t tile[SIDE][SIDE + 1];
    common::wait_for_last();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, word = blockIdx.x * SIDE;
    const uint32_t *bits = s.bits[blockIdx.z];
    Column column[EACH];
    for (int t = 0; t < TILES; t++) {
        int row = (blockIdx.y * TILES + t) * SIDE;
        if (row >= s.rows)
            break;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int r = warp * EACH + i;
            bool is_counted = row + r < s.rows && word + lane < s.words && !is_skipped(s, row + r);
            tile[r][lane] = is_counted ? bits[(int64_t)(row + r) * s.words + word + lane] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; i++)
            column[i].add(planes::transpose(tile[lane][warp * EACH + i]), row);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
        column[i].publish(s, blockIdx.z, (word + warp * EACH + i) * 32 + lane);
}

/* ---- magnitudes ---- */

__device__ __forceinline__ int bin_of(float size)
{
    int exponent = (int)(__float_as_uint(size) >> 23) - 127; // of a normal number
    return min(max(exponent + TW_MAGNITUDE_BIAS, 0), TW_MAGNITUDE_BINS - 1);
}

/* A neuron's firings: |h| in units of 2^-20. */
struct Sum {
    unsigned long long units = 0;
    float max = 0;
    bool is_over = false;

    __device__ __forceinline__ void add(float size)
    {
        constexpr float MOST = 0x1p62f; // as the cpu's
        float scaled = size * (float)TW_NLL_SCALE; // exact, or Inf
        if (scaled > MOST)
            is_over = true;
        else
            units += llrintf(scaled);
        is_over |= units >> 63 != 0;
        max = fmaxf(max, size);
    }
    __device__ __forceinline__ void publish(const struct twp_magnitudes &to, int column) const
    {
        unsigned long long old = 0;
        if (units)
            old = atomicAdd(reinterpret_cast<unsigned long long *>(to.abs_sum) + column, units);
        if (is_over || (old + units) >> 63)
            *to.is_overflown = 1;
        if (max > 0) // as integers they are in the same order
            atomicMax(reinterpret_cast<int *>(to.abs_max) + column, __float_as_int(max));
    }
};

struct Params {
    struct twp_second second;
    struct twp_second_h h;
    struct twp_magnitudes to;
};

__global__ void __launch_bounds__(COLUMNS) magnitudes_kernel(const Params p)
{
    __shared__ uint32_t bins[TW_MAGNITUDE_BINS][COLUMNS];
    for (int b = 0; b < TW_MAGNITUDE_BINS; b++)
        bins[b][threadIdx.x] = 0;
    common::wait_for_last();
    int column = blockIdx.x * COLUMNS + threadIdx.x, first = blockIdx.y * ROWS;
    int end = min(actual_rows(p.h.rows), first + ROWS);
    Sum sum;
    if (column < p.second.cols)
#pragma unroll 4
        for (int place = first; place < end; place++) {
            int row = (int)common::number_of(p.h.rows, place);
            float size = fabsf(p.h.h[place * p.h.stride + column]);
            if (is_skipped(p.second, row) || !isfinite(size))
                continue;
            bins[bin_of(size)][threadIdx.x] += size != 0;
            if (is_primary(p.second, row, column))
                sum.add(size);
        }
    if (column < p.second.cols)
        sum.publish(p.to, column);
    __syncthreads();
    for (int b = threadIdx.x / 32; b < TW_MAGNITUDE_BINS; b += COLUMNS / 32) {
        uint32_t count = 0;
        for (int i = threadIdx.x % 32; i < COLUMNS; i += 32)
            count += bins[b][i];
        count = __reduce_add_sync(FULL_WARP, count);
        if (threadIdx.x % 32 == 0 && count)
            atomicAdd(p.to.magnitude + b, (unsigned long long)count);
    }
}

__global__ void __launch_bounds__(WARPS * 32) magnitudes_listed_kernel(const Params p)
{
    __shared__ uint32_t bins[TW_MAGNITUDE_BINS];
    if (threadIdx.x < TW_MAGNITUDE_BINS)
        bins[threadIdx.x] = 0;
    __syncthreads();
    common::wait_for_last();
    for (int place = blockIdx.x * ROWS + threadIdx.x / 32;
         place < min(p.h.rows.rows, (int)(blockIdx.x + 1) * ROWS); place += WARPS) {
        Listed row(p.h, p.second.cols, place);
        if (!row.is_here() || is_skipped(p.second, place))
            continue;
        for (int i = threadIdx.x % 32; i < row.n; i += 32) {
            float size = fabsf(row.value(i));
            if (!isfinite(size))
                continue;
            if (size != 0)
                atomicAdd(&bins[bin_of(size)], 1u);
            Sum sum;
            if (is_primary(p.second, place, row.column(i)))
                sum.add(size);
            sum.publish(p.to, row.column(i));
        }
    }
    __syncthreads();
    if (threadIdx.x < TW_MAGNITUDE_BINS && bins[threadIdx.x])
        atomicAdd(p.to.magnitude + threadIdx.x, (unsigned long long)bins[threadIdx.x]);
}

} // namespace

extern "C" enum tw_status tw_launch_columns(const struct twp_second *s, struct CUstream_st *stream,
                                            struct tw_error *err)
{
    dim3 grid((s->words + SIDE - 1) / SIDE, (s->rows + TILES * SIDE - 1) / (TILES * SIDE), s->defs);
    return common::launch("columns", columns_kernel, grid, WARPS * 32, 0, stream, err, *s);
}

extern "C" enum tw_status tw_launch_magnitudes(const struct twp_second *s,
                                               const struct twp_second_h *h,
                                               const struct twp_magnitudes *to,
                                               struct CUstream_st *stream, struct tw_error *err)
{
    Params p = {*s, *h, *to};
    int parts = (h->rows.rows + ROWS - 1) / ROWS;
    if (h->list.n)
        return common::launch("magnitudes", magnitudes_listed_kernel, parts, WARPS * 32, 0, stream,
                              err, p);
    dim3 grid((s->cols + COLUMNS - 1) / COLUMNS, parts);
    return common::launch("magnitudes", magnitudes_kernel, grid, COLUMNS, 0, stream, err, p);
}
