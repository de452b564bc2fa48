/* The kernel of hidden.cu, for the files that instantiate it. */
#ifndef TW_KERNELS_CUDA_HIDDEN_CUH
#define TW_KERNELS_CUDA_HIDDEN_CUH

#include "kernels/cuda/act.cuh"
#include "kernels/cuda/hidden_params.cuh"
#include "kernels/cuda/planes.cuh"

namespace hidden {

using namespace product;

/* What a kernel's multiplying threads do beyond h. OFF: nothing. FAST (bf16): the
 * pattern, if gated; all else is read off the stored h, which is 0 exactly where
 * the fp32 h is. ANY: every definition, an applied one, fp16. */
enum Mode { OFF, FAST, ANY };

/* relu, relu2 and fatrelu as such, or what `act` names. */
enum Family { RELU = TW_ACT_RELU, RELU2 = TW_ACT_RELU2, FATRELU = TW_ACT_FATRELU, SMOOTH, EVERY };

constexpr int LOW = 88, HIGH = 208; // registers: counting takes more than packing
constexpr int COUNTING = 5;         // the barrier of the spare warps
constexpr uint32_t FULL_WARP = 0xffffffffu;
static_assert(128 * LOW + 256 * HIGH <= 65536, "register file");

template <bool GATED> struct Shape {
    static constexpr int COLS = GATED ? TILE_N / 2 : TILE_N;
    static constexpr int PARTS = COLS / planes::COLUMNS;
    static constexpr int UP = GATED ? 64 : 0; // of a gate value's up value, or itself
    static constexpr int VALUES = COLS / 2;   // of h in a thread
    static constexpr int ROW_BYTES = COLS * 2;
};

/* Shared memory. A gated tile of h is half as wide, which leaves room for a fourth
 * stage, that lets one warpgroup multiply through the other's epilogue. */
template <bool GATED, Mode MODE> struct Plan {
    static constexpr int STAGES = GATED && MODE != ANY ? 4 : 3;
    static constexpr int PLANES = MODE == ANY ? (GATED ? 5 : 4) : MODE == FAST && GATED ? 1 : 0;
    static constexpr int H_BYTES = HALF_ROWS * Shape<GATED>::ROW_BYTES; // of a half tile
    static constexpr int HALF_BYTES = H_BYTES + PLANES * Shape<GATED>::PARTS * planes::BYTES;
    static constexpr int BARRIERS = 2 * MAX_STAGES * 8;
    static constexpr int BYTES =
        STAGES * STAGE_BYTES + 2 * HALF_BYTES + BARRIERS + HELPERS / 32 * 4;
    static_assert(BYTES <= 227 * 1024, "shared memory");
    static_assert(HALF_BYTES % 512 == 0, "staged rows");
};

/* A row's 16 bytes of a plane that the multiplying threads write. */
template <bool GATED, Mode MODE>
__device__ __forceinline__ uint32_t plane_row(uint32_t half, int plane, int part, int row)
{
    return half + Plan<GATED, MODE>::H_BYTES +
           (plane * Shape<GATED>::PARTS + part) * planes::BYTES + row * planes::ROW_BYTES;
}

/* Of the one that is read off h: it takes the place of the row's h, which is
 * written out by then; 8 rows in a row lie in all banks. */
template <bool GATED>
__device__ __forceinline__ uint32_t copied_row(uint32_t half, int part, int row)
{
    return half + row * Shape<GATED>::ROW_BYTES +
           (row % 8 * Shape<GATED>::PARTS + part) * planes::ROW_BYTES;
}

/* The top bits of a pair's halves that aren't zero: their lower 15 bits plus 0x7fff
 * carry there. A pair without signs needs one instruction less. */
__device__ __forceinline__ uint32_t nonzero_tops(uint32_t pair, bool is_signed = true)
{
    return ((is_signed ? pair & 0x7fff7fffu : pair) + 0x7fff7fffu) & 0x80008000u;
}

/* ---- the multiplying warpgroups ---- */

/* A thread's value v of either product stands in row 8 (v / 2 % 2) and column
 * 8 (v / 4) + v % 2 of what it has. */
__device__ __forceinline__ constexpr int column_of(int v)
{
    return v / 4 * 8 + v % 2;
}

/* Bias added, nothing in columns that don't exist. */
template <bool GATED>
__device__ __forceinline__ void finish_products(float (&d)[128], const Params &p, int tile)
{
    int column = tile * Shape<GATED>::COLS + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int part = 0; part < (GATED ? 2 : 1); part++) {
        const float *bias = GATED && part == 0 ? p.gate_bias : p.up_bias;
        if (!bias)
            continue;
#pragma unroll
        for (int v = 0; v < Shape<GATED>::VALUES; v += 4) {
            float2 b = __ldg(reinterpret_cast<const float2 *>(bias + column + column_of(v)));
#pragma unroll
            for (int e = 0; e < 4; e++)
                d[part * 64 + v + e] += e % 2 ? b.y : b.x;
        }
    }
    int room = p.cols - column;
    if (p.cols - tile * Shape<GATED>::COLS >= Shape<GATED>::COLS)
        return;
#pragma unroll
    for (int v = 0; v < 128; v++)
        if (column_of(v % Shape<GATED>::VALUES) >= room)
            d[v] = 0;
}

/* Bit `bit` of a row's word is this value of the part: j + 16 e, see planes.cuh. */
__device__ __forceinline__ constexpr int value_of(int row, int part, int bit)
{
    return 64 * part + bit % 16 * 4 + 2 * row + bit / 16;
}

/* Bits of one definition over this thread's values d[FROM] on. */
template <bool GATED, int FROM>
__device__ __forceinline__ void mark(const float (&d)[128], struct twp_def def, uint32_t half,
                                     int plane)
{
    int lane = threadIdx.x % 32, mine = threadIdx.x % 128 / 32 * 16 + lane / 4;
    bool is_threshold = def.kind == TW_ACTIVE_ABS || def.kind == TW_ACTIVE_GATE_ABS;
#pragma unroll
    for (int part = 0; part < Shape<GATED>::PARTS; part++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            uint32_t bits = 0;
            if (is_threshold) { // the difference's sign, shifted in; none of a NaN
#pragma unroll
                for (int bit = 31; bit >= 0; bit--)
                    bits = __funnelshift_l(
                        __float_as_uint(def.threshold -
                                        fabsf(d[FROM + value_of(row, part, bit)])),
                        bits, 1);
            } else {
#pragma unroll
                for (int bit = 0; bit < 32; bit++)
                    bits |= d[FROM + value_of(row, part, bit)] != 0 ? 1u << bit : 0;
            }
            hopper::store_word(plane_row<GATED, ANY>(half, plane, part, mine + 8 * row) +
                                   lane % 4 * 4,
                               bits);
        }
}

/* h where the applied definition is active, else 0. */
template <bool GATED>
__device__ __forceinline__ void apply(float (&d)[128], const Params &p)
{
    bool is_by_h = p.apply.kind == TW_ACTIVE_ABS;
#pragma unroll
    for (int v = 0; v < Shape<GATED>::VALUES; v++) {
        float &to = d[Shape<GATED>::UP + v], a = d[v], h = GATED ? hopper::mul_ftz(a, to) : a;
        to = fabsf(is_by_h ? h : a) > p.apply.threshold ? h : 0.0f;
    }
}

/* ANY: act(gate), then h in its place or in the up value's; all planes but those
 * of h. */
template <bool GATED, enum tw_dtype T>
__device__ __forceinline__ void make_any(float (&d)[128], const Params &p, uint32_t half)
{
    constexpr int UP = Shape<GATED>::UP, VALUES = Shape<GATED>::VALUES;
    act::activate<T, VALUES, false>(d, p.act, p.threshold);
    for (int i = 0; p.counts.is_on && i < p.planes; i++)
        if (p.plane[i].kind == TW_ACTIVE_GATE_ABS || p.plane[i].kind == TW_ACTIVE_GATE)
            mark<GATED, 0>(d, p.plane[i], half, i);
    if (p.is_applied) {
        apply<GATED>(d, p);
    } else if (GATED) {
#pragma unroll
        for (int v = 0; v < VALUES; v++)
            d[UP + v] = hopper::mul_ftz(d[v], d[UP + v]);
    }
}

/* The whole warp looks through its staged rows for values that aren't finite. */
template <bool GATED, enum tw_dtype T>
__device__ __forceinline__ void find_bad(const Params &p, uint32_t staged, int place, int tile,
                                      int rows)
{
    constexpr int COLS = Shape<GATED>::COLS, CHUNKS = COLS / 8;
    constexpr uint32_t EXPONENT = T == TW_F16 ? 0x7c00 : 0x7f80;
    int first = threadIdx.x % 128 / 32 * 16;
    __syncwarp();
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < 16 * CHUNKS; i += 32) {
        int row = first + i / CHUNKS, chunk = i % CHUNKS;
        uint4 v = load_chunk(staged_chunk(staged, COLS * 2, row, chunk));
        uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int c = 0; c < 8; c++) {
            uint32_t bits = word[c / 2] >> 16 * (c % 2);
            if ((bits & EXPONENT) != EXPONENT || place + row >= rows)
                continue;
            unsigned long long number = number_of(p.rows, place + row);
            atomicMin(p.counts.bad, number << 32 | (tile * COLS + 8 * chunk + c));
        }
    }
}

/* Sums of |h| by row and part. Is one beyond T's numbers? Then so may a value
 * be, or become when it is rounded. */
template <bool GATED, enum tw_dtype T>
__device__ __forceinline__ bool publish_l1(const float (&l1)[2][Shape<GATED>::PARTS],
                                           const Params &p, int place, int tile, int rows)
{
    constexpr float GREATEST = T == TW_F16 ? 65504.0f : 3.38953139e38f;
    constexpr int PARTS = Shape<GATED>::PARTS;
    int lane = threadIdx.x % 32, row = place + threadIdx.x % 128 / 32 * 16 + lane / 4;
    bool is_far = false;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            float sum = l1[i][part];
            sum += __shfl_xor_sync(FULL_WARP, sum, 1);
            sum += __shfl_xor_sync(FULL_WARP, sum, 2);
            int number = tile * PARTS + part;
            if (lane % 4 == 0 && row + 8 * i < rows && number < p.parts)
                p.l1_part[(int64_t)(row + 8 * i) * p.parts + number] = sum;
            is_far |= !(sum <= GREATEST);
        }
    return __any_sync(FULL_WARP, is_far);
}

template <Family F, bool GATED, enum tw_dtype T, Mode MODE>
__device__ __forceinline__ void stage_half(float (&d)[128], uint32_t staged, const Params &p,
                                           int place, int tile, int rows)
{
    using S = Shape<GATED>;
    constexpr int ACT = F;
    constexpr bool IS_CUT = F == RELU || F == RELU2 || F == FATRELU;
    uint32_t base = staged_base(staged, S::COLS * 2);
    uint32_t pattern[2] = {};      // FAST and gated
    float l1[2][S::PARTS] = {};
    finish_products<GATED>(d, p, tile);
    if (F == SMOOTH)
        act::activate<T, S::VALUES, true>(d, p.act, p.threshold);
    if (F == EVERY)
        make_any<GATED, T>(d, p, staged);
#pragma unroll
    for (int j = 0; j < S::COLS / 8; j += 2) {
        uint32_t out[4];
#pragma unroll
        for (int n = 0; n < 4; n++) { // block n: chunk j + n / 2, rows 8 (n % 2) on
            int v = 4 * (j + n / 2) + 2 * (n % 2), part = v / 64;
            float low = d[v], high = d[v + 1];
            uint32_t pair = 0; // act(gate), rounded
            if (IS_CUT) {
                pair = common::cut_pair<ACT, T>(low, high, p.threshold);
                low = common::packed_value<ACT>(common::low_half<T>(pair));
                high = common::packed_value<ACT>(common::high_half<T>(pair));
            }
            if (!IS_CUT || F == RELU2)
                pair = hopper::round_pair<T>(low, high);
            if (MODE == FAST && GATED)
                pattern[n % 2] = pattern[n % 2] >> 1 | nonzero_tops(pair, !IS_CUT);
            if (F == EVERY) {
                low = d[S::UP + v]; // h is made
                high = d[S::UP + v + 1];
            } else if (GATED) {
                low = hopper::mul_ftz(low, d[S::UP + v]);
                high = hopper::mul_ftz(high, d[S::UP + v + 1]);
            }
            l1[n % 2][part] += fabsf(low) + fabsf(high);
            bool is_rounded = !GATED && (F == RELU || F == FATRELU);
            out[n] = is_rounded ? pair : hopper::round_pair<T>(low, high);
        }
        hopper::store_blocks(base ^ (j << 4), out[0], out[1], out[2], out[3]);
    }
    if (MODE == OFF || !p.counts.is_on)
        return;
    int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
    if (MODE == FAST && GATED)
        for (int i = 0; i < 2; i++)
            hopper::store_word(plane_row<GATED, MODE>(staged, 0, 0, row + 8 * i) + lane % 4 * 4,
                               pattern[i]);
    if (MODE == ANY)
        for (int i = 0; i < p.planes; i++)
            if (p.plane[i].kind == TW_ACTIVE_HIDDEN || p.plane[i].kind == TW_ACTIVE_ABS)
                mark<GATED, S::UP>(d, p.plane[i], staged, i);
    if (publish_l1<GATED, T>(l1, p, place, tile, rows))
        find_bad<GATED, T>(p, staged, place, tile, rows);
}

/* ---- the spare warps ---- */

/* Bit i: value i of 8 isn't zero. */
__device__ __forceinline__ uint32_t nonzero_bits(uint4 v)
{
    uint32_t pairs = nonzero_tops(v.x) >> 6 | nonzero_tops(v.y) >> 4 | nonzero_tops(v.z) >> 2 |
                     nonzero_tops(v.w); // odd bits from 9 and from 25 on
    return (pairs >> 9 & 0x55) | (pairs >> 24 & 0xaa);
}

/* How many values aren't zero. */
struct Nonzeros {
    uint32_t total = 0;
    __device__ __forceinline__ void add(uint4 v)
    {
        total += __popc(nonzero_tops(v.x) >> 3 | nonzero_tops(v.y) >> 2 | nonzero_tops(v.z) >> 1 |
                        nonzero_tops(v.w));
    }
};

/* Warps 1-3 go over the rows of a half tile of h, 16 bytes a lane; f(row, chunk,
 * value) for each, the whole warp at once. */
template <bool GATED, typename F>
__device__ __forceinline__ void for_rows(uint32_t staged, F f)
{
    constexpr int CHUNKS = Shape<GATED>::COLS / 8, AT_ONCE = 32 / CHUNKS;
    int lane = threadIdx.x % 32, chunk = lane % CHUNKS;
#pragma unroll 4
    for (int r = (threadIdx.x / 32 - 1) * AT_ONCE + lane / CHUNKS; r < HALF_ROWS;
         r += HELPERS / 32 * AT_ONCE)
        f(r, chunk, load_chunk(staged_chunk(staged, Shape<GATED>::ROW_BYTES, r, chunk)));
}

/* Which values of h aren't zero, where the row was. */
template <bool GATED>
__device__ __forceinline__ void store_bits(uint32_t staged, int row, int chunk, uint4 v)
{
    __syncwarp(); // the whole row is read
    hopper::store_byte(copied_row<GATED>(staged, chunk / 16, row) + chunk % 16, nonzero_bits(v));
}

/* Rows of h out; also their bits (FAST, plain), or how many aren't zero (FAST,
 * gated). */
template <bool GATED, Mode MODE>
__device__ __forceinline__ void write_rows(const Params &p, uint32_t staged, int place, int tile,
                                           int rows, Nonzeros &nonzeros)
{
    int first = tile * Shape<GATED>::COLS;
    uint16_t *to = p.h + place * p.stride + first;
    for_rows<GATED>(staged, [&](int r, int chunk, uint4 v) {
        if (place + r < rows && first + 8 * chunk < p.cols)
            *reinterpret_cast<uint4 *>(to + r * p.stride + 8 * chunk) = v;
        if (MODE == FAST && GATED)
            nonzeros.add(v);
        if (MODE == FAST && !GATED)
            store_bits<GATED>(staged, r, chunk, v);
    });
}

/* A row's counts of one part under the definitions of the plane; `also`: another
 * plane that has the same bits, or the plane. */
__device__ __forceinline__ void add_row(const Params &p, int plane, int also, int number, int row,
                                        uint2 n)
{
    for (int def = 0; def < p.counts.defs; def++) // route counts a routed row's pattern
        if ((p.plane_of[def] == plane || p.plane_of[def] == also) && n.x + n.y &&
            (p.count || p.counts.def[def].kind != TW_ACTIVE_GATE))
            atomicAdd(p.counts.nnz[def] + row, n.x + n.y);
    if (plane != 0 || !p.count)
        return;
    int tiles = (p.cols + TWP_TILE - 1) / TWP_TILE;
    uint16_t *half = reinterpret_cast<uint16_t *>(p.count + (int64_t)row * tiles) + number;
    half[0] = n.x | n.y << 8;
    if (number == p.parts - 1 && number % 2 == 0)
        half[1] = 0;
}

/* Row `row` of a tile's plane. */
template <bool GATED, Mode MODE, planes::Layout L>
__device__ __forceinline__ uint4 load_row(uint32_t staged, int plane, int part, int row)
{
    uint32_t half = staged + row / HALF_ROWS * Plan<GATED, MODE>::HALF_BYTES;
    int within = row % HALF_ROWS;
    return load_chunk(L == planes::COPIED ? copied_row<GATED>(half, part, within)
                                          : plane_row<GATED, MODE>(half, plane, part, within));
}

/* A plane's part over all rows of the tile, 64 of its columns (side 0 or 1). */
template <bool GATED, Mode MODE, planes::Layout L>
__device__ __forceinline__ void count_plane(const Params &p, uint32_t staged, int place, int tile,
                                            int rows, int plane, int also, int part, int side)
{
    int lane = threadIdx.x % 32, number = tile * Shape<GATED>::PARTS + part;
    planes::Column column[2];
    if (number >= p.parts)
        return;
#pragma unroll
    for (int group = 0; group < TILE_M / 32; group++) {
        int mine = place + 32 * group + lane;
        uint4 bits = load_row<GATED, MODE, L>(staged, plane, part, 32 * group + lane);
        bool is_counted = mine < rows;
        if (is_counted && side == 0)
            add_row(p, plane, also, number, number_of(p.rows, mine), planes::row_counts<L>(bits));
        if (is_counted && p.counts.skip)
            is_counted = !p.counts.skip[number_of(p.rows, mine)];
        uint32_t counted = __ballot_sync(FULL_WARP, is_counted);
#pragma unroll
        for (int i = 0; i < 2; i++)
            column[i].rows[group] =
                planes::transpose(planes::column_word<L>(bits, 2 * side + i)) & counted;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int at = number * planes::COLUMNS + planes::column_of<L>(2 * side + i, lane);
        for (int def = 0; def < p.counts.defs && column[i].any(); def++)
            if (p.plane_of[def] == plane || p.plane_of[def] == also)
                planes::publish(p.counts, def, at, column[i], number_of(p.rows, place),
                                [&](int row) { return number_of(p.rows, place + row); });
    }
}

/* FAST and gated: is `hidden` the pattern in this tile? The one is a part of the
 * other, so their sums tell. All spare warps. */
template <bool GATED>
__device__ __forceinline__ bool is_hidden_pattern(uint32_t staged, uint32_t sums,
                                                  const Nonzeros &nonzeros)
{
    int warp = threadIdx.x / 32 - 1, lane = threadIdx.x % 32, over = -(int)nonzeros.total;
    for (int row = threadIdx.x - 32; row < TILE_M; row += HELPERS) {
        uint2 n = planes::row_counts<planes::MULTIPLIED>(
            load_row<GATED, FAST, planes::MULTIPLIED>(staged, 0, 0, row));
        over += n.x + n.y;
    }
    over = __reduce_add_sync(FULL_WARP, over);
    if (lane == 0)
        hopper::store_word(sums + 4 * warp, over);
    hopper::named_sync(COUNTING, HELPERS);
    int all = 0;
    for (int w = 0; w < HELPERS / 32; w++)
        all += hopper::load_word(sums + 4 * w);
    return all == 0;
}

template <bool GATED, Mode MODE>
__device__ __forceinline__ void count_tile(const Params &p, uint32_t staged, uint32_t sums,
                                           int place, int tile, int rows, const Nonzeros &nonzeros)
{
    constexpr int PARTS = Shape<GATED>::PARTS, STEP = HELPERS / 32;
    constexpr bool IS_COPIED = MODE == FAST && !GATED;
    int planes = p.planes, also = 0, warp = threadIdx.x / 32 - 1;
    if (MODE == FAST && GATED && p.planes > 1) {
        if (is_hidden_pattern<GATED>(staged, sums, nonzeros)) {
            also = 1;
        } else {
            for (int half = 0; half < 2; half++) {
                uint32_t at = staged + half * Plan<GATED, MODE>::HALF_BYTES;
                for_rows<GATED>(at, [&](int r, int chunk, uint4 v) {
                    store_bits<GATED>(at, r, chunk, v);
                });
            }
        }
        planes = 1;
    }
    hopper::named_sync(COUNTING, HELPERS); // all bits are written
#pragma unroll 1
    for (int unit = warp; unit < planes * PARTS * 2; unit += STEP) {
        int plane = unit / 2 / PARTS;
        count_plane<GATED, MODE, IS_COPIED ? planes::COPIED : planes::MULTIPLIED>(
            p, staged, place, tile, rows, plane, also ? also : plane, unit / 2 % PARTS, unit % 2);
    }
    if (MODE == FAST && GATED && p.planes > 1 && !also)
        for (int side = warp; side < 2; side += STEP)
            count_plane<GATED, MODE, planes::COPIED>(p, staged, place, tile, rows, 1, 1, 0, side);
}

template <bool GATED, Mode MODE>
__device__ __forceinline__ void help(const Params &p, uint32_t staged, uint32_t sums, Schedule at,
                                     int rows)
{
    constexpr int HALF_BYTES = Plan<GATED, MODE>::HALF_BYTES;
    for (; at.has(); at.next()) {
        int place = at.row_tile * TILE_M;
        Nonzeros nonzeros;
        for (int half = 0; half < 2; half++) {
            hopper::named_sync(STAGED + half, HANDOVER);
            write_rows<GATED, MODE>(p, staged + half * HALF_BYTES, place + half * HALF_ROWS,
                                    at.column_tile, rows, nonzeros);
        }
        if (MODE != OFF && p.counts.is_on)
            count_tile<GATED, MODE>(p, staged, sums, place, at.column_tile, rows, nonzeros);
        __syncwarp();
        for (int half = 0; half < 2 && at.has_next(); half++)
            hopper::named_arrive(TAKEN + half, HANDOVER);
    }
}

template <Family F, bool GATED, enum tw_dtype T, Mode MODE>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    hidden_kernel(const __grid_constant__ Params p)
{
    using L = Plan<GATED, MODE>;
    constexpr int COLS = Shape<GATED>::COLS;
    extern __shared__ __align__(ALIGN) uint8_t raw[]; // nothing is left to align it here
    Smem<L::STAGES> smem(raw, 2 * L::HALF_BYTES);
    int rows = actual_rows(p.rows);
    if (rows == 0)
        return;
    Schedule at(rows, (p.cols + COLS - 1) / COLS);
    start(smem);
    if (threadIdx.x < 128) {
        hopper::registers_down<LOW>();
        if (threadIdx.x == 0) {
            Ring<L::STAGES> ring;
            const CUtensorMap *b = GATED && at.rank == 0 ? &p.gate : &p.up;
            int below = GATED ? 0 : at.rank * (TILE_N / CLUSTER);
            for (; at.has(); at.next())
                load_tile(smem, ring, &p.x, b, at.row_tile * TILE_M,
                          at.column_tile * COLS + below, p.steps, at.rank);
        } else if (threadIdx.x >= 32) {
            help<GATED, MODE>(p, smem.staged, smem.full + L::BARRIERS, at, rows);
        }
        __syncwarp();
    } else {
        hopper::registers_up<HIGH>();
        int half = threadIdx.x / 128 - 1;
        Ring<L::STAGES> ring;
        for (bool is_first = true; at.has(); at.next(), is_first = false) {
            float d[128];
            multiply_tile<T>(d, smem, ring, half, p.steps);
            if (!is_first)
                hopper::named_sync(TAKEN + half, HANDOVER);
            stage_half<F, GATED, T, MODE>(d, smem.staged + half * L::HALF_BYTES, p,
                                          at.row_tile * TILE_M + half * HALF_ROWS, at.column_tile,
                                          rows);
            hopper::named_arrive(STAGED + half, HANDOVER);
        }
    }
    hopper::cluster_sync(); // no block leaves while its peer may still write to it
}

template <Family F, bool GATED, enum tw_dtype T, Mode MODE>
enum tw_status launch(const struct twp_device *device, const Params &p, cudaStream_t stream,
                      struct tw_error *err)
{
    int bytes = Plan<GATED, MODE>::BYTES;
    cudaFuncSetAttribute(hidden_kernel<F, GATED, T, MODE>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    int blocks = device->multiprocessors / CLUSTER * CLUSTER;
    hidden_kernel<F, GATED, T, MODE><<<blocks, THREADS, bytes, stream>>>(p);
    return common::launched("hidden", err);
}

/* bf16 without an applied definition: hidden.cu (not counting) and
 * hidden_fast.cu. */
enum tw_status launch_off(const struct twp_device *device, const Params &p, bool is_gated,
                          cudaStream_t stream, struct tw_error *err);
enum tw_status launch_fast(const struct twp_device *device, const Params &p, bool is_gated,
                           cudaStream_t stream, struct tw_error *err);
/* All else: hidden_any.cu. */
enum tw_status launch_any(const struct twp_device *device, const Params &p, enum tw_dtype type,
                          bool is_gated, cudaStream_t stream, struct tw_error *err);

template <bool GATED, Mode MODE>
enum tw_status launch_family(const struct twp_device *device, const Params &p, cudaStream_t stream,
                             struct tw_error *err)
{
    switch (p.act) {
    case TW_ACT_RELU:
        return launch<RELU, GATED, TW_BF16, MODE>(device, p, stream, err);
    case TW_ACT_RELU2:
        return launch<RELU2, GATED, TW_BF16, MODE>(device, p, stream, err);
    case TW_ACT_FATRELU:
        return launch<FATRELU, GATED, TW_BF16, MODE>(device, p, stream, err);
    default:
        return launch<SMOOTH, GATED, TW_BF16, MODE>(device, p, stream, err);
    }
}

} // namespace hidden

#endif
