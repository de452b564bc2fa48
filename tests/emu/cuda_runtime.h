/* A stand-in for CUDA's runtime in C++: kernels' qualifiers and functions, and
 * launches. See tests/emu/README.md. */
#ifndef TESTS_EMU_CUDA_RUNTIME_H
#define TESTS_EMU_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"
#include "emu_types.h"

#ifdef __cplusplus
#include <functional>
#include <type_traits>

#include "emu_device.h"

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
struct cudaFuncAttributes {
    size_t sharedSizeBytes;
    int maxThreadsPerBlock, numRegs, maxDynamicSharedSizeBytes;
};
enum cudaLaunchAttributeID {
    cudaLaunchAttributeProgrammaticStreamSerialization = 6
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
    unsigned clusterBlocks; /* the emulator's own; 0: 1 */
};

namespace emu
{

cudaError_t set_function(const void *function, cudaFuncAttribute attribute,
                         int value);
cudaError_t launch(const cudaLaunchConfig_t &config, const void *function,
                   std::function<void()> body);

} // namespace emu

template <typename F>
inline cudaError_t cudaFuncSetAttribute(F *function,
                                        cudaFuncAttribute attribute, int value)
{
    return emu::set_function(reinterpret_cast<const void *>(function),
                             attribute, value);
}

template <typename F>
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, F *)
{
    *attributes = {0, 1024, 0, 48 << 10};
    return cudaSuccess;
}

template <typename F>
inline cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, F *, int, size_t)
{
    *blocks = 1;
    return cudaSuccess;
}

/* Parameters are copied at the launch, and again for each thread. */
template <typename... Params>
inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config,
                                      void (*kernel)(Params...),
                                      std::common_type_t<Params>... params)
{
    return emu::launch(*config, reinterpret_cast<const void *>(kernel),
                       [=]() { kernel(params...); });
}

#endif
#endif
