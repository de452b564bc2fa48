/* The kernel of hidden.cu, for the files that instantiate it. */
#ifndef TW_KERNELS_CUDA_HIDDEN_CUH
#define TW_KERNELS_CUDA_HIDDEN_CUH

#include "kernels/cuda/hidden_count.cuh"
#include "kernels/cuda/hidden_half.cuh"

namespace hidden {

template <Family F, bool GATED, enum tw_dtype T, Mode MODE>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    hidden_kernel(const __grid_constant__ Params p)
{
    using L = Plan<MODE>;
    constexpr int COLS = Shape<GATED>::COLS;
    TW_DYNAMIC_SHARED_ALIGNED(raw, ALIGN); // nothing is left to align it here
    Smem<L::STAGES> smem(raw, 2 * L::HALF_BYTES);
    uint32_t differs = smem.full + L::BARRIERS;
    int rows = actual_rows(p.rows);
    if (rows == 0)
        return;
    int columns = (p.cols + COLS - 1) / COLS;
    if (threadIdx.x < 2)
        hopper::store_word(differs + 4 * threadIdx.x, 0);
    start(smem);
    if (threadIdx.x < 128) {
        hopper::registers_down<Registers<GATED>::LOW>();
        Schedule<true> at(rows, columns);
        if (threadIdx.x == 0) {
            Ring<L::STAGES> ring;
            const CUtensorMap *b = GATED && at.rank() == 0 ? &p.gate : &p.up;
            int below = GATED ? 0 : at.rank() * (TILE_N / CLUSTER);
            for (; at.has(); at.next())
                load_tile(smem, ring, &p.x, b, at.row(),
                          at.column_tile * COLS + below, p.steps, at.rank());
        } else if (threadIdx.x >= 32) {
            help<GATED, MODE>(p, smem.staged, differs, at, rows);
        }
        __syncwarp();
    } else {
        hopper::registers_up<Registers<GATED>::HIGH>();
        Schedule<true> at(rows, columns);
        int half = half_of_thread();
        Half<F, GATED, T, MODE> h(smem.staged, differs, half);
        Ring<L::STAGES> ring;
        for (; at.has(); at.next()) {
            float d[128];
            if (half >= at.halves()) { // a half tile is the last
                skip_tile(smem, ring, p.steps, [&]() { h.step(p, rows); });
                h.finish(p, rows);
                h.skip(p);
                continue;
            }
            multiply_tile<T>(d, smem, ring, half, p.steps, [&](int) { h.step(p, rows); });
            h.finish(p, rows);
            h.take(d, p, at.row() + half * HALF_ROWS, at.column_tile, rows);
        }
        h.finish(p, rows);
    }
    hopper::cluster_sync(); // no block leaves while its peer may still write to it
}

template <Family F, bool GATED, enum tw_dtype T, Mode MODE>
enum tw_status launch(const struct twp_device *device, const Params &p, cudaStream_t stream,
                      struct tw_error *err)
{
    int bytes = Plan<MODE>::BYTES;
    cudaFuncSetAttribute(hidden_kernel<F, GATED, T, MODE>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    int blocks = device->multiprocessors / CLUSTER * CLUSTER;
    return common::launch_plain<CLUSTER>("hidden", hidden_kernel<F, GATED, T, MODE>, blocks,
                                         THREADS, bytes, stream, err, p);
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
