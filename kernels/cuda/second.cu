/* Who is active in a row, by any definition:
 *     bits[row][n] = active(h[n]),  nnz[row] = sum of bits
 * dense h [rows][stride] fp32 or lists of (neuron, h); bits are words of 32 columns.
 *
 * A block a row at a time, 256 threads, `blocks` of them; 9 KB of shared memory.
 * Bytes: 4 cols a row read from memory once (a row of 16384 is 64 KB: the further
 * passes find it in the L1 or L2), cols / 8 written a definition. The largest are
 * found as second_top.cuh says: one pass and three shared atomics a number for all
 * definitions, then three passes over which few numbers still count, one that
 * writes. A list's row costs the same steps on some dozens of numbers. */
#include "kernels/cuda/second_top.cuh"

using namespace second;

namespace {

struct Params {
    struct twp_second second;
    struct twp_second_h h;
};

__device__ __forceinline__ bool is_top(const struct twp_second_def &def)
{
    return def.def.kind == TW_ACTIVE_TOPP || def.def.kind == TW_ACTIVE_TOPK;
}

/* Which of a row's numbers are in: a definition's kind, for the largest their edge. */
struct Rule {
    struct twp_def def;
    uint32_t size, column; // larger, or as large and not behind that column

    template <typename Row> __device__ __forceinline__ bool operator()(const Row &row, int i) const
    {
        uint32_t bits = row.size(i);
        switch (def.kind) {
        case TW_ACTIVE_HIDDEN:
            return bits != 0;
        case TW_ACTIVE_GATE:
            return row.is_in(i);
        case TW_ACTIVE_ABS:
            return __uint_as_float(bits) > def.threshold;
        case TW_ACTIVE_GATE_ABS:
            return fabsf(row.a[i]) > def.threshold;
        default:
            return bits > 0 && bits <= INF &&
                   (bits > size || (bits == size && (uint32_t)row.column(i) <= column));
        }
    }
};

/* Sets a warp's bits: dense, its 32 columns are one word. */
template <typename Row>
__device__ __forceinline__ void put(uint32_t *bits, const Row &row, int base, bool is_in)
{
    int lane = threadIdx.x % 32;
    uint32_t word = __ballot_sync(FULL_WARP, is_in);
    if (!Row::IS_LIST && lane == 0)
        bits[base / 32] = word;
    if (Row::IS_LIST && is_in) {
        int column = row.column(base + lane);
        atomicOr(bits + column / 32, 1u << column % 32);
    }
}

/* The row's bits and their number, which all threads return. */
template <typename Row>
__device__ uint32_t write(uint32_t *bits, int words, const Row &row, const Rule &rule, Shared &s)
{
    uint32_t nnz = 0;
    for (int w = threadIdx.x; Row::IS_LIST && w < words; w += THREADS)
        bits[w] = 0;
    __syncthreads();
    for (int base = threadIdx.x / 32 * 32; base < row.n; base += THREADS) {
        int i = base + threadIdx.x % 32;
        bool is_in = i < row.n && rule(row, i);
        nnz += is_in;
        put(bits, row, base, is_in);
    }
    nnz = __reduce_add_sync(FULL_WARP, nnz);
    if (threadIdx.x % 32 == 0)
        s.warp_count[threadIdx.x / 32] = nnz;
    __syncthreads();
    nnz = 0;
    for (int w = 0; w < WARPS; w++)
        nnz += s.warp_count[w];
    __syncthreads();
    return nnz;
}

template <typename Row>
__global__ void __launch_bounds__(THREADS, 4) select_kernel(const Params p)
{
    __shared__ Shared s;
    common::wait_for_last();
    const struct twp_second &to = p.second;
    uint32_t *scratch = to.scratch + (int64_t)blockIdx.x * to.room;
    int rows = actual_rows(p.h.rows);
    for (int place = blockIdx.x; place < rows; place += gridDim.x) {
        Row row(p.h, to.cols, place);
        if (!row.is_here())
            continue;
        bool is_collected = false;
        for (int d = 0; d < to.defs; d++) {
            Rule rule = {to.def[d].def, NONE, ANY};
            if (is_top(to.def[d])) {
                if (!is_collected)
                    collect(row, 0, 0, s, s.first);
                is_collected = true;
                Edge edge = top(row, to.def[d], scratch, s);
                rule.size = edge.size;
                rule.column = last_equal(row, edge, s);
            }
            uint32_t *bits = to.bits[d] + (int64_t)row.number * to.words;
            uint32_t nnz = write(bits, to.words, row, rule, s);
            if (threadIdx.x == 0)
                to.nnz[d][row.number] = nnz;
        }
    }
}

} // namespace

extern "C" enum tw_status tw_launch_select(const struct twp_second *to,
                                           const struct twp_second_h *h, struct CUstream_st *stream,
                                           struct tw_error *err)
{
    if (to->cols > TWP_SECOND_COLS)
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: %d neurons, more than %d", to->cols,
                            TWP_SECOND_COLS);
    int rows = h->rows.rows, blocks = rows < to->blocks ? rows : to->blocks;
    auto run = h->list.n ? select_kernel<Listed> : select_kernel<Dense>;
    return common::launch("select", run, blocks, THREADS, 0, stream, err, Params{*to, *h});
}
