/* TwELL to dense, gated and plain, for the rows that stay sparse.
 *
 *   hide: h = a (x W_up^T + b_up) at a row's entries (plain: h = a)
 *   add:  y = residual + h W_down^T + b_down
 *
 * Shapes: x, y, residual [rows][d]; up, down [cols][d] (W_down transposed, so
 * that a neuron is one row of each), bf16 or fp16; sums fp32, y rounded once. Bytes: 2 d
 * an entry and kernel from L2, 2 d a row for each of x, y, residual; FLOPs 4 d
 * an entry. Both are bound by the L2 cache.
 *
 * Two kernels, so that the rows of one weight alone compete for the L2 cache
 * (23 MB at 2048 x 5632; both would be 46, and each of its halves keeps its own
 * copy of what its multiprocessors read). A warp is a row (hide) or a part of a
 * row of NV * 256 columns (add); weights of the next entries are on their way
 * while one is used. hide leaves a row's entries as one list of (neuron, h). A
 * row's sums run in the list's order: its bits depend on the row alone.
 *
 * M 16384, d 2048, 5632 neurons, 29.4 entries a row, one H200: 0.24 + 0.24 ms,
 * 8.6 TB/s, the L2 cache busy to 82 %. Lost: one kernel, a warp a row, entry
 * after entry 0.64 ms (L2 hits 62 %, 1.8 TB/s from memory); a block of 4 warps a
 * row, dots of a batch at once 0.70, of the whole list 0.64; here, hide entry
 * after entry 0.265, add with one row ahead 2.3 (spills). */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/counting.cuh"

namespace {

using common::FULL_WARP;
constexpr int WARPS = 4;         // of a block, each with a row of its own
constexpr uint32_t ROUTED = 0xffffffffu;

struct AddParams {
    struct twp_list list;
    int rows, d, parts;
    const uint16_t *down;
    const float *down_bias;
    const uint16_t *residual;
    uint16_t *y;
    struct twp_counts counts;
};

template <enum tw_dtype T> __device__ __forceinline__ void widen(float (&out)[8], uint4 v)
{
    uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out[2 * i] = common::low_half<T>(word[i]);
        out[2 * i + 1] = common::high_half<T>(word[i]);
    }
}

/* A lane's NV chunks of 8 columns, from `first` on; FULL: all of them exist. */
template <int NV, bool FULL> struct Columns {
    int first;
    bool is_in[NV];
    __device__ Columns(int from, int d) : first(from + threadIdx.x % 32 * 8)
    {
#pragma unroll
        for (int v = 0; v < NV; v++)
            is_in[v] = at(v) < d;
    }
    __device__ __forceinline__ int at(int v) const { return first + v * 256; }
    __device__ __forceinline__ uint4 chunk(const uint16_t *row, int v) const
    {
        return FULL || is_in[v] ? __ldg(reinterpret_cast<const uint4 *>(row + at(v)))
                                : make_uint4(0, 0, 0, 0);
    }
    __device__ __forceinline__ void load(uint4 (&out)[NV], const uint16_t *row) const
    {
#pragma unroll
        for (int v = 0; v < NV; v++)
            out[v] = chunk(row, v);
    }
};

/* ---- hide ---- */

/* The parts of an entry's dot, in order. */
__device__ __forceinline__ float sum_parts(const float *part, int64_t stride, int slabs)
{
    float sum = 0;
#pragma unroll 8
    for (int s = 0; s < slabs; s++)
        sum += __ldcs(part + s * stride);
    return sum;
}

__global__ void __launch_bounds__(WARPS * 32) hide_kernel(const struct twp_hide_args a)
{
    common::let_next_start();
    common::wait_for_last();
    int lane = threadIdx.x % 32, row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= a.rows)
        return;
    uint32_t n = a.list.n[row];
    if (n == ROUTED)
        return;
    counting::RowSums sums;
    int64_t at = (int64_t)row * a.list.room, first = row / TWP_STREAM_ROWS * TWP_STREAM_ROWS;
    int64_t streams = (a.rows + TWP_STREAM_ROWS - 1) / TWP_STREAM_ROWS;
    int64_t stride = streams * TWP_STREAM_ROWS * a.list.room;
    const float *part = a.part + first * a.list.room;
#pragma unroll 1
    for (uint32_t e = lane; e < n; e += 32) {
        uint32_t neuron = a.list.neuron[at + e];
        float value = a.list.value[at + e];
        float up = sum_parts(part + a.list.place[at + e], stride, a.slabs);
        float h = value * (up + (a.up_bias ? __ldg(a.up_bias + neuron) : 0.0f));
        a.list.hidden[at + e] = h;
        if (a.counts.is_on)
            counting::add_entry(a.counts, sums, neuron, value, h, row);
    }
    if (a.counts.is_on)
        counting::finish_row(a.counts, sums, row);
}

/* ---- add ---- */

/* y += h times the rows of up to 32 entries, one in a lane. */
template <enum tw_dtype T, int NV, int DEPTH, bool FULL>
__device__ __forceinline__ void add_entries(const AddParams &p,
                                            const Columns<NV, FULL> &columns,
                                            float (&y)[NV * 8], uint2 mine, int n)
{
    uint4 w[DEPTH][NV];
#pragma unroll
    for (int i = 0; i < DEPTH; i++)
        if (i < n)
            columns.load(w[i], p.down + (int64_t)__shfl_sync(FULL_WARP, mine.x, i) * p.d);
#pragma unroll 1
    for (int e = 0; e < n; e += DEPTH)
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            if (e + i >= n)
                break;
            float h = __uint_as_float(__shfl_sync(FULL_WARP, mine.y, e + i));
#pragma unroll
            for (int v = 0; v < NV; v++) {
                float f[8];
                widen<T>(f, w[i][v]);
#pragma unroll
                for (int c = 0; c < 8; c++)
                    y[v * 8 + c] = fmaf(h, f[c], y[v * 8 + c]);
            }
            if (e + i + DEPTH < n)
                columns.load(w[i], p.down + (int64_t)__shfl_sync(FULL_WARP, mine.x, e + i + DEPTH) *
                                                p.d);
        }
}

template <enum tw_dtype T, int NV, bool FULL>
__device__ __forceinline__ void finish_row(const AddParams &p,
                                           const Columns<NV, FULL> &columns, int row,
                                           const float (&y)[NV * 8])
{
    int64_t at = (int64_t)row * p.d;
#pragma unroll
    for (int v = 0; v < NV; v++) {
        if (!FULL && !columns.is_in[v])
            continue;
        float r[8] = {};
        if (p.residual)
            widen<T>(r, __ldcs(reinterpret_cast<const uint4 *>(p.residual + at + columns.at(v))));
        uint32_t out[4];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            float2 b = make_float2(0, 0);
            if (p.down_bias)
                b = __ldg(reinterpret_cast<const float2 *>(p.down_bias + columns.at(v)) + c);
            out[c] = hopper::round_pair<T>(y[v * 8 + 2 * c] + b.x + r[2 * c],
                                        y[v * 8 + 2 * c + 1] + b.y + r[2 * c + 1]);
        }
        __stcs(reinterpret_cast<uint4 *>(p.y + at + columns.at(v)),
               make_uint4(out[0], out[1], out[2], out[3]));
    }
}

/* BY_PART: all rows' first parts, then their second. */
template <enum tw_dtype T, int NV, int DEPTH, bool FULL, int BLOCKS, bool BY_PART>
__global__ void __launch_bounds__(WARPS * 32, BLOCKS) add_kernel(const AddParams p)
{
    common::let_next_start();
    common::wait_for_last();
    int warp = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = BY_PART ? warp % p.rows : warp / p.parts;
    int part = BY_PART ? warp / p.rows : warp % p.parts;
    if (row >= p.rows || part >= p.parts)
        return;
    uint32_t n = p.list.n[row];
    if (n == ROUTED)
        return;
    Columns<NV, FULL> columns(part * NV * 256, p.d);
    int64_t from = (int64_t)row * p.list.room;
    bool is_counted = p.counts.is_on && !(p.counts.skip && p.counts.skip[row]);
    float y[NV * 8] = {};
#pragma unroll 1
    for (uint32_t base = 0; base < n; base += 32) {
        uint2 mine = make_uint2(0, 0);
        if (base + lane < n) {
            float h = __ldcs(p.list.hidden + from + base + lane);
            mine = make_uint2(__ldcs(p.list.neuron + from + base + lane), __float_as_uint(h));
            if (is_counted && lane * p.parts / 32 == part) // each part's share
                counting::fire(p.counts, mine.x, p.list.value[from + base + lane], h, row);
        }
        add_entries<T, NV, DEPTH, FULL>(p, columns, y, mine, min(32u, n - base));
    }
    finish_row<T>(p, columns, row, y);
}

template <enum tw_dtype T, int NV, int DEPTH, int BLOCKS, bool BY_PART>
enum tw_status add(AddParams p, cudaStream_t stream, struct tw_error *err)
{
    p.parts = (p.d + NV * 256 - 1) / (NV * 256);
    int64_t warps = (int64_t)p.rows * p.parts;
    int blocks = (int)((warps + WARPS - 1) / WARPS);
    if (p.d % (NV * 256) == 0)
        return common::launch("add", add_kernel<T, NV, DEPTH, true, BLOCKS, BY_PART>, blocks,
                              WARPS * 32, 0, stream, err, p);
    return common::launch("add", add_kernel<T, NV, DEPTH, false, BLOCKS, BY_PART>, blocks,
                          WARPS * 32, 0, stream, err, p);
}

template <enum tw_dtype T>
enum tw_status add_variant(int variant, const AddParams &p, cudaStream_t stream,
                           struct tw_error *err)
{
    switch (variant) {
    case 1:
        return add<T, 2, 4, 5, true>(p, stream, err);
    case 2:
        return add<T, 1, 8, 6, true>(p, stream, err);
    case 3:
        return add<T, 4, 2, 5, true>(p, stream, err);
    case 4:
        return add<T, 2, 4, 6, true>(p, stream, err);
    default:
        return add<T, 2, 4, 5, false>(p, stream, err);
    }
}

} // namespace

extern "C" enum tw_status tw_launch_hide(const struct twp_hide_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    int blocks = (args->rows + WARPS - 1) / WARPS;
    return common::launch("hide", hide_kernel, blocks, WARPS * 32, 0, stream, err, *args);
}

extern "C" enum tw_status tw_launch_add(const struct twp_add_args *args,
                                        struct CUstream_st *stream, struct tw_error *err)
{
    AddParams p = {args->list,
                   args->rows,
                   args->d,
                   0,
                   static_cast<const uint16_t *>(args->down),
                   args->down_bias,
                   static_cast<const uint16_t *>(args->residual),
                   static_cast<uint16_t *>(args->y),
                   args->counts};
    return args->type == TW_F16 ? add_variant<TW_F16>(args->variant, p, stream, err)
                                : add_variant<TW_BF16>(args->variant, p, stream, err);
}
