/* Options from a table, by getopt_long. */
#include <config.h>

#include "cmd/arguments.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cmd/options.h"

#define MAX_ARGUMENTS 64
#define LONG_ONLY     256 /* getopt's value of option i without a letter: + i */

static enum tw_status push(struct tw_text_list *list, const char *text,
                           struct tw_error *err)
{
    const char **grown =
        tw_realloc(list->item, (size_t)list->count + 1, sizeof *list->item);
    if (!grown)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    list->item = grown;
    list->item[list->count++] = text;
    return TW_OK;
}

static enum tw_status read_count(const struct tw_argument *a, const char *text,
                                 int64_t most, int64_t *value,
                                 struct tw_error *err)
{
    char option[64];
    snprintf(option, sizeof option, "--%s", a->name);
    enum tw_status status = tw_parse_size(option, text, value, err);
    if (status == TW_OK && (*value < a->least || *value > most))
        return tw_error_set(err, TW_ERR_USAGE, "--%s %s: must be %lld to %lld",
                            a->name, text, (long long)a->least,
                            (long long)most);
    return status;
}

static enum tw_status read_real(const struct tw_argument *a, const char *text,
                                double *value, struct tw_error *err)
{
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end || !(*value >= 0) || isinf(*value))
        return tw_error_set(err, TW_ERR_USAGE,
                            "--%s %s: not a number of at least 0", a->name,
                            text);
    return TW_OK;
}

static enum tw_status read_duration(const struct tw_argument *a,
                                    const char *text, double *seconds,
                                    struct tw_error *err)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}, {'\0', 1}};
    const char *at = text;
    double sum = 0;
    while (*at) {
        char *end;
        double number = strtod(at, &end);
        size_t u = 0;
        while (u < 5 && units[u].unit != *end)
            u++;
        if (end == at || u == 5 || !(number >= 0) || isinf(number))
            return tw_error_set(err, TW_ERR_USAGE,
                                "--%s %s: not a time like 90s, 45m or 3h45m",
                                a->name, text);
        sum += number * units[u].seconds;
        at = *end ? end + 1 : end;
    }
    if (at == text)
        return tw_error_set(err, TW_ERR_USAGE, "--%s: no time given", a->name);
    *seconds = sum;
    return TW_OK;
}

static enum tw_status read_shard(const struct tw_argument *a, const char *text,
                                 int64_t shard[2], struct tw_error *err)
{
    char *end;
    long long i = strtoll(text, &end, 10), n = 0;
    if (end != text && *end == '/' && end[1] >= '0' && end[1] <= '9')
        n = strtoll(end + 1, &end, 10);
    if (*end || i < 0 || n < 1 || i >= n || n > 1000000)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--%s %s: not I/N with 0 <= I < N", a->name, text);
    shard[0] = i;
    shard[1] = n;
    return TW_OK;
}

static enum tw_status read_one(const struct tw_argument *a, const char *text,
                               void *request, struct tw_error *err)
{
    void *field = (char *)request + a->offset;
    int64_t value = 0;
    enum tw_status status;
    switch (a->kind) {
    case TW_ARG_TEXT:
        *(const char **)field = text;
        return TW_OK;
    case TW_ARG_LIST:
        return push(field, text, err);
    case TW_ARG_FLAG:
        *(bool *)field = true;
        return TW_OK;
    case TW_ARG_COUNT:
        return read_count(a, text, INT64_MAX, field, err);
    case TW_ARG_INT:
        status = read_count(a, text, INT32_MAX, &value, err);
        *(int *)field = (int)value;
        return status;
    case TW_ARG_REAL:
        return read_real(a, text, field, err);
    case TW_ARG_DURATION:
        return read_duration(a, text, field, err);
    case TW_ARG_SHARD:
        return read_shard(a, text, field, err);
    }
    return TW_OK;
}

/* getopt_long's own table, and its string of letters. */
static int translate(const struct tw_argument *arguments,
                     struct option *options, char *letters)
{
    int count = 0;
    *letters++ = ':';
    for (; arguments[count].name && count < MAX_ARGUMENTS; count++) {
        const struct tw_argument *a = &arguments[count];
        bool is_flag = a->kind == TW_ARG_FLAG;
        options[count] =
            (struct option){a->name, is_flag ? no_argument : required_argument,
                            NULL, a->letter ? a->letter : LONG_ONLY + count};
        if (a->letter)
            *letters++ = a->letter;
        if (a->letter && !is_flag)
            *letters++ = ':';
    }
    options[count] = (struct option){"help", no_argument, NULL, 'h'};
    *letters++ = 'h';
    *letters = '\0';
    return count;
}

enum tw_status tw_arguments_parse(int argc, char **argv,
                                  const struct tw_argument *arguments,
                                  void *request, bool *wants_help,
                                  const char **words, int max_words,
                                  struct tw_error *err)
{
    struct option options[MAX_ARGUMENTS + 2] = {{0}};
    char letters[2 * MAX_ARGUMENTS + 4];
    int count = translate(arguments, options, letters), got;
    enum tw_status status = TW_OK;
    tw_options_start();
    while (status == TW_OK &&
           (got = getopt_long(argc, argv, letters, options, NULL)) != -1) {
        int i = 0;
        if (got == 'h') {
            *wants_help = true;
            return TW_OK;
        }
        while (i < count && options[i].val != got)
            i++;
        status = i < count ? read_one(&arguments[i], optarg, request, err)
                           : tw_options_error(argv, got, err);
    }
    for (int i = optind; i < argc && status == TW_OK; i++) {
        if (i - optind >= max_words)
            status = tw_error_set(err, TW_ERR_USAGE, "unexpected argument '%s'",
                                  argv[i]);
        else
            words[i - optind] = argv[i];
    }
    return status;
}

void tw_shell_word(struct tw_strbuf *line, const char *word)
{
    bool is_plain =
        *word && !word[strcspn(word, " \t\n\"'\\$`*?;&|<>()[]{}~#!")];
    if (is_plain) {
        tw_strbuf_puts(line, word);
        return;
    }
    tw_strbuf_puts(line, "'");
    for (const char *c = word; *c; c++) {
        if (*c == '\'')
            tw_strbuf_puts(line, "'\\''");
        else
            tw_strbuf_append(line, c, 1);
    }
    tw_strbuf_puts(line, "'");
}

void tw_command_line(struct tw_strbuf *line, int argc, char **argv)
{
    tw_strbuf_puts(line, "twellscope");
    for (int i = 0; i < argc; i++) {
        tw_strbuf_puts(line, " ");
        tw_shell_word(line, argv[i]);
    }
}
