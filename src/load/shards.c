/* Shards: model.safetensors.index.json says which file each tensor stands in.
 * The index is hostile too: it may name only plain files of its own directory
 * (which may be symbolic links, as in the Hugging Face cache), and what it
 * says must be what the files hold. */
#include <config.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>


#include "base/log.h"
#include "base/memory.h"
#include "load/load_internal.h"

#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"

static bool is_plain(const char *name)
{
    return name && *name && !strchr(name, '/') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static enum tw_status load_index(const char *path, json_t **index,
                                 json_t **map, struct tw_error *err)
{
    char *text;
    size_t size;
    json_error_t cause;
    enum tw_status status = tw_file_read(path, TW_HEADER_LIMIT, &text, &size,
                                         err);
    if (status != TW_OK)
        return status;
    *index = json_loadb(text, size, JSON_REJECT_DUPLICATES, &cause);
    tw_free(text);
    if (!*index)
        return tw_error_set(err, TW_ERR_FORMAT, INDEX ": line %d: %s",
                            cause.line, cause.text);
    *map = json_object_get(*index, "weight_map");
    if (json_is_object(*map) && json_object_size(*map) > 0)
        return TW_OK;
    json_decref(*index);
    return tw_error_set(err, TW_ERR_FORMAT, INDEX ": no weight_map");
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The distinct file names of the map, sorted: *names (tw_free; the strings
 * are the map's). */
static enum tw_status list_shards(json_t *map, const char ***names,
                                  size_t *count, struct tw_error *err)
{
    const char *tensor;
    json_t *value;
    size_t n = 0, distinct = 0;
    const char **list = tw_alloc(json_object_size(map), sizeof *list);
    if (!list)
        return tw_error_set(err, TW_ERR_NOMEM, INDEX ": out of memory");
    json_object_foreach(map, tensor, value) {
        list[n] = json_string_value(value);
        if (!is_plain(list[n])) {
            tw_error_set(err, TW_ERR_FORMAT,
                         INDEX ": tensor '%.200s' stands in '%.200s', which "
                               "is not a plain file name",
                         tensor, list[n] ? list[n] : "(no text)");
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
        if (json_object_get(map, set->tensor[i].name))
            set->tensor[kept++] = set->tensor[i];
        else
            tw_log(TW_LOG_DEBUG, "%s: tensor '%.200s' is not in the index",
                   set->tensor[i].file, set->tensor[i].name);
    }
    set->count = kept;
}

static enum tw_status add_shards(struct tw_tensors *set, const char *directory,
                                 json_t *map, const char **names, size_t count,
                                 struct tw_error *err)
{
    set->file = tw_calloc(count, sizeof *set->file);
    if (!set->file)
        return tw_error_set(err, TW_ERR_NOMEM, INDEX ": out of memory");
    for (size_t i = 0; i < count; i++) {
        size_t from = set->count;
        char *path = tw_path_join(directory, names[i]);
        if (!path)
            return tw_error_set(err, TW_ERR_NOMEM, INDEX ": out of memory");
        enum tw_status status;
        if (access(path, F_OK) != 0)
            status = tw_error_set(err, TW_ERR_FORMAT,
                                  INDEX ": shard '%.200s' is missing",
                                  names[i]);
        else
            status = twp_tensors_add(set, path, err);
        tw_free(path);
        if (status != TW_OK)
            return status;
        drop_unlisted(set, from, map);
    }
    return twp_tensors_sort(set, err);
}

/* Every tensor stands in the file that the index names. */
static enum tw_status check_places(const struct tw_tensors *set, json_t *map,
                                   struct tw_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value) {
        const char *wanted = json_string_value(value), *file = NULL;
        const struct tw_tensor *tensor = tw_tensors_find(set, name);
        if (tensor)
            file = tensor->file;
        else if (!twp_tensors_other(set, name, &file))
            file = NULL;
        if (!file || strcmp(file, wanted) != 0)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "%s: no tensor '%.200s', which " INDEX
                                " places there",
                                wanted, name);
    }
    return TW_OK;
}

static enum tw_status open_shards(const char *directory, const char *path,
                                  struct tw_tensors *tensors,
                                  struct tw_error *err)
{
    struct tw_tensors set = {0};
    json_t *index, *map;
    const char **names = NULL;
    size_t count = 0;
    enum tw_status status = load_index(path, &index, &map, err);
    if (status != TW_OK)
        return status;
    status = list_shards(map, &names, &count, err);
    if (status == TW_OK)
        status = add_shards(&set, directory, map, names, count, err);
    if (status == TW_OK)
        status = check_places(&set, map, err);
    tw_free(names);
    json_decref(index);
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

enum tw_status tw_tensors_open(const char *directory,
                               struct tw_tensors *tensors,
                               struct tw_error *err)
{
    enum tw_status status;
    char *single = tw_path_join(directory, SINGLE);
    char *index = tw_path_join(directory, INDEX);
    if (!single || !index)
        status = tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                              directory);
    else if (exists(single))
        status = tw_tensors_open_file(single, tensors, err);
    else if (exists(index))
        status = open_shards(directory, index, tensors, err);
    else
        status = tw_error_set(err, TW_ERR_NOT_FOUND,
                              "%s: neither " SINGLE " nor " INDEX
                              "; other formats are not read",
                              directory);
    tw_free(single);
    tw_free(index);
    return status;
}
