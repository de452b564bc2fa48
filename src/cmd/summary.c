/* The ten lines that end a profile: one query, one line a row. */
#include <config.h>

#include "cmd/summary.h"

#include <string.h>

#include "base/strbuf.h"
#include "cmd/arguments.h"
#include "cmd/options.h"
#include "db/query.h"
#include "db/store.h"

static const char lines[] =
    "WITH r AS (SELECT * FROM run_info WHERE run = :run),\n"
    "l AS (SELECT * FROM layer_stats WHERE run = :run),\n"
    "a AS (SELECT avg(mean_nnz) AS mean, min(mean_nnz) AS low,\n"
    "  max(mean_nnz) AS high, max(max_nnz) AS top, sum(dead) AS dead,\n"
    "  sum(width) AS neurons, avg(sparsity) AS sparsity FROM l),\n"
    "o AS (SELECT sum(overflow_rows) AS rows, sum(dense_rows) AS dense,\n"
    "  sum(tokens) AS cells FROM layer_routes WHERE run = :run)\n"
    "SELECT printf('run         %s (%s, %s)', run, status, backend) FROM r\n"
    "UNION ALL SELECT printf('model       %s: %s, %d layers, d_model %d, "
    "d_ff %d', model, model_type, layers, d_model, d_ff) FROM r\n"
    "UNION ALL SELECT printf('activation  %s (%s)', activation, "
    "activation_source) FROM r\n"
    "UNION ALL SELECT printf('text        %d tokens in %d sequences of %d "
    "documents, ctx %d, split %s%s', tokens, sequences, documents, ctx, "
    "split,\n"
    "  CASE WHEN skipped > 0 THEN printf(', %d skipped (%s)', skipped, skip)\n"
    "  ELSE '' END) FROM r\n"
    "UNION ALL SELECT CASE WHEN mean_nll IS NULL THEN 'loss        not "
    "measured'\n"
    "  ELSE printf('loss        %.4f%s, perplexity %.2f%s', mean_nll,\n"
    "  CASE WHEN se_nll IS NULL THEN '' ELSE printf(' +- %.4f', se_nll) END,\n"
    "  perplexity, CASE WHEN bits_per_byte IS NULL THEN ''\n"
    "  ELSE printf(', %.3f bits per byte', bits_per_byte) END) END FROM r\n"
    "UNION ALL SELECT printf('active      %s', active) FROM r\n"
    "UNION ALL SELECT CASE WHEN mean IS NULL THEN 'non-zeros   not measured: "
    "'\n"
    "  || 'every row is skipped' ELSE printf('non-zeros   %.1f of %d a token "
    "and layer "
    "(%.2f %% sparse); layers %.1f to %.1f, largest row %d', mean, d_ff,\n"
    "  100 * sparsity, low, high, top) END FROM r, a\n"
    "UNION ALL SELECT CASE WHEN dead IS NULL THEN 'dead        not measured'\n"
    "  ELSE printf('dead        %d of %d neurons (%.2f %%) never "
    "fired in %d tokens', dead, neurons, 100.0 * dead / neurons, tokens)\n"
    "  END FROM r, a\n"
    "UNION ALL SELECT printf('overflow    %d of %d (token, layer) rows "
    "overflowed a tile, %d ran dense', rows, cells, dense) FROM o\n";

/* The next commands, as they can be pasted. */
static void print_next(FILE *out, const char *db, const char *run)
{
    struct tw_strbuf line = {0};
    tw_strbuf_puts(&line, "next        twellscope figure layers");
    if (strcmp(db, tw_default_db()) != 0) {
        tw_strbuf_puts(&line, " --db ");
        tw_shell_word(&line, db);
    }
    tw_strbuf_puts(&line, " --run ");
    tw_shell_word(&line, run);
    tw_strbuf_puts(&line, " -o layers.pdf; twellscope sql");
    if (strcmp(db, tw_default_db()) != 0) {
        tw_strbuf_puts(&line, " --db ");
        tw_shell_word(&line, db);
    }
    tw_strbuf_puts(&line, " 'SELECT * FROM layer_stats'");
    fprintf(out, "%s\n", tw_strbuf_text(&line));
    tw_strbuf_fini(&line);
}

enum tw_status tw_summary_print(FILE *out, const char *db, const char *run,
                                struct tw_error *err)
{
    struct tw_store *store = NULL;
    struct tw_query *query = NULL;
    bool has_row = true;
    enum tw_status status = tw_store_open(db, TW_STORE_READ, &store, err);
    if (status == TW_OK)
        status = tw_query_open(store, lines, &query, err);
    if (status == TW_OK)
        status = tw_query_bind_text(query, ":run", run, err);
    while (status == TW_OK && has_row) {
        status = tw_query_next(query, &has_row, err);
        if (status == TW_OK && has_row) {
            size_t size;
            const char *text = tw_query_text(query, 0, &size);
            fprintf(out, "%s\n", text ? text : "");
        }
    }
    if (status == TW_OK)
        print_next(out, db, run);
    tw_query_close(query);
    tw_store_close(store);
    return status;
}
