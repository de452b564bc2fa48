/* Dense to TwELL: the gate (or up) product, packed in its epilogue.
 *
 *   a = act(x W^T + b); (counts, entries) of a's non-zeros, tile by tile
 *
 * Shapes: x [rows][k] and W [cols][k] bf16 or fp16; count [rows][tiles], entry
 * [rows][tiles][slots] (launch.h). FLOPs 2 rows k cols; bytes: x and W from L2
 * (product.cuh), out 4 a count word and 4 an entry. Grid: one cluster of two
 * blocks for every two multiprocessors; 384 threads; 3 stages of 48 KiB and a
 * staged tile of 64 KiB.
 *
 * The multiplying warpgroups only cut, round to 16 bits and store their tile to
 * shared memory (64 conversions, 16 stmatrix a warp), then go on; warps 1-3
 * count and pack it from there while the next tile is multiplied, four rows at a
 * time (pack_groups.cuh; the last rows and columns as in pack_rows.cuh). A row of a
 * tile is a warp's: lane l holds columns 8 l .. 8 l + 7, and ballots give each entry
 * its slot, so entries ascend by column and no atomic is needed. A row with 1.3
 * entries takes 46 instructions; by ballots over the bits of the lanes' numbers,
 * two rows at a time, 113.
 *
 * Where gate-abs is applied, every value is activated in place (any activation) and
 * compared in fp32, before it is rounded.
 *
 * K 2048, N 5632, 29 non-zeros, one H200, by turns with cuBLASLt's product: 0.94 to
 * 1.02 of it at M 16384 (a warm and a cold chip: cuBLASLt's gains more from the higher
 * clock), 0.99 to 1.01 at M 65536, where both are bound by the board's power. Lost:
 * whole tiles in a last round that half fills the chip 1.7 % (0.1 % at M 65536), a
 * warpgroup that leads by a step 0.3 %, addresses kept per thread 1.0 %, two rows at a
 * time by ballots 1.7 %, 4 stages without room to stage, stages of K 32 4 %; mbarrier
 * waits and arrivals of cluster scope, 1.37 of cuBLASLt; packing a row at a time, by a
 * scan of shuffles and unrolled predicated stores 1.20, by ballots 1.15 (the helper
 * warps were slower than the mainloop); a bias decided at run time 1.09; 512 threads,
 * for more helpers, leave too few registers for the accumulators; a tile stored to shared
 * memory beside the next product, as in hidden.cu, 1.00 (1.12 with 900 non-zeros a row:
 * less time is left to pack it); that with four stages and 128 columns at a time 1.00 to
 * 1.01 (1.06 with 113, 1.5 with 900); eight rows at a time, whose lanes that hold something
 * are dealt out to lanes, half of the instructions but a longer chain, 0.5 to 1 % slower (4 %
 * with 113). */
#include "kernels/cuda/act.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch_mma.h"
#include "kernels/cuda/pack_groups.cuh"
#include "kernels/cuda/pack_rows.cuh"
#include "kernels/cuda/product.cuh"

namespace {

using namespace product;
using namespace packing;

constexpr int STAGES = 3;

static_assert(TILE_N * 2 == ROW_BYTES, "a staged row");

struct PackParams {
    CUtensorMap x, w;
    const float *bias;
    int rows, steps;
    float threshold; // fatrelu's; where a definition is applied, that one's
    enum tw_act act; // where one is
    float act_arg;
    struct twp_packed out;
    bool is_applied;
};

template <enum tw_dtype T>
__device__ __forceinline__ void activate_half(float (&d)[128], const PackParams &p, int column)
{
    const float2 *bias = reinterpret_cast<const float2 *>(p.bias + column) + threadIdx.x % 4;
#pragma unroll
    for (int j = 0; p.bias && j < TILE_N / 8; j++) {
        float2 b = __ldg(bias + 4 * j);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            d[4 * j + 2 * i] += b.x;
            d[4 * j + 2 * i + 1] += b.y;
        }
    }
    act::activate<T, 128, false>(d, p.act, p.act_arg);
}

/* This warpgroup's accumulators, cut and rounded, into its staged half. */
template <int ACT, bool HAS_BIAS, enum tw_dtype T>
__device__ __forceinline__ void stage_half(float (&d)[128], uint32_t staged,
                                           const PackParams &p, int column)
{
    uint32_t base = staged_base(staged, ROW_BYTES);
    if (ACT == APPLIED)
        activate_half<T>(d, p, column);
    const float2 *bias = reinterpret_cast<const float2 *>(p.bias + column) + threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j += 2) {
        float2 b0 = HAS_BIAS ? __ldg(bias + 4 * j) : make_float2(0, 0);
        float2 b1 = HAS_BIAS ? __ldg(bias + 4 * j + 4) : make_float2(0, 0);
        uint32_t out[4];
#pragma unroll
        for (int i = 0; i < 4; i++) { // block i: chunk j + i / 2, rows 8 (i % 2) on
            float low = d[4 * j + 2 * i], high = d[4 * j + 2 * i + 1];
            if (HAS_BIAS) {
                low += i < 2 ? b0.x : b1.x;
                high += i < 2 ? b0.y : b1.y;
            }
            out[i] = ACT == APPLIED ? keep_pair<T>(low, high, p.threshold)
                                    : common::cut_pair<ACT, T>(low, high, p.threshold);
        }
        hopper::store_blocks(base ^ (j << 4), out[0], out[1], out[2], out[3]);
    }
}

/* Warps 1-3: both halves of every tile. */
template <int ACT, enum tw_dtype T>
__device__ __forceinline__ void pack_tiles(const PackParams &p, uint32_t staged,
                                           Schedule<true> at)
{
    constexpr int STEP = HELPERS / 32;
    int warp = threadIdx.x / 32 - 1;
    for (; at.has(); at.next()) {
        int columns = p.out.cols - at.column_tile * TWP_TILE;
        uint32_t valid = columns_of_lane(columns);
        for (int half = 0; half < at.halves(); half++) {
            int row = at.row() + half * HALF_ROWS, rows = min(HALF_ROWS, p.rows - row);
            uint32_t half_tile = staged + half * HALF_ROWS * ROW_BYTES;
            meet(STAGED + half);
            if (rows == HALF_ROWS && columns >= TWP_TILE)
                pack_groups<ACT, T, STEP>(p.out, half_tile, row, at.column_tile,
                                          (warp + 2 * half) % STEP); // 16 groups a half
            else
                pack_tile<ACT, T, STEP, 2>(p.out, half_tile, row, rows, at.column_tile, valid,
                                           warp);
            __syncwarp();
            if (at.has_next())
                arrive(TAKEN + half);
        }
    }
}

template <int ACT, bool HAS_BIAS, enum tw_dtype T>
__device__ __forceinline__ void multiply_tiles(const PackParams &p, const Smem<STAGES> &smem,
                                               Schedule<true> at)
{
    int half = half_of_thread();
    uint32_t staged = smem.staged + half * HALF_ROWS * ROW_BYTES;
    Ring<STAGES> ring;
    for (bool is_first = true; at.has(); at.next(), is_first = false) {
        float d[128];
        if (half >= at.halves()) { // a half tile is the last
            skip_tile(smem, ring, p.steps, []() {});
            if (!is_first)
                meet(TAKEN + half);
            continue;
        }
        multiply_tile<T>(d, smem, ring, half, p.steps);
        if (!is_first)
            meet(TAKEN + half);
        stage_half<ACT, HAS_BIAS, T>(d, staged, p, at.column_tile * TILE_N);
        arrive(STAGED + half);
    }
}

template <int ACT, bool HAS_BIAS, enum tw_dtype T>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    pack_kernel(const __grid_constant__ PackParams p)
{
    TW_DYNAMIC_SHARED_ALIGNED(raw, 16);
    Smem<STAGES> smem(raw, STAGED_BYTES);
    Schedule<true> at(p.rows, p.out.tiles);
    if (threadIdx.x == 0) {
        hopper::map_prefetch(&p.x);
        hopper::map_prefetch(&p.w);
    }
    start(smem);
    if (threadIdx.x < 128) {
        hopper::registers_down<REGISTERS_LOW>();
        if (threadIdx.x == 0) {
            Ring<STAGES> ring;
            for (; at.has(); at.next())
                load_tile(smem, ring, &p.x, &p.w, at.row(),
                          at.column_tile * TILE_N + at.rank() * (TILE_N / CLUSTER), p.steps,
                          at.rank());
        } else if (threadIdx.x >= 32) {
            pack_tiles<ACT, T>(p, smem.staged, at);
        }
        __syncwarp();
    } else {
        hopper::registers_up<REGISTERS_HIGH>();
        multiply_tiles<ACT, HAS_BIAS, T>(p, smem, at);
    }
    common::let_next_start();
    hopper::cluster_sync(); // no block leaves while its peer may still write to it
}

template <int ACT, bool HAS_BIAS, enum tw_dtype T>
enum tw_status launch(const struct twp_device *device, const PackParams &p, cudaStream_t stream,
                      struct tw_error *err)
{
    int bytes = smem_bytes(STAGES, STAGED_BYTES);
    auto kernel = pack_kernel<ACT, HAS_BIAS, T>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    int blocks = device->multiprocessors / CLUSTER * CLUSTER;
    return common::launch_plain<CLUSTER>("pack", kernel, blocks, THREADS, bytes, stream, err, p);
}

template <int ACT, enum tw_dtype T>
enum tw_status launch_act(const struct twp_device *device, const PackParams &p,
                          cudaStream_t stream, struct tw_error *err)
{
    return p.bias ? launch<ACT, true, T>(device, p, stream, err)
                  : launch<ACT, false, T>(device, p, stream, err);
}

template <enum tw_dtype T>
enum tw_status launch_type(const struct twp_device *device, const PackParams &p, enum tw_act act,
                           cudaStream_t stream, struct tw_error *err)
{
    if (p.is_applied)
        return launch<APPLIED, false, T>(device, p, stream, err);
    switch (act) {
    case TW_ACT_RELU:
        return launch_act<TW_ACT_RELU, T>(device, p, stream, err);
    case TW_ACT_RELU2:
        return launch_act<TW_ACT_RELU2, T>(device, p, stream, err);
    case TW_ACT_FATRELU:
        return launch_act<TW_ACT_FATRELU, T>(device, p, stream, err);
    default:
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: packing this activation");
    }
}

} // namespace

extern "C" enum tw_status tw_launch_pack(const struct twp_device *device,
                                         const struct twp_pack_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    if (device->path == TW_CUDA_PORTABLE)
        return twp_launch_pack_mma(device, args, stream, err);
    PackParams p = {common::map_of(args->x), common::map_of(args->w), args->bias, args->rows,
                    (args->k + TILE_K - 1) / TILE_K,
                    args->apply ? args->apply->threshold : args->activation.arg,
                    args->activation.act, args->activation.arg, args->out, args->apply != NULL};
    enum tw_act act = args->activation.act;
    return args->type == TW_F16 ? launch_type<TW_F16>(device, p, act, stream, err)
                                : launch_type<TW_BF16>(device, p, act, stream, err);
}
