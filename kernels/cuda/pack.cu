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
 * tile is a warp's: lane l holds columns 8 l .. 8 l + 7, a scan over the lanes
 * gives each entry its slot, so entries ascend by column and no atomic is
 * needed. */
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

__device__ __forceinline__ uint4 load_chunk(uint32_t address)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address));
    return v;
}

template <int ACT> __device__ __forceinline__ uint32_t entry_value(uint32_t pair, int odd)
{
    float r = odd ? common::high_half(pair) : common::low_half(pair);
    return __float_as_uint(common::packed_value<ACT>(r));
}

/* One row of a tile, by a warp: its count word and its entries. */
template <int ACT>
__device__ __forceinline__ void pack_row(uint4 v, const struct twp_packed &out, int64_t row,
                                         int tile)
{
    int lane = threadIdx.x % 32;
    int room = out.cols - tile * TWP_TILE - 8 * lane; // columns of mine that exist
    uint32_t word[4] = {v.x, v.y, v.z, v.w};
    uint32_t mask = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t bits = ACT == TW_ACT_RELU2 ? entry_value<ACT>(word[i / 2], i % 2)
                                            : word[i / 2] << (i % 2 ? 0 : 16) & 0xffff0000u;
        mask |= (i < room && bits << 1 != 0) << i;
    }
    int mine = __popc(mask);
    uint32_t counts = __reduce_add_sync(FULL_WARP, mine << (lane & 24));
    int total = __dp4a(counts, 0x01010101u, 0u);
    int64_t cell = row * out.tiles + tile;
    if (lane == 0)
        out.count[cell] = counts;
    if (total == 0 || total > out.slots)
        return;
    int slot = mine;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        int below = __shfl_up_sync(FULL_WARP, slot, step);
        slot += lane >= step ? below : 0;
    }
    uint32_t *to = out.entry + cell * out.slots + (slot - mine);
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (mask >> i & 1)
            *to++ = entry_value<ACT>(word[i / 2], i % 2) | (8 * lane + i);
}

/* Warps 1-3: both halves of every tile. */
template <int ACT>
__device__ __forceinline__ void pack_tiles(const PackParams &p, uint32_t staged, Schedule at)
{
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 - 1;
    for (; at.has(); at.next())
        for (int half = 0; half < 2; half++) {
            int64_t row = at.row_tile * TILE_M + half * HALF_ROWS;
            hopper::named_sync(STAGED + half, HANDOVER);
            for (int r = first; r < HALF_ROWS && row + r < p.rows; r += HELPERS / 32)
                pack_row<ACT>(load_chunk(staged_chunk(staged + half * HALF_ROWS * ROW_BYTES,
                                                      ROW_BYTES, r, lane)),
                              p.out, row + r, at.column_tile);
            if (at.has_next())
                hopper::named_arrive(TAKEN + half, HANDOVER);
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
