/* Parsing of --active, --apply, --skip, --split, --bos, --doc-sep. */
#include <config.h>

#include "run/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum tw_status parse_active(const struct tw_profile_options *o,
                                   struct tw_rules *rules, struct tw_error *err)
{
    static const char *const standard[] = {"hidden"};
    const char *const *names = o->n_active ? o->active : standard;
    int count = o->n_active ? o->n_active : 1;
    if (count > TW_MAX_ACTIVE)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--active: more than %d definitions",
                            TW_MAX_ACTIVE);
    for (int i = 0; i < count; i++) {
        struct tw_active *active = &rules->active[i];
        enum tw_status status = tw_active_parse(names[i], active, err);
        if (status != TW_OK)
            return status;
        for (int j = 0; j < i; j++)
            if (strcmp(rules->active[j].name, active->name) == 0)
                return tw_error_set(err, TW_ERR_USAGE,
                                    "--active: '%s' is given twice",
                                    active->name);
    }
    rules->n_active = count;
    return TW_OK;
}

static enum tw_status parse_skip_item(struct tw_rules *rules, const char *item,
                                      size_t length, struct tw_error *err)
{
    bool is_known = false;
    if (length == 3 && strncmp(item, "bos", 3) == 0) {
        is_known = rules->skip_bos = true;
    } else if (length == 7 && strncmp(item, "special", 7) == 0) {
        is_known = rules->skip_special = true;
    } else if (length > 6 && strncmp(item, "first:", 6) == 0) {
        char *end;
        rules->skip_first = strtoll(item + 6, &end, 10);
        is_known = end == item + length && rules->skip_first >= 1;
    }
    if (!is_known)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--skip: '%.*s' is not bos, special or first:N",
                            (int)length, item);
    return TW_OK;
}

static enum tw_status parse_skip(const char *text, struct tw_rules *rules,
                                 struct tw_error *err)
{
    while (text && *text && strcmp(text, "none") != 0) {
        size_t length = strcspn(text, ",");
        enum tw_status status = parse_skip_item(rules, text, length, err);
        if (status != TW_OK)
            return status;
        text += length + (text[length] == ',');
    }
    char first[32] = "";
    if (rules->skip_first)
        snprintf(first, sizeof first, ",first:%lld",
                 (long long)rules->skip_first);
    snprintf(rules->skip, sizeof rules->skip, "%s%s%s",
             rules->skip_bos ? ",bos" : "",
             rules->skip_special ? ",special" : "", first);
    if (rules->skip[0] == ',')
        memmove(rules->skip, rules->skip + 1, strlen(rules->skip));
    else
        snprintf(rules->skip, sizeof rules->skip, "none");
    return TW_OK;
}

enum tw_status tw_rules_tag(const char *tag, char key[TW_MAX_TAG + 1],
                            struct tw_error *err)
{
    const char *equals = strchr(tag, '=');
    if (!equals || equals == tag || equals - tag > TW_MAX_TAG)
        return tw_error_set(err, TW_ERR_USAGE, "--tag: '%s' is not KEY=VALUE",
                            tag);
    snprintf(key, TW_MAX_TAG + 1, "%.*s", (int)(equals - tag), tag);
    return TW_OK;
}

static enum tw_status check_tags(const struct tw_profile_options *o,
                                 struct tw_error *err)
{
    char key[TW_MAX_TAG + 1];
    enum tw_status status = TW_OK;
    for (int i = 0; i < o->n_tags && status == TW_OK; i++)
        status = tw_rules_tag(o->tags[i], key, err);
    return status;
}

enum tw_status tw_rules_parse(const struct tw_profile_options *o,
                              struct tw_rules *rules, struct tw_error *err)
{
    *rules = (struct tw_rules){.bos_rule = "auto"};
    enum tw_status status = parse_active(o, rules, err);
    if (status == TW_OK)
        status = parse_skip(o->skip, rules, err);
    if (status == TW_OK)
        status = check_tags(o, err);
    if (status == TW_OK && o->activation) {
        struct tw_activation parsed;
        status = tw_activation_parse(o->activation, &parsed, err);
        status = status == TW_OK ? TW_OK : TW_ERR_USAGE;
    }
    if (status == TW_OK && o->apply) {
        status = tw_active_parse(o->apply, &rules->apply, err);
        rules->has_apply = true;
    }
    if (status != TW_OK)
        return status;
    if (strcmp(o->split, "stream") == 0)
        rules->split = TW_SPLIT_STREAM;
    else if (strcmp(o->split, "docs") != 0)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--split: '%s' is not docs or stream", o->split);
    if (strcmp(o->bos, "yes") == 0) {
        rules->bos_rule = "yes";
        rules->is_bos_forced = true;
    } else if (strcmp(o->bos, "no") == 0) {
        rules->bos_rule = "no";
        rules->is_bos_off = true;
    } else if (strcmp(o->bos, "auto") != 0) {
        return tw_error_set(err, TW_ERR_USAGE,
                            "--bos: '%s' is not auto, yes or no", o->bos);
    }
    return TW_OK;
}

enum tw_status tw_rules_bos(const struct tw_rules *rules,
                            const struct tw_tokenizer *tokenizer,
                            int64_t config_bos, int32_t *bos,
                            struct tw_error *err)
{
    int32_t own = tokenizer ? tw_tokenizer_bos(tokenizer) : -1;
    if (rules->is_bos_off)
        *bos = -1;
    else if (!rules->is_bos_forced || own >= 0)
        *bos = own;
    else if (config_bos >= 0 && config_bos <= INT32_MAX)
        *bos = (int32_t)config_bos;
    else
        return tw_error_set(err, TW_ERR_USAGE,
                            "--bos yes: neither the tokenizer nor config.json "
                            "names a BOS token");
    return TW_OK;
}

const char *tw_rules_separator(const char *doc_sep,
                               const struct tw_tokenizer *tokenizer, char *room,
                               int room_bytes)
{
    if (strcmp(doc_sep, "none") == 0)
        return NULL;
    if (strcmp(doc_sep, "auto") != 0)
        return doc_sep;
    size_t size = 0;
    int32_t eos = tokenizer ? tw_tokenizer_eos(tokenizer) : -1;
    const char *piece =
        eos >= 0 ? tw_tokenizer_piece(tokenizer, eos, &size) : NULL;
    if (!piece || size == 0)
        return "<|endoftext|>";
    snprintf(room, (size_t)room_bytes, "%.*s", (int)size, piece);
    return room;
}
