/* Blocks: their threads run until each waits; who wakes whom; what waits for ever
 * is reported. */
#include "emu_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint3 blockIdx;
dim3 blockDim, gridDim;

namespace emu {

Fiber *self;

static const std::function<void()> *the_body;
static thread_local char anchor; /* static shared memory is near it */

static void say_where(FILE *to, const Fiber &f)
{
    const uint3 &b = f.block->index;
    fprintf(to, "block (%u,%u,%u) thread (%u,%u,%u)", b.x, b.y, b.z, f.thread.x, f.thread.y,
            f.thread.z);
}

void die(const char *format, ...)
{
    va_list args;
    fprintf(stderr, "emulated device: ");
    if (self) {
        say_where(stderr, *self);
        fprintf(stderr, ": ");
    }
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    abort();
}

/* ---- settings ---- */

long setting(const char *name, long otherwise)
{
    const char *value = getenv(name);
    return value && *value ? strtol(value, nullptr, 10) : otherwise;
}

uint32_t order()
{
    static const uint32_t value = (uint32_t)setting("TW_EMU_ORDER", 0);
    return value;
}

bool is_ordered()
{
    return order() == 0;
}

uint32_t any(uint32_t below)
{
    static uint32_t state = order();
    if (order() == 0)
        return 0;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % below;
}

/* ---- who runs ---- */

/* One of the bits; the lowest, or any. */
static int choose(uint32_t bits)
{
    uint32_t by = any(32), turned = by ? bits >> by | bits << (32 - by) : bits;
    return (int)((__builtin_ctz(turned) + by) % 32);
}

static Fiber *next(Block &block)
{
    Warp *warp = self ? self->warp : nullptr;
    if (!block.ready)
        return nullptr;
    if (!warp || !warp->ready || (!is_ordered() && any(8) == 0))
        warp = &block.warp[choose(block.ready)];
    return warp->first + choose(warp->ready);
}

static void set_ready(Fiber &fiber)
{
    fiber.warp->ready |= 1u << fiber.lane;
    fiber.block->ready |= 1u << (fiber.number / WARP);
}

static void clear_ready(Fiber &fiber)
{
    fiber.warp->ready &= ~(1u << fiber.lane);
    if (!fiber.warp->ready)
        fiber.block->ready &= ~(1u << (fiber.number / WARP));
}

/* To another thread of the block, or to who runs it. */
static void leave(bool is_end)
{
    Fiber *old = self, *to = next(*old->block);
    if (to == old)
        return;
    self = to;
    jump(old->context, to ? to->context : old->block->main, is_end);
}

void wait(const char *why, const void *on, uint32_t detail)
{
    self->why = why;
    self->waits_on = on;
    self->detail = detail;
    clear_ready(*self);
    leave(false);
}

void wake(Block &block, const void *on)
{
    for (int i = 0; i < block.threads; i++)
        if (block.fibers[i].waits_on == on) {
            block.fibers[i].waits_on = nullptr;
            set_ready(block.fibers[i]);
        }
}

/* ---- warps ---- */

/* All that haven't ended are there: their results, and on. */
static void complete(Warp &warp, Group &at)
{
    Group group = at;
    at = warp.group[--warp.groups];
    group.compute(group, group.how);
    for (int lane = 0; lane < WARP; lane++) {
        if (!group.has(lane))
            continue;
        warp.first[lane].is_alone = false;
        if (warp.first + lane != self)
            set_ready(warp.first[lane]);
    }
}

void meet(const char *name, uint32_t mask, void (*compute)(const Group &, void *), void *how)
{
    Warp &warp = *self->warp;
    int at = 0;
    if (!(mask >> self->lane & 1))
        die("%s with mask %08x from lane %d", name, mask, self->lane);
    while (at < warp.groups && (warp.group[at].name != name || warp.group[at].mask != mask))
        at++;
    Group &group = warp.group[at];
    if (at == warp.groups) {
        for (int i = 0; i < warp.groups; i++)
            if (warp.group[i].mask & mask & 1u << self->lane &&
                (warp.group[i].mask & warp.exists) == (mask & warp.exists))
                die("%s while other lanes of its mask wait in %s", name, warp.group[i].name);
        group = {name, mask, 0, nullptr, nullptr, &warp};
        warp.groups++;
    }
    group.arrived |= 1u << self->lane;
    group.compute = compute;
    group.how = how;
    if (group.arrived == (mask & warp.exists))
        complete(warp, group);
    else
        wait(name, nullptr, mask);
}

void sync_warp(uint32_t mask)
{
    meet("__syncwarp", mask, [](const Group &, void *) {}, nullptr);
}

/* ---- barriers of the block and the cluster ---- */

static void release_block(Block &block)
{
    block.said = block.says;
    block.synced = block.says = 0;
    wake(block, &block.synced);
}

int sync_block(bool says)
{
    Block &block = *self->block;
    block.says += says;
    if (++block.synced == block.live)
        release_block(block);
    else
        wait("__syncthreads", &block.synced, 0);
    return block.said;
}

static bool arrives(Named &barrier, int id, int threads)
{
    if (id < 0 || id >= NAMED || threads % WARP || threads <= 0)
        die("barrier %d of %d threads", id, threads);
    if (barrier.arrived && barrier.expected != threads)
        die("barrier %d of %d threads, where others say %d", id, threads, barrier.expected);
    barrier.expected = threads;
    if (++barrier.arrived < threads)
        return false;
    barrier.arrived = 0;
    wake(*self->block, &barrier);
    return true;
}

/* A warp comes to a barrier as a whole. */
static void check_together(int id)
{
    if (self->is_alone)
        die("thread %d comes to barrier %d without its warp, since it moved boxes",
            self->number, id);
}

void sync_named(int id, int threads)
{
    check_together(id);
    Named &barrier = self->block->named[id & (NAMED - 1)];
    if (!arrives(barrier, id, threads))
        wait("barrier", &barrier, (uint32_t)id);
}

void arrive_named(int id, int threads)
{
    check_together(id);
    arrives(self->block->named[id & (NAMED - 1)], id, threads);
}

void sync_warpgroup()
{
    Named &group = self->block->group[self->number / 128];
    if (++group.arrived < 128)
        return wait("the warpgroup's products", &group, 0);
    group.arrived = 0;
    wake(*self->block, &group);
}

static int live_in(const Cluster &cluster)
{
    int live = 0;
    for (int i = 0; i < cluster.blocks; i++)
        live += cluster.block[i].live;
    return live;
}

static void release_cluster(Cluster &cluster)
{
    cluster.synced = 0;
    for (int i = 0; i < cluster.blocks; i++)
        wake(cluster.block[i], &cluster.synced);
}

void sync_cluster()
{
    Cluster &cluster = *self->block->cluster;
    if (++cluster.synced == live_in(cluster))
        release_cluster(cluster);
    else
        wait("the cluster's barrier", &cluster.synced, 0);
}

uint32_t rank_in_cluster()
{
    return (uint32_t)self->block->rank;
}

/* ---- shared memory ---- */

void *dynamic_shared(size_t align)
{
    Block &block = *self->block;
    if (!block.has_from) { // no better aligned than it says
        block.shared_from = align >= 1024 ? 0 : (uint32_t)align;
        block.has_from = true;
    }
    return block.shared + block.shared_from;
}

uint32_t shared_address(const void *pointer)
{
    const Block &block = *self->block;
    const uint8_t *at = static_cast<const uint8_t *>(pointer);
    if (at >= block.shared && at <= block.shared + block.shared_from + block.shared_bytes)
        return SHARED_BASE + (uint32_t)(at - block.shared);
    return 0x80000000u + (uint32_t)(int32_t)(at - reinterpret_cast<uint8_t *>(&anchor));
}

uint8_t *shared_pointer(uint32_t address, uint32_t bytes, const char *what)
{
    const Block &block = *self->block;
    if (address % bytes)
        die("%s of %u bytes at shared address 0x%x: not aligned", what, bytes, address);
    if (address >= 0x40000000u)
        return reinterpret_cast<uint8_t *>(&anchor) + (int32_t)(address - 0x80000000u);
    uint32_t at = address - SHARED_BASE;
    if (at < block.shared_from || at + bytes > block.shared_from + block.shared_bytes)
        die("%s of %u bytes at %d of %u bytes of shared memory", what, bytes,
            (int)(at - block.shared_from), block.shared_bytes);
    return block.shared + at;
}

/* ---- a thread's life ---- */

static void end_thread()
{
    Fiber &me = *self;
    Block &block = *me.block;
    Warp &warp = *me.warp;
    finish_copies(me);
    clear_ready(me);
    warp.exists &= ~(1u << me.lane);
    block.live--;
    me.why = nullptr;
    for (int i = 0; i < warp.groups; i++) // who ended isn't waited for
        if (warp.group[i].arrived == (warp.group[i].mask & warp.exists))
            complete(warp, warp.group[i--]);
    if (block.live && block.synced == block.live)
        release_block(block);
    if (block.cluster->synced && block.cluster->synced == live_in(*block.cluster))
        release_cluster(*block.cluster);
    leave(true);
}

static void live()
{
    enter();
    (*the_body)();
    end_thread();
}

/* ---- blocks ---- */

static void start_block(Block &block, const cudaLaunchConfig_t &config, uint32_t number)
{
    const dim3 &g = config.gridDim, &t = config.blockDim;
    block.index = {number % g.x, number / g.x % g.y, number / g.x / g.y};
    block.threads = block.live = (int)(t.x * t.y * t.z);
    block.ready = 0;
    block.synced = block.says = 0;
    block.has_from = false;
    block.shared_from = 0;
    memset(block.named, 0, sizeof block.named);
    memset(block.group, 0, sizeof block.group);
    memset(block.shared, 0xff, block.shared_bytes + 1024);
    for (int i = 0; i < block.threads; i++) {
        Fiber &f = block.fibers[i];
        unsigned n = (unsigned)i;
        prepare(f.context, block.rank * MAX_THREADS + i, live);
        f.thread = {n % t.x, n / t.x % t.y, n / t.x / t.y};
        f.number = i;
        f.lane = i % WARP;
        f.block = &block;
        f.warp = &block.warp[i / WARP];
        f.why = nullptr;
        f.waits_on = nullptr;
        f.copies.clear();
        f.copied = 0;
        f.products.clear();
        f.is_alone = false;
        if (f.lane == 0) {
            f.warp->first = &f;
            f.warp->exists = f.warp->ready = 0;
            f.warp->groups = 0;
        }
        f.warp->exists |= 1u << f.lane;
        set_ready(f);
    }
}

/* Until all of the block's threads wait or have ended. */
static void run_block(void *given)
{
    Block &block = *static_cast<Block *>(given);
    take_thread(block.main);
    blockIdx = block.index;
    self = nullptr;
    self = next(block);
    jump(block.main, self->context, false);
    self = nullptr;
}

[[noreturn]] static void report(const Cluster &cluster)
{
    fprintf(stderr, "emulated device: all threads wait\n");
    int lines = 0;
    for (int b = 0; b < cluster.blocks; b++)
        for (int i = 0; i < cluster.block[b].threads && lines < 40; i++) {
            const Fiber &f = cluster.block[b].fibers[i];
            const Fiber &last = cluster.block[b].fibers[i ? i - 1 : 0];
            if (!f.why || (i && last.why == f.why && last.detail == f.detail))
                continue;
            fprintf(stderr, "  ");
            say_where(stderr, f);
            fprintf(stderr, " and on: %s 0x%x\n", f.why, f.detail);
            lines++;
        }
    abort();
}

static void run_cluster(Cluster &cluster)
{
    while (live_in(cluster)) {
        bool has_run = false;
        for (int n = 0; n < cluster.blocks; n++) {
            Block &block = cluster.block[n];
            if (!block.ready)
                continue;
            on_thread(block.rank, run_block, &block);
            has_run = true;
        }
        if (!has_run && !proceed(cluster))
            report(cluster);
    }
    while (proceed(cluster)) {
    }
}

static Block *the_blocks()
{
    static Block *blocks;
    if (!blocks) {
        blocks = new Block[CLUSTER_BLOCKS]();
        for (int i = 0; i < CLUSTER_BLOCKS; i++) {
            blocks[i].rank = i;
            blocks[i].fibers = new Fiber[MAX_THREADS]();
        }
    }
    return blocks;
}

void run_grid(const cudaLaunchConfig_t &config, const std::function<void()> &body)
{
    const dim3 &g = config.gridDim;
    Cluster cluster = {};
    cluster.block = the_blocks();
    cluster.blocks = config.clusterBlocks ? (int)config.clusterBlocks : 1;
    uint32_t clusters = g.x * g.y * g.z / (uint32_t)cluster.blocks;
    std::vector<uint32_t> order(clusters);
    for (uint32_t i = 0; i < clusters; i++) {
        uint32_t other = any(i + 1);
        order[i] = i;
        if (!is_ordered()) {
            order[i] = order[other];
            order[other] = i;
        }
    }
    the_body = &body;
    gridDim = g;
    blockDim = config.blockDim;
    for (int i = 0; i < cluster.blocks; i++) {
        Block &block = cluster.block[i];
        block.cluster = &cluster;
        block.shared_bytes = (uint32_t)config.dynamicSmemBytes;
        block.shared = static_cast<uint8_t *>(aligned_alloc(
            1024, (block.shared_bytes + 1024 + 1023) / 1024 * 1024));
    }
    for (uint32_t number : order) {
        cluster.synced = 0;
        cluster.loads.clear();
        cluster.loaded = 0;
        for (int i = 0; i < cluster.blocks; i++)
            start_block(cluster.block[i], config, number * (uint32_t)cluster.blocks + (uint32_t)i);
        run_cluster(cluster);
    }
    for (int i = 0; i < cluster.blocks; i++)
        free(cluster.block[i].shared);
}

} // namespace emu
