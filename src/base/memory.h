/* Checked allocation: the only callers of malloc in the program. Sizes are
 * count * size with the product checked; a test can make the n-th fail. */
#ifndef TW_BASE_MEMORY_H
#define TW_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Uninitialised memory for count items of size bytes. NULL if it cannot be
 * had or the product overflows; count or size 0 gives a valid pointer. Free
 * with tw_free. */
void *tw_alloc(size_t count, size_t size);

/* As tw_alloc, zeroed; untouched pages cost nothing. */
void *tw_calloc(size_t count, size_t size);

/* As tw_alloc, aligned to 64 bytes (cache line, widest vector). */
void *tw_alloc_aligned(size_t count, size_t size);

/* Grows or shrinks; NULL leaves pointer as it was. */
void *tw_realloc(void *pointer, size_t count, size_t size);

/* Room for `needed` items in a growing array: doubles *capacity. Returns 0,
 * or -1 with *array and *capacity unchanged. */
int tw_grow(void **array, size_t *capacity, size_t needed, size_t size);

char *tw_strdup(const char *text);
char *tw_strndup(const char *text, size_t length);

/* Frees any of the above; NULL is allowed. */
void tw_free(void *pointer);

/* Bytes that the machine could still give without swapping, clean pages of
 * files included ("MemAvailable" of /proc/meminfo); 0 where that isn't known. */
int64_t tw_memory_available(void);

/* Tests only: the allocation after `count` more fails (and all later ones);
 * a negative count switches the failure off. Process-wide. */
void tw_alloc_fail_after(int64_t count);
/* Tests only: bytes of the largest request since the last call (the first one
 * starts the watch). Process-wide. */
size_t tw_alloc_largest(void);

/* Tests only: bytes asked for so far, by all threads, freed or not: what a
 * reader of a hostile file asks for is bounded by the file's size. */
uint64_t tw_alloc_total(void);

#ifdef __cplusplus
}
#endif
#endif
