/* The largest |h| of a row, by one block: topk and topp as the cpu backend has them
 * (kernels/cpu/ffn_select.c), which sorts and takes from the largest down, ties to
 * the lower column, until K are taken or until their sum in double is share times
 * that of all. Here nothing is sorted: |h| as bits has 31, four histograms of 8, 8,
 * 8 and 7 of them, each of what has the bits found before, lead to the last one
 * taken.
 *
 * The double sums have to be those of the sorted order. Numbers that are multiples
 * of a unit sum up exactly in any order while the sum is below 2^53 units: the
 * exponents from the largest down to some 2^-30 of the sum, "exact" here. So their
 * histograms hold sums of mantissas as integers. What is smaller, the tail, is
 * rounded as it is added; its part in the sum of all is bounded, and only where the
 * bound leaves the last one taken open, or where that is in the tail, the tail is
 * sorted (bitonic, in global memory) and added by one thread, number after number.
 * R1: no result depends on which way was taken. */
#ifndef TW_KERNELS_CUDA_SECOND_TOP_CUH
#define TW_KERNELS_CUDA_SECOND_TOP_CUH

#include "kernels/cuda/second_rows.cuh"

namespace second {

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int BINS = THREADS; // a bin a thread, from the largest down
constexpr int LEVELS = 4;
constexpr uint32_t NONE = 0xffffffff, ANY = 0xffffffff;

/* From the largest bin down to this one, with it. */
struct Sums {
    uint32_t count[BINS];
    double sum[BINS];
};

struct Shared {
    uint32_t count[BINS], low[BINS], high[BINS]; // mantissas' halves, summed
    Sums first, later;                           // of level 0, of another
    uint32_t warp_count[WARPS];
    double warp_sum[WARPS];
    uint32_t found, size, equal;
    double need;
};

/* Taken: what is larger than `size`, and of `all` that are equal to it the first
 * `equal`. NONE: nothing. */
struct Edge {
    uint32_t size, equal, all;
    bool is_sure;
};

struct Target {
    bool is_counted;
    uint32_t most;
    double need, slack; // the sum at the edge, and how well it is known
};

__device__ __forceinline__ int shift_of(int level)
{
    return level == LEVELS - 1 ? 0 : 23 - 8 * level;
}

/* 2^-149 times 2 to the power of (exponent - 1): the unit of such mantissas. */
__device__ __forceinline__ double unit_of(int exponent)
{
    return scalbn(1.0, max(exponent, 1) - 150);
}

__device__ __forceinline__ uint32_t mantissa_of(uint32_t size)
{
    return (size & 0x7fffff) | (size >> 23 ? 0x800000 : 0);
}

/* Sums over the threads up to this one, with it. */
__device__ __forceinline__ void scan(uint32_t &count, double &sum, Shared &s)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        uint32_t c = __shfl_up_sync(FULL_WARP, count, step);
        double d = __shfl_up_sync(FULL_WARP, sum, step);
        count += lane >= step ? c : 0;
        sum += lane >= step ? d : 0;
    }
    if (lane == 31) {
        s.warp_count[warp] = count;
        s.warp_sum[warp] = sum;
    }
    __syncthreads();
    double before = 0;
    for (int w = 0; w < warp; w++) {
        count += s.warp_count[w];
        before += s.warp_sum[w];
    }
    sum += before;
}

/* The histogram of a level over the numbers that begin with `prefix`. */
template <typename Row>
__device__ void collect(const Row &row, int level, uint32_t prefix, Shared &s, Sums &out)
{
    int t = threadIdx.x, shift = shift_of(level), above = level ? shift_of(level - 1) : 31;
    s.count[t] = s.low[t] = s.high[t] = 0;
    __syncthreads();
#pragma unroll 4
    for (int i = t; i < row.n; i += THREADS) {
        uint32_t size = row.size(i);
        if (size == 0 || size > INF || size >> above != prefix)
            continue;
        uint32_t bin = size >> shift & ((1u << (above - shift)) - 1), m = mantissa_of(size);
        atomicAdd(&s.count[bin], 1u);
        atomicAdd(&s.low[bin], m & 0xfff);
        atomicAdd(&s.high[bin], m >> 12);
    }
    __syncthreads();
    int bin = BINS - 1 - t, exponent = level ? prefix >> (23 - above) : bin;
    uint32_t count = s.count[bin];
    double sum = (s.low[bin] + 4096.0 * s.high[bin]) * unit_of(exponent);
    scan(count, sum, s);
    out.count[t] = count;
    out.sum[t] = sum;
    __syncthreads();
}

/* The first bin at whose end the target is reached; BINS: none. */
__device__ __forceinline__ int find(const Sums &sums, const Target &target, uint32_t above,
                                    double sum, Shared &s)
{
    int t = threadIdx.x;
    if (t == 0)
        s.found = BINS;
    __syncthreads();
    bool is_reached = target.is_counted ? above + sums.count[t] >= target.most
                                        : sum + sums.sum[t] >= target.need;
    uint32_t all = __ballot_sync(FULL_WARP, is_reached);
    if (t % 32 == 0 && all)
        atomicMin(&s.found, (uint32_t)(t + __ffs(all) - 1));
    __syncthreads();
    int found = s.found;
    __syncthreads();
    return found;
}

/* How many of equal numbers v above `sum` reach the need; all sums are exact. */
__device__ __forceinline__ uint32_t needed(double need, double sum, double v)
{
    double n = floor((need - sum) / v);
    n = n < 1 ? 1 : n;
    while (sum + n * v < need)
        n++;
    while (n > 1 && sum + (n - 1) * v >= need)
        n--;
    return (uint32_t)n;
}

/* exact: bins of level 0 whose sums are. */
template <typename Row>
__device__ Edge edge_of(const Row &row, const Target &target, int exact, Shared &s)
{
    uint32_t prefix = 0, above = 0, all = 0;
    double sum = 0;
    for (int level = 0; level < LEVELS; level++) {
        if (level)
            collect(row, level, prefix, s, s.later);
        const Sums &sums = level ? s.later : s.first;
        int bin = find(sums, target, above, sum, s);
        if (!target.is_counted && level == 0 && bin >= exact)
            return {NONE, 0, 0, false};
        if (bin == BINS) // fewer than wanted: all
            return {0, 0, 0, true};
        uint32_t before = bin ? sums.count[bin - 1] : 0;
        all = sums.count[bin] - before;
        above += before;
        sum += bin ? sums.sum[bin - 1] : 0;
        int bits = (level ? shift_of(level - 1) : 31) - shift_of(level);
        prefix = prefix << bits | (BINS - 1 - bin);
    }
    if (target.is_counted)
        return {prefix, target.most - above, all, true};
    double v = __uint_as_float(prefix);
    uint32_t equal = needed(target.need, sum, v);
    bool is_sure = sum + (equal - 1) * v < target.need - target.slack &&
                   sum + equal * v >= target.need + target.slack;
    return {prefix, equal, all, is_sure || target.slack == 0};
}

/* Descending; n a power of two. */
__device__ void sort(uint32_t *key, int n)
{
    for (int k = 2; k <= n; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            for (int t = threadIdx.x; t < n / 2; t += THREADS) {
                int i = t / j * 2 * j + t % j;
                uint32_t a = key[i], b = key[i + j];
                if ((a < b) == !(i & k)) {
                    key[i] = b;
                    key[i + j] = a;
                }
            }
            __syncthreads();
        }
}

/* One thread: the need from the sum of all, and the edge if it is in the tail. */
__device__ void add_tail(const uint32_t *key, int n, double exact, double share, Shared &s)
{
    double sum = exact;
    for (int i = 0; i < n; i++)
        sum += __uint_as_float(key[i]);
    s.need = share * sum;
    s.equal = 0;
    sum = exact;
    for (int i = 0; i < n && sum < s.need; i++) {
        sum += __uint_as_float(key[i]);
        s.equal = s.equal && key[i] == s.size ? s.equal + 1 : 1;
        s.size = key[i];
    }
}

/* The edge with the tail's numbers added one by one. */
template <typename Row>
__device__ Edge exact_edge(const Row &row, double share, int exact, uint32_t *key, Shared &s)
{
    uint32_t limit = (uint32_t)(BINS - exact) << 23;
    if (threadIdx.x == 0)
        s.found = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < row.n; i += THREADS) {
        uint32_t size = row.size(i);
        if (size > 0 && size < limit)
            key[atomicAdd(&s.found, 1u)] = size;
    }
    __syncthreads();
    int n = s.found, room = 1;
    while (room < n)
        room *= 2;
    for (int i = n + threadIdx.x; i < room; i += THREADS)
        key[i] = 0;
    __syncthreads();
    sort(key, room);
    if (threadIdx.x == 0)
        add_tail(key, n, s.first.sum[exact - 1], share, s);
    __syncthreads();
    if (!(s.need > 0))
        return {NONE, 0, 0, true};
    if (s.equal == 0)
        return edge_of(row, {false, 0, s.need, 0}, exact, s);
    uint32_t size = s.size, equal = s.equal;
    int all = 0;
    for (int i = threadIdx.x; i < row.n; i += THREADS)
        all += row.size(i) == size;
    for (int step = 16; step > 0; step /= 2)
        all += __shfl_xor_sync(FULL_WARP, all, step);
    if (threadIdx.x % 32 == 0)
        s.warp_count[threadIdx.x / 32] = all;
    __syncthreads();
    all = 0;
    for (int w = 0; w < WARPS; w++)
        all += s.warp_count[w];
    return {size, equal, (uint32_t)all, true};
}

/* s.first holds level 0. */
template <typename Row>
__device__ Edge top(const Row &row, const struct twp_second_def &def, uint32_t *scratch, Shared &s)
{
    int t = threadIdx.x;
    if (s.first.count[0]) // with an Inf no sum is short of the need
        return edge_of(row, {true, 1, 0, 0}, BINS, s);
    if (def.def.kind == TW_ACTIVE_TOPK)
        return edge_of(row, {true, def.most, 0, 0}, BINS, s);
    /* half of what is exact, so that the others' rounding can't tell otherwise */
    bool is_exact = s.first.sum[t] <= 0x1p52 * unit_of(BINS - 1 - t);
    int exact = __syncthreads_count(is_exact);
    double sum = s.first.sum[BINS - 1];
    bool has_tail = s.first.count[BINS - 1] != s.first.count[exact - 1];
    double slack = has_tail ? sum * (row.n + 1024) * 0x1p-52 : 0;
    if (!(def.share * sum > 0))
        return {NONE, 0, 0, true};
    Edge edge = edge_of(row, {false, 0, def.share * sum, slack}, exact, s);
    return edge.is_sure ? edge : exact_edge(row, def.share, exact, scratch, s);
}

/* The last column of those equal to the edge that are taken. */
template <typename Row> __device__ uint32_t last_equal(const Row &row, const Edge &edge, Shared &s)
{
    if (edge.equal == edge.all)
        return ANY;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int part = (row.n + THREADS - 1) / THREADS * 32, from = warp * part;
    int to = min(from + part, row.n);
    uint32_t count = 0;
    for (int i = from; i < to; i += 32)
        count += __popc(__ballot_sync(FULL_WARP, i + lane < to && row.size(i + lane) == edge.size));
    __syncthreads();
    if (lane == 0)
        s.warp_count[warp] = count;
    __syncthreads();
    uint32_t before = 0;
    for (int w = 0; w < warp; w++)
        before += s.warp_count[w];
    for (int i = from; i < to && before < edge.equal; i += 32) {
        bool is_equal = i + lane < to && row.size(i + lane) == edge.size;
        uint32_t all = __ballot_sync(FULL_WARP, is_equal);
        if (is_equal && before + __popc(all & ((1u << lane) - 1)) + 1 == edge.equal)
            s.found = row.column(i + lane);
        before += __popc(all);
    }
    __syncthreads();
    uint32_t found = s.found;
    __syncthreads();
    return found;
}

} // namespace second

#endif
