/* What the multiplying threads of hidden.cu do with a tile's sums: bias, planes of
 * bits, applied definitions, sums of |h|. */
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

/* Bits of one definition over this thread's values of a part, d[FROM] on. */
template <int FROM>
__device__ __forceinline__ void mark(const float (&d)[128], struct twp_def def, uint32_t half,
                                     int plane, int part)
{
    int lane = threadIdx.x % 32, mine = threadIdx.x % 128 / 32 * 16 + lane / 4;
    bool is_threshold = def.kind == TW_ACTIVE_ABS || def.kind == TW_ACTIVE_GATE_ABS;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        uint32_t bits = 0;
        if (is_threshold) { // the difference's sign, shifted in; none of a NaN
#pragma unroll
            for (int bit = 31; bit >= 0; bit--)
                bits = __funnelshift_l(
                    __float_as_uint(def.threshold - fabsf(d[FROM + value_of(row, part, bit)])),
                    bits, 1);
        } else {
#pragma unroll
            for (int bit = 0; bit < 32; bit++)
                bits |= d[FROM + value_of(row, part, bit)] != 0 ? 1u << bit : 0;
        }
        hopper::store_word(plane_row<ANY>(half, plane, mine + 8 * row) + lane % 4 * 4, bits);
    }
}

/* h of a part where the applied definition is active, else 0. */
template <bool GATED>
__device__ __forceinline__ void apply(float (&d)[128], const Params &p, int part)
{
    bool is_by_h = p.apply.kind == TW_ACTIVE_ABS;
#pragma unroll
    for (int v = 64 * part; v < 64 * (part + 1); v++) {
        float &to = d[Shape<GATED>::UP + v], a = d[v], h = GATED ? hopper::mul_ftz(a, to) : a;
        to = fabsf(is_by_h ? h : a) > p.apply.threshold ? h : 0.0f;
    }
}

/* This thread's values of a part, d[FROM] on, out in fp32, a sector of 32 bytes by 4
 * lanes. */
template <bool GATED, int FROM>
__device__ __forceinline__ void write_wide(const float (&d)[128], float *to, const Params &p,
                                           int place, int tile, int part, int rows)
{
    int lane = threadIdx.x % 32, row = place + threadIdx.x % 128 / 32 * 16 + lane / 4;
    int column = tile * Shape<GATED>::COLS + 2 * (lane % 4);
    to += row * p.stride + column;
#pragma unroll
    for (int v = 64 * part; v < 64 * (part + 1); v += 2) {
        int below = 8 * (v / 2 % 2);
        if (row + below < rows && column + column_of(v) < p.cols)
            *reinterpret_cast<float2 *>(to + below * p.stride + column_of(v)) =
                make_float2(d[FROM + v], d[FROM + v + 1]);
    }
}

/* ANY: of a part of act(gate) h, in its place or in the up value's, and all planes. */
template <bool GATED>
__device__ __forceinline__ void make_any(float (&d)[128], const Params &p, uint32_t half,
                                         int place, int tile, int part, int rows)
{
    constexpr int UP = Shape<GATED>::UP;
    int planes = p.counts.is_on ? p.planes : 0;
    for (int i = 0; i < planes; i++)
        if (p.plane[i].kind == TW_ACTIVE_GATE_ABS || p.plane[i].kind == TW_ACTIVE_GATE)
            mark<0>(d, p.plane[i], half, i, part);
    if (p.wide_gate)
        write_wide<GATED, 0>(d, p.wide_gate, p, place, tile, part, rows);
    if (p.is_applied) {
        apply<GATED>(d, p, part);
    } else if (GATED) {
#pragma unroll
        for (int v = 0; v < 64; v++)
            d[UP + v] = hopper::mul_ftz(d[v], d[UP + v]);
    }
    for (int i = 0; i < planes; i++)
        if (p.plane[i].kind == TW_ACTIVE_HIDDEN || p.plane[i].kind == TW_ACTIVE_ABS)
            mark<UP>(d, p.plane[i], half, i, part);
    if (p.wide_h)
        write_wide<GATED, UP>(d, p.wide_h, p, place, tile, part, rows);
}

/* The whole warp looks through its staged rows, a part, for values that aren't
 * finite. */
template <enum tw_dtype T>
__device__ __forceinline__ void find_bad(const Params &p, uint32_t staged, int place, int part,
                                         int rows)
{
    constexpr int CHUNKS = planes::COLUMNS / 8;
    constexpr uint32_t EXPONENT = T == TW_F16 ? 0x7c00 : 0x7f80;
    int first = threadIdx.x % 128 / 32 * 16;
    __syncwarp();
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < 16 * CHUNKS; i += 32) {
        int row = first + i / CHUNKS, chunk = i % CHUNKS;
        uint4 v = load_chunk(boxed_chunk(staged, row, chunk));
        uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int c = 0; c < 8; c++) {
            uint32_t bits = word[c / 2] >> 16 * (c % 2);
            if ((bits & EXPONENT) != EXPONENT || place + row >= rows)
                continue;
            unsigned long long number = number_of(p.rows, place + row);
            atomicMin(p.counts.bad, number << 32 | (part * planes::COLUMNS + 8 * chunk + c));
        }
    }
}

/* Sums of |h| of a part by row, by shuffles that halve what is summed: lane 0 of 4
 * ends with the first row's, lane 1 with the next row's. Is one beyond T's numbers?
 * Then so may a value be, or become when it is rounded. */
template <enum tw_dtype T>
__device__ __forceinline__ bool publish_l1(float first, float next, const Params &p, int place,
                                           int number, int rows)
{
    constexpr float GREATEST = T == TW_F16 ? 65504.0f : 3.38953139e38f;
    int lane = threadIdx.x % 32, is_next = lane % 2;
    int row = place + threadIdx.x % 128 / 32 * 16 + lane / 4 + 8 * is_next;
    float mine = is_next ? next : first, other = is_next ? first : next;
    mine += __shfl_xor_sync(FULL_WARP, other, 1);
    mine += __shfl_xor_sync(FULL_WARP, mine, 2);
    if (lane % 4 < 2 && row < rows && number < p.parts)
        p.sums.l1[number * p.sums.stride + row] = mine;
    return __any_sync(FULL_WARP, !(mine <= GREATEST));
}

/* Bit j + 16 e of a row's word, from flags that were shifted in from j 0 on. */
__device__ __forceinline__ uint32_t word_of_flags(uint32_t flags)
{
    return __byte_perm(__brev(flags), 0, 0x1032);
}

} // namespace hidden

#endif
