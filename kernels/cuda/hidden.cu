/* The dense path's first half: h of whole rows, counted.
 *
 *   gated: h = act(x Wg^T + bg) * (x Wu^T + bu); plain: h = act(x Wu^T + bu)
 *
 * Shapes: x [rows][k], weights [cols][k], h [rows][stride], bf16 or fp16; h is
 * rounded once, from fp32. A block's tile is 128 rows by 128 columns of both
 * products (B's tile is 128 rows of Wg above 128 of Wu, so that a gate value
 * and its up value stand in one thread), or 256 columns where plain. FLOPs
 * 2 rows k cols a product. Grid, stages: as in pack.cu.
 *
 * Counting costs the multiplying warpgroups one logic instruction a value: they
 * leave h and two bits a value (pattern, h != 0) in shared memory; warps 1-3
 * write h out and sum the bits by row and by column beside the next tile.
 *
 * M 16384, K 2048, N 5632, gated, one H200: 1.04 ms, counting 1.06, where two
 * cuBLASLt products and a kernel for act(g) u take 1.06. A bias decided at
 * compile time made no difference here. */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/product.cuh"

namespace {

using namespace product;

constexpr int STAGES = 3;
constexpr int H_BYTES = HALF_ROWS * TILE_N * 2; // of a half tile, at most
constexpr int BITS_BYTES = HALF_ROWS * 4 * 8;   // [row][lane % 4][word]
constexpr int HALF_BYTES = H_BYTES + BITS_BYTES;
constexpr int WORD_COLUMNS = 128; // that one word of bits (4 lanes) covers
constexpr uint32_t FULL_WARP = 0xffffffffu;
static_assert(smem_bytes(STAGES, 2 * HALF_BYTES) <= 227 * 1024, "shared memory");
static_assert(HALF_BYTES % 512 == 0, "staged rows");

struct HiddenParams {
    CUtensorMap x, gate, up;
    const float *gate_bias, *up_bias;
    struct twp_rows rows;
    int steps, cols, parts;
    float threshold;
    uint16_t *h;
    int64_t stride;
    uint32_t *count;
    float *l1_part;
    struct twp_counts counts;
};

__device__ __forceinline__ int actual_rows(const struct twp_rows &rows)
{
    return rows.actual ? *rows.actual : rows.rows;
}

__device__ __forceinline__ int number_of(const struct twp_rows &rows, int place)
{
    return rows.list ? rows.list[place] : place;
}

__device__ __forceinline__ float2 bias_pair(const float *bias, int column)
{
    return bias ? __ldg(reinterpret_cast<const float2 *>(bias + column)) : make_float2(0, 0);
}

__device__ __forceinline__ void note_bad(const HiddenParams &p, int place, int column)
{
    unsigned long long row = number_of(p.rows, place);
    atomicMin(p.counts.bad, row << 32 | column);
}

/* Two values of one row: h, and what is counted of them. */
struct Pair {
    float h0, h1;
    uint32_t pattern, hidden; // 2 bits each
};

template <int ACT, bool GATED, enum tw_dtype T>
__device__ __forceinline__ Pair hidden_pair(float g0, float g1, float u0, float u1, float t,
                                            int room)
{
    uint32_t cut = common::cut_pair<ACT, T>(g0, g1, t);
    float a0 = common::packed_value<ACT>(common::low_half<T>(cut));
    float a1 = common::packed_value<ACT>(common::high_half<T>(cut));
    bool is0 = a0 != 0 && room > 0, is1 = a1 != 0 && room > 1;
    Pair out;
    out.h0 = is0 ? (GATED ? a0 * u0 : a0) : 0.0f;
    out.h1 = is1 ? (GATED ? a1 * u1 : a1) : 0.0f;
    out.pattern = is0 | is1 << 1;
    out.hidden = (out.h0 != 0) | (out.h1 != 0) << 1;
    return out;
}

/* A thread's two rows (i = 0: row lane / 4 of its warp's 16, 1: 8 below). */
template <int ACT, bool GATED, enum tw_dtype T>
__device__ __forceinline__ void stage_half(float (&d)[128], uint32_t staged, const HiddenParams &p,
                                           int place, int tile, int rows)
{
    constexpr int COLS = GATED ? TILE_N / 2 : TILE_N;
    constexpr int ROW_BYTES = COLS * 2;
    int lane = threadIdx.x % 32, column = tile * COLS + 2 * (lane % 4);
    int mine = place + threadIdx.x % 128 / 32 * 16 + lane / 4;
    uint32_t base = staged_base(staged, ROW_BYTES);
    uint32_t bits[2][2] = {}; // [row][word]
    float l1[2][2] = {};      // [row][part]
    bool is_bad = false;
#pragma unroll
    for (int j = 0; j < COLS / 8; j += 2) {
        uint32_t out[4];
#pragma unroll
        for (int s = 0; s < 2; s++) {
            int at = column + 8 * (j + s), v = 4 * (j + s);
            float2 bg = bias_pair(GATED ? p.gate_bias : p.up_bias, at);
            float2 bu = GATED ? bias_pair(p.up_bias, at) : bg;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int u = GATED ? 64 + v + 2 * i : v + 2 * i;
                Pair h = hidden_pair<ACT, GATED, T>(d[v + 2 * i] + bg.x, d[v + 2 * i + 1] + bg.y,
                                                 d[u] + bu.x, d[u + 1] + bu.y, p.threshold,
                                                 p.cols - at);
                int shift = 2 * ((j + s) % 16), part = (j + s) / 16;
                if (GATED) {
                    bits[i][0] |= h.pattern << shift;
                    bits[i][1] |= h.hidden << shift;
                } else {
                    bits[i][part] |= h.hidden << shift;
                }
                l1[i][part] += fabsf(h.h0) + fabsf(h.h1);
                out[2 * s + i] = hopper::round_pair<T>(h.h0, h.h1);
            }
        }
        hopper::store_blocks(base ^ (j << 4), out[0], out[1], out[2], out[3]);
    }
    if (!p.counts.is_on)
        return;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = threadIdx.x % 128 / 32 * 16 + lane / 4 + 8 * i;
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(staged + H_BYTES +
                                                              (row * 4 + lane % 4) * 8),
                     "r"(bits[i][0]), "r"(bits[i][1])
                     : "memory");
#pragma unroll
        for (int part = 0; part < COLS / WORD_COLUMNS; part++) {
            float sum = l1[i][part];
            sum += __shfl_xor_sync(FULL_WARP, sum, 1);
            sum += __shfl_xor_sync(FULL_WARP, sum, 2);
            int number = tile * (COLS / WORD_COLUMNS) + part;
            if (lane % 4 == 0 && mine + 8 * i < rows && number < p.parts)
                p.l1_part[(int64_t)(mine + 8 * i) * p.parts + number] = sum;
            is_bad |= !(sum <= 3.4028235e38f);
        }
    }
    // Rare: the sum isn't finite, so some value may not be. Look again.
    if (__any_sync(FULL_WARP, is_bad)) {
#pragma unroll
        for (int j = 0; j < COLS / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int at = column + 8 * j, v = 4 * j, i = e / 2;
                float2 bg = bias_pair(GATED ? p.gate_bias : p.up_bias, at);
                float2 bu = GATED ? bias_pair(p.up_bias, at) : bg;
                int u = GATED ? 64 + v + 2 * i : v + 2 * i;
                Pair h = hidden_pair<ACT, GATED, T>(d[v + 2 * i] + bg.x, d[v + 2 * i + 1] + bg.y,
                                                 d[u] + bu.x, d[u + 1] + bu.y, p.threshold,
                                                 p.cols - at);
                if (!isfinite(e % 2 ? h.h1 : h.h0) && mine + 8 * i < rows)
                    note_bad(p, mine + 8 * i, at + e % 2);
            }
    }
}

/* Rows of h from shared memory out, 16 bytes a lane. */
template <int COLS>
__device__ __forceinline__ void write_rows(const HiddenParams &p, uint32_t staged, int place,
                                           int tile, int rows)
{
    constexpr int CHUNKS = COLS / 8, AT_ONCE = 32 / CHUNKS;
    int lane = threadIdx.x % 32, chunk = lane % CHUNKS;
    int column = tile * COLS + 8 * chunk;
    for (int r = (threadIdx.x / 32 - 1) * AT_ONCE + lane / CHUNKS; r < HALF_ROWS;
         r += HELPERS / 32 * AT_ONCE) {
        if (place + r >= rows || column >= p.cols)
            continue;
        uint4 v = load_chunk(staged_chunk(staged, COLS * 2, r, chunk));
        *reinterpret_cast<uint4 *>(p.h + (place + r) * p.stride + column) = v;
    }
}

__device__ __forceinline__ uint32_t load_word(uint32_t bits, int row, int quad, int word)
{
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(bits + (row * 4 + quad) * 8 + word * 4));
    return v;
}

/* By row: count words and the sum of hidden. */
template <bool GATED>
__device__ __forceinline__ void count_rows(const HiddenParams &p, uint32_t bits, int place,
                                           int tile, int rows)
{
    int r = threadIdx.x - 32;
    if (r >= HALF_ROWS || place + r >= rows)
        return;
    uint32_t quarters[2] = {}, hidden = 0; // two quarters of 64 columns a word
    for (int q = 0; q < 4; q++)
        for (int w = 0; w < 2; w++) {
            uint32_t v = load_word(bits, r, q, w);
            quarters[w] += __popc(v & 0xffff) | __popc(v >> 16) << 8;
            hidden += !GATED || w == 1 ? __popc(v) : 0;
        }
    int64_t number = number_of(p.rows, place + r);
    for (int d = 0; d < p.counts.defs; d++)
        if (p.counts.def[d].kind == TW_ACTIVE_HIDDEN && hidden)
            atomicAdd(p.counts.nnz[d] + number, hidden);
    if (!p.count)
        return;
    int tiles = (p.cols + TWP_TILE - 1) / TWP_TILE;
    uint32_t *to = p.count + number * tiles;
    if (!GATED) {
        to[tile] = quarters[0] | quarters[1] << 16;
        return;
    }
    uint16_t *half = reinterpret_cast<uint16_t *>(to) + tile;
    half[0] = quarters[0];
    if (tile == p.parts - 1 && tile % 2 == 0)
        half[1] = 0;
}

/* A column of the half tile under one definition. */
__device__ __forceinline__ void add_column(const HiddenParams &p, int def, int column, int place,
                                           uint64_t rows)
{
    if (!rows)
        return;
    atomicAdd(p.counts.fired[def] + column, __popcll(rows));
    uint32_t first = number_of(p.rows, place + __ffsll(rows) - 1);
    uint32_t last = number_of(p.rows, place + 63 - __clzll(rows)) + 1;
    if (first < p.counts.first[def][column])
        atomicMin(p.counts.first[def] + column, first);
    if (last > p.counts.last[def][column])
        atomicMax(p.counts.last[def] + column, last);
}

template <bool GATED>
__device__ __forceinline__ void count_columns(const HiddenParams &p, uint32_t bits, int place,
                                              int tile, int rows)
{
    constexpr int COLS = GATED ? TILE_N / 2 : TILE_N;
    int lane = threadIdx.x % 32;
    uint64_t counted = 0;
    for (int part = 0; part < 2; part++) {
        int r = place + 32 * part + lane;
        bool is_in = r < rows && !(p.counts.skip && p.counts.skip[number_of(p.rows, r)]);
        counted |= (uint64_t)__ballot_sync(FULL_WARP, is_in) << 32 * part;
    }
    for (int i = threadIdx.x - 32; i < TILE_N; i += HELPERS) {
        int word = i / WORD_COLUMNS, c = i % WORD_COLUMNS;
        int bit = c / 8 * 2 + c % 2, column = tile * COLS + (GATED ? c : i);
        uint32_t part[2];
        for (int s = 0; s < 2; s++) {
            uint32_t m = 0;
#pragma unroll 8
            for (int r = 0; r < 32; r++)
                m |= (load_word(bits, 32 * s + r, c / 2 % 4, word) >> bit & 1) << r;
            part[s] = m;
        }
        uint64_t found = ((uint64_t)part[1] << 32 | part[0]) & counted;
        if (column >= p.cols)
            continue;
        for (int d = 0; d < p.counts.defs; d++)
            if (!GATED || (word == 0) == (p.counts.def[d].kind == TW_ACTIVE_GATE))
                add_column(p, d, column, place, found);
    }
}

template <bool GATED>
__device__ __forceinline__ void help(const HiddenParams &p, uint32_t staged, Schedule at, int rows)
{
    constexpr int COLS = GATED ? TILE_N / 2 : TILE_N;
    for (; at.has(); at.next())
        for (int half = 0; half < 2; half++) {
            int place = at.row_tile * TILE_M + half * HALF_ROWS;
            uint32_t mine = staged + half * HALF_BYTES;
            hopper::named_sync(STAGED + half, HANDOVER);
            write_rows<COLS>(p, mine, place, at.column_tile, rows);
            if (p.counts.is_on) {
                count_rows<GATED>(p, mine + H_BYTES, place, at.column_tile, rows);
                count_columns<GATED>(p, mine + H_BYTES, place, at.column_tile, rows);
            }
            __syncwarp();
            if (at.has_next())
                hopper::named_arrive(TAKEN + half, HANDOVER);
        }
}

template <int ACT, bool GATED, enum tw_dtype T>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    hidden_kernel(const __grid_constant__ HiddenParams p)
{
    constexpr int COLS = GATED ? TILE_N / 2 : TILE_N;
    extern __shared__ uint8_t raw[];
    Smem<STAGES> smem(raw, 2 * HALF_BYTES);
    int rows = actual_rows(p.rows);
    if (rows == 0)
        return;
    Schedule at(rows, (p.cols + COLS - 1) / COLS);
    start(smem);
    if (threadIdx.x < 128) {
        hopper::registers_down<REGISTERS_LOW>();
        if (threadIdx.x == 0) {
            Ring<STAGES> ring;
            const CUtensorMap *b = GATED && at.rank == 0 ? &p.gate : &p.up;
            int below = GATED ? 0 : at.rank * (TILE_N / CLUSTER);
            for (; at.has(); at.next())
                load_tile(smem, ring, &p.x, b, at.row_tile * TILE_M,
                          at.column_tile * COLS + below, p.steps, at.rank);
        } else if (threadIdx.x >= 32) {
            help<GATED>(p, smem.staged, at, rows);
        }
        __syncwarp();
    } else {
        hopper::registers_up<REGISTERS_HIGH>();
        int half = threadIdx.x / 128 - 1;
        Ring<STAGES> ring;
        for (bool is_first = true; at.has(); at.next(), is_first = false) {
            float d[128];
            multiply_tile<T>(d, smem, ring, half, p.steps);
            if (!is_first)
                hopper::named_sync(TAKEN + half, HANDOVER);
            stage_half<ACT, GATED, T>(d, smem.staged + half * HALF_BYTES, p,
                                   at.row_tile * TILE_M + half * HALF_ROWS, at.column_tile, rows);
            hopper::named_arrive(STAGED + half, HANDOVER);
        }
    }
    hopper::cluster_sync(); // no block leaves while its peer may still write to it
}

template <int ACT, bool GATED, enum tw_dtype T>
enum tw_status launch(const struct twp_device *device, const HiddenParams &p, cudaStream_t stream,
                      struct tw_error *err)
{
    int bytes = smem_bytes(STAGES, 2 * HALF_BYTES);
    cudaFuncSetAttribute(hidden_kernel<ACT, GATED, T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         bytes);
    int blocks = device->multiprocessors / CLUSTER * CLUSTER;
    hidden_kernel<ACT, GATED, T><<<blocks, THREADS, bytes, stream>>>(p);
    return common::launched("hidden", err);
}

template <int ACT, enum tw_dtype T>
enum tw_status launch_act(const struct twp_device *device, const HiddenParams &p, bool is_gated,
                          cudaStream_t stream, struct tw_error *err)
{
    return is_gated ? launch<ACT, true, T>(device, p, stream, err)
                    : launch<ACT, false, T>(device, p, stream, err);
}

template <enum tw_dtype T>
enum tw_status launch_type(const struct twp_device *device, const HiddenParams &p, enum tw_act act,
                           bool is_gated, cudaStream_t stream, struct tw_error *err)
{
    switch (act) {
    case TW_ACT_RELU:
        return launch_act<TW_ACT_RELU, T>(device, p, is_gated, stream, err);
    case TW_ACT_RELU2:
        return launch_act<TW_ACT_RELU2, T>(device, p, is_gated, stream, err);
    case TW_ACT_FATRELU:
        return launch_act<TW_ACT_FATRELU, T>(device, p, is_gated, stream, err);
    default:
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: this activation");
    }
}

} // namespace

extern "C" enum tw_status tw_launch_hidden(const struct twp_device *device,
                                           const struct twp_hidden_args *args,
                                           struct CUstream_st *stream, struct tw_error *err)
{
    bool is_gated = args->gate != NULL;
    HiddenParams p = {common::map_of(args->x),
                      common::map_of(is_gated ? args->gate : args->up),
                      common::map_of(args->up),
                      args->gate_bias,
                      args->up_bias,
                      args->rows,
                      (args->k + TILE_K - 1) / TILE_K,
                      args->cols,
                      (args->cols + TWP_PART - 1) / TWP_PART,
                      args->activation.arg,
                      static_cast<uint16_t *>(args->h),
                      args->stride,
                      args->count,
                      args->l1_part,
                      args->counts};
    for (int d = 0; args->counts.is_on && d < args->counts.defs; d++)
        if (args->apply || args->counts.def[d].kind > TW_ACTIVE_GATE)
            return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: a threshold on the dense path");
    enum tw_act act = args->activation.act;
    return args->type == TW_F16 ? launch_type<TW_F16>(device, p, act, is_gated, stream, err)
                                : launch_type<TW_BF16>(device, p, act, is_gated, stream, err);
}
