/* Split models: NAME-00001-of-00003.gguf, any of which names them all. Each
 * part is a whole GGUF file that says in split.no and split.count which one
 * it is; the model's own metadata stand in the first. */
#include <config.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "load/gguf_internal.h"
#include "load/load_internal.h"

enum { PART_LIMIT = 1000, SUFFIX = 20 }; /* "-00001-of-00003.gguf" */

bool twp_gguf_is_part(const char *name, int *part, int *count)
{
    size_t length = strlen(name);
    static const char form[] = "-#####-of-#####.gguf";
    if (length <= SUFFIX)
        return false;
    const char *suffix = name + length - SUFFIX;
    for (int i = 0; i < SUFFIX; i++)
        if (form[i] == '#' ? !isdigit((unsigned char)suffix[i])
                           : suffix[i] != form[i])
            return false;
    *part = atoi(suffix + 1);
    *count = atoi(suffix + 10);
    return true;
}

/* split.KEY of a file, or fallback. */
static int64_t split_number(const struct twp_gguf_file *file, const char *key,
                            int64_t fallback)
{
    int64_t number;
    const struct twp_gguf_value *value = twp_gguf_find(file, key);
    return value && twp_gguf_int(value, &number) ? number : fallback;
}

static enum tw_status check_part(const struct twp_gguf_file *file, int64_t part,
                                 int64_t count, struct tw_error *err)
{
    if (split_number(file, "split.no", -1) == part &&
        split_number(file, "split.count", -1) == count)
        return TW_OK;
    return tw_error_set(err, TW_ERR_FORMAT,
                        "%s: its metadata do not say that it is part %lld of "
                        "%lld",
                        file->name, (long long)part + 1, (long long)count);
}

/* The path of part i (from 0), beside the one given. */
static char *part_path(const char *path, int64_t i, int64_t count)
{
    size_t stem = strlen(path) - SUFFIX, size = stem + SUFFIX + 1;
    char *text = tw_alloc(size, 1);
    if (text)
        snprintf(text, size, "%.*s-%05d-of-%05d.gguf", (int)stem, path,
                 (int)i + 1, (int)count);
    return text;
}

static enum tw_status open_parts(struct tw_gguf *gguf, const char *path,
                                 int64_t count, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    gguf->file = tw_calloc((size_t)count, sizeof *gguf->file);
    if (!gguf->file)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    for (int64_t i = 0; i < count && status == TW_OK; i++) {
        char *part = count > 1 ? part_path(path, i, count) : tw_strdup(path);
        if (!part)
            return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
        gguf->files++;
        status = twp_gguf_file_open(part, &gguf->file[i], err);
        if (status == TW_OK && count > 1)
            status = check_part(&gguf->file[i], i, count, err);
        tw_free(part);
    }
    return status;
}

/* A part under another name would hide that the others are missing. */
static enum tw_status check_whole(const struct twp_gguf_file *file,
                                  struct tw_error *err)
{
    int64_t count = split_number(file, "split.count", 1);
    if (count <= 1)
        return TW_OK;
    return tw_error_set(err, TW_ERR_FORMAT,
                        "%s: is one of the %lld parts of a split model, but "
                        "its name does not end in -00001-of-%05lld.gguf, so "
                        "that the others cannot be found",
                        file->name, (long long)count, (long long)count);
}

static enum tw_status check_total(const struct tw_gguf *gguf,
                                  struct tw_error *err)
{
    int64_t total = 0;
    for (size_t i = 0; i < gguf->files; i++)
        total += (int64_t)gguf->file[i].tensors;
    int64_t said = split_number(&gguf->file[0], "split.tensors.count", total);
    if (gguf->files > 1 && said != total)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: split.tensors.count is %lld, but the parts "
                            "hold %lld tensors",
                            gguf->file[0].name, (long long)said,
                            (long long)total);
    return TW_OK;
}

enum tw_status tw_gguf_open(const char *path, struct tw_gguf **out,
                            struct tw_error *err)
{
    int part = 1, count = 1;
    struct tw_gguf *gguf = tw_calloc(1, sizeof *gguf);
    if (!gguf)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    if (!twp_gguf_is_part(tw_path_base(path), &part, &count) || part < 1 ||
        part > count || count > PART_LIMIT)
        count = 1;
    enum tw_status status = open_parts(gguf, path, count, err);
    if (status == TW_OK && count == 1)
        status = check_whole(&gguf->file[0], err);
    if (status == TW_OK)
        status = check_total(gguf, err);
    if (status != TW_OK)
        tw_gguf_close(gguf);
    else
        *out = gguf;
    return status;
}

void tw_gguf_close(struct tw_gguf *gguf)
{
    if (!gguf)
        return;
    for (size_t i = 0; i < gguf->files; i++)
        twp_gguf_file_close(&gguf->file[i]);
    tw_free(gguf->file);
    tw_free(gguf);
}

const char *tw_gguf_name(const struct tw_gguf *gguf)
{
    return gguf->file[0].name;
}

const struct twp_gguf_tensor *twp_gguf_tensor(const struct tw_gguf *gguf,
                                              const char *name)
{
    for (size_t f = 0; f < gguf->files; f++)
        for (size_t i = 0; i < gguf->file[f].tensors; i++)
            if (strcmp(gguf->file[f].tensor[i].name, name) == 0)
                return &gguf->file[f].tensor[i];
    return NULL;
}
