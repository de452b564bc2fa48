/* twellscope info: what a checkpoint is, before anything is run. */
#include <config.h>

#include "cmd/command.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/threads.h"
#include "cmd/arguments.h"
#include "cmd/options.h"
#include "model/model.h"

struct request {
    const char *model, *activation;
    int batch_tokens;
    bool wants_list, wants_help;
};

static const struct tw_argument arguments[] = {
    {"model", 'm', TW_ARG_TEXT, offsetof(struct request, model), 0},
    {"activation", 0, TW_ARG_TEXT, offsetof(struct request, activation), 0},
    {"batch-size", 'b', TW_ARG_INT, offsetof(struct request, batch_tokens), 1},
    {"list", 0, TW_ARG_FLAG, offsetof(struct request, wants_list), 0},
    {NULL, 0, TW_ARG_FLAG, 0, 0}};

static void print_size(const char *what, int64_t bytes)
{
    printf("  %-20s %10.1f MiB\n", what, (double)bytes / 1048576);
}

static void print_facts(const struct tw_model *m)
{
    char stored[256];
    printf("model        %s\n", m->checkpoint.directory);
    printf("model_type   %s\n", m->model_type);
    printf("shape        %" PRId64 " layers, d_model %" PRId64 ", d_ff %" PRId64
           " (%s), %" PRId64 " heads, %" PRId64 " kv heads, head_dim %" PRId64
           "\n",
           m->layers, m->d_model, m->d_ff, m->is_gated ? "gated" : "plain",
           m->heads, m->kv_heads, m->head_dim);
    printf("vocabulary   %" PRId64 "\n", m->vocab);
    printf("positions    %" PRId64 ", %s\n", m->max_position, m->position_text);
    if (m->position_limit > 0)
        printf("             no more than %" PRId64 ": %s\n", m->position_limit,
               m->limit_reason);
    printf("activation   %s (source: %s)\n", m->activation.name,
           m->activation_source);
    printf("path         %s\n", m->layer[0].ffn.path == TW_FFN_TWELL
                                    ? "twell (overflowing rows run dense)"
                                    : "dense");
    printf("head         %s\n", m->head_source);
    tw_checkpoint_describe(&m->checkpoint, stored, sizeof stored);
    printf("stored       %s\n", stored);
    printf("weights      %s, %.3f M parameters, %.1f MiB\n", m->dtype,
           (double)m->parameters * 1e-6, (double)m->bytes / 1048576);
    printf("model_hash   %s\n", m->hash);
}

static void print_tensors(const struct tw_model *m)
{
    const struct tw_tensors *all = &m->checkpoint.tensors;
    size_t used = 0, unused = 0, at = 0;
    const char *name;
    for (size_t i = 0; i < all->count; i++)
        used += all->tensor[i].is_used;
    while (tw_model_unused(m, &at))
        unused++;
    printf("tensors      %zu of %zu used, none missing", used, all->count);
    if (used + unused < all->count)
        printf(", %zu known and not needed", all->count - used - unused);
    printf("\n");
    for (at = 0; (name = tw_model_unused(m, &at)) != NULL;)
        printf("  unused     %s\n", name);
}

/* The lists that config.json's fields fall into. */
enum list { USED, OVERRIDDEN, IGNORED };

struct field_list {
    enum list list;
    const char *title; /* NULL: printed */
    struct tw_config *config;
};

static void print_field(void *arg, const char *field, const char *json,
                        bool is_used, const char *why)
{
    struct field_list *wanted = arg;
    const char *origin = tw_config_origin(wanted->config, field);
    enum list list = why ? OVERRIDDEN : is_used ? USED : IGNORED;
    if (list != wanted->list)
        return;
    if (wanted->title)
        printf("%s, %s\n", tw_config_file(wanted->config), wanted->title);
    wanted->title = NULL;
    printf("  %s = %s", field, json);
    if (origin)
        printf("  (%s)", origin);
    printf("%s%s\n", why ? ": " : "", why ? why : "");
}

static void print_config(const struct tw_model *m)
{
    struct tw_config *config = m->checkpoint.config;
    struct field_list lists[] = {
        {USED, "fields used", config},
        {OVERRIDDEN, "fields overridden", config},
        {IGNORED, "fields without effect here", config}};
    for (int i = 0; i < 3; i++)
        tw_config_each(config, print_field, &lists[i]);
}

static void print_memory(const struct tw_model *m, int rows)
{
    struct tw_model_memory memory;
    tw_model_memory(m, rows, &memory);
    printf("memory on the cpu backend, batches of %d tokens\n", rows);
    print_size("mapped from files", memory.mapped_bytes);
    if (memory.loaded_bytes > 0)
        print_size("made of stored ones", memory.loaded_bytes);
    if (memory.copied_bytes > 0)
        print_size("copies, fused weights", memory.copied_bytes);
    print_size("float copies, all", memory.widened_bytes);
    print_size("float copies, least", memory.layer_bytes);
    print_size("activations", memory.buffer_bytes);
    print_size("counts", memory.obs_bytes);
}

static void print_family(void *arg, const char *model_type, const char *note)
{
    (void)arg;
    printf("%-18s %s\n", model_type, note);
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.batch_tokens = 4096};
    struct tw_model *model = NULL;
    enum tw_status status = tw_arguments_parse(argc, argv, arguments, &r,
                                               &r.wants_help, NULL, 0, err);
    if (status != TW_OK)
        return status;
    if (r.wants_help) {
        tw_print_help(&tw_command_info);
        return TW_OK;
    }
    if (r.wants_list) {
        tw_model_each_family(print_family, NULL);
        return TW_OK;
    }
    if (!r.model)
        return tw_error_set(err, TW_ERR_USAGE, "-m MODEL is missing");
    const struct tw_model_options options = {.activation = r.activation,
                                             .threads = tw_threads_available()};
    status = tw_model_open(r.model, &options, &model, err);
    if (status != TW_OK)
        return status;
    print_facts(model);
    print_tensors(model);
    print_memory(model, r.batch_tokens);
    print_config(model);
    tw_model_close(model);
    return TW_OK;
}

const struct tw_command tw_command_info = {
    .name = "info",
    .group = "Look",
    .summary = "show a checkpoint: activation, shapes, tensors, memory",
    .usage = "-m MODEL [--activation NAME[:ARG]] [-b TOKENS] | --list",
    .help =
        "Reads the checkpoint and checks every tensor, NaN and Inf included, "
        "without\nrunning it. Prints the resolved configuration, the "
        "activation "
        "and where it came\nfrom, the tensors used and unused, the memory "
        "needed, and which fields of\nconfig.json (or of a GGUF file's "
        "metadata) have an effect.\n\n"
        "  -m, --model MODEL      directory (safetensors, pytorch_model.bin "
        "or GGUF),\n"
        "                         file in it, or org/name in the Hugging Face "
        "cache\n"
        "                         (offline)\n"
        "  --activation NAME[:A]  as for profile\n"
        "  -b, --batch-size N     tokens a batch, for the memory (4096)\n"
        "  --list                 the families (model_type) that can be read\n",
    .run = run,
};
