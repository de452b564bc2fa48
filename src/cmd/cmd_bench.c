/* twellscope bench: sparse against dense. */
#include <config.h>

#include "cmd/command.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "cmd/arguments.h"
#include "cmd/options.h"
#include "cmd/output.h"
#include "db/query.h"
#include "db/store.h"
#include "run/bench_ffn.h"
#include "run/record.h"

struct request {
    struct tw_bench_ffn_options ffn;
    const char *db, *name, *output_text, *nnz, *dtype, *command;
    int64_t seed;
    struct tw_output output;
    bool wants_help;
};

#define OPTION(field) offsetof(struct request, ffn.field)
static const struct tw_argument arguments[] = {
    {"rows", 'M', TW_ARG_INT, OPTION(rows), 1},
    {"d-model", 'K', TW_ARG_INT, OPTION(d_model), 2},
    {"d-ff", 'N', TW_ARG_INT, OPTION(d_ff), 1},
    {"repetitions", 'r', TW_ARG_INT, OPTION(repetitions), 1},
    {"threads", 't', TW_ARG_INT, OPTION(threads), 1},
    {"backend", 0, TW_ARG_TEXT, OPTION(backend), 0},
    {"plain", 0, TW_ARG_FLAG, OPTION(is_plain), 0},
    {"dtype", 0, TW_ARG_TEXT, offsetof(struct request, dtype), 0},
    {"nnz", 0, TW_ARG_TEXT, offsetof(struct request, nnz), 0},
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
    if (strcmp(text, "bf16") == 0 || strcmp(text, "bfloat16") == 0)
        *dtype = TW_BF16;
    else if (strcmp(text, "f32") == 0 || strcmp(text, "float32") == 0)
        *dtype = TW_F32;
    else
        return tw_error_set(err, TW_ERR_USAGE,
                            "--dtype: '%s' is not bf16 or "
                            "f32",
                            text);
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
    if (!target || strcmp(target, "ffn") != 0)
        return tw_error_set(err, TW_ERR_USAGE, "say what to bench: ffn");
    if (r->ffn.threads == 0)
        r->ffn.threads = tw_threads_available();
    r->ffn.seed = (uint64_t)r->seed;
    status = parse_dtype(r->dtype, &r->ffn.dtype, err);
    if (status == TW_OK)
        status = parse_nnz(r->nnz, &r->ffn, err);
    if (status == TW_OK)
        status = tw_output_parse(r->output_text, &r->output, err);
    return status;
}

static enum tw_status put(struct tw_store *store, int64_t run,
                          const struct tw_bench_ffn_options *o,
                          const struct tw_bench_ffn_result *r, bool is_twell,
                          struct tw_error *err)
{
    int64_t median = is_twell ? r->twell_median : r->dense_median;
    struct tw_store_bench row = {
        .target = "ffn",
        .name = is_twell ? "twell" : "dense",
        .path = is_twell ? "cpu" : "cblas",
        .dtype = is_twell ? tw_dtype_name(o->dtype) : "float32",
        .data = "uniform",
        .m = o->rows,
        .k = o->d_model,
        .n = o->d_ff,
        .nnz_mean = r->nnz_mean,
        .nnz_max = r->nnz_max,
        .repetitions = o->repetitions,
        .ns_median = median,
        .ns_min = is_twell ? r->twell_min : r->dense_min,
        .ns_mad = is_twell ? r->twell_mad : r->dense_mad,
        .tokens_per_ms = 1e6 * (double)o->rows / (double)median,
        .mj_per_token = NAN,
        .idle_watt = NAN,
        .peak_bytes = r->peak_bytes,
        .rel_error = is_twell ? r->rel_error : 0};
    return tw_store_put_bench(store, run, &row, err);
}

/* Facts of the run: what the numbers depend on. */
static enum tw_status put_facts(const struct request *r, struct tw_store *store,
                                int64_t run, struct tw_error *err)
{
    struct tw_facts facts = {0};
    tw_facts_text(&facts, "backend", NULL, r->ffn.backend);
    tw_facts_text(&facts, "device", NULL, r->ffn.device);
    tw_facts_int(&facts, "seed", NULL, r->seed);
    tw_facts_text(&facts, "command", NULL, r->command);
    tw_facts_text(&facts, "status", NULL, "complete");
    enum tw_status status = tw_facts_store(&facts, store, run, err);
    tw_facts_fini(&facts);
    return status == TW_OK ? tw_record_finished(store, run, err) : status;
}

static enum tw_status store_all(const struct request *r,
                                const struct tw_bench_ffn_result *results,
                                struct tw_store *store, const char *name,
                                struct tw_error *err)
{
    int64_t run = 0;
    enum tw_status status = tw_store_begin(store, err);
    if (status == TW_OK)
        status = tw_store_run_create(store, name, "bench", &run, err);
    for (int i = 0; i < r->ffn.n_nnz && status == TW_OK; i++) {
        status = put(store, run, &r->ffn, &results[i], false, err);
        if (status == TW_OK)
            status = put(store, run, &r->ffn, &results[i], true, err);
    }
    if (status == TW_OK)
        status = put_facts(r, store, run, err);
    return status == TW_OK ? tw_store_commit(store, err) : status;
}

static enum tw_status print_rows(struct request *r, struct tw_store *store,
                                 const char *name, struct tw_error *err)
{
    struct tw_query *query = NULL;
    enum tw_status status = tw_query_open(
        store, "SELECT * FROM bench_results WHERE run = :run", &query, err);
    if (status == TW_OK)
        status = tw_query_bind_text(query, ":run", name, err);
    if (status == TW_OK)
        status = tw_output_open(&r->output, err);
    if (status == TW_OK) {
        status = tw_output_query(query, r->output.format, "bench_results",
                                 r->output.file, err);
        enum tw_status closed = tw_output_close(&r->output, err);
        status = status == TW_OK ? closed : status;
    }
    tw_query_close(query);
    return status;
}

/* Ratios and the break-even, for people: stderr. */
static void say(const struct tw_bench_ffn_options *o,
                const struct tw_bench_ffn_result *results)
{
    for (int i = 0; i < o->n_nnz; i++) {
        const struct tw_bench_ffn_result *r = &results[i];
        double ratio = r->speedup;
        fprintf(stderr,
                "nnz %8.1f (%6.2f %%)  dense %9.3f ms  twell %9.3f ms  ",
                r->nnz_mean, 100 * r->nnz_mean / (double)o->d_ff,
                (double)r->dense_median * 1e-6, (double)r->twell_median * 1e-6);
        if (ratio >= 1)
            fprintf(stderr, "%.2fx faster", ratio);
        else
            fprintf(stderr, "%.2fx SLOWER", 1 / ratio);
        fprintf(stderr, "  routed %" PRId64 " of %d rows\n", r->dense_rows,
                o->rows);
    }
    double even = tw_bench_break_even(results, o->n_nnz);
    if (isnan(even))
        fprintf(stderr, "break-even: outside the measured range\n");
    else
        fprintf(stderr, "break-even: nnz %.0f (%.1f %% density)\n", even,
                100 * even / (double)o->d_ff);
}

/* The database is opened and a name found before minutes are spent. */
static enum tw_status bench(struct request *r, struct tw_error *err)
{
    struct tw_bench_ffn_result results[TW_MAX_BENCH];
    struct tw_store *store = NULL;
    char name[256];
    enum tw_status status = tw_store_open(r->db, TW_STORE_WRITE, &store, err);
    if (status == TW_OK)
        status = tw_record_free_name(store, r->name, name, sizeof name, err);
    if (status == TW_OK)
        status = tw_bench_ffn(&r->ffn, results, err);
    if (status == TW_OK) {
        say(&r->ffn, results);
        status = store_all(r, results, store, name, err);
    }
    if (status == TW_OK)
        status = print_rows(r, store, name, err);
    tw_store_close(store);
    return status;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.ffn = {.backend = "cpu",
                                .rows = 2048,
                                .d_model = 2048,
                                .d_ff = 5632,
                                .repetitions = 9},
                        .name = "bench-ffn",
                        .output_text = "table",
                        .dtype = "bf16",
                        .nnz = "0.3%,1%,3%,5%,10%,20%,40%",
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
    return status;
}

const struct tw_command tw_command_bench = {
    .name = "bench",
    .group = "Measure",
    .summary = "time sparse against dense",
    .usage = "ffn [-M ROWS] [-K D_MODEL] [-N D_FF] [--nnz LIST] [OPTION]...",
    .help =
        "Times one feed-forward layer on synthetic rows with planted sparsity, "
        "every\nneuron equally likely: the whole TwELL layer with packing, "
        "routing and counting\nagainst three big BLAS products on all threads, "
        "interleaved. Ratios and the\nbreak-even density go to standard error, "
        "the rows of bench_results to standard\noutput.\n\n"
        "  -M ROWS             tokens (2048)\n"
        "  -K D_MODEL          model width (2048)\n"
        "  -N D_FF             feed-forward width (5632)\n"
        "  --nnz LIST          mean non-zeros a row, ascending, or N% of -N "
        "(0.3%,1%,3%,\n"
        "                      5%,10%,20%,40%)\n"
        "  --plain             without a gate\n"
        "  --dtype bf16|f32    type of the stored weights (bf16)\n"
        "  -r, --repetitions N timed runs of each (9)\n"
        "  -t, --threads N     threads (all cores)\n"
        "  --backend NAME      cpu\n"
        "  --seed N            of the synthetic data (1)\n"
        "  --db FILE           database that keeps the rows ($TWELLSCOPE_DB, "
        "else\n"
        "                      twellscope.sqlite)\n"
        "  --name RUN          the run's name there (bench-ffn, then -2, -3)\n"
        "  -o, --output X      table, csv, json, jsonl, md, latex, sql, or a "
        "file\n",
    .run = run,
};
