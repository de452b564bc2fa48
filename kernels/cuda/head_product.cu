/* The loss head on Hopper: product and loss in one, no logit in memory.
 *
 *   z = cap(scale x W^T + bias),  cap(z) = c tanh(z / c)
 *   nll = log(sum e^(z - max)) + max - z[next token]
 *
 * Shapes: x [rows][k], W [vocab][k] bf16 or fp16; out nll [rows] fp32, beside z of
 * wanted rows. FLOPs 2 rows k vocab; bytes: x and W from the L2 (product.cuh), and 8
 * a row and tile of 256 columns, written and read once. Grid: one cluster of two
 * blocks for every two multiprocessors; 384 threads; 4 stages of 48 KiB.
 *
 * head_kernel leaves each row's sum of exponentials over a tile's columns
 * (head_epilogue.cuh); join_kernel joins a row's, in the order of the tiles by slices
 * of eight. Nothing of that depends on the other rows. A tile's 32,768 exponentials are
 * 2,048 clocks of a multiprocessor, beside some 33,000 of its products at k 2048.
 *
 * One H200, k 2048, vocabulary 49,152, beside cuBLASLt's product alone in bf16, 2048
 * rows at once: 1.08 at M 8192 and 1.07 at 65536 (19.2 ms, by chunks of logits 31.3),
 * 1.11 to 1.12 at 2048, 1.44 to 1.58 at 300; that the epilogue no longer waits for
 * next tokens changed nothing. Without an epilogue 0.95 to
 * 0.96 at M 8192 and more, 1.03 at 2048: there tensor cores are busy to some 97 %. Lost:
 * the first warpgroup one step or two ahead, so that one's epilogue stands beside the
 * other's products, 1 to 4 % slower in all runs but one, as the ring then has to hold
 * what both want; the greatest z of all columns, not of a sample, 1 % slower; a quarter
 * of the powers by polynomials, within 1 %; clusters of four, of which 30 fit, 10 %
 * slower; groups of 4, 16 and 32 row pairs, another first step along k for each column
 * of tiles, cache hints, W prefetched to the L2, within 2 %; three stages 1 % slower. */
#include "kernels/cuda/head_epilogue.cuh"

namespace {

using namespace head;

constexpr int STAGES = 4;
constexpr int LOW = 40, HIGH = 232; // registers: nothing is left to the spare warps
static_assert(128 * LOW + 256 * HIGH <= 65536, "register file");

__device__ __forceinline__ void load_tiles(const Params &p, const Smem<STAGES> &smem, Schedule<> at)
{
    Ring<STAGES> ring;
    for (; at.has(); at.next())
        load_tile(smem, ring, &p.x, &p.w, p.first_row + at.row(),
                  at.column_tile * TILE_N + at.rank() * (TILE_N / CLUSTER), p.steps, at.rank());
}

template <enum tw_dtype T, Kind KIND>
__device__ __forceinline__ void multiply_tiles(const Params &p, const Smem<STAGES> &smem,
                                               Schedule<> at)
{
    int half = half_of_thread();
    Ring<STAGES> ring;
    for (; at.has(); at.next()) {
        float d[128];
        multiply_tile<T>(d, smem, ring, half, p.steps);
        finish_half<KIND>(d, p, at.row() + half * HALF_ROWS, at.column_tile);
    }
}

template <enum tw_dtype T, Kind KIND>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    head_kernel(const __grid_constant__ Params p)
{
    TW_DYNAMIC_SHARED_ALIGNED(raw, 16);
    Smem<STAGES> smem(raw, 0);
    Schedule<> at(p.rows, p.tiles);
    if (threadIdx.x == 0) {
        hopper::map_prefetch(&p.x);
        hopper::map_prefetch(&p.w);
    }
    start(smem);
    if (threadIdx.x < 128) {
        hopper::registers_down<LOW>();
        if (threadIdx.x == 0)
            load_tiles(p, smem, at);
        __syncwarp();
    } else {
        hopper::registers_up<HIGH>();
        multiply_tiles<T, KIND>(p, smem, at);
    }
    common::let_next_start();
    hopper::cluster_sync(); // no block leaves while its peer may still write to it
}

/* A block has 32 rows, a warp every SLICES-th tile of them. */
constexpr int JOINED = 32, SLICES = 8;

struct JoinParams {
    const float2 *part; // [tiles][rows]
    const float *goal;  // [rows]
    const int32_t *position;
    int rows, first_row, batch_rows, tiles;
    float *nll; // [rows]
};

__global__ void __launch_bounds__(JOINED *SLICES) join_kernel(const JoinParams p)
{
    __shared__ Sum slices[SLICES][JOINED];
    common::wait_for_last();
    int place = threadIdx.x % JOINED, slice = threadIdx.x / JOINED;
    int row = blockIdx.x * JOINED + place;
    Sum s = {-INFINITY, 0};
#pragma unroll 4
    for (int tile = slice; row < p.rows && tile < p.tiles; tile += SLICES) {
        float2 part = p.part[(int64_t)tile * p.rows + row];
        s = joined(s, {part.x, part.y});
    }
    slices[slice][place] = s;
    __syncthreads();
    if (slice > 0 || row >= p.rows)
        return;
    for (int i = 1; i < SLICES; i++)
        s = joined(s, slices[i][place]);
    bool is_last = loss_tail::is_last(p.position, p.batch_rows, p.first_row + row);
    p.nll[row] = is_last ? NAN : loss_of(s, p.goal[row]);
}

template <enum tw_dtype T, Kind KIND>
enum tw_status launch(const struct twp_device *device, const Params &p, cudaStream_t stream,
                      struct tw_error *err)
{
    auto kernel = head_kernel<T, KIND>;
    int bytes = smem_bytes(STAGES, 0);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    int blocks = device->multiprocessors / CLUSTER * CLUSTER;
    return common::launch_plain<CLUSTER>("head", kernel, blocks, THREADS, bytes, stream, err, p);
}

template <enum tw_dtype T>
enum tw_status launch_type(const struct twp_device *device, const Params &p, cudaStream_t stream,
                           struct tw_error *err)
{
    if (p.soft_cap > 0)
        return launch<T, CAPPED>(device, p, stream, err);
    return p.bias || p.scale != 1 ? launch<T, SCALED>(device, p, stream, err)
                                  : launch<T, PLAIN>(device, p, stream, err);
}

int tiles_of(int64_t vocab)
{
    return (int)((vocab + TILE_N - 1) / TILE_N);
}

} // namespace

extern "C" size_t tw_head_part_bytes(int64_t rows, int64_t vocab)
{
    return (size_t)rows * (tiles_of(vocab) * sizeof(float2) + sizeof(float));
}

extern "C" enum tw_status tw_launch_head(const struct twp_device *device,
                                         const struct twp_head_args *args,
                                         struct CUstream_st *stream, struct tw_error *err)
{
    const struct twp_device_batch *batch = args->batch;
    Params p = {};
    p.x = common::map_of(args->x);
    p.w = common::map_of(args->w);
    p.bias = args->bias;
    p.scale = args->scale;
    p.soft_cap = args->soft_cap;
    p.rows = args->rows;
    p.first_row = args->first_row;
    p.vocab = args->vocab;
    p.tiles = tiles_of(args->vocab);
    p.steps = (args->k + TILE_K - 1) / TILE_K;
    p.token = batch->token;
    p.position = batch->position;
    p.batch_rows = batch->rows;
    p.wanted = args->wanted;
    p.n_wanted = args->wanted ? args->n_wanted : 0;
    p.kept = args->kept;
    p.part = static_cast<float2 *>(args->part);
    p.goal = reinterpret_cast<float *>(p.part + (int64_t)p.tiles * p.rows);
    enum tw_status status = args->type == TW_F16 ? launch_type<TW_F16>(device, p, stream, err)
                                                 : launch_type<TW_BF16>(device, p, stream, err);
    if (status != TW_OK || !args->nll)
        return status;
    JoinParams join = {p.part, p.goal, p.position, p.rows, p.first_row, p.batch_rows, p.tiles,
                       args->nll + p.first_row};
    return common::launch("join", join_kernel, (p.rows + JOINED - 1) / JOINED, JOINED * SLICES, 0,
                          stream, err, join);
}
