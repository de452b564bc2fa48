/* Top-k and top-p of a row: the largest |h| first, ties to the lower number.
 * Keys (largest first, then number) are sorted by bytes: stable, and linear. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"

#include <math.h>
#include <string.h>

static float size_of(uint64_t key)
{
    uint32_t bits = ~(uint32_t)(key >> 32);
    float size;
    memcpy(&size, &bits, sizeof size);
    return size;
}

/* Keys of what isn't zero, numbers ascending. NaN is never larger than
 * anything, so it is never taken. */
static int64_t make_keys(uint64_t *key, const float *h, int64_t n)
{
    int64_t keys = 0;
    for (int64_t i = 0; i < n; i++) {
        float size = fabsf(h[i]);
        uint32_t bits;
        memcpy(&bits, &size, sizeof bits);
        key[keys] = (uint64_t)~bits << 32 | (uint32_t)i;
        keys += size > 0;
    }
    return keys;
}

/* Stable by the upper four bytes; the result is in key again. */
static void sort_keys(uint64_t *key, uint64_t *other, int64_t n)
{
    for (int shift = 32; shift < 64; shift += 8) {
        int64_t start[257] = {0};
        for (int64_t i = 0; i < n; i++)
            start[(key[i] >> shift & 0xff) + 1]++;
        for (int b = 0; b < 256; b++)
            start[b + 1] += start[b];
        for (int64_t i = 0; i < n; i++)
            other[start[key[i] >> shift & 0xff]++] = key[i];
        uint64_t *swap = key;
        key = other;
        other = swap;
    }
}

void twp_select_top(const struct tw_active *active, const float *h, int64_t n,
                    struct twp_work *work, uint64_t *bits)
{
    uint64_t *key = work->key;
    int64_t keys = make_keys(key, h, n);
    sort_keys(key, work->key2, keys);
    double most = active->arg, need = INFINITY, sum = 0;
    if (active->kind == TW_ACTIVE_TOPP) {
        most = INFINITY;
        for (int64_t i = 0; i < keys; i++)
            sum += (double)size_of(key[i]);
        need = active->arg * sum;
    }
    memset(bits, 0, (size_t)(n / 64) * sizeof *bits);
    sum = 0;
    for (int64_t i = 0; i < keys && (double)i < most && sum < need; i++) {
        uint32_t at = (uint32_t)key[i];
        bits[at / 64] |= UINT64_C(1) << (at % 64);
        sum += (double)size_of(key[i]);
    }
}
