/* GGUF tensors as a checkpoint's: renamed, blocks to floats, and llama.cpp's
 * changes undone. What needs neither points into the map; the rest is written
 * to memory of its own (gguf_rewrite.c). */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "load/gguf_rewrite.h"
#include "load/load_internal.h"

enum { NAME_BYTES = 256 };

static const struct twp_gguf_name *match(const struct twp_gguf_name *names,
                                         const char *name, int64_t *layer,
                                         const char **suffix)
{
    for (; names && names->gguf; names++) {
        const char *form = names->gguf, *at = name;
        while (*form && (*form == '%' || *form == *at)) {
            if (*form == '%') {
                char *end;
                if (*at < '0' || *at > '9')
                    break;
                *layer = strtoll(at, &end, 10);
                at = end;
            } else {
                at++;
            }
            form++;
        }
        if (!*form && (*at == '\0' || strcmp(at, ".weight") == 0 ||
                       strcmp(at, ".bias") == 0)) {
            *suffix = at;
            return names;
        }
    }
    return NULL;
}

/* The Hugging Face name; a name that the table lacks stays as it is. */
static enum tw_status rename_tensor(struct tw_gguf *gguf,
                                    const struct twp_gguf_arch *arch,
                                    const char *name, const char **renamed,
                                    enum twp_gguf_undo *undo,
                                    struct tw_error *err)
{
    int64_t layer = 0;
    const char *suffix = "", *percent;
    char text[NAME_BYTES];
    const struct twp_gguf_name *rule =
        match(arch->more_names, name, &layer, &suffix);
    if (!rule)
        rule = match(arch->names, name, &layer, &suffix);
    *undo = rule ? rule->undo : TWP_UNDO_NONE;
    *renamed = name;
    if (!rule)
        return TW_OK;
    percent = strchr(rule->hf, '%');
    if (percent)
        snprintf(text, sizeof text, "%.*s%lld%s%s", (int)(percent - rule->hf),
                 rule->hf, (long long)layer, percent + 1, suffix);
    else
        snprintf(text, sizeof text, "%s%s", rule->hf, suffix);
    if (strcmp(suffix, ".bias") == 0 &&
        (*undo == TWP_UNDO_PLUS_ONE || *undo == TWP_UNDO_TRANSPOSE))
        *undo = TWP_UNDO_NONE;
    return twp_arena_text(&gguf->file[0].arena, text, strlen(text), renamed,
                          err);
}

static struct tw_tensor describe(const struct twp_gguf_tensor *from,
                                 const char *name, const char *file)
{
    struct tw_tensor to = {.name = name,
                           .dtype = from->type->dtype,
                           .stored =
                               from->type->dequant ? from->type->name : NULL,
                           .dims = from->dims,
                           .elements = from->elements,
                           .data = from->data,
                           .file = file};
    memcpy(to.shape, from->shape, sizeof from->shape);
    return to;
}

/* A set being made of a model's files. */
struct adding {
    struct tw_gguf *gguf;
    const struct twp_gguf_arch *arch;
    const struct twp_gguf_file *file; /* the one at hand */
    struct twp_rewrite rewrite;
    struct tw_tensors set;
    size_t capacity;
};

/* Room for one tensor more. */
static enum tw_status grow(struct adding *a, struct tw_error *err)
{
    void *array = a->set.tensor;
    if (tw_grow(&array, &a->capacity, a->set.count + 1,
                sizeof *a->set.tensor) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for tensors");
    a->set.tensor = array;
    return TW_OK;
}

/* Rows of a matrix as vectors NAME.0.weight, NAME.1.weight, ... */
static enum tw_status add_stack(struct adding *a,
                                const struct twp_gguf_tensor *from,
                                const char *name, struct tw_error *err)
{
    int64_t rows = from->dims == 2 ? from->shape[0] : 1;
    int64_t cols = from->elements / rows;
    const char *dot = strrchr(name, '.');
    if (from->type->dequant || !dot)
        return twp_gguf_misfit(a->file, from,
                               "has a type that its use does not allow", err);
    for (int64_t r = 0; r < rows; r++) {
        char text[NAME_BYTES];
        enum tw_status status = grow(a, err);
        if (status != TW_OK)
            return status;
        struct tw_tensor *to = &a->set.tensor[a->set.count];
        snprintf(text, sizeof text, "%.*s.%lld%s", (int)(dot - name), name,
                 (long long)r, dot);
        *to = describe(from, NULL, a->file->name);
        to->dims = 1;
        to->shape[0] = to->elements = cols;
        to->data =
            from->data + (size_t)(r * cols) * tw_dtype_size(from->type->dtype);
        status = twp_arena_text(&a->gguf->file[0].arena, text, strlen(text),
                                &to->name, err);
        if (status != TW_OK)
            return status;
        a->set.count++;
    }
    return TW_OK;
}

static enum tw_status add_tensor(struct adding *a,
                                 const struct twp_gguf_tensor *from,
                                 struct tw_error *err);

/* "blk.0.attn_qkv.weight" gives "blk.0.attn_q.weight", ... */
static enum tw_status name_part(struct adding *a, const char *whole,
                                const char *part, const char **name,
                                struct tw_error *err)
{
    static const char joined[] = "attn_qkv";
    char text[NAME_BYTES];
    const char *at = strstr(whole, joined);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, part,
             at + strlen(joined));
    return twp_arena_text(&a->gguf->file[0].arena, text, strlen(text), name,
                          err);
}

/* Rows of q, k and v behind each other, each as if it stood alone. */
static enum tw_status add_joined(struct adding *a,
                                 const struct twp_gguf_tensor *from,
                                 struct tw_error *err)
{
    static const char *const names[] = {"attn_q", "attn_k", "attn_v"};
    int64_t q = a->rewrite.q_heads, kv = a->rewrite.kv_heads;
    int64_t rows = from->shape[0], cols = from->elements / rows;
    const int64_t heads[] = {q, kv, kv};
    struct twp_gguf_tensor *part = NULL;
    const uint8_t *data = from->data;
    enum tw_status status = TW_OK;
    if (from->dims > 2 || rows % (q + 2 * kv) != 0 ||
        cols % from->type->values != 0)
        return twp_gguf_misfit(
            a->file, from, "has rows that are not whole attention heads", err);
    status =
        twp_arena_get(&a->gguf->file[0].arena, 3, sizeof *part, &part, err);
    for (int i = 0; i < 3 && status == TW_OK; i++) {
        part[i] = *from;
        part[i].shape[0] = rows / (q + 2 * kv) * heads[i];
        part[i].elements = part[i].shape[0] * cols;
        part[i].bytes =
            from->bytes / (uint64_t)rows * (uint64_t)part[i].shape[0];
        part[i].data = data;
        data += part[i].bytes;
        status = name_part(a, from->name, names[i], &part[i].name, err);
        if (status == TW_OK)
            status = add_tensor(a, &part[i], err);
    }
    return status;
}

static enum tw_status add_tensor(struct adding *a,
                                 const struct twp_gguf_tensor *from,
                                 struct tw_error *err)
{
    const char *name;
    enum twp_gguf_undo undo;
    if (a->arch->has_rope && strncmp(from->name, "rope_factors_", 13) == 0)
        return TW_OK; /* the config holds them */
    enum tw_status status =
        rename_tensor(a->gguf, a->arch, from->name, &name, &undo, err);
    if (status == TW_OK && undo == TWP_UNDO_JOIN)
        return add_joined(a, from, err);
    if (status == TW_OK && undo == TWP_UNDO_STACK)
        return add_stack(a, from, name, err);
    if (status == TW_OK)
        status = grow(a, err);
    if (status != TW_OK)
        return status;
    struct tw_tensor *to = &a->set.tensor[a->set.count++];
    *to = describe(from, name, a->file->name);
    if (undo == TWP_UNDO_NONE && !from->type->dequant)
        return TW_OK;
    return twp_rewrite_add(&a->rewrite, a->file, from, undo, to, err);
}

static enum tw_status add_file(struct adding *a, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    struct tw_tensor_file *file = &a->set.file[a->set.files++];
    file->name = tw_strdup(a->file->name);
    if (!file->name)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < a->file->tensors && status == TW_OK; i++)
        status = add_tensor(a, &a->file->tensor[i], err);
    return status;
}

static enum tw_status add_all(struct adding *a, struct tw_error *err)
{
    size_t total = 0;
    for (size_t f = 0; f < a->gguf->files; f++)
        total += 3 * a->gguf->file[f].tensors; /* joined ones make three */
    enum tw_status status =
        twp_rewrite_init(&a->rewrite, a->gguf, a->arch, total, err);
    if (status != TW_OK)
        return status;
    a->set.file = tw_calloc(a->gguf->files, sizeof *a->set.file);
    if (!a->set.file)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for tensors");
    for (size_t f = 0; f < a->gguf->files && status == TW_OK; f++) {
        a->file = &a->gguf->file[f];
        status = add_file(a, err);
    }
    return status;
}

enum tw_status twp_gguf_tensors(struct tw_gguf *gguf,
                                const struct twp_gguf_arch *arch, int threads,
                                struct tw_tensors *tensors,
                                struct tw_error *err)
{
    struct adding a = {.gguf = gguf, .arch = arch};
    enum tw_status status = add_all(&a, err);
    if (status == TW_OK)
        status = twp_rewrite_run(&a.rewrite, threads, err);
    if (status == TW_OK)
        status = twp_tensors_sort(&a.set, err);
    twp_rewrite_fini(&a.rewrite);
    if (status != TW_OK)
        tw_tensors_close(&a.set);
    else
        *tensors = a.set;
    return status;
}
