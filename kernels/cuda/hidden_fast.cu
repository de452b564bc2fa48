/* The kernels of hidden.cu that count the pattern and `hidden` in bf16. */
#include "kernels/cuda/hidden.cuh"

enum tw_status hidden::launch_fast(const struct twp_device *device, const Params &p, bool is_gated,
                                   cudaStream_t stream, struct tw_error *err)
{
    return is_gated ? launch_family<true, FAST>(device, p, stream, err)
                    : launch_family<false, FAST>(device, p, stream, err);
}
