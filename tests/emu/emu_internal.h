/* What the emulator's own files share. */
#ifndef TESTS_EMU_INTERNAL_H
#define TESTS_EMU_INTERNAL_H

#include <functional>
#include <pthread.h>
#include <string.h>
#include <vector>

#include "cuda_runtime.h"

namespace emu
{

struct Named {
    int expected, arrived;
};

struct Cluster;

struct Block {
    Cluster *cluster;
    uint3 index;
    int rank, threads, live;
    Fiber *fibers;
    Warp warp[MAX_THREADS / WARP];
    uint32_t ready; /* warps that have a ready lane */
    Context main;
    /* __syncthreads */
    int synced, says, said;
    Named named[NAMED], group[MAX_THREADS / 128];
    /* dynamic shared memory */
    uint8_t *shared;
    uint32_t shared_bytes,
        shared_from; /* from: of its first byte, by its alignment */
    bool has_from;
};

/* A TMA load that hasn't happened. */
struct Load {
    CUtensorMap map;
    uint32_t to, barrier, mask;
    int column, row;
};

struct Cluster {
    Block *block;
    int blocks, synced;
    std::vector<Load> loads;
    size_t loaded; /* of them are done */
};

/* ---- fiber.cc ---- */

/* First thing on a context that `prepare` made. */
void enter();
void jump(Context &from, Context &to, bool is_end);
/* A context that begins with `entry`, on the stack of that number. */
void prepare(Context &context, int number, void (*entry)());
/* Of the host thread. */
void take_thread(Context &context);
/* f on host thread `number`; 0 is the caller's. Returns when it's done. */
void on_thread(int number, void (*f)(void *), void *argument);

/* ---- block.cc ---- */

void run_grid(const cudaLaunchConfig_t &config,
              const std::function<void()> &body);
/* Until it is woken. */
void wait(const char *why, const void *on, uint32_t detail);
void wake(Block &block, const void *on);

/* ---- async.cc ---- */

/* Something that was put off happens; false: there is nothing. */
bool proceed(Cluster &cluster);
void finish_copies(Fiber &fiber);

/* ---- settings ---- */

/* Next number of TW_EMU_ORDER's sequence; 0 where that isn't set. */
uint32_t any(uint32_t below);
bool is_ordered(); /* it isn't set */
uint32_t order();  /* the number itself */
long setting(const char *name, long otherwise);

/* The device's own lock: host threads that call the runtime. */
struct Lock {
    Lock();
    ~Lock();
};

} // namespace emu

#endif
