/* GGUF files that tests write, value by value. */
#ifndef TESTS_TW_GGUF_H
#define TESTS_TW_GGUF_H

#include "tw_files.h"

struct gguf_writer {
    uint8_t bytes[1 << 16];
    size_t size;
};

/* Kinds of values, as the format numbers them. */
enum {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_TEXT,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
};

static inline void gguf_put(struct gguf_writer *w, uint64_t value, size_t bytes)
{
    ck_assert(w->size + bytes <= sizeof w->bytes);
    for (size_t i = 0; i < bytes; i++)
        w->bytes[w->size++] = (uint8_t)(value >> (8 * i));
}

static inline void gguf_append(struct gguf_writer *w, const void *bytes,
                               size_t size)
{
    ck_assert(w->size + size <= sizeof w->bytes);
    memcpy(w->bytes + w->size, bytes, size);
    w->size += size;
}

static inline void gguf_text(struct gguf_writer *w, const char *text)
{
    gguf_put(w, strlen(text), 8);
    gguf_append(w, text, strlen(text));
}

static inline void gguf_start(struct gguf_writer *w, uint64_t tensors,
                              uint64_t values)
{
    w->size = 0;
    gguf_append(w, "GGUF", 4);
    gguf_put(w, 3, 4);
    gguf_put(w, tensors, 8);
    gguf_put(w, values, 8);
}

static inline void gguf_key(struct gguf_writer *w, const char *key, int kind)
{
    gguf_text(w, key);
    gguf_put(w, (uint64_t)kind, 4);
}

static inline void gguf_key_text(struct gguf_writer *w, const char *key,
                                 const char *text)
{
    gguf_key(w, key, GGUF_TEXT);
    gguf_text(w, text);
}

static inline void gguf_key_u32(struct gguf_writer *w, const char *key,
                                uint32_t number)
{
    gguf_key(w, key, GGUF_U32);
    gguf_put(w, number, 4);
}

static inline void gguf_key_array(struct gguf_writer *w, const char *key,
                                  int kind, uint64_t count)
{
    gguf_key(w, key, GGUF_ARRAY);
    gguf_put(w, (uint64_t)kind, 4);
    gguf_put(w, count, 8);
}

static inline void gguf_float(struct gguf_writer *w, float number)
{
    gguf_append(w, &number, sizeof number);
}

/* rows 0: a vector. */
static inline void gguf_tensor(struct gguf_writer *w, const char *name,
                               uint32_t type, uint64_t rows, uint64_t cols,
                               uint64_t offset)
{
    gguf_text(w, name);
    gguf_put(w, rows ? 2 : 1, 4);
    gguf_put(w, cols, 8);
    if (rows)
        gguf_put(w, rows, 8);
    gguf_put(w, type, 4);
    gguf_put(w, offset, 8);
}

/* Zeros up to the alignment. */
static inline void gguf_align(struct gguf_writer *w)
{
    while (w->size % 32)
        gguf_put(w, 0, 1);
}

static inline void gguf_write(const struct gguf_writer *w, const char *folder,
                              const char *name)
{
    tw_write(folder, name, w->bytes, w->size);
}

#endif
