/* Whether a model's name means a GGUF file, and which. */
#include <config.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "load/gguf_internal.h"
#include "load/load_internal.h"

static bool is_gguf_name(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".gguf") == 0;
}

/* A later part of a split model: it is found through the first. */
static bool is_later_part(const char *name)
{
    int part, count;
    return twp_gguf_is_part(name, &part, &count) && part != 1;
}

/* Vision parts that stand beside a language model. */
static bool is_projector(const char *name)
{
    return strncmp(name, "mmproj", 6) == 0;
}

/* The one model among a directory's files: its first part's name. */
static enum tw_status choose(const char *directory, DIR *files, char **name,
                             struct tw_error *err)
{
    struct dirent *entry;
    char *found = NULL;
    enum tw_status status = TW_OK;
    while (status == TW_OK && (entry = readdir(files))) {
        if (!is_gguf_name(entry->d_name) || is_later_part(entry->d_name) ||
            is_projector(entry->d_name))
            continue;
        if (found)
            status = tw_error_set(err, TW_ERR_FORMAT,
                                  "%s: holds several GGUF models, '%.200s' "
                                  "and '%.200s' among them: name the file",
                                  directory, found, entry->d_name);
        else if (!(found = tw_strdup(entry->d_name)))
            status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    if (status == TW_OK)
        *name = found;
    else
        tw_free(found);
    return status;
}

static enum tw_status find_in(const char *directory, char **path,
                              struct tw_error *err)
{
    char *name = NULL;
    *path = NULL;
    DIR *files = opendir(directory);
    if (!files)
        return TW_OK;
    enum tw_status status = choose(directory, files, &name, err);
    closedir(files);
    if (status == TW_OK && name && !(*path = tw_path_join(directory, name)))
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory for a path");
    tw_free(name);
    return status;
}

enum tw_status tw_gguf_find(const char *model, char **path,
                            struct tw_error *err)
{
    struct stat info;
    char *directory = NULL, *name = NULL;
    bool is_there = stat(model, &info) == 0;
    *path = NULL;
    if (is_there && !S_ISDIR(info.st_mode)) {
        if (!is_gguf_name(model))
            return TW_OK;
        *path = tw_strdup(model);
        return *path ? TW_OK : tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    enum tw_status status = tw_checkpoint_find(model, &directory, &name, err);
    if (status == TW_OK && !twp_has_weights(directory))
        status = find_in(directory, path, err);
    tw_free(directory);
    tw_free(name);
    return status;
}
