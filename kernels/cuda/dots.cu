/* The up product at the packed entries alone.
 *
 *   dot(row, neuron) = x[row] . W_up[neuron], in parts of SLAB columns
 *
 * Shapes: x [rows][d], W_up [cols][d], bf16 or fp16; part [slabs][rows][room]
 * fp32, by the row's list; hide (unpack.cu) adds the parts in order. FLOPs 2 d an
 * entry (the tensor cores do 8 times that, and are idle all the same).
 *
 * A block keeps a slab of `group` neurons x SLAB columns of W_up in shared memory
 * and lets every row pass by: W_up is read from the L2 cache once, x cols / group
 * times, and the entries' 2 d bytes each come from shared memory, of which there
 * is more to the second than of the L2 cache. A warp takes 8 rows (the matrix
 * instruction's B, copied ahead by TMA on Hopper) and their entries in the group 16 at a
 * time (A): of the 16 x 8 products the 16 on the entries' own rows are kept. Each
 * lane's 16 bytes are a fragment of two instructions, K permuted alike in both.
 *
 * A dot's bits depend on its row and neuron alone, not on the group. Runs on
 * every GPU since compute capability 8.0; the group is as large as shared memory
 * allows and the multiprocessors share evenly. */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/mma.cuh"

namespace {

constexpr int WARPS = 24, THREADS = WARPS * 32;
constexpr int SLAB = TWP_DOTS_SLAB; // columns
constexpr int SLAB_BYTES = SLAB * 2;
constexpr int ROWS = TWP_STREAM_ROWS; // of a warp's step, and of an instruction
constexpr int BATCH = 16;             // entries of an instruction
constexpr int UNIT = TWP_TILE / 4;    // groups are multiples of it
constexpr int MOST_UNITS = 15;        // 10 bits of an entry of the stream
constexpr int HALF_BYTES = ROWS * 128;  // a tensor map's box: 8 rows of 64 columns
constexpr int X_BYTES = WARPS * 2 * HALF_BYTES;
constexpr int RESERVED = X_BYTES + 1024; // of shared memory, beside the weights
static_assert(SLAB == 128, "two boxes");
static_assert(ROWS == 8 && MOST_UNITS * UNIT < 1024, "an entry of the stream");

struct DotsParams {
    CUtensorMap x_map;
    const uint16_t *x, *up;
    int rows, d, cols, slabs;
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

/* What a lane holds of the rows' 128 columns: row l / 4, of each 64 columns the two
 * chunks of 8 from 16 (l % 4) on. In shared memory a row's chunks are swizzled by
 * its low three bits, and lanes meet in no bank. */
template <bool TMA> struct Rows {
    uint4 chunk[4];
    uint32_t barrier, parity = 0;
    const uint8_t *buffer;

    /* Starts the copy of the rows from `row` on. */
    __device__ __forceinline__ void call(const DotsParams &p, int row, int column)
    {
        if (!TMA || threadIdx.x % 32 != 0)
            return;
        uint32_t to = hopper::smem_address(buffer);
        hopper::barrier_expect(barrier, 2 * HALF_BYTES);
        hopper::tma_load(to, &p.x_map, barrier, column, row);
        hopper::tma_load(to + HALF_BYTES, &p.x_map, barrier, column + 64, row);
    }
    __device__ __forceinline__ void take(const DotsParams &p, int row, int column)
    {
        int mine = threadIdx.x % 32 / 4, first = threadIdx.x % 4 * 2;
        const uint16_t *from = p.x + (int64_t)(row + mine) * p.d;
        if (TMA)
            hopper::barrier_wait(barrier, parity);
        parity ^= 1;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int at = first + j % 2;
            if (TMA)
                chunk[j] = *reinterpret_cast<const uint4 *>(
                    buffer + j / 2 * HALF_BYTES + mine * 128 + ((at ^ mine) << 4));
            else
                chunk[j] = chunk_or_zero(from, column + j / 2 * 64 + at * 8,
                                         row + mine < p.rows, p.d);
        }
        __syncwarp();
    }
};

/* By bits, one instruction a word; mask: all ones or zero. */
__device__ __forceinline__ void swap_if(uint32_t &a, uint32_t &b, uint32_t mask)
{
    uint32_t c = (a & ~mask) | (b & mask), d = (b & ~mask) | (a & mask);
    a = c;
    b = d;
}

/* Two neighbouring chunks of an entry's neuron. Odd entries take the second first,
 * so that the two that a quarter of a warp reads meet in no bank. */
__device__ __forceinline__ void load_pair(uint4 &a, uint4 &b, const uint8_t *from, bool is_odd)
{
    a = *reinterpret_cast<const uint4 *>(from + (is_odd ? 16 : 0));
    b = *reinterpret_cast<const uint4 *>(from + (is_odd ? 0 : 16));
    uint32_t mask = is_odd ? 0xffffffffu : 0;
    swap_if(a.x, b.x, mask);
    swap_if(a.y, b.y, mask);
    swap_if(a.z, b.z, mask);
    swap_if(a.w, b.w, mask);
}

template <enum tw_dtype T>
__device__ __forceinline__ void multiply_block(float (&sum)[4], const uint4 &low,
                                               const uint4 &high, const uint4 &x)
{
    const uint32_t first[4] = {low.x, high.x, low.y, high.y};
    const uint32_t second[4] = {low.z, high.z, low.w, high.w};
    mma::multiply<T>(sum, first, x.x, x.y);
    mma::multiply<T>(sum, second, x.z, x.w);
}

/* Entries l / 4 and l / 4 + 8 of a batch by the rows: lane l gets rows 2 (l % 4) and
 * + 1 of the first, then of the second. */
template <enum tw_dtype T>
__device__ __forceinline__ void multiply_batch(float (&sum)[4], const uint4 (&rows)[4],
                                               const uint8_t *weights, uint32_t entry_low,
                                               uint32_t entry_high)
{
    int lane = threadIdx.x % 32;
    bool is_odd = lane >> 2 & 1;
    const uint8_t *low = weights + (entry_low & 1023) * SLAB_BYTES + lane % 4 * 32;
    const uint8_t *high = weights + (entry_high & 1023) * SLAB_BYTES + lane % 4 * 32;
    float other[4] = {};
#pragma unroll
    for (int i = 0; i < 4; i++)
        sum[i] = 0;
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
        uint4 a[2], b[2];
        load_pair(a[0], a[1], low + j * 64, is_odd);
        load_pair(b[0], b[1], high + j * 64, is_odd);
        multiply_block<T>(sum, a[0], b[0], rows[j]);
        multiply_block<T>(other, a[1], b[1], rows[j + 1]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        sum[i] += other[i];
}

/* The one of this lane's two rows that is the entry's own, if any. */
__device__ __forceinline__ void store_own(float *part, uint32_t entry, float even, float odd,
                                          bool is_in)
{
    uint32_t row = entry >> 10;
    if (row / 2 == threadIdx.x % 4 && is_in)
        *part = row & 1 ? odd : even;
}

/* The entries of 8 rows in the group. */
template <enum tw_dtype T>
__device__ __forceinline__ void pass_entries(const uint4 (&rows)[4], const uint16_t *stream,
                                             float *part, int n, const uint8_t *weights)
{
    int mine = threadIdx.x % 32 / 4;
    uint32_t low = __ldg(stream + min(mine, n - 1)), high = __ldg(stream + min(mine + 8, n - 1));
#pragma unroll 1
    for (int e = 0; e < n; e += BATCH) {
        uint32_t next_low = __ldg(stream + min(e + BATCH + mine, n - 1));
        uint32_t next_high = __ldg(stream + min(e + BATCH + 8 + mine, n - 1));
        float sum[4];
        multiply_batch<T>(sum, rows, weights, low, high);
        store_own(part + e + mine, low, sum[0], sum[1], e + mine < n);
        store_own(part + e + mine + 8, high, sum[2], sum[3], e + mine + 8 < n);
        low = next_low;
        high = next_high;
    }
}

template <enum tw_dtype T, bool TMA>
__device__ __forceinline__ void pass_rows(const DotsParams &p, const uint8_t *weights,
                                          Rows<TMA> &rows, int group, int slab)
{
    int streams = (p.rows + ROWS - 1) / ROWS, at = threadIdx.x / 32;
    const uint32_t *start = p.list.group_start + group;
    int64_t stride = p.list.groups + 1, room = (int64_t)ROWS * p.list.room;
    float *part = p.part + (int64_t)slab * streams * room;
    uint32_t from = 0, to = 0;
    if (at < streams) {
        from = __ldg(start + at * stride);
        to = __ldg(start + at * stride + 1);
        rows.call(p, at * ROWS, slab * SLAB);
    }
#pragma unroll 1
    for (; at < streams; at += WARPS) {
        uint32_t next_from = 0, next_to = 0;
        if (at + WARPS < streams) {
            next_from = __ldg(start + (at + WARPS) * stride);
            next_to = __ldg(start + (at + WARPS) * stride + 1);
        }
        rows.take(p, at * ROWS, slab * SLAB);
        if (at + WARPS < streams)
            rows.call(p, (at + WARPS) * ROWS, slab * SLAB);
        if (to > from)
            pass_entries<T>(rows.chunk, p.list.stream + at * room + from,
                            part + at * room + from, to - from, weights);
        from = next_from;
        to = next_to;
    }
}

template <enum tw_dtype T, bool TMA>
__global__ void __launch_bounds__(THREADS, 1) dots_kernel(const __grid_constant__ DotsParams p)
{
    extern __shared__ __align__(1024) uint8_t buffers[];
    __shared__ __align__(8) uint64_t barriers[WARPS];
    uint8_t *weights = buffers + (TMA ? X_BYTES : 0);
    Rows<TMA> rows;
    rows.buffer = buffers + threadIdx.x / 32 * 2 * HALF_BYTES;
    rows.barrier = hopper::smem_address(barriers + threadIdx.x / 32);
    if (TMA && threadIdx.x % 32 == 0) {
        hopper::barrier_init(rows.barrier, 1);
        hopper::barrier_init_fence();
    }
    int group_neurons = p.list.units * UNIT;
    bool is_first = true;
    for (int item = blockIdx.x; item < p.list.groups * p.slabs; item += gridDim.x) {
        int group = item / p.slabs, slab = item % p.slabs;
        if (!is_first)
            __syncthreads();
        load_slab(p, weights, group * group_neurons, group_neurons, slab * SLAB);
        __syncthreads();
        if (is_first)
            common::wait_for_last();
        is_first = false;
        pass_rows<T>(p, weights, rows, group, slab);
    }
    common::let_next_start();
}

/* Units of a group: the fewest waves of work, then the largest. */
int units_of(int all, int slabs, int multiprocessors, int most)
{
    int best = 1;
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

template <enum tw_dtype T, bool TMA>
enum tw_status launch(const DotsParams &p, int multiprocessors, cudaStream_t stream,
                      struct tw_error *err)
{
    int bytes = p.list.units * UNIT * SLAB_BYTES + (TMA ? X_BYTES : 0);
    int items = p.list.groups * p.slabs;
    cudaFuncSetAttribute(dots_kernel<T, TMA>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return common::launch("dots", dots_kernel<T, TMA>, min(items, multiprocessors), THREADS,
                          bytes, stream, err, p);
}

template <enum tw_dtype T>
enum tw_status launch_type(const DotsParams &p, bool is_tma, int multiprocessors,
                           cudaStream_t stream, struct tw_error *err)
{
    return is_tma ? launch<T, true>(p, multiprocessors, stream, err)
                  : launch<T, false>(p, multiprocessors, stream, err);
}

} // namespace

extern "C" void twp_dots_groups(const struct twp_device *device, int32_t d, int32_t cols,
                                struct twp_list *list)
{
    int shared_bytes = 0, quarters = (cols + TWP_TILE - 1) / TWP_TILE * 4;
    cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                           device->number);
    int most = min(MOST_UNITS, (shared_bytes - RESERVED) / (UNIT * SLAB_BYTES));
    list->units = units_of(quarters, (d + SLAB - 1) / SLAB, device->multiprocessors, most);
    list->groups = (quarters + list->units - 1) / list->units;
}

extern "C" enum tw_status tw_launch_dots(const struct twp_device *device,
                                         const struct twp_dots_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    DotsParams p = {args->x_map ? common::map_of(args->x_map) : CUtensorMap{},
                    static_cast<const uint16_t *>(args->x),
                    static_cast<const uint16_t *>(args->up),
                    args->rows,
                    args->d,
                    args->cols,
                    (args->d + SLAB - 1) / SLAB,
                    args->list,
                    args->part};
    bool is_tma = args->x_map != NULL;
    int multiprocessors = device->multiprocessors;
    return args->type == TW_F16 ? launch_type<TW_F16>(p, is_tma, multiprocessors, stream, err)
                                : launch_type<TW_BF16>(p, is_tma, multiprocessors, stream, err);
}
