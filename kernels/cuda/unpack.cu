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
 * after entry 0.265, add with one row ahead 2.3 (spills), add part after part of
 * all rows the same, with parts of 256 columns 0.28. Also lost, though free of the
 * L2 cache's limit: a block that keeps 704 neurons x 128 columns of W_up in shared
 * memory while all rows pass, their entries streamed by such groups, gathered
 * fragments for mma.m16n8k16: 0.21 ms (logic instructions keep its issue slots at
 * half; x by TMA made no difference) and 0.06 for streams and the sum of the 16
 * parts, against 0.24 here; ahead from 60 entries a row on (0.45 against 0.73 at
 * 98), where the dense layer is faster than both. */
#include "kernels/cuda/common.cuh"

namespace {

using common::FULL_WARP;
constexpr int WINDOW = 64;       // entries a warp lists at once
constexpr int WARPS = 4;         // of a block, each with a row of its own
constexpr uint32_t ROUTED = 0xffffffffu;

struct HideParams {
    struct twp_packed in;
    struct twp_list list;
    const uint8_t *is_routed;
    int rows, d;
    const uint16_t *x, *up;
    const float *up_bias;
    struct twp_counts counts;
};

struct AddParams {
    struct twp_list list;
    int rows, d, parts;
    const uint16_t *down;
    const float *down_bias;
    const uint16_t *residual;
    uint16_t *y;
    struct twp_counts counts; // off: hide counts
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

/* ---- counts ---- */

/* A row's counts, in the lanes of its warp. */
struct RowSums {
    float l1 = 0;
    uint32_t nnz[TWP_DEFS] = {};
};

__device__ __forceinline__ void fire(const struct twp_counts &c, int def, uint32_t neuron,
                                     uint32_t row)
{
    atomicAdd(c.fired[def] + neuron, 1); // results unused: reductions, nothing waits
    atomicMin(c.first[def] + neuron, row);
    atomicMax(c.last[def] + neuron, row + 1);
}

/* a: the packed act(gate). */
__device__ __forceinline__ void count_entry(const struct twp_counts &c, RowSums &sums,
                                            uint32_t neuron, float a, float h, uint32_t row,
                                            bool is_skipped)
{
    sums.l1 += fabsf(h);
    if (!isfinite(h))
        atomicMin(c.bad, (unsigned long long)row << 32 | neuron);
#pragma unroll
    for (int d = 0; d < TWP_DEFS; d++) {
        if (d >= c.defs || !common::is_active(c.def[d], true, a, h))
            continue;
        sums.nnz[d]++;
        if (!is_skipped)
            fire(c, d, neuron, row);
    }
}

__device__ __forceinline__ void finish_counts(const struct twp_counts &c, const RowSums &sums,
                                              uint32_t row)
{
    float l1 = sums.l1;
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
        l1 += __shfl_xor_sync(FULL_WARP, l1, step);
    if (threadIdx.x % 32 == 0)
        c.l1[row] = l1;
#pragma unroll
    for (int d = 0; d < TWP_DEFS; d++) {
        if (d >= c.defs)
            break;
        uint32_t nnz = __reduce_add_sync(FULL_WARP, sums.nnz[d]);
        if (threadIdx.x % 32 == 0)
            c.nnz[d][row] = nnz;
    }
}

/* ---- hide ---- */

/* A warp's window of entries. */
struct Window {
    uint32_t neuron[WINDOW];
    float value[WINDOW], dot[WINDOW];
};

/* Entries base .. base + WINDOW - 1 of 32 tiles; `before` is the number in the
 * tiles of the lanes below. */
__device__ __forceinline__ void fill_window(Window &window, const struct twp_packed &in,
                                            int64_t cell, int tile, int count, int before,
                                            int base)
{
    const uint32_t *from = in.entry + cell * in.slots;
    int first = max(base - before, 0), last = min(count, base + WINDOW - before);
#pragma unroll 1
    for (int i = first; i < last; i++) {
        uint32_t entry = __ldcs(from + i);
        window.neuron[before + i - base] = tile * TWP_TILE + (entry & 0xff);
        window.value[before + i - base] = __uint_as_float(entry & common::VALUE_BITS);
    }
}

/* The sum over the warp of p[i] for each i < BATCH; lane l ends with that of
 * i = l % BATCH. Pairs of lanes swap halves: BATCH - 1 + log2(32 / BATCH)
 * shuffles. */
template <int BATCH> __device__ __forceinline__ float sum_lanes(float (&p)[BATCH])
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int width = BATCH / 2; width > 0; width /= 2) {
        bool is_upper = lane & width;
#pragma unroll
        for (int i = 0; i < width; i++) {
            float give = is_upper ? p[i] : p[i + width];
            float keep = is_upper ? p[i + width] : p[i];
            p[i] = keep + __shfl_xor_sync(FULL_WARP, give, width);
        }
    }
#pragma unroll
    for (int step = BATCH; step < 32; step *= 2)
        p[0] += __shfl_xor_sync(FULL_WARP, p[0], step);
    return p[0];
}

/* window.dot of n entries over the columns from `from` on, BATCH entries at
 * once. Each chunk of a row is replaced by the next batch's as soon as it is
 * used. */
template <enum tw_dtype T, int NV, int BATCH, bool FULL>
__device__ __forceinline__ void dot_window(const HideParams &p, const uint16_t *x, Window &window,
                                           int n, int from)
{
    Columns<NV, FULL> columns(from, p.d);
    int lane = threadIdx.x % 32;
    uint4 mine[NV], w[BATCH][NV];
    columns.load(mine, x);
#pragma unroll
    for (int i = 0; i < BATCH; i++)
        if (i < n)
            columns.load(w[i], p.up + (int64_t)window.neuron[i] * p.d);
#pragma unroll 1
    for (int e = 0; e < n; e += BATCH) {
        const uint16_t *next[BATCH];
        float sum[BATCH] = {};
#pragma unroll
        for (int i = 0; i < BATCH; i++) // the last rows again where there are no more
            next[i] = p.up + (int64_t)window.neuron[min(e + BATCH + i, n - 1)] * p.d;
        bool has_next = e + BATCH < n;
#pragma unroll
        for (int v = 0; v < NV; v++) {
            float g[8];
            widen<T>(g, mine[v]);
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                float f[8];
                widen<T>(f, w[i][v]);
#pragma unroll
                for (int c = 0; c < 8; c++)
                    sum[i] = fmaf(f[c], g[c], sum[i]);
                if (has_next)
                    w[i][v] = columns.chunk(next[i], v);
            }
        }
        float mine_of = sum_lanes<BATCH>(sum);
        if (lane < BATCH && e + lane < n)
            window.dot[e + lane] = from == 0 ? mine_of : window.dot[e + lane] + mine_of;
    }
}

template <enum tw_dtype T, int NV, int BATCH, bool GATED, bool FULL>
__device__ __forceinline__ void hide_window(const HideParams &p, int row, Window &window, int n,
                                            uint2 *out, RowSums &sums, bool is_skipped)
{
    __syncwarp();
    if (GATED)
#pragma unroll 1
        for (int from = 0; from < p.d; from += NV * 256)
            dot_window<T, NV, BATCH, FULL>(p, p.x + (int64_t)row * p.d, window, n, from);
    __syncwarp();
#pragma unroll 1
    for (int e = threadIdx.x % 32; e < n; e += 32) {
        uint32_t neuron = window.neuron[e];
        float a = window.value[e], h = a;
        if (GATED)
            h *= window.dot[e] + (p.up_bias ? __ldg(p.up_bias + neuron) : 0.0f);
        out[e] = make_uint2(neuron, __float_as_uint(h));
        if (GATED && p.counts.is_on)
            count_entry(p.counts, sums, neuron, a, h, row, is_skipped);
    }
    __syncwarp();
}

template <enum tw_dtype T, int NV, int BATCH, bool GATED, bool FULL, int BLOCKS>
__global__ void __launch_bounds__(WARPS * 32, BLOCKS) hide_kernel(const HideParams p)
{
    __shared__ Window windows[WARPS];
    common::let_next_start();
    common::wait_for_last();
    Window &window = windows[threadIdx.x / 32];
    int lane = threadIdx.x % 32, row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= p.rows)
        return;
    if (p.is_routed && p.is_routed[row]) {
        if (lane == 0)
            p.list.n[row] = ROUTED;
        return;
    }
    bool is_skipped = GATED && p.counts.is_on && p.counts.skip && p.counts.skip[row];
    RowSums sums;
    uint2 *out = reinterpret_cast<uint2 *>(p.list.pair) + (int64_t)row * p.in.tiles * p.in.slots;
    int listed = 0;
#pragma unroll 1
    for (int first = 0; first < p.in.tiles; first += 32) {
        int tile = first + lane;
        int64_t cell = (int64_t)row * p.in.tiles + tile;
        int count = tile < p.in.tiles ? __dp4a(__ldcs(p.in.count + cell), 0x01010101u, 0u) : 0;
        int upto = count;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            int below = __shfl_up_sync(FULL_WARP, upto, step);
            upto += lane >= step ? below : 0;
        }
        int total = __shfl_sync(FULL_WARP, upto, 31);
#pragma unroll 1
        for (int base = 0; base < total; base += WINDOW) {
            fill_window(window, p.in, cell, tile, count, upto - count, base);
            hide_window<T, NV, BATCH, GATED, FULL>(p, row, window, min(WINDOW, total - base),
                                          out + listed + base, sums, is_skipped);
        }
        listed += total;
    }
    if (lane == 0)
        p.list.n[row] = listed;
    if (GATED && p.counts.is_on)
        finish_counts(p.counts, sums, row);
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

/* COUNTS: of a plain layer, whose hide has nothing else to do meanwhile. With 30 entries a
 * row that is 1.9 and 1.6 % of the layer (M 16384, 65536), in hide 2.6 and 1.6 %; first and
 * last read before they are changed, rows from both ends so that they seldom are, 2.5 and
 * 2.8 % here. */
template <enum tw_dtype T, int NV, int DEPTH, bool FULL, bool COUNTS, int BLOCKS>
__global__ void __launch_bounds__(WARPS * 32, BLOCKS) add_kernel(const AddParams p)
{
    common::let_next_start();
    common::wait_for_last();
    int warp = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = warp / p.parts, part = warp % p.parts;
    if (row >= p.rows)
        return;
    uint32_t n = p.list.n[row];
    if (n == ROUTED)
        return;
    bool is_counting = COUNTS && part == 0;
    bool is_skipped = is_counting && p.counts.skip && p.counts.skip[row];
    RowSums sums;
    Columns<NV, FULL> columns(part * NV * 256, p.d);
    const uint2 *from = reinterpret_cast<const uint2 *>(p.list.pair) + (int64_t)row * p.list.room;
    float y[NV * 8] = {};
#pragma unroll 1
    for (uint32_t base = 0; base < n; base += 32) {
        uint2 mine = base + lane < n ? __ldcs(from + base + lane) : make_uint2(0, 0);
        float h = __uint_as_float(mine.y);
        if (is_counting && base + lane < n)
            count_entry(p.counts, sums, mine.x, h, h, row, is_skipped);
        add_entries<T, NV, DEPTH, FULL>(p, columns, y, mine, min(32u, n - base));
    }
    finish_row<T>(p, columns, row, y);
    if (is_counting)
        finish_counts(p.counts, sums, row);
}

template <enum tw_dtype T, int NV, int BATCH, int BLOCKS>
enum tw_status hide(const HideParams &p, cudaStream_t stream, struct tw_error *err)
{
    int blocks = (p.rows + WARPS - 1) / WARPS;
    bool is_full = p.d % (NV * 256) == 0;
    auto kernel = !p.up     ? hide_kernel<T, NV, BATCH, false, true, BLOCKS>
                  : is_full ? hide_kernel<T, NV, BATCH, true, true, BLOCKS>
                            : hide_kernel<T, NV, BATCH, true, false, BLOCKS>;
    return common::launch("hide", kernel, blocks, WARPS * 32, 0, stream, err, p);
}

template <enum tw_dtype T, int NV, int DEPTH, int BLOCKS>
enum tw_status add(AddParams p, cudaStream_t stream, struct tw_error *err)
{
    p.parts = (p.d + NV * 256 - 1) / (NV * 256);
    int64_t warps = (int64_t)p.rows * p.parts;
    int blocks = (int)((warps + WARPS - 1) / WARPS);
    bool is_full = p.d % (NV * 256) == 0, counts = p.counts.is_on;
    auto kernel = is_full && counts ? add_kernel<T, NV, DEPTH, true, true, BLOCKS>
                  : is_full         ? add_kernel<T, NV, DEPTH, true, false, BLOCKS>
                  : counts          ? add_kernel<T, NV, DEPTH, false, true, BLOCKS>
                                    : add_kernel<T, NV, DEPTH, false, false, BLOCKS>;
    return common::launch("add", kernel, blocks, WARPS * 32, 0, stream, err, p);
}

template <enum tw_dtype T>
enum tw_status hide_variant(int variant, const HideParams &p, cudaStream_t stream,
                            struct tw_error *err)
{
    switch (variant) {
    case 1:
        return hide<T, 8, 1, 5>(p, stream, err);
    case 2:
        return hide<T, 2, 4, 6>(p, stream, err);
    default:
        return hide<T, 4, 2, 5>(p, stream, err);
    }
}

template <enum tw_dtype T>
enum tw_status add_variant(int variant, const AddParams &p, cudaStream_t stream,
                           struct tw_error *err)
{
    switch (variant) {
    case 1: // more blocks spill where columns are missing and it counts
        return add<T, 4, 2, 3>(p, stream, err);
    case 2:
        return add<T, 8, 2, 3>(p, stream, err);
    default:
        return add<T, 2, 4, 5>(p, stream, err);
    }
}

} // namespace

extern "C" enum tw_status tw_launch_hide(const struct twp_unpack_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    HideParams p = {args->in,
                    args->list,
                    args->is_routed,
                    args->rows,
                    args->d,
                    static_cast<const uint16_t *>(args->x),
                    static_cast<const uint16_t *>(args->up),
                    args->up_bias,
                    args->counts};
    return args->type == TW_F16 ? hide_variant<TW_F16>(args->variant, p, stream, err)
                                : hide_variant<TW_BF16>(args->variant, p, stream, err);
}

extern "C" enum tw_status tw_launch_add(const struct twp_unpack_args *args,
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
    p.counts.is_on = p.counts.is_on && !args->up;
    return args->type == TW_F16 ? add_variant<TW_F16>(args->variant, p, stream, err)
                                : add_variant<TW_BF16>(args->variant, p, stream, err);
}
