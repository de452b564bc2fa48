/* The table of families. To add one, write its row in a file of its own
 * (family_NAME.c) and list it here. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "model/family.h"

#define ROWS(X)                                                                \
    X(arcee)                                                                   \
    X(bamboo)                                                                  \
    X(bloom)                                                                   \
    X(cohere)                                                                  \
    X(falcon)                                                                  \
    X(gemma)                                                                   \
    X(gemma2)                                                                  \
    X(gemma3)                                                                  \
    X(gemma3_text)                                                             \
    X(gpt2)                                                                    \
    X(gpt_neox)                                                                \
    X(gptj)                                                                    \
    X(granite)                                                                 \
    X(llama)                                                                   \
    X(llama_sparse)                                                            \
    X(minicpm)                                                                 \
    X(mistral)                                                                 \
    X(nemotron)                                                                \
    X(olmo2)                                                                   \
    X(opt)                                                                     \
    X(persimmon)                                                               \
    X(phi)                                                                     \
    X(phi3)                                                                    \
    X(qwen2)                                                                   \
    X(qwen2_sparse)                                                            \
    X(qwen3)                                                                   \
    X(refined_web)                                                             \
    X(refined_web_model)                                                       \
    X(smollm3)                                                                 \
    X(sparsellama)                                                             \
    X(stablelm)

#define DECLARE(name) extern const struct tw_family tw_family_##name;
#define POINT(name)   &tw_family_##name,
ROWS(DECLARE)
/* Their neurons have a key of their own in the database, but nothing here runs
 * them yet. */
static const char *const mixtures[] = {"mixtral",
                                       "qwen2_moe",
                                       "qwen3_moe",
                                       "granitemoe",
                                       "olmoe",
                                       "phimoe",
                                       "dbrx",
                                       "jamba",
                                       "deepseek_v2",
                                       "deepseek_v3",
                                       "gpt_oss",
                                       "llama4",
                                       "llama4_text",
                                       "glm4_moe",
                                       "ernie4_5_moe",
                                       "switch_transformers",
                                       "turbosparsemixtral"};

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
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++)
        if (strcmp(mixtures[i], model_type) == 0)
            return tw_error_set(err, TW_ERR_UNSUPPORTED,
                                "config.json: model_type '%s' is a mixture of "
                                "experts, which is not supported yet",
                                model_type);
    tw_model_families(list, sizeof list);
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "config.json: model_type '%.100s' is not supported; "
                        "supported: %s",
                        model_type, list);
}
