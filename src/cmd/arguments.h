/* A command's options as a table: which field of its request each one fills.
 *
 *     static const struct tw_argument arguments[] = {
 *         {"model", 'm', TW_ARG_TEXT, offsetof(struct request, model)},
 *         {"limit", 0, TW_ARG_COUNT, offsetof(struct request, limit), 1},
 *         {NULL}};
 *     tw_arguments_parse(argc, argv, arguments, &request, &wants_help, &err);
 */
#ifndef TW_CMD_ARGUMENTS_H
#define TW_CMD_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the field is, and how its text is read. */
enum tw_argument_kind {
    TW_ARG_TEXT,     /* const char *: borrowed from argv */
    TW_ARG_LIST,     /* struct tw_text_list: one more item */
    TW_ARG_FLAG,     /* bool: true; no argument */
    TW_ARG_COUNT,    /* int64_t, at least `least`, with suffixes k, Mi, ... */
    TW_ARG_INT,      /* int, likewise */
    TW_ARG_REAL,     /* double >= 0 */
    TW_ARG_DURATION, /* double: seconds, from 90, 90s, 45m, 3h45m */
    TW_ARG_SHARD     /* int64_t[2], from I/N */
};

struct tw_argument {
    const char *name; /* long name; NULL ends the table */
    char letter;      /* short name, 0: none */
    enum tw_argument_kind kind;
    size_t offset; /* of the field */
    int64_t least; /* COUNT, INT: smallest value allowed */
};

struct tw_text_list {
    const char **item; /* owned; tw_free */
    int count;
};

/* Reads every option into *request; -h and --help set *wants_help. At most
 * max_words words may stand apart from options: they are put into words.
 * Returns TW_OK, TW_ERR_USAGE naming the option, or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status
tw_arguments_parse(int argc, char **argv, const struct tw_argument *arguments,
                   void *request, bool *wants_help, const char **words,
                   int max_words, struct tw_error *err);

/* Appends a word as a shell would have to be given it. */
void tw_shell_word(struct tw_strbuf *line, const char *word);
/* "twellscope NAME ARG...", with quotes where a shell needs them. */
void tw_command_line(struct tw_strbuf *line, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
