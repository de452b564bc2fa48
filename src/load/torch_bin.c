/* pytorch_model.bin: a zip archive with PREFIX/data.pkl, a pickle of the state
 * dictionary, and PREFIX/data/KEY, the storages' bytes. Source: torch.save's
 * form since PyTorch 1.6. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "load/pickle.h"
#include "load/zip.h"

enum { PATH_BYTES = 512 };

struct archive {
    struct twp_zip zip;
    const char *prefix; /* not NUL-terminated */
    int prefix_bytes;
};

static const struct twp_zip_entry *find_entry(const struct archive *archive,
                                              const char *folder,
                                              const char *name, size_t size)
{
    char path[PATH_BYTES];
    if (size > PATH_BYTES / 2 || archive->prefix_bytes > PATH_BYTES / 4)
        return NULL;
    snprintf(path, sizeof path, "%.*s/%s%.*s", archive->prefix_bytes,
             archive->prefix, folder, (int)size, name);
    return twp_zip_find(&archive->zip, path);
}

static const uint8_t *find_storage(void *arg, const char *key, size_t key_size,
                                   uint64_t *bytes)
{
    const struct twp_zip_entry *entry = find_entry(arg, "data/", key, key_size);
    if (!entry)
        return NULL;
    *bytes = entry->size;
    return entry->data;
}

/* Before 1.6 a file was a row of pickles; its first holds this number. */
static bool is_legacy(const struct tw_file *map)
{
    static const uint8_t magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
                                    0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    return map->size >= sizeof magic &&
           memcmp(map->data, magic, sizeof magic) == 0;
}

static enum tw_status open_archive(struct tw_tensor_file *file,
                                   struct archive *archive,
                                   struct tw_error *err)
{
    if (is_legacy(&file->map))
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "%s: written in PyTorch's form before 1.6, which "
                            "is not read; load it in Python with "
                            "torch.load(..., weights_only=True) and write it "
                            "again with torch.save",
                            file->name);
    if (!twp_zip_is(&file->map))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: no zip archive, as torch.save writes it",
                            file->name);
    enum tw_status status = twp_zip_open(file, &archive->zip, err);
    for (size_t i = 0; status == TW_OK && i < archive->zip.entries; i++) {
        const char *name = archive->zip.entry[i].name;
        const char *slash = strchr(name, '/');
        if (slash && strcmp(slash, "/data.pkl") == 0) {
            archive->prefix = name;
            archive->prefix_bytes = (int)(slash - name);
            return TW_OK;
        }
    }
    if (status == TW_OK)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "%s: a zip archive without data.pkl: not "
                              "written by torch.save",
                              file->name);
    return status;
}

static enum tw_status check_order(const struct tw_tensor_file *file,
                                  const struct archive *archive,
                                  struct tw_error *err)
{
    const struct twp_zip_entry *order =
        find_entry(archive, "", "byteorder", strlen("byteorder"));
    if (!order || (order->size == 6 && memcmp(order->data, "little", 6) == 0))
        return TW_OK;
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "%s: its byte order is not little-endian", file->name);
}

/* Elements are used where they lie, or copied to aligned memory. */
static enum tw_status place_data(struct tw_tensor_file *file,
                                 const struct twp_torch_tensor *from,
                                 struct tw_tensor *to, struct tw_error *err)
{
    size_t size = from->storage->type->size;
    size_t bytes = (size_t)from->elements * size; /* within the storage */
    const uint8_t *data = from->storage->data + (size_t)from->offset * size;
    to->data = data;
    if ((uintptr_t)data % size == 0)
        return TW_OK;
    enum tw_status status = twp_arena_claim(&file->arena, bytes, 1, err);
    if (status != TW_OK)
        return status;
    to->owned = tw_alloc_aligned(bytes, 1);
    if (!to->owned)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", file->name);
    memcpy(to->owned, data, bytes);
    to->data = to->owned;
    return TW_OK;
}

static enum tw_status take_name(struct tw_tensor_file *file,
                                const struct twp_pickle_value *key,
                                const char **name, struct tw_error *err)
{
    if (key->kind != TWP_PICKLE_TEXT || key->size == 0 ||
        memchr(key->as.text, 0, key->size))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: a tensor's name is no text", file->name);
    return twp_arena_text(&file->arena, key->as.text, key->size, name, err);
}

/* One entry of the dictionary: a weight, a tensor of another type, or no
 * tensor at all. */
static enum tw_status take_item(struct tw_tensor_file *file,
                                const struct twp_pickle_value *pair,
                                struct tw_tensor *to, size_t *count,
                                struct tw_error *err)
{
    const char *name;
    enum tw_status status = take_name(file, &pair[0], &name, err);
    if (status != TW_OK)
        return status;
    if (pair[1].kind != TWP_PICKLE_TENSOR) {
        tw_log(TW_LOG_DEBUG, "%s: '%.200s' is no tensor: left out", file->name,
               name);
        return TW_OK;
    }
    const struct twp_torch_tensor *from = pair[1].as.tensor;
    if (from->storage->type->dtype < 0) {
        file->other[file->others++] = (struct tw_other_tensor){
            .name = name, .type = from->storage->type->type};
        return TW_OK;
    }
    if (!from->is_row_major)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "%s: tensor '%.200s' is a transposed or expanded "
                            "view, which is not supported; in Python, call "
                            ".contiguous() on it and write it again",
                            file->name, name);
    *to = (struct tw_tensor){.name = name,
                             .dtype = (enum tw_dtype)from->storage->type->dtype,
                             .dims = from->dims,
                             .elements = from->elements,
                             .file = file->name};
    memcpy(to->shape, from->shape, sizeof to->shape);
    *count += 1;
    return place_data(file, from, to, err);
}

static enum tw_status take_dict(struct tw_tensor_file *file,
                                const struct twp_pickle_dict *dict,
                                struct tw_tensor **tensors, size_t *count,
                                struct tw_error *err)
{
    struct tw_tensor *list = NULL;
    size_t n = 0;
    enum tw_status status = twp_arena_claim(
        &file->arena, dict->count, sizeof *list + sizeof *file->other, err);
    if (status != TW_OK)
        return status;
    list = tw_calloc(dict->count, sizeof *list);
    file->other = tw_calloc(dict->count, sizeof *file->other);
    if (!list || !file->other)
        status =
            tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", file->name);
    for (size_t i = 0; i < dict->count && status == TW_OK; i++)
        status = take_item(file, &dict->pair[2 * i], &list[n], &n, err);
    if (status == TW_OK && n == 0)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "%s: its dictionary holds no tensors: a "
                              "checkpoint of training, not of a model?",
                              file->name);
    if (status == TW_OK) {
        *tensors = list;
        *count = n;
        return TW_OK;
    }
    for (size_t i = 0; list && i < dict->count; i++)
        tw_free(list[i].owned);
    tw_free(list);
    return status;
}

enum tw_status twp_torch_parse(struct tw_tensor_file *file,
                               struct tw_tensor **tensors, size_t *count,
                               struct tw_error *err)
{
    struct archive archive = {.prefix = NULL};
    struct twp_pickle_value value = {.kind = TWP_PICKLE_NONE};
    const struct twp_pickle_source source = {find_storage, &archive};
    enum tw_status status = open_archive(file, &archive, err);
    if (status == TW_OK)
        status = check_order(file, &archive, err);
    if (status != TW_OK)
        return status;
    const struct twp_zip_entry *pickle =
        find_entry(&archive, "", "data.pkl", strlen("data.pkl"));
    if (!pickle)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: absurd names in its "
                            "archive",
                            file->name);
    status = twp_pickle_load(file, pickle->data, (size_t)pickle->size, &source,
                             &value, err);
    if (status == TW_OK && value.kind != TWP_PICKLE_DICT)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "%s: holds no dictionary of tensors", file->name);
    return status == TW_OK ? take_dict(file, value.as.dict, tensors, count, err)
                           : status;
}
