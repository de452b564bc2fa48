/* twellscope tokenize: ids and pieces of a text. */
#include <config.h>

#include "cmd/command.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cmd/options.h"
#include "load/checkpoint.h"
#include "load/npy.h"
#include "run/corpus.h"
#include "run/rules.h"
#include "text/tokenizer.h"

struct request {
    const char *model, *output, *doc_sep, *field, *prompt;
    const char **files;
    int n_files;
    bool no_parse_special;
};

static enum tw_status parse(int argc, char **argv, struct request *r,
                            struct tw_error *err)
{
    enum { OPT_DOC_SEP = 256, OPT_FIELD, OPT_NO_PARSE };
    static const struct option options[] = {
        {"model", required_argument, NULL, 'm'},
        {"file", required_argument, NULL, 'f'},
        {"prompt", required_argument, NULL, 'p'},
        {"output", required_argument, NULL, 'o'},
        {"doc-sep", required_argument, NULL, OPT_DOC_SEP},
        {"field", required_argument, NULL, OPT_FIELD},
        {"no-parse-special", no_argument, NULL, OPT_NO_PARSE},
        {NULL, 0, NULL, 0}};
    int option;
    optind = 0;
    while ((option = getopt_long(argc, argv, "+:m:f:p:o:", options, NULL)) !=
           -1) {
        switch (option) {
        case 'm': r->model = optarg; break;
        case 'f': r->files[r->n_files++] = optarg; break;
        case 'p': r->prompt = optarg; break;
        case 'o': r->output = optarg; break;
        case OPT_DOC_SEP: r->doc_sep = optarg; break;
        case OPT_FIELD: r->field = optarg; break;
        case OPT_NO_PARSE: r->no_parse_special = true; break;
        default: return tw_bad_option(option, argv[optind - 1], err);
        }
    }
    if (optind < argc)
        return tw_error_set(err, TW_ERR_USAGE, "unexpected argument '%s'",
                            argv[optind]);
    if (!r->model || (r->n_files > 0) == (r->prompt != NULL))
        return tw_error_set(err, TW_ERR_USAGE,
                            "give -m MODEL and one of -f FILE, -p TEXT");
    return TW_OK;
}

static void print_ids(const struct tw_tokenizer *tokenizer,
                      const struct tw_ids *ids, size_t from)
{
    for (size_t i = from; i < ids->count; i++) {
        size_t size = 0;
        const char *piece = tw_tokenizer_piece(tokenizer, ids->id[i], &size);
        char *shown = piece ? tw_piece_printable(piece, size) : NULL;
        printf("%" PRId32 "\t%s\n", ids->id[i], shown ? shown : "");
        tw_free(shown);
    }
}

static enum tw_status tokenize(const struct request *r,
                               const struct tw_tokenizer *tokenizer,
                               struct tw_documents *documents,
                               struct tw_error *err)
{
    struct tw_ids ids = {0};
    struct tw_document document;
    bool has_document = true;
    int32_t eos = tw_tokenizer_eos(tokenizer);
    enum tw_status status = TW_OK;
    while (status == TW_OK) {
        status = documents->next(documents->state, &document, &has_document,
                                 err);
        if (status != TW_OK || !has_document)
            break;
        if (document.ids) {
            status = tw_error_set(err, TW_ERR_USAGE,
                                  "an .npy holds ids, not text");
            break;
        }
        if (r->output && ids.count > 0 && eos >= 0)
            status = tw_ids_push(&ids, eos, err);
        size_t from = r->output ? ids.count : 0;
        ids.count = from;
        if (status == TW_OK)
            status = tw_tokenizer_encode(tokenizer, document.text,
                                         document.size, !r->no_parse_special,
                                         &ids, err);
        if (status == TW_OK && !r->output)
            print_ids(tokenizer, &ids, from);
    }
    if (status == TW_OK && r->output)
        status = tw_npy_write(r->output, ids.id, (int64_t)ids.count, err);
    tw_ids_fini(&ids);
    return status;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.doc_sep = "auto", .field = "text"};
    struct tw_tokenizer *tokenizer = NULL;
    struct tw_corpus corpus = {0};
    char *directory = NULL, *name = NULL, room[256];
    enum tw_status status = TW_OK;
    r.files = tw_calloc((size_t)argc + 1, sizeof *r.files);
    if (!r.files)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if ((status = parse(argc, argv, &r, err)) != TW_OK)
        goto out;
    if ((status = tw_checkpoint_find(r.model, &directory, &name, err)) != TW_OK)
        goto out;
    if ((status = tw_tokenizer_open(directory, &tokenizer, err)) != TW_OK)
        goto out;
    struct tw_corpus_options options = {
        .paths = r.files, .count = r.n_files, .prompt = r.prompt,
        .text = {.separator = tw_rules_separator(r.doc_sep, tokenizer, room,
                                                 sizeof room),
                 .field = r.field}};
    status = tw_corpus_open(&options, &corpus, err);
    if (status == TW_OK)
        status = tokenize(&r, tokenizer, &corpus.documents, err);
out:
    tw_corpus_close(&corpus);
    tw_tokenizer_close(tokenizer);
    tw_free(directory);
    tw_free(name);
    tw_free(r.files);
    return status;
}

const struct tw_command tw_command_tokenize = {
    .name = "tokenize",
    .group = "Look",
    .summary = "print the token ids and pieces of a text",
    .usage = "-m MODEL -f FILE [-f FILE]... | -p TEXT [-o ids.npy]",
    .help = "Prints a line a token: its id, a tab, its piece (bytes that are no "
            "text as\n<0xNN>).\n\n"
            "  -m, --model MODEL   directory (or org/name) with tokenizer.json, "
            "or\n"
            "                      vocab.json and merges.txt\n"
            "  -f, --file FILE     text or .jsonl, either also .gz, or - for "
            "standard\n"
            "                      input; may be repeated\n"
            "  -p, --prompt TEXT   this text\n"
            "  -o, --output FILE   write the ids as a 1-D .npy instead, "
            "documents joined\n"
            "                      by EOS\n"
            "  --doc-sep LINE      line between documents: auto, none, or the "
            "line itself\n"
            "  --field NAME        field of .jsonl lines (text)\n"
            "  --no-parse-special  special tokens inside text are plain text\n",
    .run = run,
};
