/* What `bench ffn` found, for the database and for people. */
#include <config.h>

#include "cmd/bench_show.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run/energy.h"
#include "run/record.h"

/* cpu products are made in float, whatever the weights are stored in. */
static const char *dtype_of(const struct tw_bench_ffn_options *o,
                            const struct tw_bench_row *r)
{
    bool is_float = r->is_dense && strcmp(r->path, "cblas") == 0;
    return tw_dtype_name(is_float ? TW_F32 : o->dtype);
}

static enum tw_status put(struct tw_store *store, int64_t run,
                          const struct tw_bench_ffn_options *o,
                          const struct tw_bench_point *p,
                          const struct tw_bench_row *r, struct tw_error *err)
{
    bool has_energy = !isnan(r->mj_per_token);
    struct tw_store_bench row = {
        .target = r->target,
        .name = r->name,
        .path = r->path,
        .dtype = dtype_of(o, r),
        .data = o->data_name,
        .m = o->rows,
        .k = o->d_model,
        .n = o->d_ff,
        .nnz_mean = p->nnz_mean,
        .nnz_max = p->nnz_max,
        .repetitions = p->repetitions,
        .ns_median = r->median,
        .ns_min = r->min,
        .ns_mad = r->mad,
        .tokens_per_ms = 1e6 * (double)o->rows / (double)r->median,
        .mj_per_token = r->mj_per_token,
        .energy_method = has_energy ? TW_ENERGY_METHOD : NULL,
        .idle_watt = has_energy ? p->idle_watt : NAN,
        .peak_bytes = r->peak_bytes > 0 ? r->peak_bytes : TW_NULL,
        .rel_error = r->rel_error};
    return tw_store_put_bench(store, run, &row, err);
}

/* Facts of the run: what the numbers depend on. */
static enum tw_status put_facts(const struct tw_bench_ffn_options *o,
                                const char *command, struct tw_store *store,
                                int64_t run, struct tw_error *err)
{
    struct tw_facts facts = {0};
    tw_facts_text(&facts, "backend", NULL, o->backend);
    tw_facts_text(&facts, "device", NULL, o->device_name);
    tw_facts_int(&facts, "gated", NULL, !o->is_plain);
    tw_facts_int(&facts, "seed", NULL, (int64_t)o->seed);
    tw_facts_text(&facts, "command", NULL, command);
    tw_facts_text(&facts, "status", NULL, "complete");
    enum tw_status status = tw_facts_store(&facts, store, run, err);
    tw_facts_fini(&facts);
    return status == TW_OK ? tw_record_finished(store, run, err) : status;
}

enum tw_status tw_bench_store(struct tw_store *store, const char *name,
                              const char *command,
                              const struct tw_bench_ffn_options *o,
                              const struct tw_bench_point *points,
                              struct tw_error *err)
{
    int64_t run = 0;
    enum tw_status status = tw_store_begin(store, err);
    if (status == TW_OK)
        status = tw_store_run_create(store, name, "bench", &run, err);
    for (int i = 0; i < o->n_nnz; i++)
        for (int f = 0; f < points[i].n_rows && status == TW_OK; f++)
            status = put(store, run, o, &points[i], &points[i].row[f], err);
    if (status == TW_OK)
        status = put_facts(o, command, store, run, err);
    return status == TW_OK ? tw_store_commit(store, err) : status;
}

static void say_ratio(const char *name, double speedup)
{
    if (speedup >= 1)
        fprintf(stderr, "  %s%.2fx faster", name, speedup);
    else
        fprintf(stderr, "  %s%.2fx SLOWER", name, 1 / speedup);
}

static void say_point(const struct tw_bench_ffn_options *o,
                      const struct tw_bench_point *p)
{
    const struct tw_bench_row *dense = tw_bench_dense(p);
    const struct tw_bench_row *twell = tw_bench_find(p, "ffn", "twell");
    fprintf(stderr, "nnz %8.1f (%6.2f %%)  dense %9.3f ms  twell %9.3f ms",
            p->nnz_mean, 100 * p->nnz_mean / (double)o->d_ff,
            (double)dense->median * 1e-6, (double)twell->median * 1e-6);
    say_ratio("", twell->speedup);
    fprintf(stderr, "  routed %" PRId64 " of %d rows", p->routed, o->rows);
    if (p->has_plan)
        fprintf(stderr, "  auto %s %.2fx",
                p->is_planned_dense ? "dense" : "twell",
                tw_bench_find(p, "ffn", "auto")->speedup);
    if (!isnan(twell->mj_per_token))
        fprintf(stderr, "  mJ/token %.3f and %.3f", dense->mj_per_token,
                twell->mj_per_token);
    fprintf(stderr, "\n");
}

void tw_bench_say(const struct tw_bench_ffn_options *o,
                  const struct tw_bench_point *points)
{
    for (int i = 0; i < o->n_nnz; i++)
        say_point(o, &points[i]);
    if (!isnan(points[0].idle_watt))
        fprintf(stderr, "energy: %s; %.0f W idle, which it includes\n",
                TW_ENERGY_METHOD, points[0].idle_watt);
    else if (o->energy_cause[0])
        fprintf(stderr, "energy: not measured: %s\n", o->energy_cause);
    double even = tw_bench_break_even(points, o->n_nnz);
    if (isnan(even) && o->n_nnz > 1)
        fprintf(stderr, "break-even: outside the measured range\n");
    else if (!isnan(even))
        fprintf(stderr, "break-even: nnz %.0f (%.1f %% density)\n", even,
                100 * even / (double)o->d_ff);
}
