/* What becomes of a tile of logits in head_product.cu: in a multiplying thread's
 * registers z, of two rows 64 columns each, then
 *
 *   max and sum of e^(z - max) over the tile's columns, per row; the next token's z;
 *   the z of wanted rows
 *
 * A thread's value d[4 j + 2 i + e] stands in its row 8 i and column 8 j + e. A row's
 * sums run in one order, whichever thread it falls to: four lanes hold a row, each has
 * the same columns of every row, and adding by halves gives all of them one result. */
#ifndef TW_KERNELS_CUDA_HEAD_EPILOGUE_CUH
#define TW_KERNELS_CUDA_HEAD_EPILOGUE_CUH

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/loss_tail.cuh"
#include "kernels/cuda/product.cuh"

namespace head {

using namespace product;
using loss_tail::LOG2_E;

/* z is the logit; scale logit + bias; or that within the soft cap. */
enum Kind { PLAIN, SCALED, CAPPED };

/* Beside product.cuh's forms: a quarter of the powers by multiplications, which the
 * units of exponentials, 16 a clock, would take longer for. */
constexpr int POLYNOMIAL = 16;

struct Params {
    CUtensorMap x, w;
    const float *bias;
    float scale, soft_cap;
    int rows, first_row; // of the batch, from first_row on
    int vocab, tiles, steps;
    const int32_t *token, *position, *wanted;
    int batch_rows, n_wanted;
    float *kept;  // [n_wanted][vocab]
    float2 *part; // [tiles][rows] max, sum
    float *goal;  // [rows], z of the next token
};

/* Where a thread's values stand. */
struct Place {
    int row, column; // row: of this launch
    int tile;

    __device__ Place(int first_row, int column_tile)
        : row(first_row + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4),
          column(column_tile * TILE_N + 2 * (threadIdx.x % 4)), tile(column_tile)
    {
    }
};

/* Logits to z; -Inf in columns that don't exist. */
template <Kind KIND>
__device__ __forceinline__ void make_z(float (&d)[128], const Params &p, const Place &at)
{
    int room = p.vocab - at.column;
#pragma unroll
    for (int j = 0; KIND != PLAIN && j < TILE_N / 8; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float bias = p.bias && 8 * j + e < room ? __ldg(p.bias + at.column + 8 * j + e) : 0.0f;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float &z = d[4 * j + 2 * i + e];
                z = loss_tail::cap<KIND == CAPPED>(fmaf(p.scale, z, bias), p.soft_cap);
            }
        }
    if (p.vocab - at.tile * TILE_N >= TILE_N)
        return;
#pragma unroll
    for (int v = 0; v < 128; v++)
        if (v / 4 * 8 + v % 2 >= room)
            d[v] = -INFINITY;
}

/* The greatest of each row over its four lanes; NaN is passed over. */
__device__ __forceinline__ void find_max(float (&max)[2], const float (&d)[128])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float even = d[2 * i], odd = d[2 * i + 1];
#pragma unroll
        for (int j = 1; j < TILE_N / 8; j++) {
            even = fmaxf(even, d[4 * j + 2 * i]);
            odd = fmaxf(odd, d[4 * j + 2 * i + 1]);
        }
        max[i] = fmaxf(even, odd);
    }
#pragma unroll
    for (int step = 1; step < 4; step *= 2)
#pragma unroll
        for (int i = 0; i < 2; i++)
            max[i] = fmaxf(max[i], __shfl_xor_sync(common::FULL_WARP, max[i], step));
}

/* sum + 2^t, t <= 0: within 2e-7 of the power, of which below 2^-126 that is left;
 * NaN stays. t's whole part goes to the exponent of a factor. */
__device__ __forceinline__ float add_power(float sum, float t)
{
    constexpr float ROUND = 12582912.0f; // 1.5 2^23
    t = hopper::max_or_nan(t, -126.0f);
    float whole = t + ROUND, rest = t - (whole - ROUND);
    float p = 0.0013264727f;
    p = fmaf(p, rest, 0.009671513f);
    p = fmaf(p, rest, 0.055507336f);
    p = fmaf(p, rest, 0.24022242f);
    p = fmaf(p, rest, 0.693147f);
    p = fmaf(p, rest, 1.0f);
    return fmaf(p, __uint_as_float((__float_as_uint(whole) << 23) + 0x3f800000u), sum);
}

template <int FORM>
__device__ __forceinline__ void sum_powers(float (&sum)[2], const float (&d)[128],
                                           const float (&max)[2])
{
    float part[2][2] = {};
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j++)
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float t = (d[4 * j + 2 * i + e] - max[i]) * LOG2_E;
                if ((FORM & POLYNOMIAL) && j % 4 == 3)
                    part[i][e] = add_power(part[i][e], t);
                else
                    part[i][e] += hopper::exp2_ftz(t);
            }
#pragma unroll
    for (int i = 0; i < 2; i++)
        sum[i] = part[i][0] + part[i][1];
#pragma unroll
    for (int step = 1; step < 4; step *= 2)
#pragma unroll
        for (int i = 0; i < 2; i++)
            sum[i] += __shfl_xor_sync(common::FULL_WARP, sum[i], step);
}

/* The next tokens of a thread's two rows, -1 where there is none. */
__device__ __forceinline__ void find_next(int (&next)[2], const Params &p, const Place &at)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = p.first_row + at.row + 8 * i;
        bool has_next = at.row + 8 * i < p.rows &&
                        !loss_tail::is_last(p.position, p.batch_rows, row);
        next[i] = has_next ? p.token[row + 1] : -1;
    }
}

/* Its z, by the one thread of all that has it. */
__device__ __forceinline__ void write_goals(const float (&d)[128], const int (&next)[2],
                                            const Params &p, const Place &at)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int column = next[i] - at.column;
        if (column < 0 || column >= TILE_N || column % 8 > 1)
            continue;
        float goal = 0;
#pragma unroll
        for (int v = 0; v < 64; v++)
            goal = column == v / 2 * 8 + v % 2 ? d[v / 2 * 4 + 2 * i + v % 2] : goal;
        p.goal[at.row + 8 * i] = goal;
    }
}

__device__ __forceinline__ void keep_wanted(const float (&d)[128], const Params &p,
                                            const Place &at)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = at.row + 8 * i;
        int place = row < p.rows
                        ? loss_tail::place_of(p.wanted, p.n_wanted, p.first_row + row)
                        : -1;
        if (place < 0)
            continue;
        float *to = p.kept + (int64_t)place * p.vocab + at.column;
#pragma unroll
        for (int v = 0; v < 64; v++)
            if (v / 2 * 8 + v % 2 < p.vocab - at.column)
                to[v / 2 * 8 + v % 2] = d[v / 2 * 4 + 2 * i + v % 2];
    }
}

/* A warpgroup's 64 rows of a tile, from that row of the launch on. */
template <Kind KIND, int FORM>
__device__ __forceinline__ void finish_half(float (&d)[128], const Params &p, int first_row,
                                            int column_tile)
{
    Place at(first_row, column_tile);
    int next[2];
    float max[2], sum[2];
    find_next(next, p, at);
    make_z<KIND>(d, p, at);
    find_max(max, d);
    const float from[2] = {max[0] == -INFINITY ? 0 : max[0], max[1] == -INFINITY ? 0 : max[1]};
    sum_powers<FORM>(sum, d, from);
    int mine = threadIdx.x % 4, row = at.row + 8 * mine;
    if (mine < 2 && row < p.rows)
        p.part[(int64_t)at.tile * p.rows + row] =
            mine ? make_float2(max[1], sum[1]) : make_float2(max[0], sum[0]);
    write_goals(d, next, p, at);
    if (p.n_wanted > 0)
        keep_wanted(d, p, at);
}

} // namespace head

#endif
