/* Number types: sizes, names, exact widening. */
#include <config.h>

#include "base/dtype.h"

#include <assert.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[TW_DTYPES] = {
    [TW_F32] = {"float32", 4}, [TW_BF16] = {"bfloat16", 2},
    [TW_F16] = {"float16", 2}, [TW_I32] = {"int32", 4},
    [TW_I64] = {"int64", 8},
};

size_t tw_dtype_size(enum tw_dtype dtype)
{
    return dtypes[dtype].size;
}

const char *tw_dtype_name(enum tw_dtype dtype)
{
    return dtypes[dtype].name;
}

/* Shifting the half's bits into a float's place gives its value times 2^-112,
 * subnormals included; Inf and NaN keep their mantissa. */
float tw_f16_to_f32(uint16_t bits)
{
    uint32_t magnitude = bits & 0x7fffu;
    uint32_t wide = magnitude << 13;
    float value;
    if (magnitude >= 0x7c00u) {
        wide |= 0x7f800000u;
        memcpy(&value, &wide, sizeof value);
    } else {
        memcpy(&value, &wide, sizeof value);
        value *= 0x1p112f;
    }
    return bits & 0x8000u ? -value : value;
}

void tw_widen(float *out, const void *in, enum tw_dtype dtype, size_t count)
{
    assert(dtype == TW_F32 || dtype == TW_BF16 || dtype == TW_F16);
    const uint16_t *half = in;
    if (dtype == TW_F32)
        memcpy(out, in, count * sizeof *out);
    else if (dtype == TW_BF16)
        for (size_t i = 0; i < count; i++)
            out[i] = tw_bf16_to_f32(half[i]);
    else
        for (size_t i = 0; i < count; i++)
            out[i] = tw_f16_to_f32(half[i]);
}
