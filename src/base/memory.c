/* Checked allocation with injectable failure. */
#include <config.h>

#include "base/memory.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Allocations left before the injected failure; negative: off. Only tests
 * write it, before they start threads. */
static int64_t allocations_left = -1;

void tw_alloc_fail_after(int64_t count)
{
    allocations_left = count;
}

static _Atomic uint64_t bytes_asked;

uint64_t tw_alloc_total(void)
{
    return bytes_asked;
}

/* Of the largest request, once a test has asked; as above. */
static size_t largest_bytes;
static int is_measured;

size_t tw_alloc_largest(void)
{
    size_t bytes = largest_bytes;
    largest_bytes = 0;
    is_measured = 1;
    return bytes;
}

static int is_refused(size_t bytes)
{
    if (is_measured && bytes > largest_bytes)
        largest_bytes = bytes;
    if (allocations_left < 0)
        return 0;
    if (allocations_left == 0)
        return 1;
    allocations_left--;
    return 0;
}

static int multiply(size_t count, size_t size, size_t *bytes)
{
    if (__builtin_mul_overflow(count, size, bytes))
        return -1;
    if (*bytes == 0)
        *bytes = 1;
    atomic_fetch_add_explicit(&bytes_asked, *bytes, memory_order_relaxed);
    return 0;
}

void *tw_alloc(size_t count, size_t size)
{
    size_t bytes;
    if (multiply(count, size, &bytes) || is_refused(bytes))
        return NULL;
    return malloc(bytes);
}

void *tw_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (multiply(count, size, &bytes) || is_refused(bytes))
        return NULL;
    return calloc(1, bytes);
}

void *tw_alloc_aligned(size_t count, size_t size)
{
    size_t bytes;
    if (multiply(count, size, &bytes) || bytes > SIZE_MAX - 64 ||
        is_refused(bytes))
        return NULL;
    return aligned_alloc(64, (bytes + 63) & ~(size_t)63);
}

void *tw_realloc(void *pointer, size_t count, size_t size)
{
    size_t bytes;
    if (multiply(count, size, &bytes) || is_refused(bytes))
        return NULL;
    return realloc(pointer, bytes);
}

int tw_grow(void **array, size_t *capacity, size_t needed, size_t size)
{
    if (needed <= *capacity)
        return 0;
    size_t wanted = *capacity ? *capacity : 16;
    while (wanted < needed) {
        if (wanted > SIZE_MAX / 2)
            return -1;
        wanted *= 2;
    }
    void *grown = tw_realloc(*array, wanted, size);
    if (!grown)
        return -1;
    *array = grown;
    *capacity = wanted;
    return 0;
}

char *tw_strndup(const char *text, size_t length)
{
    if (length == SIZE_MAX)
        return NULL;
    char *copy = tw_alloc(length + 1, 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *tw_strdup(const char *text)
{
    return tw_strndup(text, strlen(text));
}

void tw_free(void *pointer)
{
    free(pointer);
}

int64_t tw_memory_available(void)
{
    char text[2048];
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *line = strstr(text, "MemAvailable:");
    if (!line)
        return 0;
    long long kib = strtoll(line + strlen("MemAvailable:"), NULL, 10);
    return kib > 0 && kib < INT64_MAX / 1024 ? (int64_t)kib * 1024 : 0;
}
