/* The emulated device, as kernels see it. A thread is a fiber; blocks run one
 * after the other, those of a cluster by turns, each on a host thread of its
 * own (which its static shared memory is local to). One fiber runs at a time,
 * until it waits or ends. See README.md. */
#ifndef TESTS_EMU_H
#define TESTS_EMU_H

#include <stddef.h>
#include <stdint.h>
#include <vector>

#include "cuda.h"
#include "emu_types.h"

extern uint3 blockIdx; /* of the running block */
extern dim3 blockDim, gridDim;

namespace emu
{

constexpr int WARP = 32, MAX_THREADS = 1024, NAMED = 16, CLUSTER_BLOCKS = 8;
constexpr uint32_t SHARED_BASE = 0x400; /* of dynamic shared memory */

struct Block;
struct Warp;
struct Barrier; /* an mbarrier's 8 bytes */

/* What a fiber's copies wait in: asynchronous work of one thread, in order. */
struct Copy {
    enum Kind { BYTES, COMMIT, ARRIVE } kind;
    uint8_t *to; /* or the barrier */
    const void *from;
    uint32_t bytes, read; /* what isn't read is zeros */
};

/* A WGMMA of one thread that hasn't happened; columns 0: a commit. */
struct Product {
    float *d;
    uint64_t a, b;
    int columns;
    bool adds, is_half, has_rows, is_turned;
    uint16_t rows[2][16]; /* has_rows: a's, of this thread's rows, */
    const uint32_t *held; /* whose registers still hold */
    uint32_t pair[4];     /* these */
};

struct Context {
    void *sp;
    void *fake; /* AddressSanitizer's */
    const void *bottom;
    size_t size;
};

struct Fiber {
    Context context;
    uint3 thread;
    int number, lane;
    Block *block;
    Warp *warp;
    const char *why;      /* it waits, for the report */
    const void *waits_on; /* NULL: for its warp, or not at all */
    uint32_t detail;
    const void *in; /* of a warp's operation */
    void *out;
    std::vector<Copy> copies;
    size_t copied; /* of them are done */
    std::vector<Product> products;
    bool is_alone; /* it moved boxes since its warp was last together */
};

/* Lanes that wait for each other in one operation. */
struct Group {
    const char *name;
    uint32_t mask, arrived;
    void (*compute)(const Group &, void *);
    void *how;
    Warp *warp;
    bool has(int lane) const
    {
        return arrived >> lane & 1;
    }
    template <typename T> const T &in(int lane) const;
    template <typename T> T &out(int lane) const;
};

struct Warp {
    Fiber *first;
    uint32_t exists, ready;
    Group group[WARP];
    int groups;
};

template <typename T> const T &Group::in(int lane) const
{
    return *static_cast<const T *>(warp->first[lane].in);
}
template <typename T> T &Group::out(int lane) const
{
    return *static_cast<T *>(warp->first[lane].out);
}

extern Fiber *self;

[[noreturn]] void die(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* ---- waiting ---- */

/* This lane arrives; compute runs once all of the mask that haven't ended have.
 */
void meet(const char *name, uint32_t mask,
          void (*compute)(const Group &, void *), void *how);

/* The lanes' `in` to their `out` by f(group), which sees all of them. */
template <typename Out, typename In, typename F>
inline Out gather(const char *name, uint32_t mask, const In &in, F f)
{
    Out out{};
    self->in = &in;
    self->out = &out;
    meet(
        name, mask,
        [](const Group &g, void *how) { (*static_cast<F *>(how))(g); }, &f);
    return out;
}

void sync_warp(uint32_t mask);
/* The 128 threads of this warpgroup. */
void sync_warpgroup();
/* All threads of the block; returns how many said so. */
int sync_block(bool says);
void sync_named(int id, int threads);
void arrive_named(int id, int threads);
void sync_cluster();
uint32_t rank_in_cluster();

/* ---- shared memory ---- */

void *dynamic_shared(size_t align);
uint32_t shared_address(const void *pointer);
/* Of this block; dies where it isn't aligned or not the block's. */
uint8_t *shared_pointer(uint32_t address, uint32_t bytes, const char *what);

template <typename T> inline T load_shared(uint32_t address, const char *what)
{
    return *reinterpret_cast<T *>(shared_pointer(address, sizeof(T), what));
}
template <typename T>
inline void store_shared(uint32_t address, const T &v, const char *what)
{
    *reinterpret_cast<T *>(shared_pointer(address, sizeof(T), what)) = v;
}

inline void check_aligned(const void *pointer, size_t align, const char *what)
{
    if (reinterpret_cast<uintptr_t>(pointer) % align)
        die("%s at %p, not aligned to %zu bytes", what, pointer, align);
}

/* ---- mbarriers, asynchronous copies ---- */

void barrier_init(uint32_t barrier, uint32_t count);
void barrier_expect(uint32_t barrier, uint32_t bytes);
void barrier_arrive(uint32_t barrier);
void barrier_arrive_at(uint32_t barrier, uint32_t rank);
bool barrier_is_over(uint32_t barrier, uint32_t parity);
void barrier_wait(uint32_t barrier, uint32_t parity);

/* 16, 8 or 4 bytes to shared memory, of which `read` are read. */
void copy_async(uint32_t to, const void *from, uint32_t bytes, uint32_t read);
void copy_commit();
void copy_wait(int groups);
void copy_arrive(uint32_t barrier);

/* mask: the blocks of the cluster, or 0: this one. */
void tma_load(uint32_t to, const CUtensorMap *map, uint32_t barrier, int column,
              int row, uint32_t mask);
void tma_store(const CUtensorMap *map, uint32_t from, int column, int row);
void tma_stores_read();

/* ---- matrix products ---- */

/* d[16][8] += a b^T of a warp, see mma.cuh; is_half: fp16, not bf16. */
void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
              bool is_half);
void load_matrices(uint32_t address, uint32_t (&v)[4], bool is_turned);
void store_matrices(uint32_t address, const uint32_t (&v)[4]);
void wgmma(float *d, uint64_t a, uint64_t b, int columns, bool adds,
           bool is_half);
/* The left operand's fragments in registers; is_turned: b is [16][columns]. */
void wgmma_rows(float *d, const uint32_t (&a)[4], uint64_t b, int columns,
                bool adds, bool is_half, bool is_turned);
void wgmma_commit();
void wgmma_wait(int groups);

uint64_t nanoseconds();

} // namespace emu

#endif
