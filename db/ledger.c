/* The open block: rows are appended to lists, and when there are enough of
 * them the block is closed. */
#include <config.h>

#include "db/ledger.h"

#include <string.h>

#include "base/memory.h"
#include "db/ledger_internal.h"

uint32_t *twp_list_extend(struct twp_list *list, size_t more)
{
    if (tw_grow((void **)&list->value, &list->room, list->count + more + 1,
                sizeof *list->value) != 0) /* + 1: also nothing has a place */
        return NULL;
    list->count += more;
    return list->value + list->count - more;
}

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory for the ledger");
}

enum tw_status tw_ledger_create(const struct tw_ledger_config *config,
                                struct tw_ledger **out, struct tw_error *err)
{
    struct tw_ledger *ledger = tw_calloc(1, sizeof *ledger);
    if (!ledger)
        return no_memory(err);
    ledger->config = *config;
    if (config->block_rows <= 0)
        ledger->config.block_rows = TW_LEDGER_ROWS;
    ledger->config.has_rows |= config->has_sets; /* whose lengths they are */
    ledger->layer = tw_calloc((size_t)config->layers, sizeof *ledger->layer);
    bool is_short = !ledger->layer;
    for (int l = 0; !is_short && l < config->layers; l++) {
        ledger->layer[l].nnz = tw_calloc((size_t)config->probes,
                                         sizeof *ledger->layer[l].nnz);
        is_short = !ledger->layer[l].nnz;
    }
    if (is_short) {
        tw_ledger_destroy(ledger);
        return no_memory(err);
    }
    *out = ledger;
    return TW_OK;
}

static void layer_fini(struct twp_ledger_layer *layer, int probes)
{
    for (int p = 0; layer->nnz && p < probes; p++)
        tw_free(layer->nnz[p].value);
    tw_free(layer->nnz);
    tw_free(layer->l1.value);
    tw_free(layer->set.value);
    tw_free(layer->set_value.value);
    tw_free(layer->watch_row.value);
    tw_free(layer->watch_value.value);
    tw_free(layer->watch_of.value);
}

void tw_ledger_destroy(struct tw_ledger *ledger)
{
    if (!ledger)
        return;
    struct twp_list *lists[] = {&ledger->step,  &ledger->start,
                                &ledger->length, &ledger->token,
                                &ledger->row_class, &ledger->nll};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        tw_free(lists[i]->value);
    for (int l = 0; ledger->layer && l < ledger->config.layers; l++)
        layer_fini(&ledger->layer[l], ledger->config.probes);
    for (size_t i = 0; i < ledger->pendings; i++)
        twp_block_fini(&ledger->pending[i]);
    tw_free(ledger->pending);
    tw_free(ledger->layer);
    tw_free(ledger);
}

int64_t tw_ledger_pending(const struct tw_ledger *ledger)
{
    return ledger->pending_bytes;
}

/* --- One sequence --- */

/* rows [from, from + rows) of a batch. */
struct piece {
    const struct tw_batch *batch;
    int64_t seq, from, rows;
};

static bool copy_numbers(struct twp_list *list, const uint32_t *from,
                         int64_t count)
{
    uint32_t *to = twp_list_extend(list, (size_t)count);
    if (to && count > 0)
        memcpy(to, from, (size_t)count * sizeof *to);
    return to != NULL;
}

static bool add_text(struct tw_ledger *ledger, const struct piece *piece,
                     const float *nll)
{
    uint32_t *token = twp_list_extend(&ledger->token, (size_t)piece->rows);
    uint32_t *class = twp_list_extend(&ledger->row_class, (size_t)piece->rows);
    uint32_t *loss = nll ? twp_list_extend(&ledger->nll, (size_t)piece->rows)
                         : NULL;
    if (!token || !class || (nll && !loss))
        return false;
    for (int64_t r = 0; r < piece->rows; r++) {
        token[r] = (uint32_t)piece->batch->token[piece->from + r];
        class[r] = piece->batch->row_class[piece->from + r];
    }
    if (nll)
        memcpy(loss, nll + piece->from, (size_t)piece->rows * sizeof *loss);
    return true;
}

static bool add_rows(struct tw_ledger *ledger, const struct piece *piece,
                     const struct tw_layer_obs *obs,
                     struct twp_ledger_layer *layer)
{
    bool is_done = true;
    for (int p = 0; p < ledger->config.probes && is_done; p++)
        is_done = copy_numbers(
            &layer->nnz[p], obs->nnz + (int64_t)p * obs->rows + piece->from,
            piece->rows);
    if (!is_done || !ledger->config.has_l1)
        return is_done;
    uint32_t *l1 = twp_list_extend(&layer->l1, (size_t)piece->rows);
    for (int64_t r = 0; l1 && r < piece->rows; r++)
        l1[r] = tw_ledger_narrow(obs->l1[piece->from + r]);
    return l1 != NULL;
}

static bool add_sets(const struct piece *piece, const struct tw_layer_obs *obs,
                     struct twp_ledger_layer *layer)
{
    int64_t first = obs->set_start[piece->from];
    int64_t count = obs->set_start[piece->from + piece->rows] - first;
    uint32_t *value = twp_list_extend(&layer->set_value, (size_t)count);
    if (!value || !copy_numbers(&layer->set, obs->set + first, count))
        return false;
    for (int64_t i = 0; i < count; i++)
        value[i] = tw_ledger_narrow(obs->set_value[first + i]);
    return true;
}

int twp_watches_of(const struct tw_ledger_config *config, int layer,
                   int *first)
{
    int at = 0;
    while (at < config->watches && config->watch[at].layer < layer)
        at++;
    *first = at;
    while (at < config->watches && config->watch[at].layer == layer)
        at++;
    return at;
}

static bool add_firing(struct twp_ledger_layer *layer, int watch, int64_t row,
                       float value)
{
    uint32_t *of = twp_list_extend(&layer->watch_of, 1);
    uint32_t *at = twp_list_extend(&layer->watch_row, 1);
    uint32_t *bits = twp_list_extend(&layer->watch_value, 1);
    if (!of || !at || !bits)
        return false;
    *of = (uint32_t)watch;
    *at = (uint32_t)row;
    memcpy(bits, &value, sizeof *bits);
    return true;
}

/* Sets ascend, and so do watches: a merge of the two. */
static bool add_watched(struct tw_ledger *ledger, const struct piece *piece,
                        const struct tw_layer_obs *obs, int number)
{
    int first, end = twp_watches_of(&ledger->config, number, &first);
    for (int64_t r = 0; first < end && r < piece->rows; r++) {
        int64_t i = obs->set_start[piece->from + r];
        int64_t last = obs->set_start[piece->from + r + 1];
        for (int w = first; w < end && i < last; w++) {
            uint32_t wanted = (uint32_t)ledger->config.watch[w].neuron;
            while (i < last && obs->set[i] < wanted)
                i++;
            if (i < last && obs->set[i] == wanted &&
                !add_firing(&ledger->layer[number], w, ledger->at.rows + r,
                            obs->set_value[i]))
                return false;
        }
    }
    return true;
}

static bool add_layers(struct tw_ledger *ledger, const struct piece *piece,
                       const struct tw_layer_obs *obs)
{
    bool is_done = true;
    for (int l = 0; l < ledger->config.layers && is_done; l++) {
        struct twp_ledger_layer *layer = &ledger->layer[l];
        if (ledger->config.has_rows)
            is_done = add_rows(ledger, piece, &obs[l], layer);
        if (is_done && ledger->config.has_sets)
            is_done = add_sets(piece, &obs[l], layer);
        if (is_done && ledger->config.watches > 0)
            is_done = add_watched(ledger, piece, &obs[l], l);
    }
    return is_done;
}

/* The sequence's own numbers; a block starts with its first. */
static bool add_sequence(struct tw_ledger *ledger, const struct piece *piece,
                         struct tw_error *err)
{
    struct twp_block *at = &ledger->at;
    int64_t document = piece->batch->document[piece->seq];
    int64_t start = piece->batch->start[piece->seq];
    if (at->seqs == 0) {
        at->document = at->last_document = document;
        at->start = start;
    }
    int64_t step = document - at->last_document;
    if (step < 0 || step > UINT32_MAX || start > UINT32_MAX) {
        tw_error_set(err, TW_ERR_MISMATCH,
                     "the ledger's sequences are out of order");
        return false;
    }
    uint32_t *slot[] = {twp_list_extend(&ledger->step, 1),
                        twp_list_extend(&ledger->start, 1),
                        twp_list_extend(&ledger->length, 1)};
    if (!slot[0] || !slot[1] || !slot[2])
        return false;
    *slot[0] = (uint32_t)step;
    *slot[1] = (uint32_t)start;
    *slot[2] = (uint32_t)piece->rows;
    at->last_document = document;
    at->last_start = start;
    at->seqs++;
    return true;
}

static enum tw_status close_block(struct tw_ledger *ledger,
                                  struct tw_error *err)
{
    if (tw_grow((void **)&ledger->pending, &ledger->pendings_room,
                ledger->pendings + 1, sizeof *ledger->pending) != 0)
        return no_memory(err);
    struct twp_block *block = &ledger->pending[ledger->pendings];
    *block = ledger->at;
    enum tw_status status = twp_block_pack(ledger, block, err);
    if (status != TW_OK)
        return status;
    ledger->pendings++;
    for (int i = 0; i < block->blobs; i++)
        ledger->pending_bytes += (int64_t)block->blob[i].size;
    twp_block_clear(ledger);
    return TW_OK;
}

enum tw_status tw_ledger_add(struct tw_ledger *ledger,
                             const struct tw_batch *batch,
                             const struct tw_layer_obs *obs,
                             const struct tw_head_obs *head,
                             struct tw_error *err)
{
    bool needs_sets = ledger->config.has_sets || ledger->config.watches > 0;
    const float *nll = ledger->config.has_loss && head ? head->nll : NULL;
    for (int l = 0; needs_sets && l < ledger->config.layers; l++)
        if (!obs[l].set_start)
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "the backend gave no active sets");
    for (int64_t s = 0; s < batch->seqs; s++) {
        struct piece piece = {batch, s, batch->offset[s],
                              batch->offset[s + 1] - batch->offset[s]};
        if (!add_sequence(ledger, &piece, err) ||
            !add_text(ledger, &piece, nll) || !add_layers(ledger, &piece, obs))
            return err && err->status != TW_OK ? err->status : no_memory(err);
        ledger->at.rows += piece.rows;
        enum tw_status status = ledger->at.rows >= ledger->config.block_rows
                                    ? close_block(ledger, err)
                                    : TW_OK;
        if (status != TW_OK)
            return status;
    }
    return TW_OK;
}
