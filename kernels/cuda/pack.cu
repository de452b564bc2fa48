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
 * count and pack it from there while the next tile is multiplied. A row of a
 * tile is a warp's: lane l holds columns 8 l .. 8 l + 7; ballots over the bits of
 * the lanes' numbers give each entry its slot, so entries ascend by column and
 * no atomic is needed.
 *
 * Where gate-abs is applied, every value is activated in place (any activation) and
 * compared in fp32, before it is rounded.
 *
 * The mainloop alone takes 0.91 of cuBLASLt's product (M 16384, K 2048, N 5632,
 * one H200; 3 or 4 stages, groups of 4, 8 or 16: within 2 %; stages of K 32: 4 %
 * slower), all of this kernel 1.02 at 29 and 1.00 at 98 non-zeros, tensor cores
 * busy to 89 %; at M 65536 1.00. Lost: mbarrier waits and arrivals of cluster
 * scope, 1.37 of cuBLASLt; packing a row at a time, by a scan of shuffles and
 * unrolled predicated stores 1.20, by ballots 1.15 (the helper warps were slower
 * than the mainloop); a bias decided at run time 1.09; 512 threads, for more
 * helpers, leave too few registers for the accumulators. */
#include "kernels/cuda/act.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/product.cuh"

namespace {

using namespace product;

constexpr int STAGES = 3;
constexpr int ROW_BYTES = TILE_N * 2;
constexpr uint32_t FULL_WARP = 0xffffffffu;

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

/* In place of an activation: any, and what isn't active under gate-abs is 0. NaN
 * stays. */
constexpr int APPLIED = -1;

/* Zero where the magnitude isn't beyond the threshold; else rounded, never to 0. */
template <enum tw_dtype T>
__device__ __forceinline__ uint32_t keep_pair(float low, float high, float t)
{
    constexpr float LEAST = T == TW_F16 ? 5.9604645e-8f : 9.1835e-41f;
    if (fabsf(low) < LEAST && fabsf(low) > t)
        low = copysignf(LEAST, low);
    if (fabsf(high) < LEAST && fabsf(high) > t)
        high = copysignf(LEAST, high);
    return hopper::round_pair<T>(fabsf(low) <= t ? 0.0f : low, fabsf(high) <= t ? 0.0f : high);
}

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

__device__ __forceinline__ uint32_t load_half(uint32_t address)
{
    uint16_t v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address));
    return v;
}

/* Bit i: value i of 8 isn't zero. A half's lower 15 bits plus 0x7fff carry
 * into its top bit where they aren't. */
__device__ __forceinline__ uint32_t nonzero_bits(uint4 v)
{
    uint32_t word[4] = {v.x, v.y, v.z, v.w}, pairs = 0; // even columns low, odd high
#pragma unroll
    for (int i = 0; i < 4; i++)
        pairs |= (((word[i] & 0x7fff7fffu) + 0x7fff7fffu) & 0x80008000u) >> (15 - 2 * i);
    return (pairs & 0x55) | (pairs >> 15 & 0xaa);
}

/* Squares that vanish aren't in the pattern. */
template <enum tw_dtype T> __device__ __forceinline__ uint32_t square_bits(uint4 v)
{
    uint32_t word[4] = {v.x, v.y, v.z, v.w}, mask = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float r = i % 2 ? common::high_half<T>(word[i / 2])
                        : common::low_half<T>(word[i / 2]);
        mask |= (common::packed_value<TW_ACT_RELU2>(r) != 0.0f) << i;
    }
    return mask;
}

/* Where a warp's row goes. */
struct RowOut {
    uint32_t *count, *entry;
};

/* ROWS rows of a tile at once, by a warp, so that their latencies overlap: count
 * words and entries. chunk: the address of this lane's 8 columns of a row. */
template <int ACT, enum tw_dtype T, int ROWS>
__device__ __forceinline__ void pack_rows(const uint32_t (&chunk)[ROWS], uint32_t valid, int slots,
                                          const RowOut (&out)[ROWS])
{
    int lane = threadIdx.x % 32;
    uint32_t mask[ROWS], counts[ROWS];
    int slot[ROWS] = {}; // entries in the lanes below, from the bits of their numbers
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        uint4 v = load_chunk(chunk[r]);
        mask[r] = valid & (ACT == TW_ACT_RELU2 ? square_bits<T>(v) : nonzero_bits(v));
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        counts[r] = __reduce_add_sync(FULL_WARP, __popc(mask[r]) << (lane & 24));
#pragma unroll
    for (int bit = 0; bit < 4; bit++)
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            uint32_t lanes = __ballot_sync(FULL_WARP, __popc(mask[r]) >> bit & 1);
            slot[r] += __popc(lanes & ((1u << lane) - 1)) << bit;
        }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (lane == 0)
            *out[r].count = counts[r];
        if ((int)__dp4a(counts[r], 0x01010101u, 0u) > slots)
            mask[r] = 0;
        uint32_t *to = out[r].entry + slot[r];
        for (; mask[r]; mask[r] &= mask[r] - 1) {
            int i = __ffs(mask[r]) - 1;
            float value = common::low_half<T>(load_half(chunk[r] + 2 * i));
            *to++ = __float_as_uint(common::packed_value<ACT>(value)) | (8 * lane + i);
        }
    }
}

/* A half tile's rows, warp after warp. */
template <int ACT, enum tw_dtype T>
__device__ __forceinline__ void pack_half(const struct twp_packed &out, uint32_t staged,
                                          int64_t row, int rows, int tile, uint32_t valid)
{
    constexpr int STEP = HELPERS / 32;
    int lane = threadIdx.x % 32, r = threadIdx.x / 32 - 1;
    int64_t cell = (row + r) * out.tiles + tile;
    RowOut at = {out.count + cell, out.entry + cell * out.slots};
    int64_t cells = STEP * out.tiles, entries = cells * out.slots;
#pragma unroll 1
    for (; r + STEP < rows; r += 2 * STEP) {
        const RowOut both[2] = {at, {at.count + cells, at.entry + entries}};
        const uint32_t chunks[2] = {staged_chunk(staged, ROW_BYTES, r, lane),
                                    staged_chunk(staged, ROW_BYTES, r + STEP, lane)};
        pack_rows<ACT, T, 2>(chunks, valid, out.slots, both);
        at = {at.count + 2 * cells, at.entry + 2 * entries};
    }
    if (r < rows) {
        const uint32_t chunk[1] = {staged_chunk(staged, ROW_BYTES, r, lane)};
        const RowOut one[1] = {at};
        pack_rows<ACT, T, 1>(chunk, valid, out.slots, one);
    }
}

/* Warps 1-3: both halves of every tile. */
template <int ACT, enum tw_dtype T>
__device__ __forceinline__ void pack_tiles(const PackParams &p, uint32_t staged, Schedule at)
{
    int lane = threadIdx.x % 32;
    for (; at.has(); at.next()) {
        int room = p.out.cols - at.column_tile * TWP_TILE - 8 * lane; // columns of mine
        uint32_t valid = room >= 8 ? 0xff : room > 0 ? (1u << room) - 1 : 0;
        for (int half = 0; half < 2; half++) {
            int row = at.row_tile * TILE_M + half * HALF_ROWS;
            hopper::named_sync(STAGED + half, HANDOVER);
            pack_half<ACT, T>(p.out, staged + half * HALF_ROWS * ROW_BYTES, row,
                           min(HALF_ROWS, p.rows - row), at.column_tile, valid);
            __syncwarp();
            if (at.has_next())
                hopper::named_arrive(TAKEN + half, HANDOVER);
        }
    }
}

template <int ACT, bool HAS_BIAS, enum tw_dtype T>
__device__ __forceinline__ void multiply_tiles(const PackParams &p, const Smem<STAGES> &smem,
                                               Schedule at)
{
    int half = threadIdx.x / 128 - 1;
    uint32_t staged = smem.staged + half * HALF_ROWS * ROW_BYTES;
    Ring<STAGES> ring;
    for (bool is_first = true; at.has(); at.next(), is_first = false) {
        float d[128];
        multiply_tile<T>(d, smem, ring, half, p.steps);
        if (!is_first)
            hopper::named_sync(TAKEN + half, HANDOVER);
        stage_half<ACT, HAS_BIAS, T>(d, staged, p, at.column_tile * TILE_N);
        hopper::named_arrive(STAGED + half, HANDOVER);
    }
}

template <int ACT, bool HAS_BIAS, enum tw_dtype T>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    pack_kernel(const __grid_constant__ PackParams p)
{
    extern __shared__ uint8_t raw[];
    Smem<STAGES> smem(raw, STAGED_BYTES);
    Schedule at(p.rows, p.out.tiles);
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
                load_tile(smem, ring, &p.x, &p.w, at.row_tile * TILE_M,
                          at.column_tile * TILE_N + at.rank * (TILE_N / CLUSTER), p.steps,
                          at.rank);
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
    cudaFuncSetAttribute(pack_kernel<ACT, HAS_BIAS, T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         bytes);
    int blocks = device->multiprocessors / CLUSTER * CLUSTER;
    pack_kernel<ACT, HAS_BIAS, T><<<blocks, THREADS, bytes, stream>>>(p);
    return common::launched("pack", err);
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
    PackParams p = {common::map_of(args->x), common::map_of(args->w), args->bias, args->rows,
                    (args->k + TILE_K - 1) / TILE_K,
                    args->apply ? args->apply->threshold : args->activation.arg,
                    args->activation.act, args->activation.arg, args->out, args->apply != NULL};
    enum tw_act act = args->activation.act;
    return args->type == TW_F16 ? launch_type<TW_F16>(device, p, act, stream, err)
                                : launch_type<TW_BF16>(device, p, act, stream, err);
}
