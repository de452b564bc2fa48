/* mbarriers, cp.async and TMA. What is asynchronous happens as late as it can:
 * when it is waited for, or when all threads wait; with TW_EMU_ORDER sometimes or
 * always at once. */
#include "emu_internal.h"

#include <algorithm>

namespace emu {

/* As it stands in shared memory. A phase ends when nothing is pending and all
 * bytes have come. */
struct Barrier {
    uint64_t mark : 8, phase : 1, count : 15, pending : 15;
    int64_t bytes : 25;
};
static_assert(sizeof(Barrier) == 8, "an mbarrier");
constexpr uint64_t MARK = 0xa5;

static Barrier &barrier_at(uint32_t address)
{
    auto *barrier = reinterpret_cast<Barrier *>(shared_pointer(address, 8, "mbarrier"));
    if (barrier->mark != MARK)
        die("mbarrier at shared address 0x%x isn't initialised", address);
    return *barrier;
}

static void check_phase(Block &block, Barrier &barrier)
{
    if (barrier.pending || barrier.bytes)
        return;
    barrier.phase ^= 1;
    barrier.pending = barrier.count;
    wake(block, &barrier);
}

static void arrive(Block &block, Barrier &barrier)
{
    if (barrier.mark != MARK || barrier.pending == 0)
        die("one arrival too many at an mbarrier of %d", (int)barrier.count);
    barrier.pending--;
    check_phase(block, barrier);
}

void barrier_init(uint32_t address, uint32_t count)
{
    auto *barrier = reinterpret_cast<Barrier *>(shared_pointer(address, 8, "mbarrier"));
    if (count == 0 || count >= 1 << 15)
        die("mbarrier of %u arrivals", count);
    *barrier = Barrier{MARK, 0, count, count, 0};
}

void barrier_expect(uint32_t address, uint32_t bytes)
{
    Barrier &barrier = barrier_at(address);
    barrier.bytes += bytes;
    arrive(*self->block, barrier);
}

void barrier_arrive(uint32_t address)
{
    arrive(*self->block, barrier_at(address));
}

/* The same place in another block of the cluster. */
static uint8_t *place_in(Block &block, uint32_t address)
{
    if (!block.has_from) {
        block.has_from = true; // all blocks of a kernel alike
        block.shared_from = block.cluster->block[0].shared_from;
    }
    return block.shared + (address - SHARED_BASE);
}

void barrier_arrive_at(uint32_t address, uint32_t rank)
{
    Cluster &cluster = *self->block->cluster;
    if (rank >= (uint32_t)cluster.blocks)
        die("mbarrier of block %u of a cluster of %d", rank, cluster.blocks);
    shared_pointer(address, 8, "mbarrier");
    Block &block = cluster.block[rank];
    if (!block.live)
        die("mbarrier of block %u of the cluster, which has ended", rank);
    arrive(block, *reinterpret_cast<Barrier *>(place_in(block, address)));
}

bool barrier_is_over(uint32_t address, uint32_t parity)
{
    return barrier_at(address).phase != (parity & 1);
}

void barrier_wait(uint32_t address, uint32_t parity)
{
    Barrier &barrier = barrier_at(address);
    while (barrier.phase == (parity & 1))
        wait("mbarrier", &barrier, address);
}

/* ---- cp.async ---- */

static void happen(Fiber &fiber, const Copy &copy)
{
    if (copy.kind == Copy::BYTES) {
        memcpy(copy.to, copy.from, copy.read);
        memset(copy.to + copy.read, 0, copy.bytes - copy.read);
    } else if (copy.kind == Copy::ARRIVE) {
        arrive(*fiber.block, *reinterpret_cast<Barrier *>(copy.to));
    }
}

static void happen_until(Fiber &fiber, size_t end)
{
    while (fiber.copied < end) {
        const Copy copy = fiber.copies[fiber.copied++];
        happen(fiber, copy);
    }
    if (fiber.copied == fiber.copies.size()) {
        fiber.copies.clear();
        fiber.copied = 0;
    }
}

/* An even TW_EMU_ORDER: all at once; an odd one: now and then. */
static bool is_early()
{
    return !is_ordered() && (order() % 2 == 0 || any(8) == 1);
}

static void put_off(const Copy &copy)
{
    self->copies.push_back(copy);
    if (is_early())
        happen_until(*self, self->copies.size());
}

void finish_copies(Fiber &fiber)
{
    happen_until(fiber, fiber.copies.size());
}

void copy_async(uint32_t to, const void *from, uint32_t bytes, uint32_t read)
{
    if (read > bytes)
        die("cp.async reads %u of %u bytes", read, bytes);
    if (read)
        check_aligned(from, bytes, "cp.async's source");
    put_off({Copy::BYTES, shared_pointer(to, bytes, "cp.async"), from, bytes, read});
}

void copy_commit()
{
    put_off({Copy::COMMIT, nullptr, nullptr, 0, 0});
}

void copy_arrive(uint32_t address)
{
    put_off({Copy::ARRIVE, reinterpret_cast<uint8_t *>(&barrier_at(address)), nullptr, 0, 0});
}

void copy_wait(int groups)
{
    std::vector<Copy> &all = self->copies;
    size_t end = all.size();
    for (; end > self->copied; end--)
        if (all[end - 1].kind == Copy::COMMIT && groups-- == 0)
            break;
    happen_until(*self, end);
}

/* ---- TMA ---- */

struct Map { /* what a CUtensorMap holds here */
    uint64_t mark;
    const uint8_t *data;
    uint64_t cols, rows, pitch;
    uint32_t box_cols, box_rows, swizzle;
};
static_assert(sizeof(Map) <= sizeof(CUtensorMap), "a tensor map");
constexpr uint64_t MAP_MARK = 0x7465736f72206d70;

static void load_box(Cluster &cluster, const Load &load)
{
    Map map;
    memcpy(&map, &load.map, sizeof map);
    uint32_t row_bytes = map.box_cols * 2, box = row_bytes * map.box_rows;
    for (int b = 0; b < cluster.blocks; b++) {
        if (!(load.mask >> b & 1))
            continue;
        Block &block = cluster.block[b];
        if (!block.live)
            die("TMA into block %d of the cluster, which has ended", b);
        for (uint32_t r = 0; r < map.box_rows; r++)
            for (uint32_t c = 0; c < row_bytes; c += 16) {
                uint32_t at = load.to + r * row_bytes + c;
                if (map.swizzle)
                    at ^= (at >> 7 & 7) << 4;
                uint16_t *to = reinterpret_cast<uint16_t *>(place_in(block, at));
                int64_t row = load.row + (int64_t)r, col = load.column + (int64_t)c / 2;
                for (int i = 0; i < 8; i++, col++) {
                    bool is_in = row >= 0 && row < (int64_t)map.rows && col >= 0 &&
                                 col < (int64_t)map.cols;
                    to[i] = is_in ? *reinterpret_cast<const uint16_t *>(
                                        map.data + (uint64_t)row * map.pitch + (uint64_t)col * 2)
                                  : 0;
                }
            }
        Barrier &barrier = *reinterpret_cast<Barrier *>(place_in(block, load.barrier));
        if (barrier.mark != MARK)
            die("TMA's mbarrier in block %d isn't initialised", b);
        barrier.bytes -= box;
        check_phase(block, barrier);
    }
}

/* One thread's box at that shared address, by that map. */
static Map begin_box(const CUtensorMap *map, uint32_t address)
{
    Map m;
    self->is_alone = true;
    memcpy(&m, map, sizeof m);
    if (m.mark != MAP_MARK)
        die("TMA by what is no tensor map");
    check_aligned(map, 64, "a tensor map");
    if (address % (m.swizzle ? 1024 : 128))
        die("TMA at shared address 0x%x: not aligned", address);
    return m;
}

void tma_load(uint32_t to, const CUtensorMap *map, uint32_t barrier, int column, int row,
              uint32_t mask)
{
    Cluster &cluster = *self->block->cluster;
    Map m = begin_box(map, to);
    barrier_at(barrier);
    shared_pointer(to, 16, "TMA");
    shared_pointer(to + m.box_cols * 2 * m.box_rows - 16, 16, "TMA");
    cluster.loads.push_back(
        {*map, to, barrier, mask ? mask : 1u << self->block->rank, column, row});
    if (is_early())
        while (proceed(cluster)) {
        }
}

/* The other way, by chunks of a row, in this thread's copies. */
void tma_store(const CUtensorMap *map, uint32_t from, int column, int row)
{
    Map m = begin_box(map, from);
    for (uint32_t r = 0; r < m.box_rows; r++)
        for (uint32_t c = 0; c < m.box_cols; c += 8) {
            uint32_t at = from + (r * m.box_cols + c) * 2;
            if (m.swizzle)
                at ^= (at >> 7 & 7) << 4;
            int64_t to_row = row + (int64_t)r, to = column + (int64_t)c;
            if (to_row < 0 || to_row >= (int64_t)m.rows || to < 0 || to >= (int64_t)m.cols)
                continue;
            uint32_t bytes = 2 * (uint32_t)std::min<int64_t>(8, (int64_t)m.cols - to);
            uint8_t *out = const_cast<uint8_t *>(m.data) + (uint64_t)to_row * m.pitch + to * 2;
            put_off({Copy::BYTES, out, shared_pointer(at, 16, "TMA"), bytes, bytes});
        }
}

void tma_stores_read()
{
    self->is_alone = true;
    copy_commit();
    copy_wait(0);
}

/* What the driver's function is. */
CUresult encode_tiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *data,
                      const cuuint64_t *size, const cuuint64_t *pitch, const cuuint32_t *box,
                      const cuuint32_t *step, CUtensorMapInterleave interleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
{
    bool is_good = rank == 2 && type != CU_TENSOR_MAP_DATA_TYPE_FLOAT32 &&
                   reinterpret_cast<uintptr_t>(data) % 16 == 0 && pitch[0] % 16 == 0 &&
                   pitch[0] >= size[0] * 2 && size[0] && size[1] && box[0] <= 256 &&
                   box[1] <= 256 && box[0] * 2 % 16 == 0 && step[0] == 1 && step[1] == 1 &&
                   interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
                   (swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ||
                    (swizzle == CU_TENSOR_MAP_SWIZZLE_128B && box[0] * 2 == 128));
    if (!is_good)
        return CUDA_ERROR_INVALID_VALUE;
    Map m = {MAP_MARK, static_cast<const uint8_t *>(data), size[0], size[1], pitch[0],
             box[0],   box[1], swizzle == CU_TENSOR_MAP_SWIZZLE_128B};
    memset(map, 0, sizeof *map);
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}

/* ---- all threads wait ---- */

/* The oldest load, or each thread's copies up to its next arrival. */
bool proceed(Cluster &cluster)
{
    if (cluster.loaded < cluster.loads.size()) {
        const Load load = cluster.loads[cluster.loaded++];
        if (cluster.loaded == cluster.loads.size()) {
            cluster.loads.clear();
            cluster.loaded = 0;
        }
        load_box(cluster, load);
        return true;
    }
    bool has_one = false;
    for (int b = 0; b < cluster.blocks; b++)
        for (int i = 0; i < cluster.block[b].threads; i++) {
            Fiber &fiber = cluster.block[b].fibers[i];
            size_t at = fiber.copied;
            while (at < fiber.copies.size() && fiber.copies[at].kind != Copy::ARRIVE)
                at++;
            if (at < fiber.copies.size()) {
                happen_until(fiber, at + 1);
                has_one = true;
            }
        }
    return has_one;
}

} // namespace emu
