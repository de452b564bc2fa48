/* What a checkpoint is stored as, in words. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "load/checkpoint.h"
#include "load/load_internal.h"

enum { KINDS = 24 };

const char *tw_tensor_type(const struct tw_tensor *tensor)
{
    return tensor->stored ? tensor->stored : tw_dtype_name(tensor->dtype);
}

static const char *format_of(const struct tw_checkpoint *checkpoint)
{
    const struct tw_tensors *tensors = &checkpoint->tensors;
    if (checkpoint->gguf)
        return "GGUF";
    return tensors->files > 0 && twp_is_torch(tensors->file[0].name)
               ? "PyTorch"
               : "safetensors";
}

void tw_checkpoint_describe(const struct tw_checkpoint *checkpoint, char *text,
                            size_t size)
{
    const struct tw_tensors *tensors = &checkpoint->tensors;
    struct {
        const char *type;
        size_t count;
    } kinds[KINDS] = {{NULL, 0}};
    for (size_t i = 0; i < tensors->count; i++) {
        const char *type = tw_tensor_type(&tensors->tensor[i]);
        int k = 0;
        while (k < KINDS - 1 && kinds[k].type &&
               strcmp(kinds[k].type, type) != 0)
            k++;
        kinds[k].type = type;
        kinds[k].count++;
    }
    size_t used =
        (size_t)snprintf(text, size, "%s, %zu file%s:", format_of(checkpoint),
                         tensors->files, tensors->files == 1 ? "" : "s");
    for (int k = 0; k < KINDS && kinds[k].type && used < size; k++)
        used += (size_t)snprintf(text + used, size - used, "%s %zu %s",
                                 k ? "," : "", kinds[k].count, kinds[k].type);
    if (used < size)
        snprintf(text + used, size - used, " tensors");
}
