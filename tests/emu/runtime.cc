/* Errors, devices, launches. */
#include "runtime_internal.h"

#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

namespace emu {

static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static cudaError_t last_error;

Lock::Lock()
{
    pthread_mutex_lock(&mutex);
}
Lock::~Lock()
{
    pthread_mutex_unlock(&mutex);
}

cudaError_t failed(cudaError_t error)
{
    Lock lock;
    last_error = error;
    return error;
}

uint64_t nanoseconds()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int capability()
{
    return (int)setting("TW_EMU_CAPABILITY", 90);
}

size_t most_shared()
{
    switch (capability()) {
    case 80:
    case 87:
        return 163 << 10;
    case 86:
    case 89:
    case 120:
        return 99 << 10;
    default:
        return 227 << 10;
    }
}

/* ---- launches ---- */

static std::map<const void *, size_t> &limits()
{
    static std::map<const void *, size_t> all;
    return all;
}

cudaError_t set_function(const void *function, cudaFuncAttribute attribute, int value)
{
    Lock lock;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value < 0 || (size_t)value > most_shared())
        return failed(cudaErrorInvalidValue);
    limits()[function] = (size_t)value;
    return cudaSuccess;
}

cudaError_t launch(const cudaLaunchConfig_t &given, const void *function,
                   std::function<void()> body)
{
    Lock lock;
    cudaLaunchConfig_t config = given;
    const dim3 &g = config.gridDim, &t = config.blockDim;
    uint64_t threads = (uint64_t)t.x * t.y * t.z;
    uint64_t blocks = (uint64_t)g.x * g.y * g.z;
    auto limit = limits().find(function);
    if (config.dynamicSmemBytes > (limit == limits().end() ? 48 << 10 : limit->second))
        return failed(cudaErrorInvalidValue);
    if (blocks == 0 || threads == 0 || threads > MAX_THREADS || g.y > 65535 || g.z > 65535 ||
        g.x > 0x7fffffff || config.clusterBlocks > CLUSTER_BLOCKS ||
        (config.clusterBlocks && g.x % config.clusterBlocks))
        return failed(cudaErrorInvalidConfiguration);
    config.attrs = nullptr;
    return enqueue(config.stream, [config, body]() { run_grid(config, body); });
}

CUresult encode_tiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *data,
                      const cuuint64_t *size, const cuuint64_t *pitch, const cuuint32_t *box,
                      const cuuint32_t *step, CUtensorMapInterleave interleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                      CUtensorMapFloatOOBfill fill);

} // namespace emu

using namespace emu;

extern "C" {

/* ---- errors ---- */

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
        return "cudaErrorInvalidConfiguration";
    case cudaErrorNoDevice:
        return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
        return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
        return "cudaErrorNotReady";
    default:
        return "an error";
    }
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorNotReady:
        return "device not ready";
    default:
        return cudaGetErrorName(error);
    }
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

cudaError_t cudaGetLastError(void)
{
    Lock lock;
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = (int)setting("TW_EMU_DEVICES", 1);
    return *count ? cudaSuccess : failed(cudaErrorNoDevice);
}

static bool is_device(int device)
{
    return device >= 0 && device < setting("TW_EMU_DEVICES", 1);
}

static int the_device;

cudaError_t cudaSetDevice(int device)
{
    if (!is_device(device))
        return failed(cudaErrorInvalidDevice);
    the_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = the_device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    if (!is_device(device))
        return failed(cudaErrorInvalidDevice);
    *p = {};
    snprintf(p->name, sizeof p->name, "emulated device");
    cudaMemGetInfo(nullptr, &p->totalGlobalMem);
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerBlockOptin = most_shared();
    p->sharedMemPerMultiprocessor = most_shared() + 1024;
    p->major = capability() / 10;
    p->minor = capability() % 10;
    p->multiProcessorCount = (int)setting("TW_EMU_MULTIPROCESSORS", 4);
    p->l2CacheSize = 50 << 20;
    p->warpSize = WARP;
    p->maxThreadsPerBlock = MAX_THREADS;
    p->regsPerMultiprocessor = 65536;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error != cudaSuccess)
        return error;
    switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)p.sharedMemPerBlock;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = p.multiProcessorCount;
        break;
    case cudaDevAttrL2CacheSize:
        *value = p.l2CacheSize;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = p.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = p.minor;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)p.sharedMemPerBlockOptin;
        break;
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int room, int device)
{
    if (!is_device(device))
        return failed(cudaErrorInvalidDevice);
    snprintf(id, (size_t)room, "0000:%02x:00.0", device);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    finish_all();
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned,
                                             unsigned long long,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    bool is_known = strcmp(name, "cuTensorMapEncodeTiled") == 0;
    *found = is_known ? reinterpret_cast<void *>(encode_tiled) : nullptr;
    if (result)
        *result = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

} // extern "C"
