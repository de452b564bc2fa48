/* The files of a directory: one of tensors, or an index that says which shard
 * each tensor stands in. The index is hostile too: it may name only plain files
 * of its own directory (which may be symbolic links, as in the Hugging Face
 * cache), and what it says must be what the files hold. */
#include <config.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "load/load_internal.h"

/* What a directory may hold, the preferred first. */
static const struct layout {
    const char *single, *index;
} layouts[] = {
    {"model.safetensors", "model.safetensors.index.json"},
    {"pytorch_model.bin", "pytorch_model.bin.index.json"},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* An index, read: messages start with its name. */
struct index {
    const char *name; /* static */
    json_t *root, *map;
};

static bool is_plain(const char *name)
{
    return name && *name && !strchr(name, '/') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static enum tw_status load_index(const char *path, struct index *index,
                                 struct tw_error *err)
{
    char *text;
    size_t size;
    json_error_t cause;
    enum tw_status status =
        tw_file_read(path, TW_HEADER_LIMIT, &text, &size, err);
    if (status != TW_OK)
        return status;
    index->root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &cause);
    tw_free(text);
    if (!index->root)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: line %d: %s", index->name,
                            cause.line, cause.text);
    index->map = json_object_get(index->root, "weight_map");
    if (json_is_object(index->map) && json_object_size(index->map) > 0)
        return TW_OK;
    return tw_error_set(err, TW_ERR_FORMAT, "%s: no weight_map", index->name);
}

static enum tw_status no_memory(const struct index *index, struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", index->name);
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The distinct file names of the map, sorted: *names (tw_free; the strings
 * are the map's). */
static enum tw_status list_shards(const struct index *index,
                                  const char ***names, size_t *count,
                                  struct tw_error *err)
{
    const char *tensor;
    json_t *value;
    size_t n = 0, distinct = 0;
    const char **list = tw_alloc(json_object_size(index->map), sizeof *list);
    if (!list)
        return no_memory(index, err);
    json_object_foreach(index->map, tensor, value)
    {
        list[n] = json_string_value(value);
        if (!is_plain(list[n])) {
            tw_error_set(err, TW_ERR_FORMAT,
                         "%s: tensor '%.200s' stands in '%.200s', which "
                         "is not a plain file name",
                         index->name, tensor, list[n] ? list[n] : "(no text)");
            tw_free(list);
            return TW_ERR_FORMAT;
        }
        n++;
    }
    qsort(list, n, sizeof *list, by_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(list[i], list[distinct - 1]) != 0)
            list[distinct++] = list[i];
    *names = list;
    *count = distinct;
    return TW_OK;
}

/* Drops what the newest shard holds beyond the index, with a debug message. */
static void drop_unlisted(struct tw_tensors *set, size_t from, json_t *map)
{
    size_t kept = from;
    for (size_t i = from; i < set->count; i++) {
        if (json_object_get(map, set->tensor[i].name)) {
            set->tensor[kept++] = set->tensor[i];
        } else {
            tw_log(TW_LOG_DEBUG, "%s: tensor '%.200s' is not in the index",
                   set->tensor[i].file, set->tensor[i].name);
            tw_free(set->tensor[i].owned);
        }
    }
    set->count = kept;
}

static enum tw_status add_shards(struct tw_tensors *set, const char *directory,
                                 const struct index *index, const char **names,
                                 size_t count, struct tw_error *err)
{
    set->file = tw_calloc(count, sizeof *set->file);
    if (!set->file)
        return no_memory(index, err);
    for (size_t i = 0; i < count; i++) {
        size_t from = set->count;
        char *path = tw_path_join(directory, names[i]);
        if (!path)
            return no_memory(index, err);
        enum tw_status status;
        if (access(path, F_OK) != 0)
            status = tw_error_set(err, TW_ERR_FORMAT,
                                  "%s: shard '%.200s' is missing", index->name,
                                  names[i]);
        else
            status = twp_tensors_add(set, path, err);
        tw_free(path);
        if (status != TW_OK)
            return status;
        drop_unlisted(set, from, index->map);
    }
    return twp_tensors_sort(set, err);
}

/* Every tensor stands in the file that the index names. */
static enum tw_status check_places(const struct tw_tensors *set,
                                   const struct index *index,
                                   struct tw_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(index->map, name, value)
    {
        const char *wanted = json_string_value(value), *file = NULL;
        const struct tw_tensor *tensor = tw_tensors_find(set, name);
        if (tensor)
            file = tensor->file;
        else if (!twp_tensors_other(set, name, &file))
            file = NULL;
        if (!file || strcmp(file, wanted) != 0)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "%s: no tensor '%.200s', which %s places "
                                "there",
                                wanted, name, index->name);
    }
    return TW_OK;
}

static enum tw_status open_shards(const char *directory, const char *path,
                                  const char *name, struct tw_tensors *tensors,
                                  struct tw_error *err)
{
    struct tw_tensors set = {.index = name};
    struct index index = {.name = name};
    const char **names = NULL;
    size_t count = 0;
    enum tw_status status = load_index(path, &index, err);
    if (status == TW_OK)
        status = list_shards(&index, &names, &count, err);
    if (status == TW_OK)
        status = add_shards(&set, directory, &index, names, count, err);
    if (status == TW_OK)
        status = check_places(&set, &index, err);
    tw_free(names);
    json_decref(index.root);
    if (status != TW_OK)
        tw_tensors_close(&set);
    else
        *tensors = set;
    return status;
}

/* True for a dangling link too, so that opening it says what is missing. */
static bool exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

/* Opens one layout's files, if they are there. */
static enum tw_status open_layout(const char *directory,
                                  const struct layout *layout, bool *is_there,
                                  struct tw_tensors *tensors,
                                  struct tw_error *err)
{
    enum tw_status status = TW_OK;
    char *single = tw_path_join(directory, layout->single);
    char *index = tw_path_join(directory, layout->index);
    bool has_single = single && exists(single);
    *is_there = has_single || (index && exists(index));
    if (!single || !index)
        status =
            tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", directory);
    else if (*is_there && tensors)
        status = has_single ? tw_tensors_open_file(single, tensors, err)
                            : open_shards(directory, index, layout->index,
                                          tensors, err);
    tw_free(single);
    tw_free(index);
    return status;
}

bool twp_has_weights(const char *directory)
{
    bool is_there = false;
    for (int i = 0; i < LAYOUTS && !is_there; i++)
        if (open_layout(directory, &layouts[i], &is_there, NULL, NULL) != TW_OK)
            return false;
    return is_there;
}

enum tw_status tw_tensors_open(const char *directory,
                               struct tw_tensors *tensors, struct tw_error *err)
{
    for (int i = 0; i < LAYOUTS; i++) {
        bool is_there;
        enum tw_status status =
            open_layout(directory, &layouts[i], &is_there, tensors, err);
        if (status != TW_OK || is_there)
            return status;
    }
    return tw_error_set(err, TW_ERR_NOT_FOUND,
                        "%s: neither model.safetensors nor pytorch_model.bin, "
                        "nor an index of either, nor a .gguf file; other "
                        "formats are not read",
                        directory);
}
