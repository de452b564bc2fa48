/* The multiplying warpgroups of hidden.cu: a tile's sums become h, and bits, in
 * shared memory. */
#ifndef TW_KERNELS_CUDA_HIDDEN_STAGE_CUH
#define TW_KERNELS_CUDA_HIDDEN_STAGE_CUH

#include "kernels/cuda/act.cuh"
#include "kernels/cuda/hidden_plan.cuh"

namespace hidden {

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

/* This thread's values d[FROM] on out in fp32, a sector of 32 bytes by 4 lanes. */
template <bool GATED, int FROM>
__device__ __forceinline__ void write_wide(const float (&d)[128], float *to, const Params &p,
                                           int place, int tile, int rows)
{
    int lane = threadIdx.x % 32, row = place + threadIdx.x % 128 / 32 * 16 + lane / 4;
    int column = tile * Shape<GATED>::COLS + 2 * (lane % 4);
    to += row * p.stride + column;
#pragma unroll
    for (int v = 0; v < Shape<GATED>::VALUES; v += 2) {
        int below = 8 * (v / 2 % 2);
        if (row + below < rows && column + column_of(v) < p.cols)
            *reinterpret_cast<float2 *>(to + below * p.stride + column_of(v)) =
                make_float2(d[FROM + v], d[FROM + v + 1]);
    }
}

/* ANY: act(gate), then h in its place or in the up value's; all planes but those
 * of h. */
template <bool GATED, enum tw_dtype T>
__device__ __forceinline__ void make_any(float (&d)[128], const Params &p, uint32_t half,
                                         int place, int tile, int rows)
{
    constexpr int UP = Shape<GATED>::UP, VALUES = Shape<GATED>::VALUES;
    act::activate<T, VALUES, false>(d, p.act, p.threshold);
    for (int i = 0; p.counts.is_on && i < p.planes; i++)
        if (p.plane[i].kind == TW_ACTIVE_GATE_ABS || p.plane[i].kind == TW_ACTIVE_GATE)
            mark<GATED, 0>(d, p.plane[i], half, i);
    if (p.wide_gate)
        write_wide<GATED, 0>(d, p.wide_gate, p, place, tile, rows);
    if (p.is_applied) {
        apply<GATED>(d, p);
    } else if (GATED) {
#pragma unroll
        for (int v = 0; v < VALUES; v++)
            d[UP + v] = hopper::mul_ftz(d[v], d[UP + v]);
    }
    if (p.wide_h)
        write_wide<GATED, UP>(d, p.wide_h, p, place, tile, rows);
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

/* Sums of |h| by row and part, by shuffles that halve what is summed: lane 0 of 4
 * ends with the first row's first part, lane 1 with the next row's, lanes 2 and 3
 * with the other part's (plain). Is one beyond T's numbers? Then so may a value be,
 * or become when it is rounded. */
template <bool GATED, enum tw_dtype T>
__device__ __forceinline__ bool publish_l1(const float (&l1)[2][Shape<GATED>::PARTS],
                                                   const Params &p, int place, int tile, int rows)
{
    constexpr float GREATEST = T == TW_F16 ? 65504.0f : 3.38953139e38f;
    constexpr int PARTS = Shape<GATED>::PARTS;
    int lane = threadIdx.x % 32, row = place + threadIdx.x % 128 / 32 * 16 + lane / 4;
    int is_next = lane % 2, part = GATED ? 0 : lane / 2 % 2;
    float sum[PARTS];
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        float mine = is_next ? l1[1][i] : l1[0][i], other = is_next ? l1[0][i] : l1[1][i];
        sum[i] = mine + __shfl_xor_sync(FULL_WARP, other, 1);
    }
    float mine = sum[0], other = sum[PARTS - 1];
    if (!GATED && part) {
        mine = sum[PARTS - 1];
        other = sum[0];
    }
    mine += __shfl_xor_sync(FULL_WARP, other, 2);
    row += 8 * is_next;
    int number = tile * PARTS + part;
    if ((!GATED || lane % 4 < 2) && row < rows && number < p.parts)
        p.l1_part[(int64_t)row * p.parts + number] = mine;
    return __any_sync(FULL_WARP, !(mine <= GREATEST));
}

/* Bit j + 16 e of a row's word, from flags that were shifted in from j 0 on. */
__device__ __forceinline__ uint32_t word_of_flags(uint32_t flags)
{
    return __byte_perm(__brev(flags), 0, 0x1032);
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
        make_any<GATED, T>(d, p, staged, place, tile, rows);
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
                pattern[n % 2] = 2 * pattern[n % 2] +
                                 hopper::nonzero_halves(IS_CUT ? pair : pair & 0x7fff7fffu);
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
                               word_of_flags(pattern[i]));
    if (MODE == ANY)
        for (int i = 0; i < p.planes; i++)
            if (p.plane[i].kind == TW_ACTIVE_HIDDEN || p.plane[i].kind == TW_ACTIVE_ABS)
                mark<GATED, S::UP>(d, p.plane[i], staged, i);
    if (publish_l1<GATED, T>(l1, p, place, tile, rows))
        find_bad<GATED, T>(p, staged, place, tile, rows);
}

} // namespace hidden

#endif
