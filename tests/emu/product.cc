/* Products of matrices: mma.sync, WGMMA, ldmatrix and stmatrix. An element's sum
 * of 16 products runs in one order wherever it stands. */
#include "emu_internal.h"

namespace emu {

typedef float Four __attribute__((vector_size(16)));

static inline float dot(const float *a, const float *b)
{
    Four x[4], y[4];
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    Four sum = (x[0] * y[0] + x[1] * y[1]) + (x[2] * y[2] + x[3] * y[3]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static const float *all_halves()
{
    static float *all;
    if (!all) {
        float *made = new float[65536];
        for (int i = 0; i < 65536; i++)
            made[i] = widen_f16((uint16_t)i);
        all = made;
    }
    return all;
}

static inline void widen(float *out, const uint16_t *in, int count, bool is_half)
{
    if (is_half) {
        const float *half = all_halves();
        for (int i = 0; i < count; i++)
            out[i] = half[in[i]];
    } else {
        for (int i = 0; i < count; i++)
            out[i] = widen_bf16(in[i]);
    }
}

struct Operands {
    float *d;
    uint32_t a[4], b[2];
};

static void check_whole(const Group &g)
{
    if (~g.arrived)
        die("%s by lanes %08x alone", g.name, g.arrived);
}

/* Of 16 x 16 and 8 x 16, see PTX: lane l has row l / 4, columns 2 (l % 4). */
static void multiply_warp(const Group &g, bool is_half)
{
    float a[16][16], b[8][16];
    check_whole(g);
    for (int lane = 0; lane < WARP; lane++) {
        const Operands &in = g.in<Operands>(lane);
        uint16_t pair[2];
        int row = lane / 4, column = lane % 4 * 2;
        for (int i = 0; i < 4; i++) {
            memcpy(pair, &in.a[i], 4);
            widen(&a[row + i % 2 * 8][column + i / 2 * 8], pair, 2, is_half);
        }
        for (int i = 0; i < 2; i++) {
            memcpy(pair, &in.b[i], 4);
            widen(&b[row][column + i * 8], pair, 2, is_half);
        }
    }
    for (int lane = 0; lane < WARP; lane++) {
        float *d = g.in<Operands>(lane).d;
        for (int i = 0; i < 4; i++)
            d[i] += dot(a[lane / 4 + i / 2 * 8], b[lane % 4 * 2 + i % 2]);
    }
}

void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool is_half)
{
    const Operands in = {d, {a[0], a[1], a[2], a[3]}, {b0, b1}};
    gather<int>(is_half ? "mma.sync f16" : "mma.sync bf16", 0xffffffffu, in,
                [is_half](const Group &g) { multiply_warp(g, is_half); });
}

/* ---- 8 x 8 blocks ---- */

struct Four32 {
    uint32_t v[4];
};

void load_matrices(uint32_t address, uint32_t (&v)[4], bool is_turned)
{
    const uint8_t *row = shared_pointer(address, 16, "ldmatrix");
    Four32 out = gather<Four32>("ldmatrix", 0xffffffffu, row, [is_turned](const Group &g) {
        check_whole(g);
        for (int lane = 0; lane < WARP; lane++)
            for (int block = 0; block < 4; block++) {
                uint16_t pair[2];
                for (int e = 0; e < 2; e++) {
                    int r = lane / 4, c = lane % 4 * 2 + e;
                    const uint8_t *from = g.in<const uint8_t *>(block * 8 + (is_turned ? c : r));
                    memcpy(&pair[e], from + (is_turned ? r : c) * 2, 2);
                }
                memcpy(&g.out<Four32>(lane).v[block], pair, 4);
            }
    });
    memcpy(v, out.v, sizeof out.v);
}

struct Stored {
    uint8_t *row;
    uint32_t v[4];
};

void store_matrices(uint32_t address, const uint32_t (&v)[4])
{
    const Stored in = {shared_pointer(address, 16, "stmatrix"), {v[0], v[1], v[2], v[3]}};
    gather<int>("stmatrix", 0xffffffffu, in, [](const Group &g) {
        check_whole(g);
        for (int lane = 0; lane < WARP; lane++)
            for (int block = 0; block < 4; block++)
                memcpy(g.in<Stored>(block * 8 + lane / 4).row + lane % 4 * 4,
                       &g.in<Stored>(lane).v[block], 4);
    });
}

/* ---- WGMMA: a thread's own part, when it waits for it ---- */

/* 16 values of a row of a tile under the 128-byte swizzle. */
static void load_row(float *out, uint64_t descriptor, int row, bool is_half)
{
    uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4;
    uint32_t apart = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    uint32_t at = start + (uint32_t)row / 8 * apart + (uint32_t)row % 8 * 128;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t chunk = at + 16 * i;
        chunk ^= (chunk >> 7 & 7) << 4;
        uint16_t in[8];
        memcpy(in, shared_pointer(chunk, 16, "wgmma"), sizeof in);
        widen(out + 8 * i, in, 8, is_half);
    }
}

/* 16 values of a column of a tile that lies turned: its rows run along K. */
static void load_turned(float *out, uint64_t descriptor, int column, bool is_half)
{
    uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4;
    uint32_t next = (uint32_t)(descriptor >> 16 & 0x3fff) << 4;
    uint32_t apart = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    for (uint32_t k = 0; k < 16; k++) {
        uint32_t at = start + (uint32_t)column / 64 * next + k / 8 * apart + k % 8 * 128 +
                      (uint32_t)column % 64 * 2;
        at ^= (at >> 7 & 7) << 4;
        uint16_t in;
        memcpy(&in, shared_pointer(at, 2, "wgmma"), sizeof in);
        widen(out + k, &in, 1, is_half);
    }
}

static void load_left(float (&a)[2][16], const Product &p)
{
    int thread = self->number % 128;
    if (p.has_rows && memcmp(p.held, p.pair, sizeof p.pair) != 0)
        die("a wgmma's operand in registers changed before it was waited for");
    for (int i = 0; i < 2; i++)
        if (p.has_rows)
            widen(a[i], p.rows[i], 16, p.is_half);
        else
            load_row(a[i], p.a, thread / WARP * 16 + thread % WARP / 4 + 8 * i, p.is_half);
}

static void happen(const Product &p)
{
    int lane = self->number % WARP;
    float a[2][16], b[16];
    load_left(a, p);
    for (int j = 0; j < p.columns / 8; j++)
        for (int e = 0; e < 2; e++) {
            (p.is_turned ? load_turned : load_row)(b, p.b, 8 * j + lane % 4 * 2 + e, p.is_half);
            for (int i = 0; i < 2; i++) {
                float &d = p.d[4 * j + 2 * i + e];
                d = (p.adds ? d : 0) + dot(a[i], b);
            }
        }
}

static void put_off(const Product &product)
{
    if ((!product.has_rows && product.a >> 62 != 1) || product.b >> 62 != 1)
        die("wgmma without the 128-byte swizzle");
    self->products.push_back(product);
}

void wgmma(float *d, uint64_t a, uint64_t b, int columns, bool adds, bool is_half)
{
    put_off({d, a, b, columns, adds, is_half, false, false, {}, nullptr, {}});
}

/* A row's pairs are those of four lanes. */
void wgmma_rows(float *d, const uint32_t (&a)[4], uint64_t b, int columns, bool adds,
                bool is_half, bool is_turned)
{
    struct Pairs {
        uint32_t v[4];
    } in;
    struct Rows {
        uint16_t v[2][16];
    };
    memcpy(in.v, a, sizeof in.v);
    const Rows rows = gather<Rows>("wgmma", 0xffffffffu, in, [](const Group &g) {
        check_whole(g);
        for (int lane = 0; lane < WARP; lane++)
            for (int from = 0; from < 4; from++)
                for (int i = 0; i < 4; i++)
                    memcpy(&g.out<Rows>(lane).v[i % 2][i / 2 * 8 + from * 2],
                           &g.in<Pairs>(lane / 4 * 4 + from).v[i], 4);
    });
    Product product = {d, 0, b, columns, adds, is_half, true, is_turned, {}, a, {}};
    memcpy(product.rows, rows.v, sizeof product.rows);
    memcpy(product.pair, in.v, sizeof product.pair);
    put_off(product);
}

void wgmma_commit()
{
    self->products.push_back({});
}

void wgmma_wait(int groups)
{
    std::vector<Product> &all = self->products;
    size_t end = all.size(), done = 0;
    for (; end > 0; end--)
        if (all[end - 1].columns == 0 && groups-- == 0)
            break;
    for (; done < end; done++)
        if (all[done].columns)
            happen(all[done]);
    all.erase(all.begin(), all.begin() + (ptrdiff_t)end);
    sync_warpgroup();
}

} // namespace emu
