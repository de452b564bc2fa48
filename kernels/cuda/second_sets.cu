/* The primary's active neurons of some rows, compressed:
 *     start[row of place p] = first + nnz of the places before p
 *     set[start[r] - first ..], value[..] = the row's columns with a bit, their h
 * starts: one block, 1024 rows a step; some microseconds. sets: a warp a row; bits
 * cols / 8 bytes, 8 written an active neuron and its h read. A word's lanes write
 * side by side; empty words are left out 32 at a time. */
#include "kernels/cuda/second_rows.cuh"

using namespace second;

namespace {

constexpr int SCANNED = 1024; // rows of a step
constexpr int WARPS = 8;

__global__ void __launch_bounds__(SCANNED)
    starts_kernel(int64_t *start, const uint32_t *nnz, int all, const struct twp_rows of,
                  const uint32_t *listed)
{
    __shared__ int64_t sums[SCANNED / 32];
    common::wait_for_last();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int rows = actual_rows(of);
    int64_t base = start[all];
    __syncthreads(); // all have read it
    for (int first = 0; first < rows; first += SCANNED) {
        int place = first + threadIdx.x;
        int64_t row = place < rows ? common::number_of(of, place) : all;
        bool is_here = place < rows && !(listed && listed[row] == ROUTED);
        uint32_t mine = is_here ? nnz[row] : 0;
        long long sum = mine; // up to this place, with it
        for (int step = 1; step < 32; step *= 2) {
            long long below = __shfl_up_sync(FULL_WARP, sum, step);
            sum += lane >= step ? below : 0;
        }
        if (lane == 31)
            sums[warp] = sum;
        __syncthreads();
        int64_t before = base;
        for (int w = 0; w < SCANNED / 32; w++) {
            before += w < warp ? sums[w] : 0;
            base += sums[w];
        }
        if (is_here)
            start[row] = before + sum - mine;
        __syncthreads();
    }
    if (threadIdx.x == 0)
        start[all] = base;
}

struct Params {
    struct twp_second second;
    struct twp_second_h h;
    struct twp_second_sets sets;
};

/* A lane's neuron, if it has one, behind those of the lanes below. */
__device__ __forceinline__ int64_t put(const struct twp_second_sets &sets, int64_t at,
                                       uint32_t all, bool is_in, int column, float value)
{
    if (is_in) {
        int64_t to = at + __popc(all & ((1u << threadIdx.x % 32) - 1));
        sets.set[to] = column;
        sets.value[to] = value;
    }
    return at + __popc(all);
}

__device__ __forceinline__ void fill(const Params &p, const Dense &row, int64_t at)
{
    const uint32_t *bits = p.second.bits[0] + (int64_t)row.number * p.second.words;
    int lane = threadIdx.x % 32;
    for (int first = 0; first < p.second.words; first += 32) {
        uint32_t mine = first + lane < p.second.words ? bits[first + lane] : 0;
        uint32_t left = __ballot_sync(FULL_WARP, mine != 0);
        for (; left; left &= left - 1) {
            int word = __ffs(left) - 1, column = (first + word) * 32 + lane;
            uint32_t all = __shfl_sync(FULL_WARP, mine, word);
            bool is_in = all >> lane & 1;
            at = put(p.sets, at, all, is_in, column, is_in ? row.value(column) : 0);
        }
    }
}

__device__ __forceinline__ void fill(const Params &p, const Listed &row, int64_t at)
{
    for (int first = 0; first < row.n; first += 32) {
        int i = first + threadIdx.x % 32, column = i < row.n ? row.column(i) : 0;
        bool is_in = i < row.n && is_primary(p.second, row.number, column);
        uint32_t all = __ballot_sync(FULL_WARP, is_in);
        at = put(p.sets, at, all, is_in, column, is_in ? row.value(i) : 0);
    }
}

template <typename Row> __global__ void __launch_bounds__(WARPS * 32) sets_kernel(const Params p)
{
    common::wait_for_last();
    int place = blockIdx.x * WARPS + threadIdx.x / 32;
    if (place >= actual_rows(p.h.rows))
        return;
    Row row(p.h, p.second.cols, place);
    if (row.is_here())
        fill(p, row, p.sets.start[row.number] - p.sets.first);
}

} // namespace

extern "C" enum tw_status tw_launch_set_starts(const struct twp_second *s,
                                               const struct twp_second_h *h, int64_t *start,
                                               struct CUstream_st *stream, struct tw_error *err)
{
    return common::launch("set_starts", starts_kernel, 1, SCANNED, 0, stream, err, start,
                          (const uint32_t *)s->nnz[0], s->rows, h->rows,
                          (const uint32_t *)h->list.n);
}

extern "C" enum tw_status tw_launch_sets(const struct twp_second *s, const struct twp_second_h *h,
                                         const struct twp_second_sets *sets,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    Params p = {*s, *h, *sets};
    int blocks = (h->rows.rows + WARPS - 1) / WARPS;
    auto run = h->list.n ? sets_kernel<Listed> : sets_kernel<Dense>;
    return common::launch("sets", run, blocks, WARPS * 32, 0, stream, err, p);
}
