/* The launchers of the portable path, to which those of launch.h turn where the
 * device's path is TW_CUDA_PORTABLE: same arguments, same results (hidden's
 * stands in hidden.cuh). */
#ifndef TW_KERNELS_CUDA_LAUNCH_MMA_H
#define TW_KERNELS_CUDA_LAUNCH_MMA_H

#include "kernels/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

TW_MUST_USE enum tw_status twp_launch_pack_mma(const struct twp_device *device,
                                               const struct twp_pack_args *args,
                                               struct CUstream_st *stream,
                                               struct tw_error *err);
TW_MUST_USE enum tw_status twp_launch_down_mma(const struct twp_device *device,
                                               const struct twp_down_args *args,
                                               struct CUstream_st *stream,
                                               struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
