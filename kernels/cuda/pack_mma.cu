/* Dense to TwELL on any GPU since compute capability 8.0: pack.cu's function
 * over mma.sync.
 *
 *   a = act(x W^T + b); (counts, entries) of a's non-zeros, tile by tile
 *
 * Shapes as in pack.cu. Grid: a block a multiprocessor, 256 threads; the ring of
 * product_mma.cuh and a staged tile of 64 KiB, which is the ring's memory where
 * a block's is less than both. After its product a half's four warps cut, round
 * and stage their sums; a warp then packs 16 rows, beside the next product one a
 * stage (Pending), or, where the tile isn't whole or the staged tile has no memory
 * of its own, at once, four together (pack_groups.cuh).
 *
 * M 16384, K 2048, N 5632, 29 non-zeros, one H200, medians of 20 rounds beside a
 * cuBLASLt product of 0.486 ms (M 65536: 1.89): packed after the product 0.890,
 * 0.546x (3.55, 0.53x), where the loop before this one took 0.943, 0.51x (3.76, 0.50x).
 * Packing beside the next product took 0.975 of the time when a stage was fed at row 9
 * of its 16; at 13, as now, 0.902 ms, 0.502x of a cuBLASLt product that a cold chip did
 * in 0.453: no gain over packing after. Of 0.910, fed at 9,
 * loading was 0.09, the epilogue 0.08, and 0.74 was left without either; mma alone
 * take 0.59 - 0.65 (6.0 cycles each). Shared memory is nearly as busy: for 16 along K
 * 32 KiB are read and 12 written, 352 cycles beside the mma's 384. In the loop before,
 * mma were 58 % of a warp's time, and 29 % stood between two blocks of them: barriers'
 * answers, the next fragments, copies, the next tile's place. With 99 KiB, thus two stages, this loop
 * took 1.04 of that one's time before it released a stage early; not timed since.
 * Lost: a stage fed at row 7, 9 or 11 (1.02, 1.02, 1.03); the epilogue by 16 rows in
 * 16 KiB or 32, of three stages (1.02, 1.03) and four (1.02, 1.01); eight rows packed
 * at once (1.00); sums of 80 x 64 and 96 x 64 a warp with that epilogue (1.02, 1.03; at
 * M 65536 0.99, 0.985). In the loop before: stages by TMA (1.00).
 * Lost before: groups of 4 or 16 row tiles; twice as many stages of K 32;
 * entries straight from the fragments (same time, no staged tile); __syncthreads in
 * place of mbarriers; warps that wait only for the columns before theirs; a loading
 * warp, with which 168 registers are left. */
#include "kernels/cuda/act.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch_mma.h"
#include "kernels/cuda/pack_groups.cuh"
#include "kernels/cuda/product_mma.cuh"

namespace
{

using namespace product_mma;
using namespace packing;

constexpr int AT_ONCE = 4; // rows that a warp packs
constexpr int HALF_BYTES = HALF_ROWS * ROW_BYTES;
static_assert(2 * HALF_BYTES <= 2 * STAGE_BYTES, "a tile in the ring's memory");
static_assert(TILE_N == TWP_TILE, "a tile");

struct PackParams {
    Operands of;
    const float *bias;
    int rows;
    enum tw_act act;
    float act_arg;
    struct twp_packed out;
    float threshold; // of the applied definition
};

template <int ACT, enum tw_dtype T> __device__ __forceinline__ void
stage_half(const Sums &d, uint32_t staged, const PackParams &p, int tile)
{
    Place at;
#pragma unroll
    for (int n = 0; n < BLOCKS_N; n++) {
        float2 b = bias_pair(p.bias, tile * TILE_N + at.column + 8 * n);
#pragma unroll
        for (int m = 0; m < BLOCKS_M; m++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                hopper::store_word(at.word(staged, ROW_BYTES, m, n, i),
                                   common::cut_pair<ACT, T>(d[m][n][2 * i] + b.x,
                                                            d[m][n][2 * i + 1] + b.y, p.act_arg));
    }
}

/* Any activation, and what isn't active under the applied gate-abs is 0. */
template <enum tw_dtype T> __device__ __forceinline__ void
stage_applied(const Sums &d, uint32_t staged, const PackParams &p, int tile)
{
    Place at;
    float v[128];
#pragma unroll
    for (int n = 0; n < BLOCKS_N; n++) {
        float2 b = bias_pair(p.bias, tile * TILE_N + at.column + 8 * n);
#pragma unroll
        for (int i = 0; i < 4 * BLOCKS_M; i++)
            v[16 * n + i] = d[i / 4][n][i % 4] + (i % 2 ? b.y : b.x);
    }
    act::activate<T, 128, false>(v, p.act, p.act_arg);
#pragma unroll
    for (int i = 0; i < 128; i += 2)
        hopper::store_word(at.word(staged, ROW_BYTES, i / 4 % 4, i / 16, i / 2 % 2),
                           keep_pair<T>(v[i], v[i + 1], p.threshold));
}

/* A half's 16 rows of this warp, or 4 of its 16 groups. */
template <int ACT, enum tw_dtype T> __device__ __forceinline__ void
pack_half(const PackParams &p, uint32_t staged, int row, int tile)
{
    int rows = min(HALF_ROWS, p.rows - row), columns = p.out.cols - tile * TWP_TILE;
    int warp = threadIdx.x / 32 % HALF_WARPS;
    if (rows == HALF_ROWS && columns >= TWP_TILE)
        pack_groups<ACT, T, HALF_WARPS>(p.out, staged, row, tile, warp);
    else
        pack_tile<ACT, T, HALF_WARPS, AT_ONCE>(p.out, staged, row, rows, tile,
                                               columns_of_lane(columns), warp);
}

/* This warp's rows of a staged half, HALF_WARPS apart, that are packed beside the next
 * product: a row a stage, in three parts, so that none waits for what it asked of
 * shared memory or of other lanes. */
template <enum tw_dtype T> struct Pending {
    const PackParams &p;
    int left;
    uint32_t *count, *entry;
    uint32_t chunk; // this lane's 8 columns of the row
    uint4 v;
    uint32_t mask, counts, lanes;

    __device__ Pending(const PackParams &params)
        : p(params), left(0), v(make_uint4(0, 0, 0, 0)), mask(0), counts(0), lanes(0)
    {
    }
    __device__ bool is_squared() const { return p.act == TW_ACT_RELU2; }
    __device__ void open(uint32_t staged, int row, int tile)
    {
        int warp = threadIdx.x / 32 % HALF_WARPS;
        int64_t cell = (int64_t)(row + warp) * p.out.tiles + tile;
        count = p.out.count + cell;
        entry = p.out.entry + cell * p.out.slots;
        chunk = staged_chunk(staged, ROW_BYTES, warp, threadIdx.x % 32);
        left = HALF_ROWS / HALF_WARPS;
    }
    __device__ __forceinline__ void load() { v = load_chunk(chunk); }
    __device__ __forceinline__ void look()
    {
        mask = is_squared() ? square_bits<T>(v) : nonzero_bits(v);
        counts = __reduce_add_sync(FULL_WARP, __popc(mask) << (threadIdx.x % 32 & 24));
        lanes = __ballot_sync(FULL_WARP, mask != 0);
    }
    template <int ACT> __device__ __forceinline__ void write_row()
    {
        int total = __dp4a(counts, 0x01010101u, 0u), lane = threadIdx.x % 32;
        if (total != __popc(lanes) || total > p.out.slots)
            write_entries<ACT, T>(chunk, mask, total, {count, entry, 0, 0, p.out.slots}, 0);
        else if (mask)
            entry[__popc(lanes & ((1u << lane) - 1))] = entry_of<ACT, T>(chunk, 31 - __clz(mask));
        if (lane == 0)
            *count = counts;
    }
    __device__ __forceinline__ void write()
    {
        if (is_squared())
            write_row<TW_ACT_RELU2>();
        else
            write_row<APPLIED>();
        count += HALF_WARPS * p.out.tiles;
        entry += HALF_WARPS * p.out.tiles * p.out.slots;
        chunk = (chunk ^ 64) + HALF_WARPS * ROW_BYTES; // the swizzle's upper bit
        left--;
    }
    __device__ __forceinline__ void operator()(int row)
    {
        if (row == 1 && left)
            load();
        if (row == 3 && left)
            look();
        if (row == 5 && left)
            write();
    }
    /* What the product was too short for. */
    __device__ void finish()
    {
#pragma unroll 1
        while (left) {
            load();
            look();
            write();
        }
    }
};
static_assert(HALF_WARPS == 4, "Pending's step from row to row");

template <enum tw_dtype T, bool IS_APPLIED> __global__ void
__launch_bounds__(THREADS, 1) pack_mma_kernel(const __grid_constant__ PackParams p)
{
    TW_DYNAMIC_SHARED_ALIGNED(raw, 128);
    uint32_t memory = hopper::smem_address(raw);
    int half = threadIdx.x / 32 / HALF_WARPS;
    uint32_t staged = epilogue_memory(p.of, memory) + half * HALF_BYTES;
    Product<false> product(p.of, p.rows, memory, p.out.tiles);
    Pending<T> pending(p);
    for (; product.at.has(); product.next()) {
        Sums d;
        if constexpr (IS_APPLIED) // whose activations need the registers
            product.template multiply<T>(d);
        else
            product.template multiply<T>(d, pending);
        int row = product.at.row_tile() * TILE_M + half * HALF_ROWS;
        int tile = product.at.column_tile();
        pending.finish();
        product.begin_epilogue();
        if (IS_APPLIED)
            stage_applied<T>(d, staged, p, tile);
        else if (p.act == TW_ACT_FATRELU)
            stage_half<TW_ACT_FATRELU, T>(d, staged, p, tile);
        else
            stage_half<TW_ACT_RELU, T>(d, staged, p, tile);
        product.sync_half();
        if (!IS_APPLIED && p.of.is_ahead && row + HALF_ROWS <= p.rows &&
            (tile + 1) * TWP_TILE <= p.out.cols)
            pending.open(staged, row, tile);
        else if (!IS_APPLIED && p.act == TW_ACT_RELU2)
            pack_half<TW_ACT_RELU2, T>(p, staged, row, tile);
        else
            pack_half<APPLIED, T>(p, staged, row, tile);
    }
    pending.finish();
}

template <enum tw_dtype T, bool IS_APPLIED> enum tw_status
launch(const struct twp_device *device, PackParams &p, cudaStream_t stream, struct tw_error *err)
{
    int bytes = choose_memory(p.of, device, 2 * HALF_BYTES);
    cudaFuncSetAttribute(pack_mma_kernel<T, IS_APPLIED>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return common::launch_plain("pack", pack_mma_kernel<T, IS_APPLIED>,
                                device->multiprocessors, THREADS, bytes, stream, err, p);
}

template <enum tw_dtype T> enum tw_status launch_type(const struct twp_device *device,
                                                      PackParams &p, bool is_applied,
                                                      cudaStream_t stream, struct tw_error *err)
{
    return is_applied ? launch<T, true>(device, p, stream, err)
                      : launch<T, false>(device, p, stream, err);
}

} // namespace

extern "C" enum tw_status twp_launch_pack_mma(const struct twp_device *device,
                                              const struct twp_pack_args *args,
                                              struct CUstream_st *stream, struct tw_error *err)
{
    bool is_applied = args->apply != NULL;
    if (!is_applied && !tw_activation_is_sparse(args->activation.act))
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: packing activation '%s'",
                            args->activation.name);
    PackParams p = {operands(args->x, args->w, NULL),
                    args->bias,
                    args->rows,
                    args->activation.act,
                    args->activation.arg,
                    args->out,
                    is_applied ? args->apply->threshold : 0};
    return args->type == TW_F16 ? launch_type<TW_F16>(device, p, is_applied, stream, err)
                                : launch_type<TW_BF16>(device, p, is_applied, stream, err);
}
