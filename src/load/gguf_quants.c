/* Blocks to floats. Each value is computed in single precision and in the
 * order of the reference, with every product and sum rounded (no fused
 * multiply-add), so that all bits agree. */
#include <config.h>

#include "load/gguf_quants.h"

#include <stdio.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc: off by -std=c11 */
#endif

static float half_at(const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return tw_f16_to_f32(bits);
}

static uint32_t word_at(const uint8_t *at)
{
    uint32_t bits;
    memcpy(&bits, at, sizeof bits);
    return bits;
}

/* The simple types hold 32 values: value i in the low nibble of byte i, value
 * 16 + i in the high one; the fifth bits of Q5 in one word. */
static int nibble(const uint8_t *q, int i)
{
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

static void from_q4_0(const uint8_t *b, float *out)
{
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(nibble(b + 2, i) - 8);
}

static void from_q4_1(const uint8_t *b, float *out)
{
    float d = half_at(b), m = half_at(b + 2);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)nibble(b + 4, i) + m;
}

static void from_q5_0(const uint8_t *b, float *out)
{
    float d = half_at(b);
    uint32_t high = word_at(b + 2);
    for (int i = 0; i < 32; i++) {
        int fifth = (int)(high >> i & 1) << 4;
        out[i] = d * (float)((nibble(b + 6, i) | fifth) - 16);
    }
}

static void from_q5_1(const uint8_t *b, float *out)
{
    float d = half_at(b), m = half_at(b + 2);
    uint32_t high = word_at(b + 4);
    for (int i = 0; i < 32; i++) {
        int fifth = (int)(high >> i & 1) << 4;
        out[i] = d * (float)(nibble(b + 8, i) | fifth) + m;
    }
}

static void from_q8_0(const uint8_t *b, float *out)
{
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)b[2 + i] * d;
}

/* The K types hold 256 values in 16 groups of 16 or 8 of 32, each with a scale
 * of few bits. Two-bit parts: half n (128 values), then 4 shifts of 32. */
static void from_q2_k(const uint8_t *b, float *out)
{
    const uint8_t *scales = b, *q = b + 16;
    float d = half_at(b + 80), m = half_at(b + 82);
    for (int i = 0; i < 256; i++) {
        int n = i / 128, shift = i / 32 % 4 * 2, s = scales[i / 16];
        float dl = d * (float)(s & 15), ml = m * (float)(s >> 4);
        out[i] = dl * (float)(q[n * 32 + i % 32] >> shift & 3) - ml;
    }
}

/* Q3_K's 16 scales of 6 bits: low nibbles in 8 bytes, high pairs in 4. */
static int q3_scale(const uint8_t *s, int k)
{
    int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4;
    int high = s[8 + k % 4] >> k / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

static void from_q3_k(const uint8_t *b, float *out)
{
    const uint8_t *mask = b, *q = b + 32, *scales = b + 96;
    float d = half_at(b + 108);
    for (int i = 0; i < 256; i++) {
        int n = i / 128, shift = i / 32 % 4 * 2;
        int low = q[n * 32 + i % 32] >> shift & 3;
        int minus = mask[i % 32] >> i / 32 & 1 ? 0 : 4;
        float dl = d * (float)q3_scale(scales, i / 16);
        out[i] = dl * (float)(low - minus);
    }
}

/* Q4_K's and Q5_K's 8 scales and 8 minima of 6 bits in 12 bytes. */
static void q4_scale_min(const uint8_t *s, int k, int *scale, int *minimum)
{
    if (k < 4) {
        *scale = s[k] & 63;
        *minimum = s[k + 4] & 63;
    } else {
        *scale = (s[k + 4] & 15) | (s[k - 4] >> 2 & 0x30);
        *minimum = s[k + 4] >> 4 | (s[k] >> 2 & 0x30);
    }
}

/* high: Q5_K's fifth bits, or NULL. */
static void from_k45(const uint8_t *b, const uint8_t *high, const uint8_t *q,
                     float *out)
{
    float d = half_at(b), m = half_at(b + 2);
    for (int g = 0; g < 8; g++) {
        int scale, minimum;
        q4_scale_min(b + 4, g, &scale, &minimum);
        float dl = d * (float)scale, ml = m * (float)minimum;
        for (int i = 0; i < 32; i++) {
            int value = q[g / 2 * 32 + i] >> g % 2 * 4 & 15;
            if (high)
                value |= (high[i] >> g & 1) << 4;
            out[g * 32 + i] = dl * (float)value - ml;
        }
    }
}

static void from_q4_k(const uint8_t *b, float *out)
{
    from_k45(b, NULL, b + 16, out);
}

static void from_q5_k(const uint8_t *b, float *out)
{
    from_k45(b, b + 16, b + 48, out);
}

static void from_q6_k(const uint8_t *b, float *out)
{
    const uint8_t *low = b, *high = b + 128, *scales = b + 192;
    float d = half_at(b + 208);
    for (int i = 0; i < 256; i++) {
        int n = i / 128, g = i / 32 % 4;
        int value = low[n * 64 + g % 2 * 32 + i % 32] >> g / 2 * 4 & 15;
        value |= (high[n * 32 + i % 32] >> g * 2 & 3) << 4;
        float dl = d * (float)(int8_t)scales[i / 16];
        out[i] = dl * (float)(value - 32);
    }
}

static const struct tw_gguf_type types[] = {
    {0, "F32", 1, 4, NULL, TW_F32},
    {1, "F16", 1, 2, NULL, TW_F16},
    {30, "BF16", 1, 2, NULL, TW_BF16},
    {8, "Q8_0", 32, 34, from_q8_0, TW_F32},
    {2, "Q4_0", 32, 18, from_q4_0, TW_F32},
    {3, "Q4_1", 32, 20, from_q4_1, TW_F32},
    {6, "Q5_0", 32, 22, from_q5_0, TW_F32},
    {7, "Q5_1", 32, 24, from_q5_1, TW_F32},
    {10, "Q2_K", 256, 84, from_q2_k, TW_F32},
    {11, "Q3_K", 256, 110, from_q3_k, TW_F32},
    {12, "Q4_K", 256, 144, from_q4_k, TW_F32},
    {13, "Q5_K", 256, 176, from_q5_k, TW_F32},
    {14, "Q6_K", 256, 210, from_q6_k, TW_F32},
};
enum { TYPES = sizeof types / sizeof *types };

/* What ggml calls the others, for messages. */
static const char *const other_names[] = {
    [4] = "Q4_2",      [5] = "Q4_3",    [9] = "Q8_1",      [15] = "Q8_K",
    [16] = "IQ2_XXS",  [17] = "IQ2_XS", [18] = "IQ3_XXS",  [19] = "IQ1_S",
    [20] = "IQ4_NL",   [21] = "IQ3_S",  [22] = "IQ2_S",    [23] = "IQ4_XS",
    [24] = "I8",       [25] = "I16",    [26] = "I32",      [27] = "I64",
    [28] = "F64",      [29] = "IQ1_M",  [31] = "Q4_0_4_4", [32] = "Q4_0_4_8",
    [33] = "Q4_0_8_8", [34] = "TQ1_0",  [35] = "TQ2_0",    [39] = "MXFP4",
};

const struct tw_gguf_type *twp_gguf_type(uint32_t id)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].id == id)
            return &types[i];
    return NULL;
}

const char *twp_gguf_type_name(uint32_t id)
{
    const struct tw_gguf_type *type = twp_gguf_type(id);
    if (type)
        return type->name;
    if (id < sizeof other_names / sizeof *other_names && other_names[id])
        return other_names[id];
    return "unknown";
}

void twp_gguf_types(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < TYPES && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i ? ", " : "", types[i].name);
}
