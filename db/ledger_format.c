/* Byte planes through zlib, and back with nothing trusted. */
#include <config.h>

#include "db/ledger_format.h"

#include <string.h>
#include <zlib.h>

#include "base/memory.h"

enum { HEAD = 2, ENTRY = 5, LEVEL = 6 };
/* Deflate makes at most 1,032 bytes of one. */
#define MOST_FROM(size) (1032 * (uint64_t)(size) + 1024)

static void put_planes(const struct tw_section *s, unsigned char *out)
{
    for (int plane = 0; plane < s->bytes; plane++)
        for (uint32_t i = 0; i < s->count; i++)
            *out++ = (unsigned char)(s->value[i] >> 8 * plane);
}

static void get_planes(const unsigned char *in, struct tw_section *s)
{
    memset(s->value, 0, (size_t)s->count * sizeof *s->value);
    for (int plane = 0; plane < s->bytes; plane++)
        for (uint32_t i = 0; i < s->count; i++)
            s->value[i] |= (uint32_t)*in++ << 8 * plane;
}

static uint64_t raw_bytes(const struct tw_section *sections, int count)
{
    uint64_t total = 0;
    for (int i = 0; i < count; i++)
        total += (uint64_t)sections[i].bytes * sections[i].count;
    return total;
}

static size_t put_head(const struct tw_section *sections, int count,
                       unsigned char *out)
{
    unsigned char *at = out;
    *at++ = TW_LEDGER_VERSION;
    *at++ = (unsigned char)count;
    for (int i = 0; i < count; i++) {
        *at++ = (unsigned char)sections[i].bytes;
        for (int b = 0; b < 4; b++)
            *at++ = (unsigned char)(sections[i].count >> 8 * b);
    }
    return (size_t)(at - out);
}

enum tw_status tw_ledger_pack(const struct tw_section *sections, int count,
                              unsigned char **blob, size_t *size,
                              struct tw_error *err)
{
    size_t raw = (size_t)raw_bytes(sections, count);
    uLongf room = compressBound((uLong)raw);
    unsigned char *planes = tw_alloc(raw + 1, 1);
    unsigned char *out = tw_alloc(HEAD + ENTRY * TW_LEDGER_SECTIONS + room, 1);
    enum tw_status status = TW_OK;
    if (!planes || !out) {
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    } else {
        unsigned char *at = planes;
        size_t head = put_head(sections, count, out);
        for (int i = 0; i < count; i++) {
            put_planes(&sections[i], at);
            at += (size_t)sections[i].bytes * sections[i].count;
        }
        if (compress2(out + head, &room, planes, (uLong)raw, LEVEL) != Z_OK)
            status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
        *blob = out;
        *size = head + room;
    }
    tw_free(planes);
    if (status != TW_OK)
        tw_free(out);
    return status;
}

static enum tw_status damaged(struct tw_error *err, const char *what)
{
    return tw_error_set(err, TW_ERR_FORMAT, "a ledger BLOB is damaged: %s",
                        what);
}

/* The head against what is expected; fills the counts. */
static enum tw_status read_head(const unsigned char *in, size_t size,
                                struct tw_section *sections, int count,
                                struct tw_error *err)
{
    if (size < HEAD + (size_t)count * ENTRY)
        return damaged(err, "it is too short");
    if (in[0] != TW_LEDGER_VERSION)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "a ledger BLOB of version %d: this program reads "
                            "version %d",
                            in[0], TW_LEDGER_VERSION);
    if (in[1] != count)
        return damaged(err, "another number of sections");
    in += HEAD;
    for (int i = 0; i < count; i++, in += ENTRY) {
        uint32_t n = (uint32_t)in[1] | (uint32_t)in[2] << 8 |
                     (uint32_t)in[3] << 16 | (uint32_t)in[4] << 24;
        if (in[0] != sections[i].bytes)
            return damaged(err, "numbers of another size");
        if (n > sections[i].count || n > TW_LEDGER_LIMIT)
            return damaged(err, "more numbers than there can be");
        sections[i].count = n;
    }
    return TW_OK;
}

static enum tw_status take_planes(const unsigned char *planes,
                                  struct tw_section *sections, int count,
                                  struct tw_error *err)
{
    for (int i = 0; i < count; i++) {
        sections[i].value =
            tw_alloc((size_t)sections[i].count + 1, sizeof(uint32_t));
        if (!sections[i].value) {
            while (i-- > 0)
                tw_free(sections[i].value);
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
        }
        get_planes(planes, &sections[i]);
        planes += (size_t)sections[i].bytes * sections[i].count;
    }
    return TW_OK;
}

enum tw_status tw_ledger_unpack(const void *blob, size_t size,
                                struct tw_section *sections, int count,
                                struct tw_error *err)
{
    enum tw_status status = read_head(blob, size, sections, count, err);
    if (status != TW_OK)
        return status;
    size_t head = HEAD + (size_t)count * ENTRY;
    uint64_t raw = raw_bytes(sections, count);
    if (raw > MOST_FROM(size - head))
        return damaged(err, "more numbers than its size can hold");
    unsigned char *planes = tw_alloc((size_t)raw + 1, 1);
    if (!planes)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    uLongf got = (uLongf)raw + 1; /* one more byte would show */
    int code = uncompress(planes, &got, (const Bytef *)blob + head,
                          (uLong)(size - head));
    if (code == Z_MEM_ERROR)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    else if (code != Z_OK || got != raw)
        status = damaged(err, "it does not decompress");
    if (status == TW_OK)
        status = take_planes(planes, sections, count, err);
    tw_free(planes);
    return status;
}

uint32_t tw_ledger_narrow(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) /* NaN stays one */
        return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

float tw_ledger_widen(uint32_t half)
{
    uint32_t bits = half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
