/* Device memory is the host's: between two bands that must stay as they are, and
 * overwritten once it's free. Under AddressSanitizer that sees to both. */
#include "runtime_internal.h"

#include <map>
#include <stdlib.h>

namespace emu {

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t BAND = 0;
#else
constexpr size_t BAND = 256;
#endif
constexpr size_t ALIGN = 256;
constexpr int IN_BAND = 0xbd, FRESH = 0xff, FREED = 0xdf;

struct Memory {
    std::map<const void *, size_t> device, pinned;
    size_t used = 0;
};

static Memory &all()
{
    static Memory memory;
    return memory;
}

static size_t total()
{
    return (size_t)setting("TW_EMU_MEMORY", 4l << 30);
}

cudaError_t emu_alloc(void **memory, size_t bytes)
{
    Lock lock;
    if (bytes == 0) {
        *memory = nullptr;
        return cudaSuccess;
    }
    void *got = nullptr;
    if (bytes > total() - all().used ||
        posix_memalign(&got, ALIGN, bytes + 2 * BAND) != 0)
        return failed(cudaErrorMemoryAllocation);
    uint8_t *start = static_cast<uint8_t *>(got) + BAND;
    memset(start - BAND, IN_BAND, BAND);
    memset(start + bytes, IN_BAND, BAND);
    memset(start, FRESH, bytes);
    all().device[start] = bytes;
    all().used += bytes;
    *memory = start;
    return cudaSuccess;
}

static void check_band(const uint8_t *band, const void *of, const char *where)
{
    for (size_t i = 0; i < BAND; i++)
        if (band[i] != IN_BAND)
            die("byte %zu %s device memory %p is written", i, where, of);
}

bool is_pinned(const void *memory)
{
    Lock lock;
    auto at = all().pinned.upper_bound(memory);
    if (at == all().pinned.begin())
        return false;
    --at;
    return memory < static_cast<const uint8_t *>(at->first) + at->second;
}

} // namespace emu

using namespace emu;

cudaError_t emu_malloc(void **memory, size_t bytes)
{
    return emu_alloc(memory, bytes);
}

cudaError_t emu_malloc_host(void **memory, size_t bytes)
{
    Lock lock;
    void *got = nullptr;
    if (posix_memalign(&got, 4096, bytes ? bytes : 1) != 0)
        return failed(cudaErrorMemoryAllocation);
    all().pinned[got] = bytes;
    *memory = got;
    return cudaSuccess;
}

extern "C" {

/* What C calls. */
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    return emu_alloc(memory, bytes);
}
cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return emu_malloc_host(memory, bytes);
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned)
{
    return emu_malloc_host(memory, bytes);
}

cudaError_t cudaFree(void *memory)
{
    Lock lock;
    if (!memory)
        return cudaSuccess;
    finish_all();
    auto at = all().device.find(memory);
    if (at == all().device.end())
        return failed(cudaErrorInvalidValue);
    uint8_t *start = static_cast<uint8_t *>(memory);
    size_t bytes = at->second;
    check_band(start - BAND, memory, "before");
    check_band(start + bytes, memory, "behind");
    memset(start, FREED, bytes);
    all().used -= bytes;
    all().device.erase(at);
    free(start - BAND);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    Lock lock;
    if (!memory)
        return cudaSuccess;
    finish_all();
    if (all().pinned.erase(memory) == 0)
        return failed(cudaErrorInvalidValue);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *whole)
{
    Lock lock;
    if (free)
        *free = total() - all().used;
    if (whole)
        *whole = total();
    return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    cudaError_t error = cudaMemsetAsync(to, value, bytes, nullptr);
    finish(nullptr);
    return error;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return enqueue(stream, [=]() { memset(to, value, bytes); });
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind)
{
    Lock lock;
    finish(nullptr);
    memcpy(to, from, bytes);
    return cudaSuccess;
}

/* From pageable memory the bytes are read at once, into it the host waits. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    Lock lock;
    if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) {
        const uint8_t *read = static_cast<const uint8_t *>(from);
        std::vector<uint8_t> staged(read, read + bytes);
        return enqueue(stream, [=]() { memcpy(to, staged.data(), bytes); });
    }
    cudaError_t error = enqueue(stream, [=]() { memmove(to, from, bytes); });
    if (error == cudaSuccess && kind == cudaMemcpyDeviceToHost && !is_pinned(to))
        finish(stream);
    return error;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    for (size_t row = 0; row < height; row++) {
        cudaError_t error =
            cudaMemcpyAsync(static_cast<uint8_t *>(to) + row * to_pitch,
                            static_cast<const uint8_t *>(from) + row * from_pitch, width, kind,
                            stream);
        if (error != cudaSuccess)
            return error;
    }
    return cudaSuccess;
}

} // extern "C"
