/* The kernels of hidden.cu for every definition, activation and type. */
#include "kernels/cuda/hidden.cuh"

enum tw_status hidden::launch_any(const struct twp_device *device, const Params &p,
                                  enum tw_dtype type, bool is_gated, cudaStream_t stream,
                                  struct tw_error *err)
{
    if (type == TW_F16)
        return is_gated ? launch<EVERY, true, TW_F16, ANY>(device, p, stream, err)
                        : launch<EVERY, false, TW_F16, ANY>(device, p, stream, err);
    return is_gated ? launch<EVERY, true, TW_BF16, ANY>(device, p, stream, err)
                    : launch<EVERY, false, TW_BF16, ANY>(device, p, stream, err);
}
