/* twellscope tokenize: ids and pieces of a text. */
#include <config.h>

#include "cmd/command.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/memory.h"
#include "cmd/arguments.h"
#include "cmd/options.h"
#include "load/npy.h"
#include "run/corpus.h"
#include "run/rules.h"
#include "run/tokenizer_of.h"
#include "text/tokenizer.h"

struct request {
    const char *model, *tokenizer, *output, *doc_sep, *field, *prompt;
    struct tw_text_list files;
    bool no_parse_special, wants_help;
};

static const struct tw_argument arguments[] = {
    {"model", 'm', TW_ARG_TEXT, offsetof(struct request, model), 0},
    {"tokenizer", 0, TW_ARG_TEXT, offsetof(struct request, tokenizer), 0},
    {"file", 'f', TW_ARG_LIST, offsetof(struct request, files), 0},
    {"prompt", 'p', TW_ARG_TEXT, offsetof(struct request, prompt), 0},
    {"output", 'o', TW_ARG_TEXT, offsetof(struct request, output), 0},
    {"doc-sep", 0, TW_ARG_TEXT, offsetof(struct request, doc_sep), 0},
    {"field", 0, TW_ARG_TEXT, offsetof(struct request, field), 0},
    {"no-parse-special", 0, TW_ARG_FLAG,
     offsetof(struct request, no_parse_special), 0},
    {NULL, 0, TW_ARG_FLAG, 0, 0}};

static enum tw_status parse(int argc, char **argv, struct request *r,
                            struct tw_error *err)
{
    enum tw_status status = tw_arguments_parse(argc, argv, arguments, r,
                                               &r->wants_help, NULL, 0, err);
    if (status != TW_OK || r->wants_help)
        return status;
    if ((!r->model && !r->tokenizer) ||
        (r->files.count > 0) == (r->prompt != NULL))
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
        status =
            documents->next(documents->state, &document, &has_document, err);
        if (status != TW_OK || !has_document)
            break;
        if (document.ids) {
            status =
                tw_error_set(err, TW_ERR_USAGE, "an .npy holds ids, not text");
            break;
        }
        if (r->output && ids.count > 0 && eos >= 0)
            status = tw_ids_push(&ids, eos, err);
        size_t from = r->output ? ids.count : 0;
        ids.count = from;
        if (status == TW_OK)
            status =
                tw_tokenizer_encode(tokenizer, document.text, document.size,
                                    !r->no_parse_special, &ids, err);
        if (status == TW_OK && !r->output)
            print_ids(tokenizer, &ids, from);
    }
    if (status == TW_OK && r->output)
        status = tw_npy_write(r->output, ids.id, (int64_t)ids.count, err);
    tw_ids_fini(&ids);
    return status;
}

static enum tw_status open_and_tokenize(const struct request *r,
                                        struct tw_error *err)
{
    struct tw_tokenizer *tokenizer = NULL;
    struct tw_corpus corpus = {0};
    char room[256];
    enum tw_status status =
        tw_tokenizer_of_name(r->tokenizer, r->model, &tokenizer, err);
    if (status == TW_OK) {
        struct tw_corpus_options options = {
            .paths = r->files.item,
            .count = r->files.count,
            .prompt = r->prompt,
            .text = {.separator = tw_rules_separator(r->doc_sep, tokenizer,
                                                     room, sizeof room),
                     .field = r->field}};
        status = tw_corpus_open(&options, &corpus, err);
    }
    if (status == TW_OK)
        status = tokenize(r, tokenizer, &corpus.documents, err);
    tw_corpus_close(&corpus);
    tw_tokenizer_close(tokenizer);
    return status;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.doc_sep = "auto", .field = "text"};
    enum tw_status status = parse(argc, argv, &r, err);
    if (status == TW_OK && r.wants_help)
        tw_print_help(&tw_command_tokenize);
    else if (status == TW_OK)
        status = open_and_tokenize(&r, err);
    tw_free(r.files.item);
    return status;
}

const struct tw_command tw_command_tokenize = {
    .name = "tokenize",
    .group = "Look",
    .summary = "print the token ids and pieces of a text",
    .usage = "-m MODEL -f FILE [-f FILE]... | -p TEXT [-o ids.npy]",
    .help =
        "Prints a line a token: its id, a tab, its piece (bytes that are no "
        "text as\n<0xNN>).\n\n"
        "  -m, --model MODEL   directory (or org/name) with tokenizer.json, "
        "tokenizer.model\n"
        "                      or vocab.json and merges.txt; a GGUF file\n"
        "  --tokenizer DIR     the tokenizer of that directory instead\n"
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
