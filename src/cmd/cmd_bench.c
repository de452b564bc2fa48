/* twellscope bench: sparse against dense. */
#include <config.h>

#include "cmd/bench_command.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "cmd/arguments.h"
#include "cmd/bench_show.h"
#include "cmd/options.h"
#include "db/query.h"
#include "db/store.h"
#include "run/bench_ffn.h"
#include "run/record.h"

struct request {
    struct tw_bench_ffn_options ffn;
    struct tw_text_list files;
    const char *db, *name, *output_text, *nnz, *dtype, *command;
    int64_t seed;
    struct tw_output output;
    bool no_energy, wants_help;
};

#define OPTION(field) offsetof(struct request, ffn.field)
static const struct tw_argument arguments[] = {
    {"rows", 'M', TW_ARG_INT, OPTION(rows), 1},
    {"d-model", 'K', TW_ARG_INT, OPTION(d_model), 2},
    {"d-ff", 'N', TW_ARG_INT, OPTION(d_ff), 1},
    {"repetitions", 'r', TW_ARG_INT, OPTION(repetitions), 1},
    {"threads", 't', TW_ARG_INT, OPTION(threads), 1},
    {"backend", 0, TW_ARG_TEXT, OPTION(backend), 0},
    {"device", 0, TW_ARG_INT, OPTION(device), 0},
    {"path", 0, TW_ARG_TEXT, OPTION(path), 0},
    {"plain", 0, TW_ARG_FLAG, OPTION(is_plain), 0},
    {"dtype", 0, TW_ARG_TEXT, offsetof(struct request, dtype), 0},
    {"nnz", 0, TW_ARG_TEXT, offsetof(struct request, nnz), 0},
    {"data", 0, TW_ARG_TEXT, OPTION(data), 0},
    {"layer", 0, TW_ARG_INT, OPTION(layer), 0},
    {"file", 'f', TW_ARG_LIST, offsetof(struct request, files), 0},
    {"prompt", 'p', TW_ARG_TEXT, OPTION(prompt), 0},
    {"ctx", 'c', TW_ARG_INT, OPTION(ctx), 1},
    {"no-energy", 0, TW_ARG_FLAG, offsetof(struct request, no_energy), 0},
    {"seed", 0, TW_ARG_COUNT, offsetof(struct request, seed), 0},
    {"db", 0, TW_ARG_TEXT, offsetof(struct request, db), 0},
    {"name", 0, TW_ARG_TEXT, offsetof(struct request, name), 0},
    {"output", 'o', TW_ARG_TEXT, offsetof(struct request, output_text), 0},
    {NULL, 0, TW_ARG_FLAG, 0, 0}};

static enum tw_status parse_nnz(const char *text,
                                struct tw_bench_ffn_options *o,
                                struct tw_error *err)
{
    o->n_nnz = 0;
    if (!*text)
        return tw_error_set(err, TW_ERR_USAGE, "--nnz: an empty list");
    while (*text) {
        char *end;
        double value = strtod(text, &end);
        if (*end == '%') {
            value *= (double)o->d_ff / 100;
            end++;
        }
        if (end == text || (*end && *end != ',') || !(value >= 0) ||
            value > (double)o->d_ff || o->n_nnz == TW_MAX_BENCH)
            return tw_error_set(err, TW_ERR_USAGE,
                                "--nnz: '%s' is not a list of at most %d "
                                "numbers of non-zeros, or N%%",
                                text, TW_MAX_BENCH);
        if (o->n_nnz > 0 && value <= o->nnz[o->n_nnz - 1])
            return tw_error_set(err, TW_ERR_USAGE, "--nnz: '%s' must ascend",
                                text);
        o->nnz[o->n_nnz++] = value;
        text = end + (*end == ',');
    }
    return TW_OK;
}

static enum tw_status parse_dtype(const char *text, enum tw_dtype *dtype,
                                  struct tw_error *err)
{
    static const struct {
        const char *name;
        enum tw_dtype dtype;
    } names[] = {{"bf16", TW_BF16}, {"bfloat16", TW_BF16}, {"fp16", TW_F16},
                 {"f16", TW_F16},   {"float16", TW_F16},   {"f32", TW_F32},
                 {"fp32", TW_F32},  {"float32", TW_F32}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].name) == 0) {
            *dtype = names[i].dtype;
            return TW_OK;
        }
    return tw_error_set(err, TW_ERR_USAGE,
                        "--dtype: '%s' is not bf16, fp16 or f32", text);
}

/* What synthetic and recorded rows each take. */
static enum tw_status check_data(struct request *r, struct tw_error *err)
{
    struct tw_bench_ffn_options *o = &r->ffn;
    bool is_recorded =
        strcmp(o->data, "uniform") != 0 && strcmp(o->data, "skewed") != 0;
    const struct {
        const char *option;
        bool is_given, is_for_recorded;
    } rules[] = {
        {"-K", o->d_model != 0, false},   {"-N", o->d_ff != 0, false},
        {"--plain", o->is_plain, false},  {"--dtype", r->dtype != NULL, false},
        {"--nnz", r->nnz != NULL, false}, {"--layer", o->layer >= 0, true},
        {"-f", r->files.count > 0, true}, {"-p", o->prompt != NULL, true},
        {"-c", o->ctx > 0, true}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].is_given && rules[i].is_for_recorded != is_recorded)
            return tw_error_set(err, TW_ERR_USAGE, "%s: not with --data %s",
                                rules[i].option, o->data);
    if (is_recorded && (r->files.count > 0) == (o->prompt != NULL))
        return tw_error_set(err, TW_ERR_USAGE,
                            "--data %s: its text is wanted, -f FILE or -p TEXT",
                            o->data);
    return TW_OK;
}

static enum tw_status check_path(const struct tw_bench_ffn_options *o,
                                 struct tw_error *err)
{
    static const char *const paths[] = {"auto", "hopper", "portable"};
    bool is_cuda = strcmp(o->backend, "cuda") == 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(o->path, paths[i]) == 0 && (i == 0 || is_cuda))
            return TW_OK;
    return tw_error_set(err, TW_ERR_USAGE,
                        is_cuda ? "--path: '%s' is not auto, hopper or portable"
                                : "--path %s: only with --backend cuda",
                        o->path);
}

static enum tw_status take_defaults(struct request *r, struct tw_error *err)
{
    struct tw_bench_ffn_options *o = &r->ffn;
    if (o->threads == 0)
        o->threads = tw_threads_available();
    if (o->d_model == 0)
        o->d_model = 2048;
    if (o->d_ff == 0)
        o->d_ff = 5632;
    o->files = r->files.item;
    o->n_files = r->files.count;
    o->seed = (uint64_t)r->seed;
    o->has_energy = !r->no_energy;
    enum tw_status status =
        parse_dtype(r->dtype ? r->dtype : "bf16", &o->dtype, err);
    if (status == TW_OK && o->dtype == TW_F32 &&
        strcmp(o->backend, "cuda") == 0)
        status = tw_error_set(err, TW_ERR_USAGE,
                              "--dtype: backend 'cuda' computes in bf16 or "
                              "fp16");
    if (status == TW_OK)
        status =
            parse_nnz(r->nnz ? r->nnz : "0.3%,1%,3%,5%,10%,20%,40%", o, err);
    return status;
}

static enum tw_status parse(int argc, char **argv, struct request *r,
                            struct tw_error *err)
{
    const char *target = NULL;
    enum tw_status status = tw_arguments_parse(argc, argv, arguments, r,
                                               &r->wants_help, &target, 1, err);
    if (status != TW_OK || r->wants_help)
        return status;
    if (!target || strcmp(target, "ffn") != 0)
        return tw_error_set(err, TW_ERR_USAGE,
                            "say what to bench: ffn or model");
    status = check_data(r, err);
    if (status == TW_OK)
        status = check_path(&r->ffn, err);
    if (status == TW_OK)
        status = take_defaults(r, err);
    if (status == TW_OK)
        status = tw_output_parse(r->output_text, &r->output, err);
    return status;
}

enum tw_status tw_bench_print(struct tw_output *output, struct tw_store *store,
                              const char *name, struct tw_error *err)
{
    struct tw_query *query = NULL;
    enum tw_status status = tw_query_open(
        store, "SELECT * FROM bench_results WHERE run = :run", &query, err);
    if (status == TW_OK)
        status = tw_query_bind_text(query, ":run", name, err);
    if (status == TW_OK)
        status = tw_output_open(output, err);
    if (status == TW_OK) {
        status = tw_output_query(query, output->format, "bench_results",
                                 output->file, err);
        enum tw_status closed = tw_output_close(output, err);
        status = status == TW_OK ? closed : status;
    }
    tw_query_close(query);
    return status;
}

/* The database is opened and a name found before minutes are spent. */
static enum tw_status bench(struct request *r, struct tw_error *err)
{
    struct tw_bench_point points[TW_MAX_BENCH];
    struct tw_store *store = NULL;
    char name[256];
    enum tw_status status = tw_store_open(r->db, TW_STORE_WRITE, &store, err);
    if (status == TW_OK)
        status = tw_record_free_name(store, r->name, name, sizeof name, err);
    if (status == TW_OK)
        status = tw_bench_ffn(&r->ffn, points, err);
    if (status == TW_OK) {
        tw_bench_say(&r->ffn, points);
        status = tw_bench_store(store, name, r->command, &r->ffn, points, err);
    }
    if (status == TW_OK)
        status = tw_bench_print(&r->output, store, name, err);
    tw_store_close(store);
    return status;
}

static enum tw_status run_ffn(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.ffn = {.backend = "cpu",
                                .path = "auto",
                                .data = "uniform",
                                .rows = 2048,
                                .layer = -1},
                        .name = "bench-ffn",
                        .output_text = "table",
                        .seed = 1};
    struct tw_strbuf command = {0};
    tw_command_line(&command, argc, argv);
    r.command = tw_strbuf_text(&command);
    r.db = tw_default_db();
    enum tw_status status = parse(argc, argv, &r, err);
    if (status == TW_OK && r.wants_help)
        tw_print_help(&tw_command_bench);
    else if (status == TW_OK)
        status = bench(&r, err);
    tw_strbuf_fini(&command);
    tw_free(r.files.item);
    return status;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    if (argc > 1 && strcmp(argv[1], "model") == 0)
        return tw_bench_run_model(argc, argv, err);
    return run_ffn(argc, argv, err);
}

const struct tw_command tw_command_bench = {
    .name = "bench",
    .group = "Measure",
    .summary = "time sparse against dense",
    .usage = "ffn [-M ROWS] [-K D_MODEL] [-N D_FF] [--nnz LIST] [OPTION]... | "
             "model -m MODEL -f FILE | -p TEXT | --paper [OPTION]...",
    .help =
        "ffn times one feed-forward layer: the whole TwELL layer with packing, "
        "routing and\ncounting against dense forms, interleaved. cpu: three "
        "big BLAS products on all\nthreads. cuda: cuBLASLt's products with "
        "what they can fuse, and our own dense\nlayer without counting; the "
        "fastest of them is dense. Ratios and the break-even\ndensity go to "
        "standard error, the rows of bench_results to standard output.\n\n"
        "  -M ROWS             tokens (2048)\n"
        "  -K D_MODEL          model width (2048)\n"
        "  -N D_FF             feed-forward width (5632)\n"
        "  --nnz LIST          mean non-zeros a row, ascending, or N% of -N "
        "(0.3%,1%,3%,\n"
        "                      5%,10%,20%,40%)\n"
        "  --plain             without a gate\n"
        "  --dtype bf16|fp16|f32\n"
        "                      type of the stored weights (bf16); cuda "
        "computes "
        "in it\n"
        "  --data X            uniform: every neuron fires equally often; "
        "skewed: at the\n"
        "                      rates of a trained layer, scaled; or a "
        "checkpoint, whose\n"
        "                      weights and recorded rows are taken (uniform)\n"
        "  --layer L           the checkpoint's layer (the middle one)\n"
        "  -f FILE, -p TEXT    the text that is recorded, up to -M rows of it\n"
        "  -c CTX              as for profile\n"
        "  --backend NAME      cpu or cuda (cpu)\n"
        "  --device N          number of the GPU (0)\n"
        "  --path P            cuda's kernels: auto, hopper, portable (auto)\n"
        "  --no-energy         don't measure it (cuda: NVML's counter over a "
        "second of\n"
        "                      work of the fastest dense form and of twell)\n"
        "  -r, --repetitions N timed runs of each (cpu 9, cuda 25)\n"
        "  -t, --threads N     threads (all cores)\n"
        "  --seed N            of the synthetic data (1)\n"
        "  --db FILE           database that keeps the rows ($TWELLSCOPE_DB, "
        "else\n"
        "                      twellscope.sqlite)\n"
        "  --name RUN          the run's name there (bench-ffn, then -2, -3)\n"
        "  -o, --output X      table, csv, json, jsonl, md, latex, sql, or a "
        "file\n\n"
        "model times a checkpoint's whole forward pass, its layers dense, "
        "sparse (twell) and\nas planned (auto), interleaved, and each layer's "
        "feed-forward part; counting is\nincluded but in dense (cuda). The "
        "input's non-zeros go to standard error; figure\nlayers draws the "
        "layers' shares of the time saved.\n\n"
        "  -m MODEL            as for profile\n"
        "  -f FILE, -p TEXT    the text, whose first -b tokens are the batch\n"
        "  -c CTX              as for profile (--paper: 2048)\n"
        "  -b TOKENS           tokens of the batch (4096; --paper: 64 "
        "sequences)\n"
        "  --ffn F             dense alone; twell or auto beside dense (each)\n"
        "  --paper             as the paper: uniformly random ids, no head, "
        "the mean of 50\n"
        "  --no-loss           no head\n"
        "  --backend NAME      auto, cpu or cuda (auto)\n"
        "  -r, --repetitions N timed passes of each (by time, 5 to 100)\n"
        "  --name RUN          (bench-model, then -2, -3)\n"
        "  and --device, --no-energy, -t, --seed, --db, -o as for ffn\n",
    .run = run,
};
