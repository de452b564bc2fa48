/* twellscope bench model: a whole model, sparse against dense. */
#include <config.h>

#include "cmd/bench_command.h"

#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "cmd/arguments.h"
#include "cmd/bench_model_show.h"
#include "cmd/options.h"
#include "run/record.h"

struct request {
    struct tw_bench_model_options model;
    struct tw_text_list files;
    struct tw_output output;
    const char *db, *name, *output_text;
    int64_t seed;
    bool no_energy, wants_help;
};

#define OPTION(field) offsetof(struct request, model.field)
static const struct tw_argument arguments[] = {
    {"model", 'm', TW_ARG_TEXT, OPTION(model), 0},
    {"file", 'f', TW_ARG_LIST, offsetof(struct request, files), 0},
    {"prompt", 'p', TW_ARG_TEXT, OPTION(prompt), 0},
    {"ctx", 'c', TW_ARG_INT, OPTION(ctx), 1},
    {"batch", 'b', TW_ARG_COUNT, OPTION(batch_tokens), 1},
    {"ffn", 0, TW_ARG_TEXT, OPTION(ffn), 0},
    {"paper", 0, TW_ARG_FLAG, OPTION(is_paper), 0},
    {"no-loss", 0, TW_ARG_FLAG, OPTION(no_loss), 0},
    {"repetitions", 'r', TW_ARG_INT, OPTION(repetitions), 1},
    {"threads", 't', TW_ARG_INT, OPTION(threads), 1},
    {"backend", 0, TW_ARG_TEXT, OPTION(backend), 0},
    {"device", 0, TW_ARG_INT, OPTION(device), 0},
    {"no-energy", 0, TW_ARG_FLAG, offsetof(struct request, no_energy), 0},
    {"seed", 0, TW_ARG_COUNT, offsetof(struct request, seed), 0},
    {"db", 0, TW_ARG_TEXT, offsetof(struct request, db), 0},
    {"name", 0, TW_ARG_TEXT, offsetof(struct request, name), 0},
    {"output", 'o', TW_ARG_TEXT, offsetof(struct request, output_text), 0},
    {NULL, 0, TW_ARG_FLAG, 0, 0}};

static enum tw_status check(const struct request *r, struct tw_error *err)
{
    const struct tw_bench_model_options *o = &r->model;
    static const char *const forms[] = {"dense", "twell", "auto"};
    bool has_files = r->files.count > 0, is_form = !o->ffn;
    if (!o->model)
        return tw_error_set(err, TW_ERR_USAGE, "-m MODEL is wanted");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        is_form = is_form || strcmp(o->ffn, forms[i]) == 0;
    if (!is_form)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--ffn: '%s' is not dense, twell or auto", o->ffn);
    if (o->is_paper && (has_files || o->prompt))
        return tw_error_set(err, TW_ERR_USAGE,
                            "--paper: its input is random ids, not %s",
                            has_files ? "-f" : "-p");
    if (!o->is_paper && has_files == (o->prompt != NULL))
        return tw_error_set(err, TW_ERR_USAGE,
                            "its text is wanted, -f FILE or -p TEXT; or "
                            "--paper");
    if (o->batch_tokens > INT32_MAX)
        return tw_error_set(err, TW_ERR_USAGE, "-b %lld: too many tokens",
                            (long long)o->batch_tokens);
    return TW_OK;
}

static enum tw_status parse(int argc, char **argv, struct request *r,
                            struct tw_error *err)
{
    const char *target = NULL;
    enum tw_status status = tw_arguments_parse(argc, argv, arguments, r,
                                               &r->wants_help, &target, 1, err);
    if (status != TW_OK || r->wants_help)
        return status;
    status = check(r, err);
    if (status == TW_OK)
        status = tw_output_parse(r->output_text, &r->output, err);
    if (r->model.threads == 0)
        r->model.threads = tw_threads_available();
    r->model.files = r->files.item;
    r->model.n_files = r->files.count;
    r->model.seed = (uint64_t)r->seed;
    r->model.has_energy = !r->no_energy;
    return status;
}

/* The database is opened and a name found before minutes are spent. */
static enum tw_status bench(struct request *r, const char *command,
                            struct tw_error *err)
{
    struct tw_bench_model found = {.n_rows = 0};
    struct tw_store *store = NULL;
    char name[256];
    enum tw_status status = tw_store_open(r->db, TW_STORE_WRITE, &store, err);
    if (status == TW_OK)
        status = tw_record_free_name(store, r->name, name, sizeof name, err);
    if (status == TW_OK)
        status = tw_bench_model(&r->model, &found, err);
    if (status == TW_OK) {
        tw_bench_model_say(&r->model, &found);
        status =
            tw_bench_model_store(store, name, command, &r->model, &found, err);
    }
    if (status == TW_OK)
        status = tw_bench_print(&r->output, store, name, err);
    tw_bench_model_fini(&found);
    tw_store_close(store);
    return status;
}

enum tw_status tw_bench_run_model(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.model = {.backend = "auto"},
                        .name = "bench-model",
                        .output_text = "table",
                        .seed = 1};
    struct tw_strbuf command = {0};
    tw_command_line(&command, argc, argv);
    r.db = tw_default_db();
    enum tw_status status = parse(argc, argv, &r, err);
    if (status == TW_OK && r.wants_help)
        tw_print_help(&tw_command_bench);
    else if (status == TW_OK)
        status = bench(&r, tw_strbuf_text(&command), err);
    tw_strbuf_fini(&command);
    tw_free(r.files.item);
    return status;
}
