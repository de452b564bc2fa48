/* The pre-tokenizers that a GGUF file names (tokenizer.ggml.pre): patterns one
 * behind the other, each cutting what the last has left, and what else goes
 * with the name. The patterns are those of the models' own tokenizer.json. */
#include <config.h>

#include <string.h>

#include "text/tokenizer_internal.h"

#define NUMBERS(digits)                                                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits       \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASES(suffix, digits)                                                  \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix                        \
    "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" suffix "|" digits            \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const gpt2[] = {TWP_GPT2_PATTERN, NULL};
static const char *const digits[] = {"\\p{N}", TWP_GPT2_PATTERN, NULL};
static const char *const general[] = {"[\\p{P}\\$\\+<=>\\^~\\|]+",
                                      TWP_GPT2_PATTERN, "\\p{N}+",
                                      "[0-9][0-9][0-9]", NULL};
static const char *const falcon[] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+",
                                     TWP_GPT2_PATTERN, "[0-9][0-9][0-9]", NULL};
static const char *const llama3[] = {NUMBERS("\\p{N}{1,3}"), NULL};
static const char *const qwen2[] = {NUMBERS("\\p{N}"), NULL};
static const char *const qwen35[] = {
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|"
    "\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+",
    NULL};
static const char *const bloom[] = {
    " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}"
    "\\x{60c})]+",
    NULL};
static const char *const tekken[] = {CASES("", "\\p{N}"), NULL};
static const char *const gpt4o[] = {
    CASES("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "\\p{N}{1,3}"), NULL};
static const char *const deepseek_coder[] = {
    "[\\r\\n]",
    "\\s?\\p{L}+",
    "\\s?\\p{P}+",
    "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+",
    "\\p{N}",
    NULL};
/* Letters of scripts that have cases. */
static const char *const deepseek_llm[] = {
    "[\\r\\n]",
    "\\s?[A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}"
    "\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}"
    "\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}"
    "\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}"
    "\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}"
    "\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}"
    "\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}"
    "\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}"
    "\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}"
    "\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}"
    "\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"
    "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}"
    "\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}"
    "\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"
    "\\x{1e900}-\\x{1e943}]+",
    "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}"
    "\\x{3000}-\\x{3002}]+",
    "\\s+$",
    "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+",
    "\\p{N}+",
    NULL};
static const char *const deepseek_v3[] = {
    "\\p{N}{1,3}",
    "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL};

/* Names of the same patterns stand together. */
static const struct twp_pre table[] = {
    {"default", general, false, false, false},
    {"gpt-2", gpt2, false, false, false},
    {"phi-2", gpt2, false, false, false},
    {"mpt", gpt2, false, false, true},
    {"olmo", gpt2, false, false, true},
    {"jais", gpt2, false, false, false},
    {"exaone4", gpt2, false, false, false},
    {"llama3", llama3, true, true, false},
    {"llama-v3", llama3, true, true, false},
    {"llama-bpe", llama3, true, true, false},
    {"falcon3", llama3, true, true, false},
    {"falcon-h1", llama3, true, true, false},
    {"lfm2", llama3, true, true, false},
    {"dbrx", llama3, false, false, false},
    {"smaug-bpe", llama3, false, false, false},
    {"qwen2", qwen2, false, false, true},
    {"deepseek-r1-qwen", qwen2, false, false, true},
    {"stablelm2", qwen2, false, false, false},
    {"qwen35", qwen35, false, false, true},
    {"starcoder", digits, false, false, false},
    {"refact", digits, false, false, false},
    {"command-r", digits, false, false, true},
    {"smollm", digits, false, false, false},
    {"codeshell", digits, false, false, false},
    {"exaone", digits, false, false, false},
    {"minerva-7b", digits, false, false, false},
    {"falcon", falcon, false, false, false},
    {"bloom", bloom, false, false, false},
    {"gpt3-finnish", bloom, false, false, false},
    {"deepseek-llm", deepseek_llm, false, false, false},
    {"deepseek-coder", deepseek_coder, false, false, false},
    {"deepseek-v3", deepseek_v3, false, false, false},
    {"tekken", tekken, true, true, false},
    {"gpt-4o", gpt4o, false, false, false},
    {"llama4", gpt4o, false, false, false},
};

static enum tw_status refuse(const char *name, struct tw_error *err)
{
    struct tw_strbuf names = {0};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        tw_strbuf_printf(&names, "%s%s", i ? ", " : "", table[i].name);
    enum tw_status status = tw_error_set(
        err, TW_ERR_UNSUPPORTED, "pre-tokenizer '%.60s' (supported: %s)", name,
        tw_strbuf_text(&names));
    tw_strbuf_fini(&names);
    return status;
}

enum tw_status twp_pre_find(const char *name, const struct twp_pre **pre,
                            struct tw_error *err)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].name, name) == 0) {
            *pre = &table[i];
            return TW_OK;
        }
    }
    return refuse(name, err);
}

enum tw_status twp_pre_stages(const struct twp_pre *pre,
                              struct twp_stages *stages, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (int i = 0; status == TW_OK && pre->patterns[i]; i++)
        status = twp_stages_isolate(pre->patterns[i], stages, err);
    return status;
}
