/* Plants a run of many tokens in a database through the same calls that a
 * profile makes, without a model: what scripts/verify_scale measures.
 *
 *     bench_ledger DB TOKENS LAYERS VOCAB [ROWS.csv]
 *
 * Non-zeros are drawn around a mean of each layer (a sum of four uniform
 * numbers, so that their entropy is a real checkpoint's); ROWS.csv gets the
 * same (token, layer) values as text. Prints, in seconds: the ledger's part
 * (add, save and commit), the accumulators', and the peak of memory in KiB
 * after a tenth of the tokens and at the end. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "analysis/store_profile.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"
#include "db/ledger.h"

enum { BATCH = 4096, LENGTH = 512, WIDTH = 5632, CTX = 2048 };

static struct tw_error err;
static uint64_t state = 88172645463325252u;

static void must(enum tw_status status)
{
    if (status == TW_OK)
        return;
    fprintf(stderr, "bench_ledger: %s\n", err.text);
    exit(1);
}

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long peak(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* One batch: ids, and each layer's non-zeros and l1. */
struct plant {
    int layers;
    int64_t vocab, offset[BATCH / LENGTH + 1], document[BATCH / LENGTH],
        start[BATCH / LENGTH];
    int32_t token[BATCH];
    uint8_t row_class[BATCH];
    float nll[BATCH];
    struct tw_layer_obs *obs;
    struct tw_batch batch;
};

static void plant_init(struct plant *p, int layers, int64_t vocab)
{
    *p = (struct plant){.layers = layers, .vocab = vocab};
    p->obs = tw_calloc((size_t)layers, sizeof *p->obs);
    for (int l = 0; p->obs && l < layers; l++)
        must(tw_layer_obs_init(&p->obs[l], BATCH, WIDTH, 1, 1, 0, &err));
    for (int i = 0; i <= BATCH / LENGTH; i++)
        p->offset[i] = i * LENGTH;
    p->batch = (struct tw_batch){.rows = BATCH,
                                 .seqs = BATCH / LENGTH,
                                 .offset = p->offset,
                                 .document = p->document,
                                 .start = p->start,
                                 .token = p->token,
                                 .row_class = p->row_class};
}

/* Token ids fall off as 1/rank does, roughly. */
static int32_t draw_token(int64_t vocab)
{
    double u = (double)(draw() >> 11) * 0x1p-53;
    return (int32_t)(pow((double)vocab, u) - 1);
}

static void draw_layer(struct tw_layer_obs *obs, int layer)
{
    uint32_t mean = 15 + (uint32_t)(layer * 37 % 90);
    tw_layer_obs_reset(obs, BATCH);
    for (int r = 0; r < BATCH; r++) {
        uint64_t bits = draw();
        uint32_t sum = 0;
        for (int i = 0; i < 4; i++)
            sum += (uint32_t)(bits >> 16 * i & 0xffff) * mean >> 17;
        obs->nnz[r] = sum;
        obs->l1[r] = (float)sum * 0.5f + (float)(bits & 0xff) / 256;
        uint32_t n = (uint32_t)(bits >> 32) % WIDTH;
        obs->fired[n]++;
        if (obs->first[n] == UINT32_MAX)
            obs->first[n] = (uint32_t)r;
        obs->last[n] = (uint32_t)r;
        for (int t = 0; t < TW_TILE_WIDTHS; t++)
            obs->tiles[t][sum % 60]++;
    }
    obs->seen[0] = BATCH;
}

static void plant_next(struct plant *p, int64_t *document)
{
    for (int s = 0; s < BATCH / LENGTH; s++)
        p->document[s] = (*document)++;
    for (int r = 0; r < BATCH; r++) {
        p->token[r] = draw_token(p->vocab);
        p->nll[r] = (r + 1) % LENGTH ? (float)(draw() >> 44) * 0x1p-17f : NAN;
    }
    for (int l = 0; l < p->layers; l++)
        draw_layer(&p->obs[l], l);
}

static void write_rows(FILE *file, const struct plant *p)
{
    for (int r = 0; file && r < BATCH; r++)
        for (int l = 0; l < p->layers; l++)
            fprintf(file, "%lld,%d,%d,%d,%u,%g,%g\n",
                    (long long)p->document[r / LENGTH], r % LENGTH, l,
                    p->token[r], p->obs[l].nnz[r], (double)p->obs[l].l1[r],
                    (double)p->nll[r]);
}

static int64_t create_run(struct tw_store *store, const struct plant *p)
{
    int64_t run;
    must(tw_store_begin(store, &err));
    must(tw_store_run_create(store, "planted", "profile", &run, &err));
    const struct {
        const char *column;
        int64_t value;
    } facts[] = {{"layers", p->layers}, {"d_ff", WIDTH}, {"ctx", CTX},
                 {"vocab", p->vocab}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        must(tw_store_set_int(store, run, facts[i].column, facts[i].value,
                              &err));
    must(tw_store_set_text(store, run, "active", "hidden", &err));
    must(tw_store_put_definition(store, run, 0, "hidden", &err));
    must(tw_store_commit(store, &err));
    return run;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "bench_ledger DB TOKENS LAYERS VOCAB [ROWS.csv]\n");
        return 2;
    }
    int64_t tokens = atoll(argv[2]), vocab = atoll(argv[4]), document = 0;
    struct plant p;
    struct tw_threads *pool;
    struct tw_store *store;
    struct tw_ledger *ledger;
    struct tw_profile *profile;
    plant_init(&p, atoi(argv[3]), vocab);
    FILE *rows = argc > 5 ? fopen(argv[5], "w") : NULL;
    must(tw_threads_create(tw_threads_available(), &pool, &err));
    must(tw_store_open(argv[1], TW_STORE_WRITE, &store, &err));
    int64_t run = create_run(store, &p);
    struct tw_ledger_config ledger_config = {.layers = p.layers,
                                             .probes = 1,
                                             .width = WIDTH,
                                             .has_rows = true,
                                             .has_l1 = true,
                                             .has_loss = true,
                                             .pool = pool};
    struct tw_profile_config config = {.layers = p.layers,
                                       .probes = 1,
                                       .width = WIDTH,
                                       .experts = 1,
                                       .vocab = vocab,
                                       .ctx = CTX,
                                       .with_loss = true,
                                       .pool = pool};
    struct tw_head_obs head = {p.nll};
    double in_ledger = 0, in_profile = 0;
    long early = 0;
    must(tw_ledger_create(&ledger_config, &ledger, &err));
    must(tw_profile_create(&config, &profile, &err));
    for (int64_t done = 0; done < tokens; done += BATCH) {
        plant_next(&p, &document);
        write_rows(rows, &p);
        double t0 = now();
        must(tw_ledger_add(ledger, &p.batch, p.obs, &head, &err));
        double t1 = now();
        must(tw_profile_add(profile, &p.batch, p.obs, &head, &err));
        in_profile += now() - t1;
        double t2 = now();
        if (done / (1 << 18) != (done + BATCH) / (1 << 18)) {
            must(tw_store_begin(store, &err));
            must(tw_ledger_save(ledger, store, run, &err));
            must(tw_store_commit(store, &err));
            tw_ledger_saved(ledger);
        }
        in_ledger += t1 - t0 + now() - t2;
        if (early == 0 && done >= tokens / 10)
            early = peak();
    }
    double t0 = now();
    must(tw_store_begin(store, &err));
    must(tw_ledger_save(ledger, store, run, &err));
    in_ledger += now() - t0;
    t0 = now();
    must(tw_profile_finish(profile, store, run, &err));
    double in_rows = now() - t0;
    t0 = now();
    must(tw_ledger_number(store, run, &err));
    must(tw_store_set_text(store, run, "status", "complete", &err));
    must(tw_store_commit(store, &err));
    in_ledger += now() - t0;
    must(tw_store_analyze(store, &err));
    printf("ledger %.3f s, accumulators %.3f s, aggregate rows %.3f s, memory "
           "%ld KiB early, %ld KiB at the end\n",
           in_ledger, in_profile, in_rows, early, peak());
    if (rows && fclose(rows) != 0)
        return 1;
    tw_ledger_destroy(ledger);
    tw_profile_destroy(profile);
    tw_store_close(store);
    tw_threads_destroy(pool);
    for (int l = 0; l < p.layers; l++)
        tw_layer_obs_fini(&p.obs[l]);
    tw_free(p.obs);
    return 0;
}
