/* Options that every command shares. */
#include <config.h>

#include "cmd/options.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/help.h"

const char *tw_default_db(void)
{
    const char *path = getenv("TWELLSCOPE_DB");
    return path && *path ? path : "twellscope.sqlite";
}

static double suffix_factor(const char *suffix)
{
    static const struct {
        const char *suffix;
        double factor;
    } known[] = {{"", 1},      {"k", 1e3},      {"M", 1e6},        {"G", 1e9},
                 {"Ki", 1024}, {"Mi", 1048576}, {"Gi", 1073741824}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(suffix, known[i].suffix) == 0)
            return known[i].factor;
    return NAN;
}

enum tw_status tw_parse_size(const char *option, const char *text,
                             int64_t *value, struct tw_error *err)
{
    char *end = NULL;
    bool has_digit = *text >= '0' && *text <= '9' && text[1] != 'x';
    double number = has_digit ? strtod(text, &end) : NAN;
    double size = has_digit ? number * suffix_factor(end) : NAN;
    /* 2^53: up to here a double holds every whole number. */
    if (!(size >= 0 && size <= 9007199254740992.0) || floor(size) != size)
        return tw_error_set(err, TW_ERR_USAGE,
                            "%s %s: not a whole number (suffixes k, M, G, Ki, "
                            "Mi, Gi)",
                            option, text);
    *value = (int64_t)size;
    return TW_OK;
}

void tw_options_start(void)
{
    optind = 0; /* GNU and musl: read everything anew */
    opterr = 0;
}

enum tw_status tw_options_error(char **argv, int got, struct tw_error *err)
{
    const char *word = optind > 0 ? argv[optind - 1] : "";
    if (got == ':')
        return tw_error_set(err, TW_ERR_USAGE, "option '%s' needs a value",
                            word);
    if (optopt > 0 && optopt < 128 && strncmp(word, "--", 2) != 0)
        return tw_error_set(err, TW_ERR_USAGE, "unknown option '-%c'", optopt);
    return tw_error_set(err, TW_ERR_USAGE, "unknown option '%s'", word);
}

void tw_print_help(const struct tw_command *command)
{
    tw_help_command(stdout, command);
}
