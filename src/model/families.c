/* The table of families. To add one, write its row in a file of its own
 * (family_NAME.c) and list it here. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "model/family.h"

#define ROWS(X)                                                                \
    X(llama)                                                                   \
    X(llama_sparse)                                                            \
    X(bloom)                                                                   \
    X(falcon)                                                                  \
    X(gpt2)                                                                    \
    X(gpt_neox)                                                                \
    X(gptj)                                                                    \
    X(nemotron)                                                                \
    X(opt)                                                                     \
    X(phi)                                                                     \
    X(refined_web)                                                             \
    X(refined_web_model)

#define DECLARE(name) extern const struct tw_family tw_family_##name;
#define POINT(name)   &tw_family_##name,
ROWS(DECLARE)
static const struct tw_family *const families[] = {ROWS(POINT)};
enum { FAMILIES = sizeof families / sizeof *families };

void tw_model_families(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < FAMILIES && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i ? ", " : "", families[i]->model_type);
}

void tw_model_each_family(tw_family_fn *fn, void *arg)
{
    for (int i = 0; i < FAMILIES; i++)
        fn(arg, families[i]->model_type, families[i]->note);
}

enum tw_status twp_family_find(const char *model_type,
                               const struct tw_family **family,
                               struct tw_error *err)
{
    char list[512];
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(families[i]->model_type, model_type) == 0) {
            *family = families[i];
            return TW_OK;
        }
    tw_model_families(list, sizeof list);
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "config.json: model_type '%.100s' is not supported; "
                        "supported: %s",
                        model_type, list);
}
