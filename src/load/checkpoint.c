/* A checkpoint: its place, its config, its tensors. */
#include <config.h>

#include "load/checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "load/gguf_arch.h"
#include "load/load_internal.h"

static bool has_file(const struct tw_tensors *tensors, const char *name)
{
    for (size_t i = 0; i < tensors->files; i++)
        if (strcmp(tensors->file[i].name, name) == 0)
            return true;
    return false;
}

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* A file of tensors that was named is the one that is read, never another of
 * its directory: alone, unless it is a shard of the directory's index. */
static enum tw_status open_tensors(const char *model,
                                   struct tw_checkpoint *checkpoint,
                                   struct tw_error *err)
{
    struct tw_tensors *tensors = &checkpoint->tensors;
    if (!is_file(model) || !twp_is_weights(model))
        return tw_tensors_open(checkpoint->directory, tensors, err);
    struct tw_error cause = {0};
    enum tw_status status =
        tw_tensors_open(checkpoint->directory, tensors, &cause);
    if (status == TW_OK) {
        if (has_file(tensors, tw_path_base(model)))
            return TW_OK;
        tw_tensors_close(tensors);
    } else if (status != TW_ERR_NOT_FOUND) {
        return tw_error_set(err, status, "%s", cause.text);
    }
    return tw_tensors_open_file(model, tensors, err);
}

/* config.json and what stands beside it. */
static enum tw_status open_directory(const char *model,
                                     struct tw_checkpoint *found,
                                     struct tw_error *err)
{
    enum tw_status status;
    char *path = tw_path_join(found->directory, "config.json");
    if (!path)
        status = tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", model);
    else
        status = tw_config_open(path, &found->config, err);
    tw_free(path);
    if (status == TW_OK)
        status = open_tensors(model, found, err);
    return status;
}

/* "Model-Q8_0-00001-of-00003.gguf" is called "Model-Q8_0". */
static enum tw_status name_after(const char *path, char **name,
                                 struct tw_error *err)
{
    int part, count;
    const char *base = tw_path_base(path);
    size_t tail = twp_gguf_is_part(base, &part, &count)
                      ? strlen("-00001-of-00003.gguf")
                      : strlen(".gguf");
    tw_free(*name);
    *name = tw_strndup(base, strlen(base) - tail);
    return *name ? TW_OK : tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

static enum tw_status open_gguf(const char *path, int threads,
                                struct tw_checkpoint *found,
                                struct tw_error *err)
{
    const struct twp_gguf_arch *arch = NULL;
    enum tw_status status = name_after(path, &found->name, err);
    if (status == TW_OK)
        status = tw_gguf_open(path, &found->gguf, err);
    if (status == TW_OK)
        status = twp_gguf_arch_find(found->gguf, &arch, err);
    if (status == TW_OK)
        status = twp_gguf_config(found->gguf, arch, &found->config, err);
    if (status == TW_OK)
        status =
            twp_gguf_tensors(found->gguf, arch, threads, &found->tensors, err);
    return status;
}

enum tw_status tw_checkpoint_open(const char *model, int threads,
                                  struct tw_checkpoint *checkpoint,
                                  struct tw_error *err)
{
    struct tw_checkpoint found = {0};
    char *gguf = NULL;
    enum tw_status status =
        tw_checkpoint_find(model, &found.directory, &found.name, err);
    if (status == TW_OK)
        status = tw_gguf_find(model, &gguf, err);
    if (status == TW_OK && gguf)
        status = open_gguf(gguf, threads, &found, err);
    else if (status == TW_OK)
        status = open_directory(model, &found, err);
    tw_free(gguf);
    if (status != TW_OK)
        tw_checkpoint_close(&found);
    else
        *checkpoint = found;
    return status;
}

void tw_checkpoint_close(struct tw_checkpoint *checkpoint)
{
    tw_tensors_close(&checkpoint->tensors);
    tw_config_close(checkpoint->config);
    tw_gguf_close(checkpoint->gguf);
    tw_free(checkpoint->name);
    tw_free(checkpoint->directory);
    *checkpoint = (struct tw_checkpoint){0};
}
