/* Integer arrays in NumPy's format: a magic, a version, a header that is a
 * Python dictionary, the items. The header is read by a small parser of that
 * one dictionary; anything else is refused. */
#include <config.h>

#include "load/npy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "load/load_internal.h"

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, ALIGNMENT = 64 };

/* What is left of the header, and what was found. */
struct header {
    const char *at, *end;
    char descr[16];
    bool has_descr, has_order, has_shape, is_fortran;
    int dims;
    int64_t shape[2];
};

static void skip_space(struct header *h)
{
    while (h->at < h->end && strchr(" \t\n\r", *h->at) && *h->at)
        h->at++;
}

static bool accept(struct header *h, const char *text)
{
    size_t length = strlen(text);
    skip_space(h);
    if ((size_t)(h->end - h->at) < length || memcmp(h->at, text, length) != 0)
        return false;
    h->at += length;
    return true;
}

/* A quoted string without escapes. */
static bool parse_text(struct header *h, char *text, size_t size)
{
    size_t n = 0;
    skip_space(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"'))
        return false;
    char quote = *h->at++;
    while (h->at < h->end && *h->at != quote && n + 1 < size)
        text[n++] = *h->at++;
    text[n] = '\0';
    return h->at < h->end && *h->at++ == quote;
}

static bool parse_size(struct header *h, int64_t *value)
{
    skip_space(h);
    if (h->at == h->end || *h->at < '0' || *h->at > '9')
        return false;
    for (*value = 0; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
        if (__builtin_mul_overflow(*value, (int64_t)10, value) ||
            __builtin_add_overflow(*value, (int64_t)(*h->at - '0'), value))
            return false;
    return true;
}

/* "(n,)" or "(n, m)"; dims counts on past two for the message. */
static bool parse_shape(struct header *h)
{
    if (!accept(h, "("))
        return false;
    for (h->dims = 0; !accept(h, ")"); h->dims++) {
        int64_t size;
        if (!parse_size(h, &size))
            return false;
        if (h->dims < 2)
            h->shape[h->dims] = size;
        if (!accept(h, ",")) {
            h->dims++;
            return accept(h, ")");
        }
    }
    return true;
}

static bool parse_field(struct header *h)
{
    char key[16];
    if (!parse_text(h, key, sizeof key) || !accept(h, ":"))
        return false;
    if (strcmp(key, "descr") == 0 && !h->has_descr) {
        h->has_descr = true;
        return parse_text(h, h->descr, sizeof h->descr);
    }
    if (strcmp(key, "fortran_order") == 0 && !h->has_order) {
        h->has_order = true;
        h->is_fortran = accept(h, "True");
        return h->is_fortran || accept(h, "False");
    }
    if (strcmp(key, "shape") == 0 && !h->has_shape) {
        h->has_shape = true;
        return parse_shape(h);
    }
    return false;
}

static bool parse_dictionary(struct header *h)
{
    if (!accept(h, "{"))
        return false;
    while (!accept(h, "}")) {
        if (!parse_field(h))
            return false;
        if (!accept(h, ",")) {
            if (!accept(h, "}"))
                return false;
            break;
        }
    }
    skip_space(h);
    return h->at == h->end && h->has_descr && h->has_order && h->has_shape;
}

/* "<i4", "|u1": order, kind, bytes. */
static const char *check_type(const struct header *h, struct tw_npy *npy)
{
    const char *d = h->descr;
    if (d[0] == '>')
        return "big-endian items are not supported";
    if ((d[0] != '<' && d[0] != '|') || (d[1] != 'i' && d[1] != 'u') ||
        d[2] == '\0' || !strchr("1248", d[2]) || d[3] != '\0')
        return "not an array of integers";
    npy->is_signed = d[1] == 'i';
    npy->item_bytes = d[2] - '0';
    return NULL;
}

/* Returns what is wrong, or NULL. */
static const char *check_header(const struct header *h, size_t size,
                                struct tw_npy *npy)
{
    int64_t items, bytes;
    const char *wrong = check_type(h, npy);
    if (wrong)
        return wrong;
    if (h->dims < 1 || h->dims > 2)
        return "neither one nor two dimensions";
    if (h->dims == 2 && h->is_fortran)
        return "Fortran order is not supported";
    npy->rows = h->dims == 2 ? h->shape[0] : 1;
    npy->cols = h->shape[h->dims - 1];
    if (__builtin_mul_overflow(npy->rows, npy->cols, &items) ||
        __builtin_mul_overflow(items, (int64_t)npy->item_bytes, &bytes) ||
        (uint64_t)bytes != size)
        return "its size is not what its shape asks for: truncated?";
    return NULL;
}

/* Finds the dictionary behind magic, version and length. */
static bool find_header(const struct tw_file *file, struct header *h)
{
    const uint8_t *d = file->data;
    size_t start, length;
    if (file->size < MAGIC_BYTES + 4 || memcmp(d, magic, MAGIC_BYTES) != 0 ||
        d[6] < 1 || d[6] > 3 || d[7] != 0)
        return false;
    start = d[6] == 1 ? 10 : 12;
    if (file->size < start)
        return false;
    length = (size_t)d[8] | (size_t)d[9] << 8;
    if (d[6] > 1)
        length |= (size_t)d[10] << 16 | (size_t)d[11] << 24;
    if (length > file->size - start)
        return false;
    *h = (struct header){.at = (const char *)d + start,
                         .end = (const char *)d + start + length};
    return true;
}

enum tw_status tw_npy_open(const char *path, struct tw_npy *out,
                           struct tw_error *err)
{
    struct tw_npy npy = {0};
    struct header h;
    const char *wrong = NULL;
    enum tw_status status = tw_file_map(path, &npy.file, err);
    if (status != TW_OK)
        return status;
    if (!find_header(&npy.file, &h)) {
        wrong = "not a .npy file of version 1 to 3";
    } else {
        npy.items = (const uint8_t *)h.end;
        size_t size = npy.file.size - (size_t)(npy.items - npy.file.data);
        wrong = parse_dictionary(&h) ? check_header(&h, size, &npy)
                                     : "malformed .npy header";
    }
    if (wrong) {
        tw_file_unmap(&npy.file);
        return tw_error_set(err, TW_ERR_FORMAT, "%s: %s", path, wrong);
    }
    *out = npy;
    return TW_OK;
}

void tw_npy_close(struct tw_npy *npy)
{
    tw_file_unmap(&npy->file);
    *npy = (struct tw_npy){0};
}

int64_t tw_npy_at(const struct tw_npy *npy, int64_t row, int64_t col)
{
    size_t size = (size_t)npy->item_bytes;
    const uint8_t *item = npy->items + (size_t)(row * npy->cols + col) * size;
    uint64_t bits = 0;
    for (size_t i = 0; i < size; i++)
        bits |= (uint64_t)item[i] << (8 * i);
    if (!npy->is_signed)
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    uint64_t sign = (uint64_t)1 << (8 * size - 1);
    return (int64_t)((bits ^ sign) - sign);
}

enum tw_status tw_npy_write(const char *path, const int32_t *ids,
                            int64_t count, struct tw_error *err)
{
    char header[2 * ALIGNMENT];
    memset(header, ' ', sizeof header);
    memcpy(header, magic, MAGIC_BYTES);
    header[6] = 1;
    header[7] = 0;
    header[8] = (char)(sizeof header - 10);
    header[9] = 0;
    int length = snprintf(header + 10, sizeof header - 10,
                          "{'descr': '<i4', 'fortran_order': False, "
                          "'shape': (%lld,), }",
                          (long long)count);
    header[10 + length] = ' '; /* the NUL; spaces up to the newline */
    header[sizeof header - 1] = '\n';

    FILE *file = fopen(path, "wb");
    if (!file)
        return tw_error_errno(err, errno, "%s", path);
    size_t items = (size_t)count;
    int failed = 0;
    if (fwrite(header, sizeof header, 1, file) != 1 ||
        (items > 0 && fwrite(ids, sizeof *ids, items, file) != items))
        failed = errno ? errno : EIO;
    if (fclose(file) != 0 && !failed)
        failed = errno;
    if (failed)
        return tw_error_errno(err, failed, "%s", path);
    return TW_OK;
}
