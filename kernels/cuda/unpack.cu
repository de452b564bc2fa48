/* TwELL to dense, gated and plain, for the rows that stay sparse.
 *
 *   gated: h = a (x W_up^T + b_up) at a row's entries; plain: h = a
 *   y = residual + h W_down^T + b_down
 *
 * Shapes: x, y, residual [rows][d]; up, down [cols][d] (W_down transposed, so
 * that a neuron is one row of each), bf16; sums fp32, y rounded once. Bytes: 4 d
 * (plain 2 d) an entry from L2, 4..6 d a row; FLOPs 4 d an entry.
 *
 * A block is a row's team of warps; a warp owns NV * 256 columns, 8 a lane at a
 * time (16-byte loads). The entries are listed in shared memory, then taken
 * BATCH at a time: each warp's part of the dots, summed over its lanes by a
 * butterfly that ends with one dot in each group of lanes, then over the warps
 * in one order; then y += h times the rows of down. Everything about a row
 * happens in its own block in one order: its bits depend on it alone. */
#include "kernels/cuda/common.cuh"

namespace {

constexpr uint32_t FULL_WARP = 0xffffffffu;
constexpr int LIST = 128;     // entries listed at once

struct UnpackParams {
    struct twp_packed in;
    const uint8_t *is_routed;
    int d;
    const uint16_t *x, *up, *down;
    const float *up_bias, *down_bias;
    const uint16_t *residual;
    uint16_t *y;
    struct twp_counts counts;
};

/* A row's entries that are listed. */
struct Listed {
    uint32_t neuron[LIST];
    float value[LIST];
};

__device__ __forceinline__ void widen(float (&out)[8], uint4 v)
{
    uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out[2 * i] = common::low_half(word[i]);
        out[2 * i + 1] = common::high_half(word[i]);
    }
}

template <int NV>
__device__ __forceinline__ void widen_at(float (&out)[NV * 8], int v, uint4 from)
{
    float f[8];
    widen(f, from);
#pragma unroll
    for (int c = 0; c < 8; c++)
        out[v * 8 + c] = f[c];
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

/* Counts of one row that a lane of warp 0 holds. */
struct RowSums {
    float l1 = 0;
    uint32_t hidden = 0;
};

__device__ __forceinline__ void fire(const struct twp_counts &c, int def, uint32_t neuron,
                                     uint32_t row)
{
    if (!(c.defs >> def & 1))
        return;
    atomicAdd(c.fired[def] + neuron, 1); // results unused: reductions, nothing waits
    atomicMin(c.first[def] + neuron, row);
    atomicMax(c.last[def] + neuron, row + 1);
}

__device__ __forceinline__ void count_entry(const struct twp_counts &c, RowSums &sums,
                                            uint32_t neuron, float h, uint32_t row,
                                            bool is_skipped)
{
    sums.l1 += fabsf(h);
    sums.hidden += h != 0;
    if (!isfinite(h))
        atomicMin(c.bad, (unsigned long long)row << 32 | neuron);
    if (is_skipped)
        return;
    fire(c, TWP_GATE, neuron, row);
    if (h != 0)
        fire(c, TWP_HIDDEN, neuron, row);
}

/* Lists entries base .. base + LIST - 1 of 32 tiles; `before` is the number in
 * the tiles of the lanes below. */
__device__ __forceinline__ void list_tiles(Listed &list, const struct twp_packed &in, int64_t cell,
                                           int tile, int count, int before, int base)
{
    const uint32_t *from = in.entry + cell * in.slots;
    int first = max(base - before, 0), last = min(count, base + LIST - before);
#pragma unroll 1
    for (int i = first; i < last; i++) {
        uint32_t entry = __ldcs(from + i);
        list.neuron[before + i - base] = tile * TWP_TILE + (entry & 0xff);
        list.value[before + i - base] = __uint_as_float(entry & common::VALUE_BITS);
    }
}

template <int NV> struct Columns { // a lane's place in a row
    int at[NV];
    bool is_in[NV];
    __device__ Columns(int d)
    {
#pragma unroll
        for (int v = 0; v < NV; v++) {
            at[v] = ((threadIdx.x / 32 * NV + v) * 32 + threadIdx.x % 32) * 8;
            is_in[v] = at[v] < d;
        }
    }
    __device__ __forceinline__ uint4 load(const uint16_t *row, int v) const
    {
        return is_in[v] ? __ldg(reinterpret_cast<const uint4 *>(row + at[v]))
                        : make_uint4(0, 0, 0, 0);
    }
    __device__ __forceinline__ uint4 load_once(const uint16_t *row, int v) const
    {
        return is_in[v] ? __ldcs(reinterpret_cast<const uint4 *>(row + at[v]))
                        : make_uint4(0, 0, 0, 0);
    }
};

template <int NV, int BATCH> struct Rows { // of a weight, in registers
    uint4 w[BATCH][NV];
    __device__ __forceinline__ void load(const uint16_t *weight, int d,
                                         const Columns<NV> &columns, const uint32_t *neuron,
                                         int n)
    {
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            if (i < n) {
                const uint16_t *row = weight + (int64_t)neuron[i] * d;
#pragma unroll
                for (int v = 0; v < NV; v++)
                    w[i][v] = columns.load(row, v);
            }
    }
};

/* One batch's dots into partial[0 .. n-1]. */
template <int NV, int BATCH>
__device__ __forceinline__ void dot_batch(const Rows<NV, BATCH> &rows, const float (&x)[NV * 8],
                                          int n, float *partial)
{
    float dot[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        dot[i] = 0;
#pragma unroll
        for (int v = 0; v < NV; v++) {
            float f[8];
            widen(f, rows.w[i][v]);
#pragma unroll
            for (int c = 0; c < 8; c++)
                dot[i] = fmaf(f[c], x[v * 8 + c], dot[i]);
        }
    }
    float sum = sum_lanes<BATCH>(dot);
    int lane = threadIdx.x % 32;
    if (lane < BATCH && lane < n)
        partial[lane] = sum;
}

/* This warp's part of the dots with up, into partial[entry]. The next batch's
 * rows are on their way while one is multiplied. */
template <int NV, int BATCH>
__device__ __forceinline__ void dot_list(const UnpackParams &p, const Columns<NV> &columns,
                                         const float (&x)[NV * 8], const Listed &list, int total,
                                         float *partial)
{
    Rows<NV, BATCH> even, odd;
    even.load(p.up, p.d, columns, list.neuron, total);
#pragma unroll 1
    for (int e = 0; e < total; e += 2 * BATCH) {
        int next = e + BATCH, after = next + BATCH;
        odd.load(p.up, p.d, columns, list.neuron + next, total - next);
        dot_batch(even, x, total - e, partial + e);
        if (next >= total)
            break;
        even.load(p.up, p.d, columns, list.neuron + after, total - after);
        dot_batch(odd, x, total - next, partial + next);
    }
}

/* list.value: the gate's value to h. The warps' parts are added in one order. */
__device__ __forceinline__ void hide_list(const UnpackParams &p, Listed &list, int total,
                                          const float (*partial)[LIST])
{
#pragma unroll 1
    for (int e = threadIdx.x; e < total; e += blockDim.x) {
        float u = partial[0][e];
#pragma unroll 1
        for (int w = 1; w < blockDim.x / 32; w++)
            u += partial[w][e];
        if (p.up_bias)
            u += __ldg(p.up_bias + list.neuron[e]);
        list.value[e] *= u;
    }
}

template <int NV, int BATCH>
__device__ __forceinline__ void add_batch(const Rows<NV, BATCH> &rows, float (&y)[NV * 8], int n,
                                          const float *h)
{
#pragma unroll
    for (int i = 0; i < BATCH; i++)
        if (i < n) {
            float hi = h[i];
#pragma unroll
            for (int v = 0; v < NV; v++) {
                float f[8];
                widen(f, rows.w[i][v]);
#pragma unroll
                for (int c = 0; c < 8; c++)
                    y[v * 8 + c] = fmaf(hi, f[c], y[v * 8 + c]);
            }
        }
}

/* y += h down over the list, loads ahead as above. */
template <int NV, int BATCH>
__device__ __forceinline__ void add_list(const UnpackParams &p, const Columns<NV> &columns,
                                         float (&y)[NV * 8], const Listed &list, int total)
{
    Rows<NV, BATCH> even, odd;
    even.load(p.down, p.d, columns, list.neuron, total);
#pragma unroll 1
    for (int e = 0; e < total; e += 2 * BATCH) {
        int next = e + BATCH, after = next + BATCH;
        odd.load(p.down, p.d, columns, list.neuron + next, total - next);
        add_batch(even, y, total - e, list.value + e);
        if (next >= total)
            break;
        even.load(p.down, p.d, columns, list.neuron + after, total - after);
        add_batch(odd, y, total - next, list.value + next);
    }
}

template <int NV, int BATCH, bool GATED>
__device__ __forceinline__ void take_list(const UnpackParams &p, const Columns<NV> &columns,
                                          float (&y)[NV * 8], Listed &list, int total,
                                          RowSums &sums, float (*partial)[LIST], bool is_skipped)
{
    if (GATED) {
        float x[NV * 8]; // read again for each list: its registers are free in between
#pragma unroll
        for (int v = 0; v < NV; v++)
            widen_at<NV>(x, v, columns.load(p.x + (int64_t)blockIdx.x * p.d, v));
        dot_list<NV, BATCH>(p, columns, x, list, total, partial[threadIdx.x / 32]);
        __syncthreads();
        hide_list(p, list, total, partial);
        __syncthreads();
    }
    add_list<NV, BATCH>(p, columns, y, list, total);
    if (p.counts.is_on && threadIdx.x < 32)
#pragma unroll 1
        for (int e = threadIdx.x; e < total; e += 32)
            count_entry(p.counts, sums, list.neuron[e], list.value[e], blockIdx.x, is_skipped);
}

template <int NV>
__device__ __forceinline__ void finish_row(const UnpackParams &p, const Columns<NV> &columns,
                                           const float (&y)[NV * 8])
{
    int64_t at = (int64_t)blockIdx.x * p.d;
#pragma unroll
    for (int v = 0; v < NV; v++) {
        if (!columns.is_in[v])
            continue;
        float r[8] = {};
        if (p.residual)
            widen(r, columns.load_once(p.residual + at, v));
        uint32_t out[4];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            float2 b = make_float2(0, 0);
            if (p.down_bias)
                b = __ldg(reinterpret_cast<const float2 *>(p.down_bias + columns.at[v]) + c);
            out[c] = hopper::round_pair(y[v * 8 + 2 * c] + b.x + r[2 * c],
                                        y[v * 8 + 2 * c + 1] + b.y + r[2 * c + 1]);
        }
        __stcs(reinterpret_cast<uint4 *>(p.y + at + columns.at[v]),
               make_uint4(out[0], out[1], out[2], out[3]));
    }
}

template <int NV, int BATCH, bool GATED, int MAX_THREADS, int BLOCKS>
__global__ void __launch_bounds__(MAX_THREADS, BLOCKS) unpack_kernel(const UnpackParams p)
{
    __shared__ Listed list;
    __shared__ float partial[GATED ? MAX_THREADS / 32 : 1][LIST];
    int row = blockIdx.x, lane = threadIdx.x % 32;
    if (p.is_routed && p.is_routed[row])
        return;
    Columns<NV> columns(p.d);
    float y[NV * 8] = {};
    bool is_skipped = p.counts.is_on && p.counts.skip && p.counts.skip[row];
    RowSums sums;
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
        for (int base = 0; base < total; base += LIST) {
            if (threadIdx.x < 32)
                list_tiles(list, p.in, cell, tile, count, upto - count, base);
            __syncthreads();
            take_list<NV, BATCH, GATED>(p, columns, y, list, min(LIST, total - base), sums,
                                        partial, is_skipped);
            __syncthreads();
        }
    }
    finish_row(p, columns, y);
    if (!p.counts.is_on || threadIdx.x >= 32)
        return;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        sums.l1 += __shfl_xor_sync(FULL_WARP, sums.l1, step);
        sums.hidden += __shfl_xor_sync(FULL_WARP, sums.hidden, step);
    }
    if (lane == 0) {
        p.counts.l1[row] = sums.l1;
        if (p.counts.defs >> TWP_HIDDEN & 1)
            p.counts.nnz[TWP_HIDDEN][row] = sums.hidden;
    }
}

/* Columns of a warp and entries at once; a block has as many warps as d needs. */
template <int NV, int BATCH, int MAX_THREADS, int BLOCKS>
enum tw_status launch(const UnpackParams &p, int rows, cudaStream_t stream, struct tw_error *err)
{
    int threads = (p.d + NV * 256 - 1) / (NV * 256) * 32;
    if (threads > MAX_THREADS)
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: width %d is more than %d", p.d,
                            MAX_THREADS / 32 * NV * 256);
    if (p.up)
        unpack_kernel<NV, BATCH, true, MAX_THREADS, BLOCKS><<<rows, threads, 0, stream>>>(p);
    else
        unpack_kernel<NV, BATCH, false, MAX_THREADS, BLOCKS><<<rows, threads, 0, stream>>>(p);
    return common::launched("unpack", err);
}

} // namespace

extern "C" enum tw_status tw_launch_unpack(const struct twp_unpack_args *args,
                                           struct CUstream_st *stream, struct tw_error *err)
{
    UnpackParams p = {args->in,
                      args->is_routed,
                      args->d,
                      static_cast<const uint16_t *>(args->x),
                      static_cast<const uint16_t *>(args->up),
                      static_cast<const uint16_t *>(args->down),
                      args->up_bias,
                      args->down_bias,
                      static_cast<const uint16_t *>(args->residual),
                      static_cast<uint16_t *>(args->y),
                      args->counts};
    switch (args->variant) {
    case 1:
        return launch<4, 1, 128, 3>(p, args->rows, stream, err);
    case 2:
        return launch<2, 2, 128, 3>(p, args->rows, stream, err);
    case 3:
        return launch<2, 2, 128, 4>(p, args->rows, stream, err);
    case 4:
        return launch<2, 1, 128, 6>(p, args->rows, stream, err);
    case 5:
        return launch<2, 1, 128, 5>(p, args->rows, stream, err);
    case 6:
        return launch<1, 2, 256, 2>(p, args->rows, stream, err);
    default:
        return p.d <= 2048 ? launch<4, 1, 128, 4>(p, args->rows, stream, err)
                           : launch<4, 1, 512, 1>(p, args->rows, stream, err);
    }
}
