/* hidden.cu's function over mma.sync, on any GPU since compute capability 8.0.
 *
 *   gated: h = act(x Wg^T + bg) * (x Wu^T + bu); plain: h = act(x Wu^T + bu)
 *
 * Shapes as in hidden.cu; grid and ring as in product_mma.cuh, where Wg and Wu
 * alternate in B's tile by 8 rows, so that a gate value and its up value stand in
 * one thread. After its product a half's four warps leave h, planes of bits (a
 * definition each) and sums of |h| in shared memory, then write h out; all eight
 * count the planes' rows and columns. */
#include "kernels/cuda/act.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/hidden_params.cuh"
#include "kernels/cuda/planes.cuh"
#include "kernels/cuda/product_mma.cuh"

namespace
{

using namespace product_mma;
using hidden::number_of;
using hidden::Params;

constexpr int H_BYTES = HALF_ROWS * TILE_N * 2; // of a half tile, at most
constexpr int MAX_PLANES = TWP_DEFS + 1;
constexpr int HALF_BYTES = H_BYTES + 2 * MAX_PLANES * planes::BYTES;
constexpr int WARP_SUMS = HALF_ROWS * HALF_WARPS; // of |h|, floats of a half
constexpr int EPILOGUE_BYTES = 2 * HALF_BYTES + 2 * WARP_SUMS * 4;
constexpr uint32_t FULL_WARP = 0xffffffffu;
static_assert(EPILOGUE_BYTES <= 2 * STAGE_BYTES, "the epilogue in the ring's memory");
static_assert(TILE_M == product::TILE_M && HALF_ROWS == product::HALF_ROWS, "planes.cuh's tile");

struct MmaParams {
    Operands of;
    Params p;
};

/* Where a thread's value v of h is: a warp covers COLUMNS of its half's rows. */
template <bool GATED> struct Layout {
    static constexpr int COLS = GATED ? TILE_N / 2 : TILE_N, PARTS = COLS / planes::COLUMNS;
    static constexpr int COLUMNS = COLS / WARPS_N, WORDS = COLUMNS / 32;
    static constexpr int VALUES = GATED ? 64 : 128;
    static constexpr int UP = GATED ? 64 : 0;  // of a gate value's up value, or itself
    static constexpr int BLOCKS = COLUMNS / 8; // of 8 columns

    static __device__ constexpr int row_of(int v) { return v / (4 * BLOCKS) * 16 + v / 2 % 2 * 8; }
    static __device__ constexpr int column_of(int v) { return v / 4 % BLOCKS * 8 + v % 2; }
    static __device__ __forceinline__ int first_column()
    {
        return threadIdx.x / 32 % WARPS_N * COLUMNS + threadIdx.x % 4 * 2;
    }
};

/* The sums of act's argument first, then, if gated, those of its factor, with
 * their biases; nothing in columns that don't exist. */
template <bool GATED> __device__ __forceinline__ void
finish_products(float (&v)[128], const Sums &d, const Params &p, int tile)
{
    using L = Layout<GATED>;
    int column = tile * L::COLS + L::first_column();
#pragma unroll
    for (int i = 0; i < 128; i++) {
        int n = L::column_of(i) / 8, m = L::row_of(i % L::VALUES) / 16;
        v[i] = d[m][GATED ? 2 * n + (i >= 64) : n][i % 4];
    }
#pragma unroll
    for (int b = 0; b < L::BLOCKS; b++) {
        float2 gate = bias_pair(GATED ? p.gate_bias : p.up_bias, column + 8 * b);
        float2 up = GATED ? bias_pair(p.up_bias, column + 8 * b) : gate;
#pragma unroll
        for (int i = 0; i < 128; i++)
            if (L::column_of(i) / 8 == b)
                v[i] += i >= L::VALUES ? i % 2 ? up.y : up.x : i % 2 ? gate.y : gate.x;
    }
    if (p.cols >= (tile + 1) * L::COLS)
        return;
#pragma unroll
    for (int i = 0; i < 128; i++)
        v[i] = column + L::column_of(i) < p.cols ? v[i] : 0;
}

/* A row's 16 bytes of a plane: bit c % 32 of word c / 32 is column c of the part. */
template <bool GATED>
__device__ __forceinline__ uint32_t plane_row(uint32_t half, int plane, int part, int row)
{
    return half + H_BYTES + (plane * Layout<GATED>::PARTS + part) * planes::BYTES +
           row * planes::ROW_BYTES;
}

/* Bits of one definition over the values v[FROM] on. */
template <bool GATED, int FROM> __device__ __forceinline__ void
mark(const float (&v)[128], struct twp_def def, uint32_t half, int plane)
{
    using L = Layout<GATED>;
    bool is_zero_out = def.kind == TW_ACTIVE_HIDDEN || def.kind == TW_ACTIVE_GATE;
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 % WARPS_N * L::WORDS;
#pragma unroll
    for (int row = 0; row < HALF_ROWS; row += 8)
#pragma unroll
        for (int word = 0; word < L::WORDS; word++) {
            uint32_t bits = 0;
#pragma unroll
            for (int i = 0; i < L::VALUES; i++) {
                if (L::row_of(i) != row || L::column_of(i) / 32 != word)
                    continue;
                float value = v[FROM + i];
                bool is_active = is_zero_out ? value != 0 : fabsf(value) > def.threshold;
                bits |= is_active ? 1u << L::column_of(i) % 32 : 0;
            }
            bits <<= 2 * (lane % 4);
            bits |= __shfl_xor_sync(FULL_WARP, bits, 1);
            bits |= __shfl_xor_sync(FULL_WARP, bits, 2);
            int at = first + word; // of the row's words
            if (lane % 4 == 0)
                hopper::store_word(
                    plane_row<GATED>(half, plane, at / 4, row + lane / 4) + at % 4 * 4, bits);
        }
}

/* Values v[FROM] on out in fp32, a sector of 32 bytes by 4 lanes. */
template <bool GATED, int FROM> __device__ __forceinline__ void
write_wide(const float (&v)[128], float *to, const Params &p, int place, int tile, int rows)
{
    using L = Layout<GATED>;
    int row = place + threadIdx.x % 32 / 4, column = tile * L::COLS + L::first_column();
    to += row * p.stride + column;
#pragma unroll
    for (int i = 0; i < L::VALUES; i += 2)
        if (row + L::row_of(i) < rows && column + L::column_of(i) < p.cols)
            *reinterpret_cast<float2 *>(to + L::row_of(i) * p.stride + L::column_of(i)) =
                make_float2(v[FROM + i], v[FROM + i + 1]);
}

/* act(gate), then h in the up value's place or its own, and all planes. */
template <bool GATED, enum tw_dtype T>
__device__ __forceinline__ void make_h(float (&v)[128], const Params &p, uint32_t half, int place,
                                       int tile, int rows)
{
    using L = Layout<GATED>;
    act::activate<T, L::VALUES, false>(v, p.act, p.threshold);
    bool is_by_h = p.is_applied && p.apply.kind != TW_ACTIVE_GATE_ABS;
    auto is_of_gate = [&](int i) {
        return p.plane[i].kind == TW_ACTIVE_GATE || p.plane[i].kind == TW_ACTIVE_GATE_ABS;
    };
    for (int i = 0; p.counts.is_on && i < p.planes; i++)
        if (is_of_gate(i))
            mark<GATED, 0>(v, p.plane[i], half, i);
    if (p.wide_gate)
        write_wide<GATED, 0>(v, p.wide_gate, p, place, tile, rows);
#pragma unroll
    for (int i = 0; i < L::VALUES; i++) {
        float a = v[i], h = GATED ? hopper::mul_ftz(a, v[L::UP + i]) : a;
        if (p.is_applied)
            h = fabsf(is_by_h ? h : a) > p.apply.threshold ? h : 0.0f;
        v[L::UP + i] = h;
    }
    for (int i = 0; p.counts.is_on && i < p.planes; i++)
        if (!is_of_gate(i))
            mark<GATED, L::UP>(v, p.plane[i], half, i);
    if (p.wide_h)
        write_wide<GATED, L::UP>(v, p.wide_h, p, place, tile, rows);
}

/* This warp's sum of |h| of each row, at [row][warp]. */
template <bool GATED> __device__ __forceinline__ void stage_l1(const float (&v)[128], uint32_t sums)
{
    using L = Layout<GATED>;
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int row = 0; row < HALF_ROWS; row += 8) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < L::VALUES; i++)
            if (L::row_of(i) == row)
                sum += fabsf(v[L::UP + i]);
        sum += __shfl_xor_sync(FULL_WARP, sum, 1);
        sum += __shfl_xor_sync(FULL_WARP, sum, 2);
        if (lane % 4 == 0)
            hopper::store_word(
                sums + ((row + lane / 4) * HALF_WARPS + threadIdx.x / 32 % HALF_WARPS) * 4,
                __float_as_uint(sum));
    }
}

/* The parts' sums out, 16 rows a warp. Is one beyond T's numbers? */
template <bool GATED, enum tw_dtype T> __device__ __forceinline__ bool
publish_l1(const Params &p, uint32_t sums, int place, int tile, int rows)
{
    constexpr float GREATEST = T == TW_F16 ? 65504.0f : 3.38953139e38f;
    constexpr int PARTS = Layout<GATED>::PARTS, WARPS_OF = HALF_WARPS / PARTS;
    int row = threadIdx.x / 32 % HALF_WARPS * 16 + threadIdx.x % 16;
    int part = GATED ? 0 : threadIdx.x / 16 % 2, number = tile * PARTS + part;
    float sum = 0;
    for (int w = 0; w < WARPS_OF; w++)
        sum +=
            __uint_as_float(staged::load_word(sums + (row * HALF_WARPS + part * WARPS_OF + w) * 4));
    bool is_in = place + row < rows && number < p.parts;
    if (is_in)
        p.sums.l1[number * p.sums.stride + place + row] = sum;
    return __any_sync(FULL_WARP, is_in && !(sum <= GREATEST));
}

template <bool GATED, enum tw_dtype T>
__device__ __forceinline__ void stage_h(const float (&v)[128], uint32_t half)
{
    using L = Layout<GATED>;
    int lane = threadIdx.x % 32, chunk = L::first_column() / 8;
#pragma unroll
    for (int i = 0; i < L::VALUES; i += 2)
        hopper::store_word(staged::staged_chunk(half, L::COLS * 2, lane / 4 + L::row_of(i),
                                                chunk + L::column_of(i) / 8) +
                               lane % 4 * 4,
                           hopper::round_pair<T>(v[L::UP + i], v[L::UP + i + 1]));
}

/* The half's rows of h out, 16 bytes a lane. */
template <bool GATED> __device__ __forceinline__ void write_rows(const Params &p, uint32_t half,
                                                                 int place, int tile, int rows)
{
    constexpr int COLS = Layout<GATED>::COLS, OF_ROW = COLS / 8, AT_ONCE = 32 / OF_ROW;
    int lane = threadIdx.x % 32, chunk = lane % OF_ROW, column = tile * COLS + 8 * chunk;
    if (column >= p.cols)
        return;
#pragma unroll 4
    for (int r = threadIdx.x / 32 % HALF_WARPS * AT_ONCE + lane / OF_ROW;
         r < HALF_ROWS && place + r < rows; r += HALF_WARPS * AT_ONCE)
        *reinterpret_cast<uint4 *>(p.h + (place + r) * p.stride + column) =
            staged::load_chunk(staged::staged_chunk(half, COLS * 2, r, chunk));
}

/* The half's 16 rows of this warp: values of h that aren't finite as stored. */
template <bool GATED, enum tw_dtype T> __device__ __forceinline__ void
find_bad(const Params &p, uint32_t half, int place, int tile, int rows)
{
    constexpr int COLS = Layout<GATED>::COLS;
    constexpr uint32_t EXPONENT = T == TW_F16 ? 0x7c00 : 0x7f80;
    int first = threadIdx.x / 32 % HALF_WARPS * 16;
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < 16 * COLS / 2; i += 32) {
        int row = first + i / (COLS / 2), pair = i % (COLS / 2);
        uint32_t v =
            staged::load_word(staged::staged_chunk(half, COLS * 2, row, pair / 4) + pair % 4 * 4);
        for (int e = 0; e < 2; e++) {
            if ((v >> 16 * e & EXPONENT) != EXPONENT || place + row >= rows)
                continue;
            unsigned long long number = number_of(p.rows, place + row);
            atomicMin(p.counts.bad, number << 32 | (tile * COLS + 2 * pair + e));
        }
    }
}

/* A row's counts of one part under the definitions of the plane. */
__device__ __forceinline__ void add_row(const Params &p, int plane, int number, int row, uint2 n)
{
    for (int def = 0; def < p.counts.defs; def++) // route counts a routed row's pattern
        if (p.plane_of[def] == plane && n.x + n.y &&
            (p.sums.count || p.counts.def[def].kind != TW_ACTIVE_GATE))
            atomicAdd(p.counts.nnz[def] + row, n.x + n.y);
    if (plane == 0 && p.sums.count)
        p.sums.count[number * p.sums.stride + row] = n.x | n.y << 8;
}

/* A plane's part over all rows of the tile, 64 of its columns (side 0 or 1). */
template <bool GATED> __device__ __forceinline__ void count_plane(const Params &p, uint32_t memory,
                                                                  int place, int tile, int rows,
                                                                  int plane, int part, int side)
{
    int lane = threadIdx.x % 32, number = tile * Layout<GATED>::PARTS + part;
    planes::Column column[2];
    if (number >= p.parts)
        return;
#pragma unroll
    for (int group = 0; group < TILE_M / 32; group++) {
        int row = 32 * group + lane, mine = place + row;
        uint4 bits = staged::load_chunk(
            plane_row<GATED>(memory + row / HALF_ROWS * HALF_BYTES, plane, part, row % HALF_ROWS));
        bool is_counted = mine < rows;
        if (is_counted && side == 0)
            add_row(p, plane, number, number_of(p.rows, mine),
                    planes::row_counts<planes::COPIED>(bits));
        if (is_counted && p.counts.skip)
            is_counted = !p.counts.skip[number_of(p.rows, mine)];
        uint32_t counted = __ballot_sync(FULL_WARP, is_counted);
#pragma unroll
        for (int i = 0; i < 2; i++)
            column[i].rows[group] =
                planes::transpose(planes::column_word<planes::COPIED>(bits, 2 * side + i)) &
                counted;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int at = number * planes::COLUMNS + planes::column_of<planes::COPIED>(2 * side + i, lane);
        for (int def = 0; def < p.counts.defs && column[i].any(); def++)
            if (p.plane_of[def] == plane)
                planes::publish(p.counts, def, at, column[i],
                                [&](int row) { return number_of(p.rows, place + row); });
    }
}

template <bool GATED, enum tw_dtype T> __global__ void __launch_bounds__(THREADS, 1)
    hidden_mma_kernel(const __grid_constant__ MmaParams a)
{
    using L = Layout<GATED>;
    TW_DYNAMIC_SHARED_ALIGNED(raw, 128);
    const Params &p = a.p;
    uint32_t memory = hopper::smem_address(raw), epilogue = epilogue_memory(a.of, memory);
    int warp = threadIdx.x / 32, side = warp / HALF_WARPS;
    uint32_t half = epilogue + side * HALF_BYTES;
    uint32_t sums = epilogue + 2 * HALF_BYTES + side * WARP_SUMS * 4;
    int rows = hidden::actual_rows(p.rows);
    Product<GATED> product(a.of, rows, memory, (p.cols + L::COLS - 1) / L::COLS);
    for (; product.at.has(); product.next()) {
        Sums d;
        product.template multiply<T>(d);
        int first = product.at.row_tile() * TILE_M, place = first + side * HALF_ROWS;
        int tile = product.at.column_tile();
        float v[128];
        __syncthreads(); // the last tile's planes are counted
        finish_products<GATED>(v, d, p, tile);
        make_h<GATED, T>(v, p, half, place, tile, rows);
        stage_h<GATED, T>(v, half);
        if (p.counts.is_on)
            stage_l1<GATED>(v, sums);
        __syncthreads();
        write_rows<GATED>(p, half, place, tile, rows);
        if (!p.counts.is_on)
            continue;
        if (publish_l1<GATED, T>(p, sums, place, tile, rows))
            find_bad<GATED, T>(p, half, place, tile, rows);
        for (int unit = warp; unit < p.planes * L::PARTS * 2; unit += WARPS)
            count_plane<GATED>(p, epilogue, first, tile, rows, unit / 2 / L::PARTS,
                               unit / 2 % L::PARTS, unit % 2);
    }
}

template <bool GATED> enum tw_status launch(const struct twp_device *device, MmaParams &a,
                                            enum tw_dtype type, cudaStream_t stream,
                                            struct tw_error *err)
{
    int bytes = choose_memory(a.of, device, EPILOGUE_BYTES);
    auto kernel =
        type == TW_F16 ? hidden_mma_kernel<GATED, TW_F16> : hidden_mma_kernel<GATED, TW_BF16>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return common::launch_plain("hidden", kernel, device->multiprocessors, THREADS, bytes, stream,
                                err, a);
}

} // namespace

enum tw_status hidden::launch_mma(const struct twp_device *device,
                                  const struct twp_hidden_args *args, const Params &p,
                                  cudaStream_t stream, struct tw_error *err)
{
    bool is_gated = args->gate != NULL;
    MmaParams a = {operands(args->x, is_gated ? args->gate : args->up, is_gated ? args->up : NULL),
                   p};
    return is_gated ? launch<true>(device, a, args->type, stream, err)
                    : launch<false>(device, a, args->type, stream, err);
}
