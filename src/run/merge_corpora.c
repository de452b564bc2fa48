/* The texts of a merged run. A part without --limit knows the tokens of its own
 * documents alone, so that no rank has to tokenize what others count; a stream
 * and a limit take the whole. */
#include <config.h>

#include "run/merge_internal.h"

#include <string.h>

#include "base/memory.h"
#include "db/query.h"

struct sums {
    int64_t *tokens; /* [files] TW_NULL: not known */
    size_t files, room;
};

/* Adds the part's tokens, or takes them where it knows the whole. */
static enum tw_status add_part(struct sums *sums, const struct twp_part *part,
                               struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = true;
    enum tw_status status = tw_query_open(
        part->store,
        "SELECT tokens FROM corpus_ WHERE run_id = :run ORDER BY ord", &query,
        err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":run", part->run, err);
    for (size_t i = 0; status == TW_OK; i++) {
        status = tw_query_next(query, &has_row, err);
        if (status != TW_OK || !has_row)
            break;
        if (tw_grow((void **)&sums->tokens, &sums->room, i + 1,
                    sizeof *sums->tokens) != 0) {
            status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
            break;
        }
        if (i >= sums->files)
            sums->tokens[sums->files++] = 0;
        bool is_known = tw_query_type(query, 0) == TW_CELL_INT &&
                        sums->tokens[i] != TW_NULL;
        if (!is_known ||
            __builtin_add_overflow(sums->tokens[i], tw_query_int(query, 0),
                                   &sums->tokens[i]))
            sums->tokens[i] = TW_NULL;
    }
    tw_query_close(query);
    return status;
}

/* The lead's rows again, with the sums. */
static enum tw_status put_rows(struct tw_store *out, int64_t run,
                               const struct twp_part *lead,
                               const struct sums *sums, bool is_whole,
                               struct tw_error *err)
{
    struct tw_query *query = NULL;
    bool has_row = true;
    enum tw_status status = tw_query_open(
        lead->store,
        "SELECT ord, file, sha256, documents, bytes FROM corpus_ WHERE run_id "
        "= :run ORDER BY ord",
        &query, err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":run", lead->run, err);
    for (size_t i = 0; status == TW_OK; i++) {
        size_t size;
        status = tw_query_next(query, &has_row, err);
        if (status != TW_OK || !has_row)
            break;
        const char *file = tw_query_text(query, 1, &size);
        struct tw_store_corpus row = {
            .ord = tw_query_int(query, 0),
            .file = file ? file : "",
            .sha256 = tw_query_text(query, 2, &size),
            .documents = tw_query_type(query, 3) == TW_CELL_INT
                             ? tw_query_int(query, 3)
                             : TW_NULL,
            .tokens = is_whole && i < sums->files ? sums->tokens[i] : TW_NULL,
            .bytes = tw_query_type(query, 4) == TW_CELL_INT
                         ? tw_query_int(query, 4)
                         : TW_NULL};
        status = tw_store_put_corpus(out, run, &row, err);
    }
    tw_query_close(query);
    return status;
}

static enum tw_status knows_whole(const struct twp_part *part, bool *is_whole,
                                  struct tw_error *err)
{
    char *split = NULL;
    int64_t limit = TW_NULL;
    enum tw_status status =
        tw_store_get_text(part->store, part->run, "split", &split, err);
    if (status == TW_OK)
        status = tw_store_get_int(part->store, part->run, "token_limit", &limit,
                                  err);
    *is_whole = limit != TW_NULL || (split && strcmp(split, "stream") == 0);
    tw_free(split);
    return status;
}

enum tw_status twp_merge_corpora(struct tw_store *out, int64_t run,
                                 const struct twp_part *lead,
                                 const struct twp_part *end, bool is_whole,
                                 struct tw_error *err)
{
    bool is_known;
    struct sums sums = {0};
    enum tw_status status = knows_whole(lead, &is_known, err);
    if (status != TW_OK || is_known)
        return status; /* the lead's rows were copied with its facts */
    for (const struct twp_part *p = lead; p < end && status == TW_OK; p++)
        if (strcmp(p->status, "complete") == 0)
            status = add_part(&sums, p, err);
    if (status == TW_OK)
        status = put_rows(out, run, lead, &sums, is_whole, err);
    tw_free(sums.tokens);
    return status;
}
