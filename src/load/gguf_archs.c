/* The table of architectures. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "load/gguf_arch.h"

enum { GROUPS = 2, LIST_BYTES = 400 };

static const struct twp_gguf_arch *group(int i)
{
    return i == 0 ? twp_gguf_llama_likes : twp_gguf_gpt_likes;
}

static bool is_row(const struct tw_gguf *gguf, const struct twp_gguf_arch *row,
                   const char *name, size_t size)
{
    return strlen(row->name) == size && memcmp(row->name, name, size) == 0 &&
           (!row->only_with || twp_gguf_tensor(gguf, row->only_with));
}

static void list_rows(char *text, size_t size)
{
    size_t used = 0;
    for (int g = 0; g < GROUPS; g++)
        for (const struct twp_gguf_arch *row = group(g); row->name; row++)
            if (!row->only_with && used < size)
                used += (size_t)snprintf(text + used, size - used, "%s%s",
                                         used ? ", " : "", row->name);
}

enum tw_status twp_gguf_arch_find(const struct tw_gguf *gguf,
                                  const struct twp_gguf_arch **arch,
                                  struct tw_error *err)
{
    const struct twp_gguf_file *file = &gguf->file[0];
    const char *text;
    char list[LIST_BYTES] = "";
    size_t size;
    const struct twp_gguf_value *value =
        twp_gguf_find(file, "general.architecture");
    if (!value || !twp_gguf_text(value, &text, &size))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: no text 'general.architecture'", file->name);
    for (int g = 0; g < GROUPS; g++)
        for (const struct twp_gguf_arch *row = group(g); row->name; row++)
            if (is_row(gguf, row, text, size)) {
                *arch = row;
                return TW_OK;
            }
    list_rows(list, sizeof list);
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "%s: general.architecture '%.*s' is not supported; "
                        "supported: %s",
                        file->name, size < 60 ? (int)size : 60, text, list);
}
