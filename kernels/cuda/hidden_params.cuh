/* What hidden.cu tells its kernels, of either path. */
#ifndef TW_KERNELS_CUDA_HIDDEN_PARAMS_CUH
#define TW_KERNELS_CUDA_HIDDEN_PARAMS_CUH

#include "kernels/cuda/common.cuh"

namespace hidden {

/* Plane 0 holds the pattern, the others one definition each. */
struct Params {
    CUtensorMap x, gate, up, h_map; // h: boxes of 64 rows
    const float *gate_bias, *up_bias;
    struct twp_rows rows;
    int steps, cols, parts;
    enum tw_act act;
    float threshold;
    bool is_applied;
    struct twp_def apply;
    int planes;
    struct twp_def plane[TWP_DEFS + 1];
    int plane_of[TWP_DEFS]; // of a wanted definition
    uint16_t *h;
    int64_t stride;
    float *wide_h, *wide_gate;
    struct twp_parts sums;
    bool leaves_nnz; // of the pattern, to down.cu
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

/* The portable path, whatever is counted: hidden_mma.cu. */
enum tw_status launch_mma(const struct twp_device *device, const struct twp_hidden_args *args,
                          const Params &p, cudaStream_t stream, struct tw_error *err);

} // namespace hidden

#endif
