/* twellscope profile: the main job. */
#include <config.h>

#include "cmd/command.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "cmd/options.h"
#include "cmd/summary.h"
#include "cmd/talk.h"
#include "run/profile.h"

enum {
    OPT_DB = 256, OPT_NAME, OPT_BACKEND, OPT_DEVICE, OPT_ACTIVATION, OPT_APPLY,
    OPT_ACTIVE, OPT_SKIP, OPT_SPLIT, OPT_BOS, OPT_DOC_SEP, OPT_FIELD,
    OPT_MAGNITUDES, OPT_LIMIT, OPT_SHARD, OPT_TOKENIZER, OPT_NO_PARSE, OPT_TOL,
    OPT_NO_LOSS, OPT_DRY_RUN, OPT_TAG, OPT_RESUME, OPT_REPLACE, OPT_CHECKPOINT,
    OPT_TIME_LIMIT, OPT_STRICT, OPT_COMPARE
};

static const struct option long_options[] = {
    {"model", required_argument, NULL, 'm'},
    {"file", required_argument, NULL, 'f'},
    {"prompt", required_argument, NULL, 'p'},
    {"ctx-size", required_argument, NULL, 'c'},
    {"batch-size", required_argument, NULL, 'b'},
    {"threads", required_argument, NULL, 't'},
    {"verbose", no_argument, NULL, 'v'},
    {"compare", required_argument, NULL, OPT_COMPARE},
    {"db", required_argument, NULL, OPT_DB},
    {"name", required_argument, NULL, OPT_NAME},
    {"backend", required_argument, NULL, OPT_BACKEND},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"activation", required_argument, NULL, OPT_ACTIVATION},
    {"apply", required_argument, NULL, OPT_APPLY},
    {"active", required_argument, NULL, OPT_ACTIVE},
    {"skip", required_argument, NULL, OPT_SKIP},
    {"split", required_argument, NULL, OPT_SPLIT},
    {"bos", required_argument, NULL, OPT_BOS},
    {"doc-sep", required_argument, NULL, OPT_DOC_SEP},
    {"field", required_argument, NULL, OPT_FIELD},
    {"magnitudes", no_argument, NULL, OPT_MAGNITUDES},
    {"limit", required_argument, NULL, OPT_LIMIT},
    {"shard", required_argument, NULL, OPT_SHARD},
    {"tokenizer", required_argument, NULL, OPT_TOKENIZER},
    {"no-parse-special", no_argument, NULL, OPT_NO_PARSE},
    {"tolerance", required_argument, NULL, OPT_TOL},
    {"no-loss", no_argument, NULL, OPT_NO_LOSS},
    {"dry-run", no_argument, NULL, OPT_DRY_RUN},
    {"tag", required_argument, NULL, OPT_TAG},
    {"resume", no_argument, NULL, OPT_RESUME},
    {"replace", no_argument, NULL, OPT_REPLACE},
    {"checkpoint", required_argument, NULL, OPT_CHECKPOINT},
    {"time-limit", required_argument, NULL, OPT_TIME_LIMIT},
    {"strict", no_argument, NULL, OPT_STRICT},
    {NULL, 0, NULL, 0}};

/* The growing lists of repeated options. */
struct lists {
    const char **files, **active, **tags; /* each [argc] */
};

static enum tw_status push_active(struct tw_profile_options *o,
                                  const char **active, const char *value)
{
    active[o->n_active++] = value;
    return TW_OK;
}

static enum tw_status parse_text(struct tw_profile_options *o,
                                 struct lists *lists, int option,
                                 struct tw_error *err)
{
    switch (option) {
    case 'm': o->model = optarg; return TW_OK;
    case 'p': o->prompt = optarg; return TW_OK;
    case 'f': lists->files[o->n_files++] = optarg; return TW_OK;
    case 'v': tw_talk_verbose(); return TW_OK;
    case OPT_COMPARE: o->compare = optarg; return TW_OK;
    case OPT_DB: o->db = optarg; return TW_OK;
    case OPT_NAME: o->name = optarg; return TW_OK;
    case OPT_BACKEND: o->backend = optarg; return TW_OK;
    case OPT_ACTIVATION: o->activation = optarg; return TW_OK;
    case OPT_APPLY: o->apply = optarg; return TW_OK;
    case OPT_ACTIVE: return push_active(o, lists->active, optarg);
    case OPT_SKIP: o->skip = optarg; return TW_OK;
    case OPT_SPLIT: o->split = optarg; return TW_OK;
    case OPT_BOS: o->bos = optarg; return TW_OK;
    case OPT_DOC_SEP: o->doc_sep = optarg; return TW_OK;
    case OPT_FIELD: o->field = optarg; return TW_OK;
    case OPT_TOKENIZER: o->tokenizer = optarg; return TW_OK;
    case OPT_TAG: lists->tags[o->n_tags++] = optarg; return TW_OK;
    case OPT_MAGNITUDES: o->has_magnitudes = true; return TW_OK;
    case OPT_NO_PARSE: o->no_parse_special = true; return TW_OK;
    case OPT_NO_LOSS: o->no_loss = true; return TW_OK;
    case OPT_DRY_RUN: o->is_dry_run = true; return TW_OK;
    case OPT_RESUME: o->is_resume = true; return TW_OK;
    case OPT_REPLACE: o->is_replace = true; return TW_OK;
    case OPT_STRICT: o->is_strict = true; return TW_OK;
    default:
        return tw_error_set(err, TW_ERR_USAGE, "unknown option");
    }
}

static enum tw_status parse_number(struct tw_profile_options *o, int option,
                                   struct tw_error *err)
{
    int64_t value = 0;
    enum tw_status status = TW_OK;
    switch (option) {
    case 'c':
        return tw_parse_size("-c", optarg, 1, INT32_MAX, &o->ctx, err);
    case 'b':
        return tw_parse_size("-b", optarg, 1, INT32_MAX, &o->batch_tokens, err);
    case 't':
        status = tw_parse_size("-t", optarg, 1, 4096, &value, err);
        o->threads = (int)value;
        return status;
    case OPT_DEVICE:
        status = tw_parse_size("--device", optarg, 0, 1024, &value, err);
        o->device = (int)value;
        return status;
    case OPT_LIMIT:
        return tw_parse_size("--limit", optarg, 1, INT64_MAX, &o->limit, err);
    case OPT_SHARD:
        return tw_parse_shard(optarg, &o->shard, &o->shards, err);
    case OPT_TOL:
        return tw_parse_real("--tolerance", optarg, 0, 1e9, &o->tolerance, err);
    case OPT_CHECKPOINT:
        return tw_parse_real("--checkpoint", optarg, 0, 1e9,
                             &o->checkpoint_seconds, err);
    case OPT_TIME_LIMIT:
        return tw_parse_duration("--time-limit", optarg,
                                 &o->time_limit_seconds, err);
    default:
        return TW_ERR_NOT_FOUND; /* not a number */
    }
}

static enum tw_status parse(int argc, char **argv, struct lists *lists,
                            struct tw_profile_options *o, struct tw_error *err)
{
    int option;
    optind = 0;
    while ((option = getopt_long(argc, argv, "+:m:f:p:c:b:t:v", long_options,
                                 NULL)) != -1) {
        if (option == '?' || option == ':')
            return tw_error_set(err, TW_ERR_USAGE,
                                option == ':' ? "option '%s' needs an argument"
                                              : "unknown option '%s'",
                                argv[optind - 1]);
        enum tw_status status = parse_number(o, option, err);
        if (status == TW_ERR_NOT_FOUND)
            status = parse_text(o, lists, option, err);
        if (status != TW_OK)
            return status;
    }
    if (optind < argc)
        return tw_error_set(err, TW_ERR_USAGE, "unexpected argument '%s'",
                            argv[optind]);
    if (!o->model)
        return tw_error_set(err, TW_ERR_USAGE, "-m MODEL is missing");
    if ((o->n_files > 0) + (o->prompt != NULL) + (o->compare != NULL) != 1)
        return tw_error_set(err, TW_ERR_USAGE,
                            "give one of -f FILE, -p TEXT, --compare ORACLE");
    if ((o->is_resume || o->is_replace) && !o->name)
        return tw_error_set(err, TW_ERR_USAGE, "%s needs --name",
                            o->is_resume ? "--resume" : "--replace");
    if (o->is_resume && o->is_replace)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--resume and --replace exclude each other");
    return TW_OK;
}

/* Says what was done, on stderr, and where the numbers are. */
static void report_end(const struct tw_profile_options *o,
                       const struct tw_profile_report *report)
{
    const struct tw_profile_times *t = &report->times;
    tw_talk_progress_end();
    tw_log(TW_LOG_DEBUG,
           "time: load %.2f s, text %.2f s, compute %.2f s, record %.2f s, "
           "%d checkpoints %.2f s, total %.2f s",
           t->load, t->text, t->compute, t->record, t->checkpoints,
           t->checkpoint, t->total);
    if (report->was_complete)
        tw_log(TW_LOG_INFO, "run '%s' is complete already", report->name);
    if (!isnan(report->mean_nll) && report->vocab > 1 && report->tokens > 0 &&
        report->mean_nll > 0.95 * log((double)report->vocab))
        tw_log(TW_LOG_WARNING,
               "mean loss %.2f is near ln(vocabulary) = %.2f: the text or the "
               "tokenizer may not be this model's",
               report->mean_nll, log((double)report->vocab));
    (void)o;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct tw_profile_options o = tw_profile_defaults;
    struct tw_profile_report report = {.mean_nll = NAN};
    struct tw_strbuf command = {0};
    size_t n = (size_t)argc + 1;
    struct lists lists = {tw_calloc(n, sizeof(char *)),
                          tw_calloc(n, sizeof(char *)),
                          tw_calloc(n, sizeof(char *))};
    enum tw_status status;
    if (!lists.files || !lists.active || !lists.tags)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    else
        status = parse(argc, argv, &lists, &o, err);
    if (status == TW_OK) {
        tw_command_line(&command, argc, argv);
        o.files = lists.files;
        o.active = lists.active;
        o.tags = lists.tags;
        o.db = o.db ? o.db : tw_default_db();
        o.command = tw_strbuf_text(&command);
        o.stop = &tw_talk_stop;
        o.progress = tw_talk_progress;
        tw_talk_catch_signals();
        status = tw_profile_run(&o, &report, err);
        report_end(&o, &report);
        if (report.is_complete && report.is_stored) {
            struct tw_error ignored = {0};
            enum tw_status shown =
                tw_summary_print(stdout, o.db, report.name, &ignored);
            if (shown != TW_OK && status == TW_OK)
                status = tw_error_set(err, shown, "%s", ignored.text);
        }
    }
    tw_strbuf_fini(&command);
    tw_free(lists.files);
    tw_free(lists.active);
    tw_free(lists.tags);
    return status;
}

const struct tw_command tw_command_profile = {
    .name = "profile",
    .group = "Measure",
    .summary = "run a checkpoint over text and count which neurons fire",
    .usage = "-m MODEL -f FILE [-f FILE]... | -p TEXT | --compare ORACLE "
             "[OPTION]...",
    .help =
        "Runs the checkpoint over the text with TwELL sparse kernels and stores "
        "exact\ncounts per layer, position, token and neuron in one SQLite "
        "file.\n\n"
        "Model\n"
        "  -m, --model MODEL      directory, file in it, or org/name in the "
        "Hugging\n"
        "                         Face cache (offline)\n"
        "  --tokenizer DIR        tokenizer from another directory\n"
        "  --activation NAME[:A]  run another activation: relu, relu2, "
        "fatrelu:T,\n"
        "                         silu, gelu, gelu_tanh, quick_gelu\n"
        "  --apply DEF            set h to 0 where DEF is not active\n\n"
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
        "  --active DEF           definition of active: hidden (default), gate, "
        "abs:T,\n"
        "                         gate-abs:T, topp:P, topk:K; repeated: all in "
        "one\n"
        "                         pass, the first is the run's primary\n"
        "  --skip LIST            leave rows out of the primary statistics: "
        "bos,\n"
        "                         special, first:N, comma separated\n"
        "  --magnitudes           also |h| per neuron and a histogram of |h|\n"
        "  --no-loss              leave the LM head out\n\n"
        "Store\n"
        "  --db FILE              database ($TWELLSCOPE_DB, else "
        "twellscope.sqlite)\n"
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
        "  -b, --batch-size N     tokens a batch (4096)\n"
        "  -t, --threads N        threads (all cores)\n"
        "  --backend NAME         auto, cpu or cuda\n"
        "  --device N             GPU number\n"
        "  -v, --verbose          say more\n\n"
        "Check\n"
        "  --compare ORACLE       run the input_ids of a safetensors file and "
        "compare\n"
        "                         its nll, nnz, l1, fire and logits_last\n"
        "  --tolerance X          bound on the loss and the logits\n",
    .run = run,
};
