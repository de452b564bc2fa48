/* Parsing of --active definitions into canonical names. */
#include <config.h>

#include "base/active.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum argument { ARG_NONE, ARG_THRESHOLD, ARG_SHARE, ARG_NUMBER };

static const struct {
    const char *name;
    enum argument argument;
} kinds[TW_ACTIVE_KINDS] = {
    [TW_ACTIVE_HIDDEN] = {"hidden", ARG_NONE},
    [TW_ACTIVE_GATE] = {"gate", ARG_NONE},
    [TW_ACTIVE_ABS] = {"abs", ARG_THRESHOLD},
    [TW_ACTIVE_GATE_ABS] = {"gate-abs", ARG_THRESHOLD},
    [TW_ACTIVE_TOPP] = {"topp", ARG_SHARE},
    [TW_ACTIVE_TOPK] = {"topk", ARG_NUMBER},
};

static bool is_valid(enum argument argument, double value)
{
    switch (argument) {
    case ARG_THRESHOLD:
        return value >= 0 && value <= 3e38;
    case ARG_SHARE:
        return value > 0 && value <= 1;
    case ARG_NUMBER:
        return value >= 1 && value <= INT32_MAX && floor(value) == value;
    default:
        return false;
    }
}

/* The shortest decimal that reads back as the same number. */
static void canonical_name(struct tw_active *active)
{
    const char *kind = kinds[active->kind].name;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(active->name, sizeof active->name, "%s:%.*g", kind, digits,
                 active->arg);
        if (strtod(strchr(active->name, ':') + 1, NULL) == active->arg)
            return;
    }
}

enum tw_status tw_active_parse(const char *text, struct tw_active *active,
                               struct tw_error *err)
{
    size_t length = strcspn(text, ":");
    for (int k = 0; k < TW_ACTIVE_KINDS; k++) {
        if (strlen(kinds[k].name) != length ||
            strncmp(kinds[k].name, text, length) != 0)
            continue;
        struct tw_active parsed = {.kind = (enum tw_active_kind)k};
        if (kinds[k].argument == ARG_NONE && text[length] == '\0') {
            snprintf(parsed.name, sizeof parsed.name, "%s", kinds[k].name);
            *active = parsed;
            return TW_OK;
        }
        char *end = NULL;
        if (text[length] == ':' && kinds[k].argument != ARG_NONE)
            parsed.arg = strtod(text + length + 1, &end);
        if (!end || end == text + length + 1 || *end != '\0' ||
            !is_valid(kinds[k].argument, parsed.arg))
            return tw_error_set(err, TW_ERR_USAGE,
                                "'%s' is not a definition: its argument is "
                                "missing or out of range",
                                text);
        canonical_name(&parsed);
        *active = parsed;
        return TW_OK;
    }
    return tw_error_set(err, TW_ERR_USAGE,
                        "unknown definition '%s': hidden, gate, abs:T, "
                        "gate-abs:T, topp:P or topk:K",
                        text);
}
