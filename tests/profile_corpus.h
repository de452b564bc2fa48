/* A made-up corpus for the tests of analysis: every row's class, loss, l1 and
 * sets of active neurons come from one seed, and batches are built from any of
 * its sequences exactly as a backend would fill them. */
#ifndef TESTS_PROFILE_CORPUS_H
#define TESTS_PROFILE_CORPUS_H

#include <math.h>

#include "analysis/profile.h"
#include "base/memory.h"
#include "tw_check.h"

enum {
    LAYERS = 3,
    PROBES = 3,
    WIDTH = 64, /* a row's active neurons are the bits of one word */
    EXPERTS = 2,
    VOCAB = 40,
    CTX = 80, /* more than the first room for positions */
    DOCUMENTS = 25,
    MAX_SEQS = 100,
    MAX_ROWS = 4000
};

struct corpus {
    int seqs, rows;
    int64_t document[MAX_SEQS], start[MAX_SEQS];
    int begin[MAX_SEQS + 1];
    int32_t token[MAX_ROWS];
    uint8_t row_class[MAX_ROWS];
    float nll[MAX_ROWS], l1[LAYERS][MAX_ROWS];
    uint64_t active[LAYERS][PROBES][MAX_ROWS];
    int reach[LAYERS][MAX_ROWS]; /* bit e: the row reached expert e */
};

static inline uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *state ^ (*state >> 29);
    return (x * 0xbf58476d1ce4e5b9u) >> 16;
}

/* |h| of a firing, in 2^-20. */
static inline int64_t abs_units(int layer, int row, int neuron)
{
    uint64_t state = (uint64_t)layer * 1000003 + (uint64_t)row * 131 +
                     (uint64_t)neuron;
    return (int64_t)(next_random(&state) % 5000) + 1;
}

static inline void make_row(struct corpus *c, int row, int is_start,
                            int is_end, uint64_t *seed)
{
    uint64_t dice = next_random(seed) % 20;
    c->token[row] = (int32_t)(next_random(seed) % 7 * (next_random(seed) % 6));
    c->row_class[row] = is_start ? TW_ROW_BOS | TW_ROW_SKIPPED
                        : dice < TW_ROW_CLASSES ? (uint8_t)dice
                                                : TW_ROW_TEXT;
    if (dice == 9)
        c->row_class[row] |= TW_ROW_SKIPPED;
    c->nll[row] = is_end ? NAN : (float)(next_random(seed) % 12000) / 999.0f;
    for (int l = 0; l < LAYERS; l++) {
        uint64_t reach = next_random(seed) % 3 + 1;
        uint64_t sparse = next_random(seed) & (next_random(seed) << 20);
        c->reach[l][row] = (int)reach;
        sparse &= (reach & 1 ? 0xffffffffu : 0) |
                  (reach & 2 ? 0xffffffff00000000u : 0);
        sparse &= ~(uint64_t)0x8101; /* some are dead */
        c->l1[l][row] = (float)(next_random(seed) % 100000) / 777.0f;
        c->active[l][0][row] = sparse;
        c->active[l][1][row] = sparse & ~(sparse >> 3);
        c->active[l][2][row] = sparse | next_random(seed) << 32;
    }
}

static inline void make_corpus(struct corpus *c, uint64_t seed)
{
    int64_t number = 0;
    *c = (struct corpus){0};
    for (int d = 0; d < DOCUMENTS; d++) {
        uint64_t most = d % 4 == 3 ? 3 * CTX : 20;
        int length = (int)(next_random(&seed) % most) + 1;
        number += 1 + (int64_t)(next_random(&seed) % 3);
        for (int start = 0; start < length; start += CTX) {
            int rows = length - start < CTX ? length - start : CTX;
            c->document[c->seqs] = number;
            c->start[c->seqs] = start;
            for (int i = 0; i < rows; i++)
                make_row(c, c->rows + i, i == 0, i == rows - 1, &seed);
            c->rows += rows;
            c->begin[++c->seqs] = c->rows;
        }
    }
    ck_assert(c->seqs < MAX_SEQS && c->rows < MAX_ROWS);
}

/* One batch as the seam carries it. */
struct made {
    struct tw_batch batch;
    struct tw_layer_obs obs[LAYERS];
    struct tw_head_obs head;
    int64_t offset[MAX_SEQS + 1], document[MAX_SEQS], start[MAX_SEQS];
    int32_t token[MAX_ROWS];
    uint8_t row_class[MAX_ROWS];
    float nll[MAX_ROWS];
};

static inline void observe_neurons(struct tw_layer_obs *obs,
                                   const struct corpus *c, int layer, int def,
                                   int from, uint32_t row)
{
    for (int n = 0; n < WIDTH; n++) {
        if (!(c->active[layer][def][from] >> n & 1))
            continue;
        int i = def * WIDTH + n;
        obs->fired[i]++;
        obs->first[i] = obs->first[i] < row ? obs->first[i] : row;
        obs->last[i] = row;
        if (def || !obs->magnitude)
            continue;
        int64_t units = abs_units(layer, from, n);
        float real = (float)((double)units / TW_NLL_SCALE);
        obs->abs_sum[n] += units;
        obs->abs_max[n] = obs->abs_max[n] > real ? obs->abs_max[n] : real;
        obs->magnitude[ilogb(real) + TW_MAGNITUDE_BIAS]++;
    }
}

/* The corpus's row `from` as the batch's row `row`. */
static inline void observe(struct made *m, const struct corpus *c, int from,
                           int64_t row)
{
    for (int l = 0; l < LAYERS; l++) {
        struct tw_layer_obs *obs = &m->obs[l];
        obs->l1[row] = c->l1[l][from];
        for (int d = 0; d < PROBES; d++)
            obs->nnz[d * m->batch.rows + row] =
                (uint32_t)__builtin_popcountll(c->active[l][d][from]);
        obs->overflow_rows += from % 11 == 0;
        obs->overflow_tiles += from % 11 == 0 ? 2 : 0;
        obs->dense_rows += from % 7 == 0;
        if (c->row_class[from] & TW_ROW_SKIPPED)
            continue;
        for (int d = 0; d < PROBES; d++)
            observe_neurons(obs, c, l, d, from, (uint32_t)row);
        for (int e = 0; e < EXPERTS; e++)
            obs->seen[e] += c->reach[l][from] >> e & 1;
        for (int t = 0; t < TW_TILE_WIDTHS; t++)
            obs->tiles[t][__builtin_popcountll(c->active[l][0][from])]++;
    }
}

/* The batch of sequences seq[0 .. n-1] (ascending); free with free_batch. */
static inline struct made *make_batch(const struct corpus *c, const int *seq,
                                      int n)
{
    struct tw_error err = {0};
    struct made *m = calloc(1, sizeof *m);
    for (int s = 0; s < n; s++) {
        m->offset[s + 1] = m->offset[s] + c->begin[seq[s] + 1] -
                           c->begin[seq[s]];
        m->document[s] = c->document[seq[s]];
        m->start[s] = c->start[seq[s]];
    }
    m->batch = (struct tw_batch){m->offset[n], n,        m->offset,
                                 m->document,  m->start, m->token,
                                 m->row_class};
    m->head.nll = m->nll;
    for (int l = 0; l < LAYERS; l++) {
        TW_OK_OR_FAIL(tw_layer_obs_init(&m->obs[l], m->batch.rows, WIDTH,
                                        PROBES, EXPERTS, 1, &err), err);
        tw_layer_obs_reset(&m->obs[l], m->batch.rows);
    }
    for (int s = 0; s < n; s++)
        for (int64_t row = m->offset[s]; row < m->offset[s + 1]; row++) {
            int from = c->begin[seq[s]] + (int)(row - m->offset[s]);
            m->token[row] = c->token[from];
            m->row_class[row] = c->row_class[from];
            m->nll[row] = c->nll[from];
            observe(m, c, from, row);
        }
    return m;
}

static inline void free_batch(struct made *m)
{
    for (int l = 0; l < LAYERS; l++)
        tw_layer_obs_fini(&m->obs[l]);
    free(m);
}

static inline struct tw_profile *make_profile(struct tw_threads *pool)
{
    struct tw_error err = {0};
    struct tw_profile *profile = NULL;
    struct tw_profile_config config = {.layers = LAYERS,
                                       .probes = PROBES,
                                       .width = WIDTH,
                                       .experts = EXPERTS,
                                       .vocab = VOCAB,
                                       .ctx = CTX,
                                       .with_loss = true,
                                       .with_magnitudes = true,
                                       .pool = pool};
    TW_OK_OR_FAIL(tw_profile_create(&config, &profile, &err), err);
    return profile;
}

/* Adds sequences begin .. end-1 of order[], up to `most` a batch. */
static inline void add_sequences(struct tw_profile *profile,
                                 const struct corpus *c, const int *order,
                                 int begin, int end, int most)
{
    struct tw_error err = {0};
    for (int i = begin, n; i < end; i += n) {
        for (n = 1; n < most && i + n < end && order[i + n] > order[i + n - 1];)
            n++;
        struct made *m = make_batch(c, order + i, n);
        TW_OK_OR_FAIL(tw_profile_add(profile, &m->batch, m->obs, &m->head,
                                     &err), err);
        free_batch(m);
    }
}

#endif
