/* Where a checkpoint is: a directory, a file inside one, or a name in the
 * Hugging Face cache, whose layout is models--ORG--NAME/refs/main (a revision)
 * and snapshots/REVISION/ (links into blobs/). Nothing here writes. */
#include <config.h>

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "load/checkpoint.h"

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a path");
}

static bool is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Formats into a new string; NULL without memory. */
static char *format_path(const char *format, const char *a, const char *b,
                         const char *c)
{
    struct tw_strbuf text = {0};
    const char *const part[] = {a, b, c};
    for (int i = 0; *format; format++)
        if (*format == '%')
            tw_strbuf_puts(&text, part[i++]);
        else
            tw_strbuf_append(&text, format, 1);
    return tw_strbuf_take(&text);
}

/* The cache folder, by the variables that Hugging Face's own client reads. */
static char *cache_folder(void)
{
    const char *hub = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME");
    const char *user = getenv("HOME");
    if (hub && *hub)
        return tw_strdup(hub);
    if (home && *home)
        return tw_path_join(home, "hub");
    return tw_path_join(user && *user ? user : "/", ".cache/huggingface/hub");
}

/* One part of org/name: what a hub name may hold, and no "." or "..". */
static bool is_part(const char *text, size_t length)
{
    if (length == 0 || text[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]))
            return false;
    return true;
}

static bool is_hub_name(const char *model)
{
    size_t length = strcspn(model, "/");
    if (!is_part(model, length))
        return false;
    return model[length] == '\0' ||
           is_part(model + length + 1, strlen(model + length + 1));
}

/* The snapshot that refs/main names, or NULL. */
static char *main_snapshot(const char *folder)
{
    char *text = NULL, *snapshot = NULL;
    size_t size;
    char *ref = tw_path_join(folder, "refs/main");
    if (ref && tw_file_read(ref, 256, &text, &size, NULL) == TW_OK) {
        text[strcspn(text, " \t\r\n")] = '\0';
        if (is_part(text, strlen(text)))
            snapshot = format_path("%/snapshots/%", folder, text, NULL);
    }
    if (snapshot && !is_directory(snapshot)) {
        tw_free(snapshot);
        snapshot = NULL;
    }
    tw_free(text);
    tw_free(ref);
    return snapshot;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec
                                  : a->tv_nsec > b->tv_nsec;
}

/* The snapshot changed last, or NULL. */
static char *newest_snapshot(const char *folder)
{
    char *newest = NULL, *all = tw_path_join(folder, "snapshots");
    struct timespec when = {0};
    DIR *directory = all ? opendir(all) : NULL;
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        struct stat status;
        char *path = NULL;
        if (is_part(entry->d_name, strlen(entry->d_name)))
            path = tw_path_join(all, entry->d_name);
        if (path && stat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
            (!newest || is_newer(&status.st_mtim, &when))) {
            tw_free(newest);
            newest = path;
            path = NULL;
            when = status.st_mtim;
        }
        tw_free(path);
    }
    if (directory)
        closedir(directory);
    tw_free(all);
    return newest;
}

static enum tw_status find_in_cache(const char *model, char **directory,
                                    struct tw_error *err)
{
    size_t length = strcspn(model, "/");
    char *cache = cache_folder(), *org = tw_strndup(model, length);
    char *folder = NULL, *found = NULL;
    enum tw_status status = TW_OK;
    if (cache && org && model[length])
        folder = format_path("%/models--%--%", cache, org, model + length + 1);
    else if (cache && org)
        folder = format_path("%/models--%", cache, org, NULL);
    if (!folder)
        status = no_memory(err);
    else if (!(found = main_snapshot(folder)) &&
             !(found = newest_snapshot(folder)))
        status = tw_error_set(err, TW_ERR_NOT_FOUND,
                              "'%.300s' is no directory or file, and the "
                              "Hugging Face cache has no snapshot in %s",
                              model, folder);
    tw_free(cache);
    tw_free(org);
    tw_free(folder);
    if (status == TW_OK)
        *directory = found;
    return status;
}

/* A path's directory: itself, or the one that the file stands in. */
static enum tw_status find_on_disk(const char *model, bool is_folder,
                                   char **directory, struct tw_error *err)
{
    const char *base = tw_path_base(model);
    if (is_folder)
        *directory = tw_strdup(model);
    else if (base == model)
        *directory = tw_strdup(".");
    else
        *directory = tw_strndup(model, (size_t)(base - model));
    return *directory ? TW_OK : no_memory(err);
}

/* ".../models--org--name/snapshots/REVISION" gives "name"; others their last
 * part. The path is resolved: absolute, without "." or a trailing slash. */
static char *name_of(const char *path)
{
    const char *base = tw_path_base(path), *cached = strstr(path, "/models--");
    const char *end = strstr(path, "/snapshots/");
    if (!cached || !end || end < cached || end + strlen("/snapshots/") != base)
        return tw_strdup(*base ? base : path);
    const char *start = cached + strlen("/models--");
    for (const char *c = start; c + 1 < end; c++)
        if (c[0] == '-' && c[1] == '-')
            start = c + 2;
    return tw_strndup(start, (size_t)(end - start));
}

enum tw_status tw_checkpoint_find(const char *model, char **directory,
                                  char **name, struct tw_error *err)
{
    struct stat info;
    char *found = NULL;
    enum tw_status status;
    if (stat(model, &info) == 0)
        status = find_on_disk(model, S_ISDIR(info.st_mode), &found, err);
    else if (is_hub_name(model))
        status = find_in_cache(model, &found, err);
    else
        status =
            tw_error_set(err, TW_ERR_NOT_FOUND,
                         "'%.300s' is no directory, file or org/name", model);
    if (status != TW_OK)
        return status;
    char *resolved = realpath(found, NULL);
    char *copy = tw_strdup(resolved ? resolved : found);
    char *last = copy ? name_of(copy) : NULL;
    free(resolved); /* realpath's own */
    tw_free(found);
    if (!last) {
        tw_free(copy);
        return no_memory(err);
    }
    *directory = copy;
    *name = last;
    return TW_OK;
}
