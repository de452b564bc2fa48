/* A checkpoint: its place, its config.json, its tensors. */
#include <config.h>

#include "load/checkpoint.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "load/load_internal.h"

static bool ends_in(const char *text, const char *ending)
{
    size_t a = strlen(text), b = strlen(ending);
    return a >= b && strcmp(text + a - b, ending) == 0;
}

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

/* A safetensors file that was named is the one that is read, never another of
 * its directory: alone, unless it is a shard of the directory's index. */
static enum tw_status open_tensors(const char *model,
                                   struct tw_checkpoint *checkpoint,
                                   struct tw_error *err)
{
    struct tw_tensors *tensors = &checkpoint->tensors;
    if (!is_file(model) || !ends_in(model, ".safetensors"))
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

enum tw_status tw_checkpoint_open(const char *model,
                                  struct tw_checkpoint *checkpoint,
                                  struct tw_error *err)
{
    struct tw_checkpoint found = {0};
    enum tw_status status =
        tw_checkpoint_find(model, &found.directory, &found.name, err);
    if (status != TW_OK)
        return status;
    char *path = tw_path_join(found.directory, "config.json");
    if (!path)
        status = tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", model);
    else
        status = tw_config_open(path, &found.config, err);
    tw_free(path);
    if (status == TW_OK)
        status = open_tensors(model, &found, err);
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
    tw_free(checkpoint->name);
    tw_free(checkpoint->directory);
    *checkpoint = (struct tw_checkpoint){0};
}
