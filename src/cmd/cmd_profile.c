/* twellscope profile: the main job. */
#include <config.h>

#include "cmd/command.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "cmd/arguments.h"
#include "cmd/options.h"
#include "cmd/summary.h"
#include "cmd/talk.h"
#include "run/profile.h"
#include "run/ranks.h"

struct request {
    struct tw_profile_options o;
    struct tw_text_list files, active, tags;
    int64_t shard[2];
    bool is_verbose, wants_help;
};

#define OPTION(field) offsetof(struct request, o.field)
static const struct tw_argument arguments[] = {
    {"model", 'm', TW_ARG_TEXT, OPTION(model), 0},
    {"file", 'f', TW_ARG_LIST, offsetof(struct request, files), 0},
    {"prompt", 'p', TW_ARG_TEXT, OPTION(prompt), 0},
    {"compare", 0, TW_ARG_TEXT, OPTION(compare), 0},
    {"tokenizer", 0, TW_ARG_TEXT, OPTION(tokenizer), 0},
    {"activation", 0, TW_ARG_TEXT, OPTION(activation), 0},
    {"apply", 0, TW_ARG_TEXT, OPTION(apply), 0},
    {"active", 0, TW_ARG_LIST, offsetof(struct request, active), 0},
    {"plan", 0, TW_ARG_TEXT, OPTION(plan), 0},
    {"skip", 0, TW_ARG_TEXT, OPTION(skip), 0},
    {"split", 0, TW_ARG_TEXT, OPTION(split), 0},
    {"bos", 0, TW_ARG_TEXT, OPTION(bos), 0},
    {"doc-sep", 0, TW_ARG_TEXT, OPTION(doc_sep), 0},
    {"field", 0, TW_ARG_TEXT, OPTION(field), 0},
    {"no-parse-special", 0, TW_ARG_FLAG, OPTION(no_parse_special), 0},
    {"ctx-size", 'c', TW_ARG_INT, OPTION(ctx), 1},
    {"batch-size", 'b', TW_ARG_INT, OPTION(batch_tokens), 1},
    {"threads", 't', TW_ARG_INT, OPTION(threads), 1},
    {"backend", 0, TW_ARG_TEXT, OPTION(backend), 0},
    {"device", 0, TW_ARG_INT, OPTION(device), 0},
    {"per-token", 0, TW_ARG_FLAG, OPTION(has_ledger), 0},
    {"no-l1", 0, TW_ARG_FLAG, OPTION(no_ledger_l1), 0},
    {"active-sets", 0, TW_ARG_FLAG, OPTION(has_sets), 0},
    {"watch", 0, TW_ARG_TEXT, OPTION(watch), 0},
    {"examples", 0, TW_ARG_COUNT, OPTION(examples), 1},
    {"magnitudes", 0, TW_ARG_FLAG, OPTION(has_magnitudes), 0},
    {"no-loss", 0, TW_ARG_FLAG, OPTION(no_loss), 0},
    {"limit", 0, TW_ARG_COUNT, OPTION(limit), 1},
    {"shard", 0, TW_ARG_SHARD, offsetof(struct request, shard), 0},
    {"db", 0, TW_ARG_TEXT, OPTION(db), 0},
    {"scratch", 0, TW_ARG_TEXT, OPTION(scratch), 0},
    {"name", 0, TW_ARG_TEXT, OPTION(name), 0},
    {"tag", 0, TW_ARG_LIST, offsetof(struct request, tags), 0},
    {"resume", 0, TW_ARG_FLAG, OPTION(is_resume), 0},
    {"replace", 0, TW_ARG_FLAG, OPTION(is_replace), 0},
    {"checkpoint", 0, TW_ARG_REAL, OPTION(checkpoint_seconds), 0},
    {"time-limit", 0, TW_ARG_DURATION, OPTION(time_limit_seconds), 0},
    {"tolerance", 0, TW_ARG_REAL, OPTION(tolerance), 0},
    {"strict", 0, TW_ARG_FLAG, OPTION(is_strict), 0},
    {"dry-run", 0, TW_ARG_FLAG, OPTION(is_dry_run), 0},
    {"verbose", 'v', TW_ARG_FLAG, offsetof(struct request, is_verbose), 0},
    {NULL, 0, TW_ARG_FLAG, 0, 0}};

static enum tw_status parse(int argc, char **argv, struct request *r,
                            struct tw_error *err)
{
    struct tw_profile_options *o = &r->o;
    enum tw_status status = tw_arguments_parse(argc, argv, arguments, r,
                                               &r->wants_help, NULL, 0, err);
    if (status != TW_OK || r->wants_help)
        return status;
    o->files = r->files.item;
    o->n_files = r->files.count;
    o->active = r->active.item;
    o->n_active = r->active.count;
    o->tags = r->tags.item;
    o->n_tags = r->tags.count;
    o->shard = r->shard[0];
    o->shards = r->shard[1];
    if (!o->model)
        return tw_error_set(err, TW_ERR_USAGE, "-m MODEL is missing");
    if ((o->n_files > 0) + (o->prompt != NULL) + (o->compare != NULL) != 1)
        return tw_error_set(err, TW_ERR_USAGE,
                            "give one of -f FILE, -p TEXT, --compare ORACLE");
    if ((o->is_resume || o->is_replace) && !o->name)
        return tw_error_set(err, TW_ERR_USAGE, "%s needs --name",
                            o->is_resume ? "--resume" : "--replace");
    if (o->name && (!*o->name || strlen(o->name) > 200))
        return tw_error_set(err, TW_ERR_USAGE, "--name: give 1 to 200 bytes");
    int from_stdin = 0;
    for (int i = 0; i < o->n_files; i++)
        from_stdin += strcmp(o->files[i], "-") == 0;
    if (from_stdin > 1 || (from_stdin && o->is_resume))
        return tw_error_set(err, TW_ERR_USAGE,
                            "-f -: standard input can be read once, and not "
                            "with --resume");
    if (o->is_resume && o->is_replace)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--resume and --replace exclude each other");
    return TW_OK;
}

/* Says what was done, on stderr, and where the numbers are. */
static void report_end(const struct tw_profile_report *report,
                       enum tw_status status)
{
    const struct tw_profile_times *t = &report->times;
    char busy[40] = "";
    tw_talk_progress_end();
    if (!isnan(t->device_busy))
        snprintf(busy, sizeof busy, ", device busy %.1f %%",
                 100 * t->device_busy);
    double other = t->total - t->load - t->start - t->plan - t->begin -
                   t->text - t->compute - t->record - t->checkpoint - t->close;
    tw_log(TW_LOG_DEBUG,
           "time: load %.3f s, start %.3f s, plan %.3f s, begin %.3f s, "
           "text %.3f s, compute %.3f s, record %.3f s, %d checkpoints %.3f s, "
           "close %.3f s, other %.3f s, total %.3f s%s",
           t->load, t->start, t->plan, t->begin, t->text, t->compute, t->record,
           t->checkpoints, t->checkpoint, t->close, other, t->total, busy);
    if (report->was_complete && status == TW_OK)
        tw_log(TW_LOG_INFO, "run '%s' is complete already", report->name);
    if (!isnan(report->mean_nll) && report->vocab > 1 && report->tokens > 0 &&
        report->mean_nll > 0.95 * log((double)report->vocab))
        tw_log(TW_LOG_WARNING,
               "mean loss %.2f is not below ln(vocabulary) = %.2f: the text or "
               "the tokenizer may not be this model's",
               report->mean_nll, log((double)report->vocab));
}

static enum tw_status profile(struct request *r, struct tw_error *err)
{
    struct tw_profile_report report;
    r->o.stop = &tw_talk_stop;
    r->o.progress = tw_talk_progress;
    if (r->is_verbose)
        tw_talk_verbose();
    tw_talk_catch_signals();
    struct tw_ranks ranks;
    enum tw_status status = tw_ranks_find(&ranks, err);
    if (status != TW_OK)
        return status;
    if (ranks.ranks > 1 && r->o.shards == 1)
        tw_talk_rank(ranks.rank);
    status = tw_ranks_run(&ranks, &r->o, &report, err);
    report_end(&report, status);
    if (report.is_complete || report.was_complete) {
        struct tw_error own = {0};
        enum tw_status shown =
            tw_summary_print(stdout, r->o.db, report.name, &own);
        if (shown != TW_OK && status == TW_OK)
            status = tw_error_set(err, shown, "%s", own.text);
    }
    return status;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.o = tw_profile_defaults, .shard = {0, 1}};
    struct tw_strbuf command = {0};
    tw_command_line(&command, argc, argv);
    r.o.db = tw_default_db();
    r.o.command = tw_strbuf_text(&command);
    enum tw_status status = parse(argc, argv, &r, err);
    if (status == TW_OK && r.wants_help)
        tw_print_help(&tw_command_profile);
    else if (status == TW_OK)
        status = profile(&r, err);
    tw_strbuf_fini(&command);
    tw_free(r.files.item);
    tw_free(r.active.item);
    tw_free(r.tags.item);
    return status;
}

const struct tw_command tw_command_profile = {
    .name = "profile",
    .group = "Measure",
    .summary = "run a checkpoint over text and count which neurons fire",
    .usage = "-m MODEL -f FILE [-f FILE]... | -p TEXT | --compare ORACLE "
             "[OPTION]...",
    .help =
        "Runs the checkpoint over the text with TwELL sparse kernels and "
        "stores "
        "exact\ncounts per layer, position, token and neuron in one SQLite "
        "file.\n\n"
        "Model\n"
        "  -m, --model MODEL      directory (safetensors, pytorch_model.bin "
        "or GGUF),\n"
        "                         file in it, or org/name in the Hugging Face "
        "cache\n"
        "                         (offline)\n"
        "  --tokenizer DIR        tokenizer from another directory\n"
        "  --activation NAME[:A]  run another activation: relu, relu2, "
        "fatrelu:T,\n"
        "                         silu, gelu, gelu_tanh, quick_gelu\n"
        "  --apply DEF            set h to 0 where DEF is not active (topp, "
        "topk: cpu\n"
        "                         alone)\n\n"
        "Text\n"
        "  -f, --file FILE        text, .jsonl, either also .gz, token ids as "
        ".npy, or\n"
        "                         - for standard input; may be repeated\n"
        "  -p, --prompt TEXT      this text\n"
        "  --field NAME           field of .jsonl lines (text)\n"
        "  --doc-sep LINE         line between documents of a text file; auto "
        "(the\n"
        "                         tokenizer's end-of-text piece), none\n"
        "  --split docs|stream    a document starts a sequence (docs), or all "
        "are\n"
        "                         joined by EOS and cut\n"
        "  -c, --ctx-size N       longest sequence (min(2048, the model's "
        "limit))\n"
        "  --bos auto|yes|no      put BOS before each sequence (auto: the "
        "tokenizer's\n"
        "                         own rule)\n"
        "  --no-parse-special     special tokens inside text are plain text\n"
        "  --limit N              end the corpus after its first N text "
        "tokens\n"
        "  --shard I/N            only documents whose number mod N is I (from "
        "0)\n\n"
        "Count\n"
        "  --active DEF           definition of active: hidden (default), "
        "gate, "
        "abs:T,\n"
        "                         gate-abs:T, topp:P, topk:K; repeated: all in "
        "one\n"
        "                         pass, the first is the run's primary\n"
        "  --skip LIST            leave rows out of the primary statistics: "
        "bos,\n"
        "                         special, first:N, comma separated\n"
        "  --magnitudes           also |h| per neuron and a histogram of |h|\n"
        "  --no-loss              leave the LM head out\n"
        "  --per-token            keep every row's non-zeros, l1 and loss "
        "(token_activity)\n"
        "  --no-l1                ... without l1\n"
        "  --active-sets          and every row's active neurons with their "
        "values\n"
        "                         (active_neurons, neuron_tokens)\n"
        "  --watch L:N,...|FILE   each firing of those neurons (watched)\n"
        "  --examples K           each neuron's K strongest contexts "
        "(examples)\n\n"
        "Store\n"
        "  --db FILE              database ($TWELLSCOPE_DB, else "
        "twellscope.sqlite)\n"
        "  --scratch DIR          count into a file there, bring it to --db at "
        "the end or\n"
        "                         when stopped\n"
        "  --name RUN             the run's name (the model's, then -2, -3)\n"
        "  --tag KEY=VALUE        stored with the run; may be repeated\n"
        "  --resume               go on with the run of that name, or start "
        "it\n"
        "  --replace              delete the run of that name first\n"
        "  --checkpoint SECONDS   between checkpoints (max(10, 50 x one's "
        "cost))\n"
        "  --time-limit TIME      stop at a checkpoint after TIME (90s, 45m, "
        "3h45m)\n"
        "  --strict               exit 3 where rows overflowed, tensors were "
        "unused, or\n"
        "                         the activation was assumed\n"
        "  --dry-run              check everything, count nothing\n\n"
        "Compute\n"
        "  -b, --batch-size N     tokens a batch (4096); halved where there is "
        "no memory,\n"
        "                         which changes no number; larger ones are "
        "faster where\n"
        "                         layers are streamed\n"
        "  -t, --threads N        threads (all cores; of several ranks, their "
        "share)\n"
        "  --backend NAME         cpu, cuda, or auto: cuda where there is a "
        "GPU and it can\n"
        "                         count what is wanted (-v says why not), else "
        "cpu; layers\n"
        "                         that don't fit the GPU are streamed from the "
        "machine's\n"
        "                         memory, which -v says\n"
        "  --plan RUN|FILE        compute each layer as that run did, or as "
        "the file\n"
        "                         says (made from the text's first 4096 "
        "tokens)\n"
        "  --device N             GPU number (of several ranks, the one's "
        "number "
        "on its\n"
        "                         machine)\n"
        "  -v, --verbose          say more\n\n"
        "Check\n"
        "  --compare ORACLE       run the input_ids of a safetensors file and "
        "compare\n"
        "                         its nll, nnz, l1, fire and logits_last\n"
        "  --tolerance X          bound on the loss and the logits\n\n"
        "Several ranks\n"
        "  mpirun -n N twellscope profile ..., srun -n N, or N processes with "
        "TW_RANK\n"
        "  and TW_RANKS: each counts its share of the documents into "
        "FILE.partI-of-N\n"
        "  beside --db, which every rank has to see; the parts become one run "
        "in --db,\n"
        "  the same as one process's. With MPI rank 0 merges; without it the "
        "rank that\n"
        "  ends last. After a failure the same command with --name RUN "
        "--resume counts\n"
        "  what is missing. TW_RANKS=1 or --shard turn this off.\n",
    .run = run,
};
