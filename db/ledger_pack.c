/* A block's columns become BLOBs, layers in parallel. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "db/ledger_internal.h"

void twp_block_fini(struct twp_block *block)
{
    for (int i = 0; i < block->blobs; i++)
        tw_free(block->blob[i].data);
    tw_free(block->blob);
    block->blob = NULL;
    block->blobs = 0;
}

void twp_block_clear(struct tw_ledger *ledger)
{
    struct twp_list *lists[] = {&ledger->step,  &ledger->start,
                                &ledger->length, &ledger->token,
                                &ledger->row_class, &ledger->nll};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        lists[i]->count = 0;
    for (int l = 0; l < ledger->config.layers; l++) {
        struct twp_ledger_layer *layer = &ledger->layer[l];
        for (int p = 0; p < ledger->config.probes; p++)
            layer->nnz[p].count = 0;
        layer->l1.count = layer->set.count = layer->set_value.count = 0;
        layer->watch_of.count = layer->watch_row.count =
            layer->watch_value.count = 0;
    }
    ledger->at = (struct twp_block){0};
}

static struct tw_section section(int bytes, const struct twp_list *list)
{
    return (struct tw_section){bytes, (uint32_t)list->count, list->value};
}

static enum tw_status pack(struct twp_blob *blob,
                           const struct tw_section *sections, int count,
                           struct tw_error *err)
{
    return tw_ledger_pack(sections, count, &blob->data, &blob->size, err);
}

static enum tw_status pack_list(struct twp_blob *blob, int bytes,
                                const struct twp_list *list,
                                struct tw_error *err)
{
    struct tw_section one = section(bytes, list);
    return pack(blob, &one, 1, err);
}

/* --- Active sets: ranks by falling count make the steps small --- */

struct ranking {
    uint32_t *order, *rank; /* [width] neuron by rank, rank by neuron */
    uint64_t *bits;         /* [width / 64, up] ranks of one row */
    uint32_t *value;        /* [width] values of one row by rank */
    uint64_t *key;          /* [width] scratch */
};

static void ranking_fini(struct ranking *r)
{
    tw_free(r->order);
    tw_free(r->rank);
    tw_free(r->bits);
    tw_free(r->value);
    tw_free(r->key);
}

static bool ranking_init(struct ranking *r, size_t width)
{
    *r = (struct ranking){tw_calloc(width, sizeof *r->order),
                          tw_calloc(width, sizeof *r->rank),
                          tw_calloc((width + 63) / 64, sizeof *r->bits),
                          tw_calloc(width, sizeof *r->value),
                          tw_calloc(width, sizeof *r->key)};
    return r->order && r->rank && r->bits && r->value && r->key;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Neurons by falling count, the lower number first among equals. */
static void rank_neurons(struct ranking *r, const struct twp_list *set,
                         uint32_t width)
{
    for (size_t i = 0; i < set->count; i++)
        r->key[set->value[i]]++;
    for (uint32_t n = 0; n < width; n++)
        r->key[n] = (uint64_t)(UINT32_MAX - (uint32_t)r->key[n]) << 32 | n;
    qsort(r->key, width, sizeof *r->key, ascending);
    for (uint32_t i = 0; i < width; i++) {
        r->order[i] = (uint32_t)r->key[i];
        r->rank[r->order[i]] = i;
    }
}

/* One row's neurons as steps between ascending ranks, values alongside; both
 * in place. */
static void rank_row(struct ranking *r, uint32_t *set, uint32_t *value,
                     uint32_t count, uint32_t width)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = r->rank[set[i]];
        r->bits[rank / 64] |= (uint64_t)1 << rank % 64;
        r->value[rank] = value[i];
    }
    uint32_t next = 0, at = 0;
    for (uint32_t word = 0; word < (width + 63) / 64; word++) {
        for (uint64_t bits = r->bits[word]; bits; bits &= bits - 1) {
            uint32_t rank = word * 64 + (uint32_t)__builtin_ctzll(bits);
            set[at] = rank - next;
            value[at++] = r->value[rank];
            next = rank + 1;
        }
        r->bits[word] = 0;
    }
}

/* Reorders copies, for the open block goes on. */
static enum tw_status pack_sets(const struct tw_ledger *ledger, int number,
                                struct twp_blob *blob, struct tw_error *err)
{
    const struct twp_ledger_layer *layer = &ledger->layer[number];
    uint32_t width = (uint32_t)ledger->config.width;
    size_t count = layer->set.count;
    struct ranking r;
    bool is_ready = ranking_init(&r, width);
    uint32_t *set = tw_alloc(count + 1, sizeof *set);
    uint32_t *value = tw_alloc(count + 1, sizeof *value);
    enum tw_status status = TW_OK;
    if (!is_ready || !set || !value) {
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    } else {
        if (count > 0) {
            memcpy(set, layer->set.value, count * sizeof *set);
            memcpy(value, layer->set_value.value, count * sizeof *value);
        }
        rank_neurons(&r, &layer->set, width);
        size_t at = 0;
        for (size_t row = 0; row < layer->nnz[0].count; row++) {
            rank_row(&r, set + at, value + at, layer->nnz[0].value[row], width);
            at += layer->nnz[0].value[row];
        }
        struct tw_section sets[] = {{4, width, r.order},
                                    {4, (uint32_t)count, set}};
        struct tw_section values = {2, (uint32_t)count, value};
        status = pack(&blob[0], sets, 2, err);
        if (status == TW_OK)
            status = pack(&blob[1], &values, 1, err);
    }
    ranking_fini(&r);
    tw_free(set);
    tw_free(value);
    return status;
}

/* --- Watched neurons: each one's firings behind the other's --- */

/* A counting sort by neuron, rows ascending within each. */
static void sort_watch(const struct twp_ledger_layer *layer, uint32_t first,
                       uint32_t watches, const uint32_t *count, uint32_t *next,
                       uint32_t *place, uint32_t *step, uint32_t *value)
{
    uint32_t at = 0;
    for (uint32_t w = 0; w < watches; w++) {
        place[w] = at;
        at += count[w];
    }
    for (size_t i = 0; i < layer->watch_of.count; i++) {
        uint32_t w = layer->watch_of.value[i] - first;
        uint32_t row = layer->watch_row.value[i];
        step[place[w]] = row - next[w];
        value[place[w]++] = layer->watch_value.value[i];
        next[w] = row + 1;
    }
}

static enum tw_status pack_watch(const struct tw_ledger *ledger, int number,
                                 struct twp_blob *blob, struct tw_error *err)
{
    const struct twp_ledger_layer *layer = &ledger->layer[number];
    int first, end = twp_watches_of(&ledger->config, number, &first);
    uint32_t watches = (uint32_t)(end - first);
    size_t firings = layer->watch_of.count;
    uint32_t *room = tw_calloc(4 * (size_t)watches + 2 * firings + 1,
                               sizeof *room);
    if (!room)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    uint32_t *neuron = room, *count = neuron + watches, *next = count + watches;
    uint32_t *place = next + watches, *step = place + watches;
    uint32_t *value = step + firings;
    for (uint32_t w = 0; w < watches; w++)
        neuron[w] = (uint32_t)ledger->config.watch[first + (int)w].neuron;
    for (size_t i = 0; i < firings; i++)
        count[layer->watch_of.value[i] - (uint32_t)first]++;
    sort_watch(layer, (uint32_t)first, watches, count, next, place, step,
               value);
    struct tw_section sections[] = {{4, watches, neuron},
                                    {4, watches, count},
                                    {4, (uint32_t)firings, step},
                                    {4, (uint32_t)firings, value}};
    enum tw_status status = pack(blob, sections, 4, err);
    tw_free(room);
    return status;
}

/* --- The jobs: one a layer, one for what all layers share --- */

struct packing {
    const struct tw_ledger *ledger;
    struct twp_blob *blob;
    int shared, per_layer;  /* BLOBs */
    enum tw_status *status; /* [1 + layers] */
};

static struct twp_blob *next_blob(struct twp_blob **at, int kind, int def,
                                  int layer)
{
    struct twp_blob *blob = (*at)++;
    blob->kind = kind;
    blob->def = def;
    blob->layer = layer;
    return blob;
}

static enum tw_status pack_shared(const struct tw_ledger *ledger,
                                  struct twp_blob *at)
{
    struct tw_section sequences[] = {section(4, &ledger->step),
                                     section(4, &ledger->start),
                                     section(4, &ledger->length)};
    enum tw_status status = pack(next_blob(&at, TW_LEDGER_SEQUENCES, 0, -1),
                                 sequences, 3, NULL);
    if (status == TW_OK)
        status = pack_list(next_blob(&at, TW_LEDGER_TOKENS, 0, -1), 4,
                           &ledger->token, NULL);
    if (status == TW_OK)
        status = pack_list(next_blob(&at, TW_LEDGER_CLASSES, 0, -1), 1,
                           &ledger->row_class, NULL);
    if (status == TW_OK && ledger->nll.count > 0)
        status = pack_list(next_blob(&at, TW_LEDGER_NLL, 0, -1), 4,
                           &ledger->nll, NULL);
    return status;
}

static enum tw_status pack_layer(const struct tw_ledger *ledger, int number,
                                 struct twp_blob *at)
{
    const struct tw_ledger_config *c = &ledger->config;
    const struct twp_ledger_layer *layer = &ledger->layer[number];
    enum tw_status status = TW_OK;
    for (int p = 0; c->has_rows && p < c->probes && status == TW_OK; p++)
        status = pack_list(next_blob(&at, TW_LEDGER_NNZ, p, number), 4,
                           &layer->nnz[p], NULL);
    if (status == TW_OK && c->has_rows && c->has_l1)
        status = pack_list(next_blob(&at, TW_LEDGER_L1, 0, number), 2,
                           &layer->l1, NULL);
    if (status == TW_OK && c->has_sets) {
        struct twp_blob *sets = next_blob(&at, TW_LEDGER_SET, 0, number);
        next_blob(&at, TW_LEDGER_VALUES, 0, number);
        status = pack_sets(ledger, number, sets, NULL);
    }
    int first;
    if (status == TW_OK && twp_watches_of(c, number, &first) > first)
        status = pack_watch(ledger, number,
                            next_blob(&at, TW_LEDGER_WATCH, 0, number), NULL);
    return status;
}

static void pack_piece(void *arg, int worker, int64_t piece)
{
    struct packing *p = arg;
    (void)worker;
    p->status[piece] =
        piece == 0 ? pack_shared(p->ledger, p->blob)
                   : pack_layer(p->ledger, (int)piece - 1,
                                p->blob + p->shared +
                                    (piece - 1) * p->per_layer);
}

/* Squeezes out what no job filled. */
static void compact(struct twp_block *block)
{
    int kept = 0;
    for (int i = 0; i < block->blobs; i++)
        if (block->blob[i].data)
            block->blob[kept++] = block->blob[i];
    block->blobs = kept;
}

enum tw_status twp_block_pack(struct tw_ledger *ledger,
                              struct twp_block *block, struct tw_error *err)
{
    enum { SHARED = 4, OTHERS = 4 }; /* at most: shared, a layer's but nnz */
    const struct tw_ledger_config *c = &ledger->config;
    struct packing p = {.ledger = ledger,
                        .shared = SHARED,
                        .per_layer = c->probes + OTHERS};
    int pieces = 1 + c->layers;
    block->blobs = SHARED + c->layers * p.per_layer;
    block->blob = tw_calloc((size_t)block->blobs, sizeof *block->blob);
    p.blob = block->blob;
    p.status = tw_calloc((size_t)pieces, sizeof *p.status);
    enum tw_status status = TW_OK;
    if (!block->blob || !p.status) {
        block->blobs = 0;
        status = TW_ERR_NOMEM;
    } else if (c->pool) {
        tw_threads_run(c->pool, pack_piece, &p, pieces);
    } else {
        for (int i = 0; i < pieces; i++)
            pack_piece(&p, 0, i);
    }
    for (int i = 0; status == TW_OK && i < pieces; i++)
        status = p.status[i];
    tw_free(p.status);
    if (status != TW_OK) {
        twp_block_fini(block);
        return tw_error_set(err, status, "out of memory for the ledger");
    }
    compact(block);
    return TW_OK;
}
