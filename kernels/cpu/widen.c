/* BF16 and F16 to float, exactly, sixteen at a time. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/vmath.h"

/* Elements of one piece of work: 256 KiB of floats. */
#define WIDEN_PIECE 65536

typedef uint16_t half_v16 __attribute__((vector_size(32)));
typedef uint32_t bits_v16 __attribute__((vector_size(64)));

TWP_INLINE void load_bits(bits_v16 *bits, const char *from)
{
    half_v16 half;
    memcpy(&half, from, sizeof half);
    *bits = __builtin_convertvector(half, bits_v16);
}

TWP_CLONES
static void widen_bf16(float *out, const char *in, int64_t count)
{
    for (int64_t i = 0; i + TWP_LANES <= count; i += TWP_LANES) {
        bits_v16 bits;
        load_bits(&bits, in + 2 * i);
        bits <<= 16;
        memcpy(out + i, &bits, sizeof bits);
    }
}

/* As tw_f16_to_f32: the bits in a float's place are the value times 2^-112,
 * but for Inf and NaN, which keep their mantissa. */
TWP_CLONES
static void widen_f16(float *out, const char *in, int64_t count)
{
    for (int64_t i = 0; i + TWP_LANES <= count; i += TWP_LANES) {
        bits_v16 bits;
        load_bits(&bits, in + 2 * i);
        bits_v16 magnitude = (bits & 0x7fffu) << 13;
        /* By sign bits: gcc 12 takes integer comparisons apart. */
        bits_v16 is_special =
            (bits_v16)((twp_i16)(0x0f7fffffu - magnitude) >> 31);
        bits_v16 finite = (bits_v16)((twp_v16)magnitude * 0x1p112f);
        bits_v16 special = magnitude | 0x7f800000u;
        bits = (is_special & special) | (~is_special & finite) |
               (bits & 0x8000u) << 16;
        memcpy(out + i, &bits, sizeof bits);
    }
}

void twp_widen(float *out, const void *in, enum tw_dtype dtype, int64_t count)
{
    assert(dtype == TW_F32 || dtype == TW_BF16 || dtype == TW_F16);
    if (dtype == TW_F32) {
        memcpy(out, in, (size_t)count * sizeof *out);
        return;
    }
    if (dtype == TW_BF16)
        widen_bf16(out, in, count);
    else
        widen_f16(out, in, count);
    int64_t done = count - count % TWP_LANES;
    uint16_t rest[TWP_LANES];
    memcpy(rest, (const char *)in + 2 * done,
           (size_t)(count - done) * sizeof *rest);
    tw_widen(out + done, rest, dtype, (size_t)(count - done));
}

struct widen_job {
    float *out;
    const char *in;
    enum tw_dtype dtype;
    int64_t count;
};

static void widen_piece(void *arg, int worker, int64_t piece)
{
    const struct widen_job *job = arg;
    (void)worker;
    int64_t from = piece * WIDEN_PIECE, left = job->count - from;
    size_t at = (size_t)from * tw_dtype_size(job->dtype);
    twp_widen(job->out + from, job->in + at, job->dtype,
              left < WIDEN_PIECE ? left : WIDEN_PIECE);
}

void twp_widen_parallel(struct twp_cpu *cpu, float *out, const void *in,
                        enum tw_dtype dtype, int64_t count)
{
    struct widen_job job = {out, in, dtype, count};
    tw_threads_run(cpu->threads, widen_piece, &job,
                   (count + WIDEN_PIECE - 1) / WIDEN_PIECE);
}
