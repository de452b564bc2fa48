/* The up product at the packed entries alone.
 *
 *   dot(row, neuron) = x[row] . W_up[neuron], in parts of SLAB columns
 *
 * Shapes: x [rows][d], W_up [cols][d], bf16 or fp16; part [slabs][rows][room]
 * fp32, by the row's list; hide (unpack.cu) adds the parts in order. FLOPs 2 d an
 * entry (the tensor cores do up to 16 times that, and are idle all the same).
 *
 * A block keeps a slab of `group` neurons x SLAB columns of W_up in shared memory
 * and lets every row pass by: W_up is read from the L2 cache once, x cols / group
 * times, and the entries' 2 d bytes each come from shared memory, of which there
 * is more to the second than of the L2 cache. A warp takes 16 rows (the matrix
 * instruction's A, straight from memory) and their entries in the group 8 at a
 * time (B): of the 16 x 8 products the 8 on the entries' own rows are kept. Each
 * lane's 16 bytes are a fragment of two instructions, K permuted alike in both.
 *
 * A dot's bits depend on its row and neuron alone, not on the group. Runs on
 * every GPU since compute capability 8.0; the group is as large as shared memory
 * allows and the multiprocessors share evenly. */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/mma.cuh"

namespace {

constexpr int WARPS = 16, THREADS = WARPS * 32;
constexpr int SLAB = TWP_DOTS_SLAB; // columns
constexpr int SLAB_BYTES = SLAB * 2;
constexpr int ROWS = 16;    // of a warp's step
constexpr int BATCH = 8;    // entries of an instruction
constexpr int WINDOW = 256; // entries listed at once
constexpr int UNIT = TWP_TILE / 4; // groups are multiples of it: where starts are known
constexpr int MOST_UNITS = 15;     // 10 bits of a listed entry
static_assert(SLAB == 128, "four blocks of 32 columns");
static_assert(MOST_UNITS * UNIT < 1024, "a listed entry's neuron");

struct Entries {
    uint16_t entry[WINDOW]; // neuron within the group | row of the step << 10
    uint32_t base[ROWS];    // place of a row's first listed entry in its parts, less
                            // its place in the step's order
};
constexpr int LIST_BYTES = WARPS * (int)sizeof(Entries);

struct DotsParams {
    const uint16_t *x, *up;
    int rows, d, cols, units, groups, slabs; // units of a group
    struct twp_list list;
    float *part;
};

/* Columns beyond d are zeros. */
__device__ __forceinline__ uint4 chunk_or_zero(const uint16_t *row, int column, bool is_in, int d)
{
    return is_in && column < d ? __ldg(reinterpret_cast<const uint4 *>(row + column))
                               : make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ void load_slab(const DotsParams &p, uint8_t *weights, int first,
                                          int neurons, int column)
{
    constexpr int CHUNKS = SLAB_BYTES / 16;
    for (int i = threadIdx.x; i < neurons * CHUNKS; i += THREADS) {
        int neuron = i / CHUNKS, at = column + i % CHUNKS * 8;
        const uint16_t *row = p.up + (int64_t)(first + neuron) * p.d;
        bool is_in = first + neuron < p.cols && at < p.d;
        mma::copy_async(hopper::smem_address(weights + i * 16), is_in ? row + at : p.up, is_in);
    }
    mma::copy_wait();
}

/* What a lane holds of the 16 rows' 128 columns: rows l / 4 and l / 4 + 8, 8
 * columns at 8 (l % 4) of each block of 32. */
struct Rows {
    uint4 low[4], high[4];
    __device__ __forceinline__ void load(const DotsParams &p, int row, int column)
    {
        int mine = row + threadIdx.x % 32 / 4;
        const uint16_t *from = p.x + (int64_t)mine * p.d;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int at = column + 32 * j + threadIdx.x % 4 * 8;
            low[j] = chunk_or_zero(from, at, mine < p.rows, p.d);
            high[j] = chunk_or_zero(from + (int64_t)8 * p.d, at, mine + 8 < p.rows, p.d);
        }
    }
};

__device__ __forceinline__ void swap_if(uint4 &a, uint4 &b, bool is_swapped)
{
    uint4 c = is_swapped ? b : a, d = is_swapped ? a : b;
    a = c;
    b = d;
}

template <enum tw_dtype T>
__device__ __forceinline__ void multiply_block(float (&sum)[4], const uint4 &low,
                                               const uint4 &high, const uint4 &w)
{
    const uint32_t first[4] = {low.x, high.x, low.y, high.y};
    const uint32_t second[4] = {low.z, high.z, low.w, high.w};
    mma::multiply<T>(sum, first, w.x, w.y);
    mma::multiply<T>(sum, second, w.z, w.w);
}

/* Eight entries of the list from `at` on (padded with what is there). Lane l
 * reads entry l / 4. Odd entries take blocks of 32 columns in the order 1 0 3 2,
 * so that the two entries which a quarter of a warp reads meet in no bank. */
template <enum tw_dtype T>
__device__ __forceinline__ void multiply_batch(float (&sum)[4], const Rows &rows,
                                               const uint8_t *weights, uint32_t entry)
{
    int lane = threadIdx.x % 32;
    bool is_odd = lane >> 2 & 1;
    const uint8_t *from = weights + (entry & 1023) * SLAB_BYTES + lane % 4 * 16;
    float other[4] = {};
#pragma unroll
    for (int i = 0; i < 4; i++)
        sum[i] = 0;
    uint4 w[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        w[j] = *reinterpret_cast<const uint4 *>(from + (is_odd ? j ^ 1 : j) * 64);
    swap_if(w[0], w[1], is_odd);
    swap_if(w[2], w[3], is_odd);
    multiply_block<T>(sum, rows.low[0], rows.high[0], w[0]);
    multiply_block<T>(other, rows.low[2], rows.high[2], w[2]);
    multiply_block<T>(sum, rows.low[1], rows.high[1], w[1]);
    multiply_block<T>(other, rows.low[3], rows.high[3], w[3]);
#pragma unroll
    for (int i = 0; i < 4; i++)
        sum[i] += other[i];
}

/* Lane l holds rows l / 4 and + 8 by entries 2 (l % 4) and + 1. */
__device__ __forceinline__ void store_batch(float *part, const float (&sum)[4],
                                            const Entries &list, int at, int from, int total)
{
    int lane = threadIdx.x % 32, e = from + lane % 4 * 2;
    uint32_t pair = *reinterpret_cast<const uint32_t *>(list.entry + at + lane % 4 * 2);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t row = pair >> (10 + 16 * i) & (ROWS - 1);
        if ((row & 7) == lane / 4 && e + i < total)
            part[list.base[row] + e + i] = row < 8 ? sum[i] : sum[2 + i];
    }
}

/* Lane r and lane r + 16 list the entries of row r, whose places in the step's
 * order are before .. before + count - 1, as far as they are in the window. */
__device__ __forceinline__ void fill_window(Entries &list, const uint2 *pair, int before,
                                            int count, int base, int first_neuron)
{
    int lane = threadIdx.x % 32, row = lane % ROWS;
    int first = max(base - before, 0), last = min(count, base + WINDOW - before);
    for (int i = first + lane / ROWS; i < last; i += 2)
        list.entry[before + i - base] =
            (uint16_t)((__ldg(&pair[i].x) - first_neuron) | row << 10);
}

template <enum tw_dtype T>
__device__ __forceinline__ void pass_rows(const DotsParams &p, Entries &list, const uint8_t *weights,
                                          int group, int slab)
{
    int lane = threadIdx.x % 32, starts = TWP_LIST_STARTS(p.cols);
    int first = group * p.units, last = min(first + p.units, starts - 4);
    float *part = p.part + (int64_t)slab * p.rows * p.list.room;
#pragma unroll 1
    for (int step = threadIdx.x / 32 * ROWS; step < p.rows; step += WARPS * ROWS) {
        int row = step + lane % ROWS;
        uint32_t from = 0, to = 0;
        if (row < p.rows) {
            from = __ldg(p.list.start + (int64_t)row * starts + first);
            to = __ldg(p.list.start + (int64_t)row * starts + last);
        }
        int count = to - from, upto = count;
#pragma unroll
        for (int s = 1; s < ROWS; s *= 2) {
            int below = __shfl_up_sync(common::FULL_WARP, upto, s, ROWS);
            upto += lane % ROWS >= s ? below : 0;
        }
        int total = __shfl_sync(common::FULL_WARP, upto, ROWS - 1);
        if (total == 0)
            continue;
        Rows rows;
        rows.load(p, step, slab * SLAB);
        int before = upto - count;
        if (lane < ROWS)
            list.base[lane] = (uint32_t)row * p.list.room + from - before;
        const uint2 *pair = reinterpret_cast<const uint2 *>(p.list.pair) +
                            (int64_t)row * p.list.room + from;
#pragma unroll 1
        for (int base = 0; base < total; base += WINDOW) {
            fill_window(list, pair, before, count, base, first * UNIT);
            __syncwarp();
            int n = min(WINDOW, total - base);
#pragma unroll 1
            for (int e = 0; e < n; e += BATCH) {
                float sum[4];
                int mine = min(e + lane / 4, n - 1);
                multiply_batch<T>(sum, rows, weights, list.entry[mine]);
                store_batch(part, sum, list, e, base + e, total);
            }
            __syncwarp();
        }
    }
}

template <enum tw_dtype T>
__global__ void __launch_bounds__(THREADS, 1) dots_kernel(const DotsParams p)
{
    extern __shared__ __align__(16) uint8_t memory[];
    Entries &list = reinterpret_cast<Entries *>(memory)[threadIdx.x / 32];
    uint8_t *weights = memory + LIST_BYTES;
    bool is_first = true;
    for (int item = blockIdx.x; item < p.groups * p.slabs; item += gridDim.x) {
        int group = item / p.slabs, slab = item % p.slabs;
        if (!is_first)
            __syncthreads();
        load_slab(p, weights, group * p.units * UNIT, p.units * UNIT, slab * SLAB);
        __syncthreads();
        if (is_first)
            common::wait_for_last();
        is_first = false;
        pass_rows<T>(p, list, weights, group, slab);
    }
    common::let_next_start();
}

/* Units of a group: the fewest waves of work, then the largest. */
int units_of(int starts, int slabs, int multiprocessors, int most)
{
    int all = starts - 4, best = 1;
    int64_t least = INT64_MAX;
    for (int units = 1; units <= most && units <= all; units++) {
        int groups = (all + units - 1) / units;
        int64_t waves = ((int64_t)groups * slabs + multiprocessors - 1) / multiprocessors;
        // a wave of any size reads x once, which costs as much as 4 units' entries
        int64_t cost = waves * (units + 4);
        if (cost <= least) {
            least = cost;
            best = units;
        }
    }
    return best;
}

template <enum tw_dtype T>
enum tw_status launch(DotsParams p, int multiprocessors, int shared_bytes, cudaStream_t stream,
                      struct tw_error *err)
{
    int most = (shared_bytes - LIST_BYTES) / (UNIT * SLAB_BYTES);
    most = most < MOST_UNITS ? most : MOST_UNITS;
    p.units = units_of(TWP_LIST_STARTS(p.cols), p.slabs, multiprocessors, most);
    p.groups = (TWP_LIST_STARTS(p.cols) - 4 + p.units - 1) / p.units;
    int bytes = LIST_BYTES + p.units * UNIT * SLAB_BYTES;
    cudaFuncSetAttribute(dots_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    int blocks = p.groups * p.slabs < multiprocessors ? p.groups * p.slabs : multiprocessors;
    return common::launch("dots", dots_kernel<T>, blocks, THREADS, bytes, stream, err, p);
}

} // namespace

extern "C" enum tw_status tw_launch_dots(const struct twp_device *device,
                                         const struct twp_dots_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    if ((int64_t)args->rows * args->list.room > UINT32_MAX) // Entries.base
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: %d rows of %d entries in a batch",
                            args->rows, args->list.room);
    int shared_bytes = 0;
    cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                           device->number);
    DotsParams p = {static_cast<const uint16_t *>(args->x),
                    static_cast<const uint16_t *>(args->up),
                    args->rows,
                    args->d,
                    args->cols,
                    0,
                    0,
                    (args->d + SLAB - 1) / SLAB,
                    args->list,
                    args->part};
    return args->type == TW_F16
               ? launch<TW_F16>(p, device->multiprocessors, shared_bytes, stream, err)
               : launch<TW_BF16>(p, device->multiprocessors, shared_bytes, stream, err);
}
