/* What `bench model` found, for the database and for people. */
#include <config.h>

#include "cmd/bench_model_show.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "run/energy.h"
#include "run/record.h"

/* The paper's figure is of the mean time. */
static double tokens_per_ms(const struct tw_bench_model_options *o,
                            const struct tw_bench_model *m,
                            const struct tw_bench_model_row *r)
{
    double ns = o->is_paper ? r->mean_ns : (double)r->pass.median;
    return 1e6 * (double)m->tokens / ns;
}

static enum tw_status put_row(struct tw_store *store, int64_t run,
                              const struct tw_bench_model_options *o,
                              const struct tw_bench_model *m,
                              const struct tw_bench_model_row *r,
                              struct tw_error *err)
{
    bool has_energy = !isnan(r->mj_per_token);
    struct tw_store_bench row = {
        .target = "model",
        .name = tw_bench_model_name(r->form),
        .path = m->path,
        .dtype = m->compute_dtype,
        .data = m->data_name,
        .m = m->tokens,
        .k = m->d_model,
        .n = m->d_ff,
        .nnz_mean = m->nnz_mean,
        .nnz_max = m->nnz_max,
        .repetitions = m->repetitions,
        .ns_median = r->pass.median,
        .ns_min = r->pass.min,
        .ns_mad = r->pass.mad,
        .tokens_per_ms = tokens_per_ms(o, m, r),
        .mj_per_token = r->mj_per_token,
        .energy_method = has_energy ? TW_ENERGY_METHOD : NULL,
        .idle_watt = has_energy ? m->idle_watt : NAN,
        .peak_bytes = m->peak_bytes > 0 ? m->peak_bytes : TW_NULL,
        .rel_error = NAN};
    return tw_store_put_bench(store, run, &row, err);
}

/* The baseline is what layer_speedup calls dense. */
static enum tw_status put_layers(struct tw_store *store, int64_t run,
                                 const struct tw_bench_model *m, int i,
                                 struct tw_error *err)
{
    const struct tw_bench_model_row *r = &m->row[i];
    enum tw_status status = TW_OK;
    for (int64_t l = 0; r->layer && l < m->layers && status == TW_OK; l++) {
        const struct tw_store_timing timing = {
            .path = i == 0 ? "dense" : tw_bench_model_name(r->form),
            .layer = l,
            .tokens = m->tokens,
            .ns_median = r->layer[l].median,
            .ns_min = r->layer[l].min,
            .ns_mad = r->layer[l].mad,
            .repetitions = m->layer_repetitions};
        status = tw_store_put_timing(store, run, &timing, err);
    }
    return status;
}

static enum tw_status put_facts(const struct tw_bench_model_options *o,
                                const struct tw_bench_model *m,
                                const char *command, struct tw_store *store,
                                int64_t run, struct tw_error *err)
{
    struct tw_facts facts = {0};
    const struct {
        const char *column, *text;
    } texts[] = {{"model", o->model},
                 {"model_type", m->model_type},
                 {"family", m->model_type},
                 {"model_hash", m->hash},
                 {"activation", m->activation},
                 {"activation_source", m->activation_source},
                 {"weight_dtype", m->weight_dtype},
                 {"compute_dtype", m->compute_dtype},
                 {"backend", m->backend},
                 {"device", m->device_name},
                 {"version", PACKAGE_VERSION},
                 {"command", command},
                 {"status", "complete"}};
    const struct {
        const char *column;
        int64_t value;
    } numbers[] = {{"layers", m->layers},
                   {"d_model", m->d_model},
                   {"d_ff", m->d_ff},
                   {"gated", m->is_gated},
                   {"ctx", m->ctx},
                   {"tokens", m->tokens},
                   {"sequences", m->sequences},
                   {"seed", (int64_t)o->seed}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        tw_facts_text(&facts, texts[i].column, NULL, texts[i].text);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        tw_facts_int(&facts, numbers[i].column, NULL, numbers[i].value);
    enum tw_status status = tw_facts_store(&facts, store, run, err);
    tw_facts_fini(&facts);
    return status == TW_OK ? tw_record_finished(store, run, err) : status;
}

enum tw_status tw_bench_model_store(struct tw_store *store, const char *name,
                                    const char *command,
                                    const struct tw_bench_model_options *o,
                                    const struct tw_bench_model *m,
                                    struct tw_error *err)
{
    int64_t run = 0;
    enum tw_status status = tw_store_begin(store, err);
    if (status == TW_OK)
        status = tw_store_run_create(store, name, "bench", &run, err);
    for (int i = 0; i < m->n_rows && status == TW_OK; i++) {
        status = put_row(store, run, o, m, &m->row[i], err);
        if (status == TW_OK)
            status = put_layers(store, run, m, i, err);
    }
    if (status == TW_OK)
        status = put_facts(o, m, command, store, run, err);
    return status == TW_OK ? tw_store_commit(store, err) : status;
}

static void say_input(const struct tw_bench_model *m)
{
    double low = m->mean_nnz[0], high = m->mean_nnz[0];
    for (int64_t l = 1; l < m->layers; l++) {
        low = fmin(low, m->mean_nnz[l]);
        high = fmax(high, m->mean_nnz[l]);
    }
    fprintf(stderr,
            "input: %s; %" PRId64 " tokens in %" PRId64
            " sequences of at most %" PRId64 "\n",
            m->data_name, m->tokens, m->sequences, m->ctx);
    fprintf(stderr,
            "non-zeros: %.1f of %" PRId64 " a token (%.2f %%), layers %.1f to "
            "%.1f, largest %" PRId64 "\n",
            m->nnz_mean, m->d_ff, 100 * m->nnz_mean / (double)m->d_ff, low,
            high, m->nnz_max);
}

static void say_row(const struct tw_bench_model_options *o,
                    const struct tw_bench_model *m, int i)
{
    const struct tw_bench_model_row *r = &m->row[i];
    fprintf(stderr,
            "%-15s %10.3f ms (min %.3f, mad %.3f, mean %.3f, std %.3f) %9.2f "
            "tokens/ms",
            tw_bench_model_name(r->form), (double)r->pass.median * 1e-6,
            (double)r->pass.min * 1e-6, (double)r->pass.mad * 1e-6,
            r->mean_ns * 1e-6, r->std_ns * 1e-6, tokens_per_ms(o, m, r));
    if (!isnan(r->mj_per_token))
        fprintf(stderr, "  %.3f mJ/token (windows within %.3f)",
                r->mj_per_token, r->mj_spread);
    if (!isnan(r->ffn_share))
        fprintf(stderr, "  ffn %.0f %%", 100 * r->ffn_share);
    if (i > 0 && r->speedup >= 1)
        fprintf(stderr, "  %.3fx faster", r->speedup);
    else if (i > 0)
        fprintf(stderr, "  %.3fx SLOWER", 1 / r->speedup);
    if (r->form >= TW_BENCH_TWELL)
        fprintf(stderr, "  dense: %" PRId64 " layers, %" PRId64 " rows",
                r->dense_layers, r->routed);
    if (!isnan(r->mean_nll))
        fprintf(stderr, "  loss %.4f", r->mean_nll);
    fprintf(stderr, "\n");
}

void tw_bench_model_say(const struct tw_bench_model_options *o,
                        const struct tw_bench_model *m)
{
    say_input(m);
    for (int i = 0; i < m->n_rows; i++)
        say_row(o, m, i);
    if (!m->is_sparse)
        fprintf(stderr, "activation %s leaves no zeros to skip: dense alone\n",
                m->activation);
    if (!m->row[0].layer)
        fprintf(stderr, "layers: not timed: backend '%s' has no marks\n",
                m->backend);
    if (!isnan(m->idle_watt))
        fprintf(stderr, "energy: %s; %.0f W idle, which it includes\n",
                TW_ENERGY_METHOD, m->idle_watt);
    else if (m->energy_cause[0])
        fprintf(stderr, "energy: not measured: %s\n", m->energy_cause);
    fprintf(stderr, "memory: %.2f GB at most, of the %s\n",
            1e-9 * (double)m->peak_bytes,
            m->is_device_peak ? "device" : "process");
}
