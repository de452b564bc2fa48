/* Number types of stored tensors. */
#ifndef TW_BASE_DTYPE_H
#define TW_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tw_dtype { TW_F32, TW_BF16, TW_F16, TW_I32, TW_I64, TW_DTYPES };

/* Bytes of one element. */
size_t tw_dtype_size(enum tw_dtype dtype);
/* "float32", "bfloat16", "float16", "int32", "int64": static. */
const char *tw_dtype_name(enum tw_dtype dtype);

/* bfloat16 to float: exact. */
static inline float tw_bf16_to_f32(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* A finite float rounded to bfloat16, ties to even. */
static inline float tw_round_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    return tw_bf16_to_f32((uint16_t)(bits >> 16));
}

/* IEEE half to float: exact, subnormals included. */
float tw_f16_to_f32(uint16_t bits);

/* Widens count elements (F32, BF16, F16) to float: exact. */
void tw_widen(float *out, const void *in, enum tw_dtype dtype, size_t count);

#ifdef __cplusplus
}
#endif
#endif
