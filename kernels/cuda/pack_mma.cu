/* Dense to TwELL on any GPU since compute capability 8.0: pack.cu's function
 * over mma.sync.
 *
 *   a = act(x W^T + b); (counts, entries) of a's non-zeros, tile by tile
 *
 * Shapes as in pack.cu. Grid: a block a multiprocessor, 256 threads; the ring of
 * product_mma.cuh and 1 KiB for counts.
 *
 * A warp has 64 columns of 64 rows: a byte of their count words. It cuts and
 * rounds its sums where they are, marks the non-zeros of a row in a word a lane,
 * and two exchanges give the row's four lanes all 64 marks. Marks below an
 * entry's and the quarters before are its slot, so entries ascend by column;
 * only counts pass through shared memory.
 *
 * M 16384, K 2048, N 5632, 29 non-zeros, one H200: LOST */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch_mma.h"
#include "kernels/cuda/product_mma.cuh"

namespace {

using namespace product_mma;

constexpr int ROWS = BLOCKS_M * 2;           // of a thread
constexpr int COUNT_BYTES = HALF_ROWS * 4;   // a half's count words
constexpr int EPILOGUE_BYTES = 4 * COUNT_BYTES; // two tiles', two halves'
constexpr uint32_t FULL_WARP = 0xffffffffu;
static_assert(TILE_N == TWP_TILE && WARP_N == TWP_TILE / 4, "a warp's count is a byte");

struct PackParams {
    Operands of;
    const float *bias;
    int rows, act;
    float threshold;
    struct twp_packed out;
};

/* A row's cut values in a thread: columns 8 n + 2 k + e of its warp's 64 (k: the
 * lane's place in its four) in pair n. Marks: bit n + 16 e. */
struct Row {
    uint32_t pair[BLOCKS_N], marks;
};

/* Marks of the columns that exist, of `room`. */
__device__ __forceinline__ uint32_t marks_within(int room)
{
    uint32_t marks = 0;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        int blocks = (room - 2 * (int)(threadIdx.x % 4) - e + 7) / 8;
        marks |= ((1u << min(max(blocks, 0), BLOCKS_N)) - 1) << 16 * e;
    }
    return marks;
}

/* Bits 15 and 31: the halves that aren't 0; of their squares if relu2. */
template <int ACT, enum tw_dtype T> __device__ __forceinline__ uint32_t nonzero(uint32_t pair)
{
    if (ACT != TW_ACT_RELU2) // 0x7fff carries into the top bit
        return ((pair & 0x7fff7fffu) + 0x7fff7fffu) & 0x80008000u;
    uint32_t low = common::packed_value<ACT>(common::low_half<T>(pair)) != 0;
    uint32_t high = common::packed_value<ACT>(common::high_half<T>(pair)) != 0;
    return low << 15 | high << 31;
}

template <int ACT, enum tw_dtype T>
__device__ __forceinline__ void cut_rows(Row (&rows)[ROWS], const Sums &d, const PackParams &p,
                                         int column)
{
    uint32_t within = marks_within(p.out.cols - column);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        rows[r].marks = 0;
#pragma unroll
    for (int n = 0; n < BLOCKS_N; n++) {
        float2 b = bias_pair(p.bias, column + 8 * n + threadIdx.x % 4 * 2);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float *sum = d[r / 2][n] + r % 2 * 2;
            rows[r].pair[n] = common::cut_pair<ACT, T>(sum[0] + b.x, sum[1] + b.y, p.threshold);
            rows[r].marks |= nonzero<ACT, T>(rows[r].pair[n]) >> (15 - n);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        rows[r].marks &= within;
}

/* All 64 marks of a row: of lanes 0 and 1 of its four, then of 2 and 3. Byte
 * k % 2 + 2 e has bit n. */
struct Marks {
    uint32_t low, high;
};

__device__ __forceinline__ Marks gather(uint32_t marks)
{
    uint32_t mine = marks << 8 * (threadIdx.x % 2);
    mine |= __shfl_xor_sync(FULL_WARP, mine, 1);
    uint32_t other = __shfl_xor_sync(FULL_WARP, mine, 2);
    bool is_high = threadIdx.x & 2;
    return {is_high ? other : mine, is_high ? mine : other};
}

/* Marks of columns before 8 n + 2 k. */
__device__ __forceinline__ int rank_of(Marks all, int n)
{
    constexpr uint32_t EACH = 0x01010101u, EVEN_LANE = 0x00010001u;
    int k = threadIdx.x % 4;
    uint32_t before = ((1u << n) - 1) * EACH;
    uint32_t low = k >= 2 ? EACH : k == 1 ? EVEN_LANE : 0, high = k == 3 ? EVEN_LANE : 0;
    return __popc(all.low & (before | low << n)) + __popc(all.high & (before | high << n));
}

/* This warp's entries of a row, the first of them in `to`. */
template <int ACT, enum tw_dtype T>
__device__ __forceinline__ void write_row(const Row &row, Marks all, uint32_t *to)
{
    uint32_t column = threadIdx.x / 32 % WARPS_N * WARP_N + threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < BLOCKS_N; n++) {
        if (!(row.marks & 0x00010001u << n))
            continue;
        uint32_t *at = to + rank_of(all, n);
        if (row.marks >> n & 1)
            *at++ = __float_as_uint(common::packed_value<ACT>(
                        common::low_half<T>(row.pair[n]))) | (column + 8 * n);
        if (row.marks >> (n + 16) & 1)
            *at = __float_as_uint(common::packed_value<ACT>(
                      common::high_half<T>(row.pair[n]))) | (column + 8 * n + 1);
    }
}

/* The half's rows, from `place` on. counts: their words in shared memory. */
template <int ACT, enum tw_dtype T, class Sync>
__device__ __forceinline__ void pack_half(const Sums &d, const PackParams &p, uint32_t counts,
                                          int place, int tile, Sync &&sync)
{
    int lane = threadIdx.x % 32, quarter = threadIdx.x / 32 % WARPS_N;
    Row rows[ROWS];
    Marks all[ROWS];
    cut_rows<ACT, T>(rows, d, p, tile * TILE_N + quarter * WARP_N);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        all[r] = gather(rows[r].marks);
        if (lane % 4 == 0)
            hopper::store_byte(counts + (lane / 4 + 8 * r) * 4 + quarter,
                               __popc(all[r].low) + __popc(all[r].high));
    }
    sync();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int row = place + lane / 4 + 8 * r;
        uint32_t word = staged::load_word(counts + (lane / 4 + 8 * r) * 4);
        int64_t cell = (int64_t)row * p.out.tiles + tile;
        if (row >= p.rows)
            continue;
        if (quarter == r % WARPS_N && lane % 4 == 0)
            p.out.count[cell] = word;
        int before = __dp4a(word & ((1u << 8 * quarter) - 1), 0x01010101u, 0u);
        if ((int)__dp4a(word, 0x01010101u, 0u) <= p.out.slots)
            write_row<ACT, T>(rows[r], all[r], p.out.entry + cell * p.out.slots + before);
    }
}

template <enum tw_dtype T>
__global__ void __launch_bounds__(THREADS, 1) pack_mma_kernel(const __grid_constant__ PackParams p)
{
    extern __shared__ __align__(128) uint8_t raw[];
    uint32_t memory = hopper::smem_address(raw);
    int half = threadIdx.x / 32 / HALF_WARPS;
    uint32_t counts = epilogue_memory(p.of, memory) + half * 2 * COUNT_BYTES;
    Product<false> product(p.of, p.rows, memory, p.out.tiles);
    auto sync = [&] { product.sync_half(); };
    // a tile's counts are read while the next one's are written
    for (uint32_t flip = 0; product.at.has(); product.next(), flip ^= COUNT_BYTES) {
        Sums d;
        product.multiply<T>(d);
        if (!p.of.is_ahead)
            product.begin_epilogue();
        int place = product.at.row_tile * TILE_M + half * HALF_ROWS, tile = product.at.column_tile;
        if (p.act == TW_ACT_RELU)
            pack_half<TW_ACT_RELU, T>(d, p, counts + flip, place, tile, sync);
        else if (p.act == TW_ACT_RELU2)
            pack_half<TW_ACT_RELU2, T>(d, p, counts + flip, place, tile, sync);
        else
            pack_half<TW_ACT_FATRELU, T>(d, p, counts + flip, place, tile, sync);
    }
}

} // namespace

extern "C" enum tw_status twp_launch_pack_mma(const struct twp_device *device,
                                              const struct twp_pack_args *args,
                                              struct CUstream_st *stream, struct tw_error *err)
{
    if (!tw_activation_is_sparse(args->activation.act))
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: packing activation '%s'",
                            args->activation.name);
    PackParams p = {operands(args->x, args->w, NULL), args->bias,           args->rows,
                    args->activation.act,             args->activation.arg, args->out};
    int bytes = choose_memory(p.of, device, EPILOGUE_BYTES);
    auto kernel = args->type == TW_F16 ? pack_mma_kernel<TW_F16> : pack_mma_kernel<TW_BF16>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    kernel<<<device->multiprocessors, THREADS, bytes, stream>>>(p);
    return common::launched("pack", err);
}
