/* Dense to TwELL: the gate (or up) product, packed in its epilogue.
 *
 *   a = act(x W^T + b); (counts, entries) of a's non-zeros, tile by tile
 *
 * Shapes: x [rows][k] and W [cols][k] bf16; count [rows][tiles], entry
 * [rows][tiles][slots] (launch.h). FLOPs 2 rows k cols; bytes: x and W from L2
 * (product.cuh), out 4 a count word and 4 an entry. Grid: one cluster of two
 * blocks for every two multiprocessors; 384 threads; 3 stages of 48 KiB and a
 * staged tile of 64 KiB.
 *
 * The multiplying warpgroups only cut, round to bf16 and store their tile to
 * shared memory (64 conversions, 16 stmatrix a warp), then go on; warps 1-3
 * count and pack it from there while the next tile is multiplied. A row of a
 * tile is a warp's: lane l holds columns 8 l .. 8 l + 7; ballots over the bits of
 * the lanes' numbers give each entry its slot, so entries ascend by column and
 * no atomic is needed.
 *
 * The mainloop alone takes 0.91 of cuBLASLt's product (M 16384, K 2048, N 5632,
 * one H200; 3 or 4 stages, groups of 4, 8 or 16: within 2 %; stages of K 32: 4 %
 * slower). Lost: mbarrier waits and arrivals of cluster scope, 1.37 of cuBLASLt;
 * packing by a scan of shuffles and unrolled predicated stores, 1.20: the helper
 * warps were slower than the mainloop. */
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
    float threshold;
    struct twp_packed out;
};

/* This warpgroup's accumulators, cut and rounded, into its staged half. */
template <int ACT>
__device__ __forceinline__ void stage_half(const float (&d)[128], uint32_t staged,
                                           const PackParams &p, int column)
{
    uint32_t base = staged_base(staged, ROW_BYTES);
    const float2 *bias = nullptr;
    if (p.bias)
        bias = reinterpret_cast<const float2 *>(p.bias + column) + threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j += 2) {
        float2 b0 = bias ? __ldg(bias + 4 * j) : make_float2(0, 0);
        float2 b1 = bias ? __ldg(bias + 4 * j + 4) : make_float2(0, 0);
        const float *v = d + 4 * j;
        hopper::store_blocks(
            base ^ (j << 4),
            common::cut_pair<ACT>(v[0] + b0.x, v[1] + b0.y, p.threshold),
            common::cut_pair<ACT>(v[2] + b0.x, v[3] + b0.y, p.threshold),
            common::cut_pair<ACT>(v[4] + b1.x, v[5] + b1.y, p.threshold),
            common::cut_pair<ACT>(v[6] + b1.x, v[7] + b1.y, p.threshold));
    }
}

__device__ __forceinline__ uint32_t load_half(uint32_t address)
{
    uint16_t v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address));
    return v;
}

/* Bit i: value i of 8 bf16 isn't zero. A half's lower 15 bits plus 0x7fff carry
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
__device__ __forceinline__ uint32_t square_bits(uint4 v)
{
    uint32_t word[4] = {v.x, v.y, v.z, v.w}, mask = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float r = i % 2 ? common::high_half(word[i / 2]) : common::low_half(word[i / 2]);
        mask |= (common::packed_value<TW_ACT_RELU2>(r) != 0.0f) << i;
    }
    return mask;
}

/* One row of a tile, by a warp: its count word and its entries. chunk: the
 * address of this lane's 8 columns. */
template <int ACT>
__device__ __forceinline__ void pack_row(uint32_t chunk, uint32_t valid, int slots,
                                         uint32_t *count, uint32_t *entry)
{
    int lane = threadIdx.x % 32;
    uint4 v = load_chunk(chunk);
    uint32_t mask = valid & (ACT == TW_ACT_RELU2 ? square_bits(v) : nonzero_bits(v));
    int mine = __popc(mask);
    uint32_t counts = __reduce_add_sync(FULL_WARP, mine << (lane & 24));
    int slot = 0; // entries in the lanes below, from the bits of their numbers
#pragma unroll
    for (int bit = 0; bit < 4; bit++)
        slot += __popc(__ballot_sync(FULL_WARP, mine >> bit & 1) & ((1u << lane) - 1)) << bit;
    if (lane == 0)
        *count = counts;
    int total = __dp4a(counts, 0x01010101u, 0u);
    if (total > slots)
        return;
    for (uint32_t *to = entry + slot; mask; mask &= mask - 1) {
        int i = __ffs(mask) - 1;
        float r = __uint_as_float(load_half(chunk + 2 * i) << 16);
        *to++ = __float_as_uint(common::packed_value<ACT>(r)) | (8 * lane + i);
    }
}

/* Warps 1-3: both halves of every tile. */
template <int ACT>
__device__ __forceinline__ void pack_tiles(const PackParams &p, uint32_t staged, Schedule at)
{
    constexpr int STEP = HELPERS / 32;
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 - 1;
    for (; at.has(); at.next()) {
        int room = p.out.cols - at.column_tile * TWP_TILE - 8 * lane; // columns of mine
        uint32_t valid = room >= 8 ? 0xff : room > 0 ? (1u << room) - 1 : 0;
        for (int half = 0; half < 2; half++) {
            int row = at.row_tile * TILE_M + half * HALF_ROWS;
            int rows = min(HALF_ROWS, p.rows - row);
            int64_t cell = (int64_t)(row + first) * p.out.tiles + at.column_tile;
            uint32_t *count = p.out.count + cell, *entry = p.out.entry + cell * p.out.slots;
            uint32_t from = staged + half * HALF_ROWS * ROW_BYTES;
            hopper::named_sync(STAGED + half, HANDOVER);
#pragma unroll 1
            for (int r = first; r < rows; r += STEP) {
                pack_row<ACT>(staged_chunk(from, ROW_BYTES, r, lane), valid, p.out.slots, count,
                              entry);
                count += STEP * p.out.tiles;
                entry += (int64_t)STEP * p.out.tiles * p.out.slots;
            }
            __syncwarp();
            if (at.has_next())
                hopper::named_arrive(TAKEN + half, HANDOVER);
        }
    }
}

template <int ACT>
__device__ __forceinline__ void multiply_tiles(const PackParams &p, const Smem<STAGES> &smem,
                                               Schedule at)
{
    int half = threadIdx.x / 128 - 1;
    uint32_t staged = smem.staged + half * HALF_ROWS * ROW_BYTES;
    Ring<STAGES> ring;
    for (bool is_first = true; at.has(); at.next(), is_first = false) {
        float d[128];
        multiply_tile(d, smem, ring, half, p.steps);
        if (!is_first)
            hopper::named_sync(TAKEN + half, HANDOVER);
        stage_half<ACT>(d, staged, p, at.column_tile * TILE_N);
        hopper::named_arrive(STAGED + half, HANDOVER);
    }
}

template <int ACT>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    pack_kernel(const __grid_constant__ PackParams p)
{
    extern __shared__ uint8_t raw[];
    Smem<STAGES> smem(raw, STAGED_BYTES);
    Schedule at(p.rows, p.out.tiles);
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
            pack_tiles<ACT>(p, smem.staged, at);
        }
        __syncwarp();
    } else {
        hopper::registers_up<REGISTERS_HIGH>();
        multiply_tiles<ACT>(p, smem, at);
    }
    hopper::cluster_sync(); // no block leaves while its peer may still write to it
}

template <int ACT>
enum tw_status launch(const struct twp_device *device, const PackParams &p, cudaStream_t stream,
                      struct tw_error *err)
{
    int bytes = smem_bytes(STAGES, STAGED_BYTES);
    cudaFuncSetAttribute(pack_kernel<ACT>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    int blocks = device->multiprocessors / CLUSTER * CLUSTER;
    pack_kernel<ACT><<<blocks, THREADS, bytes, stream>>>(p);
    return common::launched("pack", err);
}

} // namespace

extern "C" enum tw_status tw_launch_pack(const struct twp_device *device,
                                         const struct twp_pack_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    PackParams p = {common::map_of(args->x), common::map_of(args->w), args->bias, args->rows,
                    (args->k + TILE_K - 1) / TILE_K, args->activation.arg, args->out};
    switch (args->activation.act) {
    case TW_ACT_RELU:
        return launch<TW_ACT_RELU>(device, p, stream, err);
    case TW_ACT_RELU2:
        return launch<TW_ACT_RELU2>(device, p, stream, err);
    case TW_ACT_FATRELU:
        return launch<TW_ACT_FATRELU>(device, p, stream, err);
    default:
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: packing activation '%s'",
                            args->activation.name);
    }
}
