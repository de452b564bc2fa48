/* Help, usage and man pages from the table of commands. */
#include <config.h>

#include "cmd/help.h"

#include <stdbool.h>
#include <string.h>

#include "db/store.h"
#include "kernels/ops.h"

#if defined(__clang__)
#define TW_COMPILER "clang"
#elif defined(__GNUC__)
#define TW_COMPILER "gcc"
#else
#define TW_COMPILER "cc"
#endif

static const char purpose[] =
    "counts which neurons of a language model fire, layer by layer";

static const char files[] =
    "  TWELLSCOPE_DB       the database where --db is not given\n"
    "  TWELLSCOPE_FIGURES  folder with the figures' .sql and .gp files\n"
    "  TWELLSCOPE_LIBDIR   folder with backends built as shared objects\n"
    "  HF_HUB_CACHE, HF_HOME  where org/name models are looked up, offline\n";

static const char exits[] =
    "  0   complete\n"
    "  1   error\n"
    "  2   wrong usage\n"
    "  3   complete, but something was lost, or a comparison is out of bounds\n"
    "  75  stopped at a checkpoint: go on with --resume\n";

void tw_help_all(FILE *out)
{
    fprintf(out, "twellscope %s: %s\n\nUsage: twellscope COMMAND [OPTION]...\n",
            PACKAGE_VERSION, purpose);
    const char *group = "";
    for (int i = 0; tw_commands[i]; i++) {
        const struct tw_command *c = tw_commands[i];
        if (strcmp(c->group, group) != 0)
            fprintf(out, "\n%s\n", c->group);
        group = c->group;
        fprintf(out, "  %-10s %s\n", c->name, c->summary);
    }
    fprintf(out,
            "\n'twellscope COMMAND -h' explains a command.\n\nEnvironment\n%s"
            "\nExit status\n%s",
            files, exits);
}

void tw_help_command(FILE *out, const struct tw_command *command)
{
    fprintf(out, "Usage: twellscope %s %s\n\n%c%s.\n\n%s", command->name,
            command->usage, command->summary[0] & ~0x20, command->summary + 1,
            command->help);
}

void tw_help_version(FILE *out)
{
    const struct tw_ops *ops;
    struct tw_error why = {0};
    bool has_cuda = tw_ops_find("cuda", &ops, &why) == TW_OK;
    fprintf(out,
            "twellscope %s\ncompiler: %s %s\nSQLite: %s\nbackends: cpu%s\n",
            PACKAGE_VERSION, TW_COMPILER, __VERSION__, tw_store_library(),
            has_cuda ? ", cuda" : "");
    if (!has_cuda)
        fprintf(out, "no cuda: %s\n", why.text);
}

/* Text for roff: backslashes and hyphens kept, no line taken for a request. */
static void roff(FILE *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (i == 0 && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", out);
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-')
            fputs("\\-", out);
        else
            fputc(text[i], out);
    }
}

static bool is_option(const char *line)
{
    return strncmp(line, "  -", 3) == 0;
}

/* Prose right above options is their heading. */
static bool is_heading(const char *line)
{
    const char *next = strchr(line, '\n');
    return *line && *line != ' ' && *line != '\n' && next &&
           is_option(next + 1);
}

/* An option and the first line of what it does. */
static void roff_option(FILE *out, const char *line, size_t length)
{
    size_t flag = 2;
    while (flag < length && strncmp(line + flag, "  ", 2) != 0)
        flag++;
    fputs(".TP\n.B ", out);
    roff(out, line + 2, flag - 2);
    fputc('\n', out);
    while (flag < length && line[flag] == ' ')
        flag++;
    if (flag < length) {
        roff(out, line + flag, length - flag);
        fputc('\n', out);
    }
}

/* One line of a command's help: a blank one, an option, a heading, an example
 * (indented, outside an option), or prose. */
static void roff_line(FILE *out, const char *line, size_t length, bool *in_item)
{
    const char *next = line + length + (line[length] == '\n');
    if (length == 0) {
        if (*next && !is_option(next) && !is_heading(next))
            fputs(".PP\n", out);
        *in_item = false;
        return;
    }
    if (is_option(line)) {
        roff_option(out, line, length);
        *in_item = true;
        return;
    }
    bool is_example = line[0] == ' ' && !*in_item;
    while (length && line[0] == ' ') {
        line++;
        length--;
    }
    fputs(is_example                      ? ".nf\n"
          : !*in_item && is_heading(line) ? ".SS "
                                          : "",
          out);
    roff(out, line, length);
    fputs(is_example ? "\n.fi\n" : "\n", out);
}

static void roff_text(FILE *out, const char *text)
{
    bool in_item = false;
    while (*text) {
        size_t length = strcspn(text, "\n");
        roff_line(out, text, length, &in_item);
        text += length + (text[length] == '\n');
    }
}

static void man_head(FILE *out, const char *name, const char *summary)
{
    fprintf(out,
            ".TH TWELLSCOPE%s%s 1 \"\" \"twellscope %s\" \"User Commands\"\n"
            ".SH NAME\ntwellscope%s%s \\- %s\n",
            *name ? "\\-" : "", name, PACKAGE_VERSION, *name ? "\\-" : "", name,
            summary);
}

void tw_help_man(FILE *out, const struct tw_command *command)
{
    if (command) {
        man_head(out, command->name, command->summary);
        fprintf(out, ".SH SYNOPSIS\n.B twellscope %s\n", command->name);
        roff_text(out, command->usage);
        fputs(".SH DESCRIPTION\n", out);
        roff_text(out, command->help);
    } else {
        man_head(out, "", purpose);
        fputs(".SH SYNOPSIS\n.B twellscope\nCOMMAND [OPTION]...\n"
              ".SH COMMANDS\n",
              out);
        for (int i = 0; tw_commands[i]; i++)
            fprintf(out, ".TP\n.BR twellscope\\-%s (1)\n%s\n",
                    tw_commands[i]->name, tw_commands[i]->summary);
    }
    fputs(".SH ENVIRONMENT\n.nf\n", out);
    roff_text(out, files);
    fputs(".fi\n.SH EXIT STATUS\n", out);
    roff_text(out, exits);
    if (command)
        fputs(".SH SEE ALSO\n.BR twellscope (1)\n", out);
}
