/* What the second pass is given beside h:
 *     parts  dense rows of any number as parts of a few: lists, and how many
 *     gates  entries of the rows that stay sparse -> act(gate) in the lists' order
 * parts: 4 bytes a row. gates: a warp a row, a lane a tile, whose entries stand
 * behind those of the lanes below; 4 bytes read and written an entry, scattered, as
 * only thresholds on the gate ask for it. In the loop of hide it costs spills. */
#include "kernels/cuda/second_rows.cuh"

using namespace second;

namespace {

constexpr int THREADS = 256, WARPS = THREADS / 32;

__global__ void __launch_bounds__(THREADS)
    parts_kernel(const struct twp_rows rows, int part, int *list, int *actual)
{
    common::wait_for_last();
    int place = blockIdx.x * THREADS + threadIdx.x;
    if (place >= rows.rows)
        return;
    if (!rows.list)
        list[place] = place;
    if (place % part == 0)
        actual[place / part] = max(0, min(part, actual_rows(rows) - place));
}

__global__ void __launch_bounds__(THREADS)
    gates_kernel(const struct twp_packed in, const uint32_t *listed, int rows, float *gate)
{
    common::wait_for_last();
    int lane = threadIdx.x % 32, row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows || listed[row] == ROUTED)
        return;
    gate += (int64_t)row * in.tiles * in.slots;
    for (int first = 0; first < in.tiles; first += 32) {
        int tile = first + lane;
        int64_t cell = (int64_t)row * in.tiles + tile;
        int count = tile < in.tiles ? __dp4a(in.count[cell], 0x01010101u, 0u) : 0, upto = count;
        for (int step = 1; step < 32; step *= 2) {
            int below = __shfl_up_sync(FULL_WARP, upto, step);
            upto += lane >= step ? below : 0;
        }
        for (int i = 0; i < count; i++)
            gate[upto - count + i] =
                __uint_as_float(in.entry[cell * in.slots + i] & common::VALUE_BITS);
        gate += __shfl_sync(FULL_WARP, upto, 31);
    }
}

} // namespace

extern "C" enum tw_status tw_launch_parts(const struct twp_rows *rows, int32_t part, int32_t *list,
                                          int32_t *actual, struct CUstream_st *stream,
                                          struct tw_error *err)
{
    int blocks = (rows->rows + THREADS - 1) / THREADS;
    return common::launch("parts", parts_kernel, blocks, THREADS, 0, stream, err, *rows, part, list,
                          actual);
}

extern "C" enum tw_status tw_launch_gates(const struct twp_packed *in, const struct twp_list *list,
                                          int32_t rows, float *gate, struct CUstream_st *stream,
                                          struct tw_error *err)
{
    int blocks = (rows + WARPS - 1) / WARPS;
    return common::launch("gates", gates_kernel, blocks, THREADS, 0, stream, err, *in,
                          (const uint32_t *)list->n, rows, gate);
}
