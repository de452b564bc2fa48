/* What becomes of a tile of logits in head_product.cu: in a multiplying thread's
 * registers z, of two rows 64 columns each, then
 *
 *   power and sum of 2^(z log2 e - power) over the tile's columns, per row; the next
 *   token's z; the z of wanted rows
 *
 * where power is a whole number near z log2 e of the row's greatest z, which an eighth
 * of the columns mostly tells: so t of 2^t is rounded once, and joining two such sums
 * shifts their exponents.
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
constexpr float LN_2 = 0.693147181f;

/* z is the logit; scale logit + bias; or that within the soft cap. */
enum Kind { PLAIN, SCALED, CAPPED };

struct Params {
    CUtensorMap x, w;
    const float *bias;
    float scale, soft_cap;
    int rows, first_row; // of the batch, from first_row on
    int vocab, tiles, steps;
    const int32_t *token, *position, *wanted;
    int batch_rows, n_wanted;
    float *kept;  // [n_wanted][vocab]
    float2 *part; // [tiles][rows] power, sum
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

/* sum 2^power. power -Inf: nothing but -Inf seen; NaN goes into the sum. */
struct Sum {
    float power, sum;
};

__device__ __forceinline__ Sum joined(const Sum &a, const Sum &b)
{
    float power = fmaxf(a.power, b.power);
    if (power == -INFINITY)
        return {power, a.sum + b.sum};
    return {power, a.sum * exp2f(a.power - power) + b.sum * exp2f(b.power - power)};
}

/* Not below 0, where only rounding could take it. */
__device__ __forceinline__ float loss_of(const Sum &s, float goal)
{
    float loss = fmaf(LN_2, fmaf(-goal, LOG2_E, s.power), logf(s.sum));
    return loss < 0 ? 0 : loss;
}

/* Powers from the greatest of each row over its four lanes, of every STEP-th block of
 * 8 columns and of its even ones alone where STEP > 1; NaN is passed over. */
template <int STEP>
__device__ __forceinline__ void find_powers(float (&power)[2], const float (&d)[128])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float even = -INFINITY, odd = -INFINITY;
#pragma unroll
        for (int j = 0; j < TILE_N / 8; j += STEP) {
            even = fmaxf(even, d[4 * j + 2 * i]);
            odd = STEP == 1 ? fmaxf(odd, d[4 * j + 2 * i + 1]) : odd;
        }
        power[i] = fmaxf(even, odd);
    }
#pragma unroll
    for (int step = 1; step < 4; step *= 2)
#pragma unroll
        for (int i = 0; i < 2; i++)
            power[i] = fmaxf(power[i], __shfl_xor_sync(common::FULL_WARP, power[i], step));
#pragma unroll
    for (int i = 0; i < 2; i++)
        power[i] = rintf(power[i] * LOG2_E);
}

__device__ __forceinline__ void sum_powers(float (&sum)[2], const float (&d)[128],
                                           const float (&power)[2])
{
    float part[2][2] = {};
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j++)
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float t = fmaf(d[4 * j + 2 * i + e], LOG2_E, -power[i]);
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

/* Of all columns. */
__device__ __forceinline__ void sum_all(Sum (&out)[2], const float (&d)[128])
{
    float power[2], sum[2];
    find_powers<1>(power, d);
    const float from[2] = {power[0] == -INFINITY ? 0 : power[0],
                           power[1] == -INFINITY ? 0 : power[1]};
    sum_powers(sum, d, from);
#pragma unroll
    for (int i = 0; i < 2; i++)
        out[i] = {power[i], sum[i]};
}

/* From a sample's power, or where the sum tells that the row's others are far from the
 * sample, of all columns. Within these bounds 2^t is right to 7e-7, nothing is lost, and
 * no sum joins another whose power is so far above that it vanishes while it is the
 * greater. */
__device__ __forceinline__ void sum_tile(Sum (&out)[2], const float (&d)[128])
{
    constexpr float LEAST = 0x1p-20f, MOST = 0x1p32f;
    float power[2], sum[2];
    bool is_good = true;
    find_powers<4>(power, d);
#pragma unroll
    for (int i = 0; i < 2; i++)
        power[i] = fabsf(power[i]) < INFINITY ? power[i] : 0.0f;
    sum_powers(sum, d, power);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        out[i] = {power[i], sum[i]};
        is_good = is_good && sum[i] >= LEAST && sum[i] <= MOST;
    }
    if (__all_sync(common::FULL_WARP, is_good))
        return;
    Sum all[2];
    sum_all(all, d);
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (!(sum[i] >= LEAST && sum[i] <= MOST)) // this row's alone
            out[i] = all[i];
}

/* The next tokens of a thread's two rows, -1 where there is none. Loads that nothing
 * waits for until they are asked for. */
struct Next {
    int token[2], position[2];

    __device__ Next(const Params &p, const Place &at)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int row = min(p.first_row + at.row + 8 * i + 1, p.batch_rows - 1);
            token[i] = p.token[row];
            position[i] = p.position[row];
        }
    }
    __device__ int of(int i, const Params &p, const Place &at) const
    {
        int row = at.row + 8 * i;
        bool is_in = row < p.rows && p.first_row + row + 1 < p.batch_rows;
        return is_in && position[i] != 0 ? token[i] : -1;
    }
};

/* Its z, by the one thread of all that has it. */
__device__ __forceinline__ void write_goals(const float (&d)[128], const Next &next,
                                            const Params &p, const Place &at)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int column = next.of(i, p, at) - at.column;
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
template <Kind KIND>
__device__ __forceinline__ void finish_half(float (&d)[128], const Params &p, int first_row,
                                            int column_tile)
{
    Place at(first_row, column_tile);
    const Next next(p, at);
    Sum sum[2];
    make_z<KIND>(d, p, at);
    sum_tile(sum, d);
    int mine = threadIdx.x % 4, row = at.row + 8 * mine;
    if (mine < 2 && row < p.rows)
        p.part[(int64_t)at.tile * p.rows + row] =
            mine ? make_float2(sum[1].power, sum[1].sum) : make_float2(sum[0].power, sum[0].sum);
    write_goals(d, next, p, at);
    if (p.n_wanted > 0)
        keep_wanted(d, p, at);
}

} // namespace head

#endif
