/* A folder with a small database of known runs, for the tests of figures:
 * set up before each test and taken away after it. */
#ifndef TESTS_FIGURE_CASE_H
#define TESTS_FIGURE_CASE_H

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "cmd/command.h"
#include "cmd/figure.h"
#include "tw_check.h"

static char folder[64], path[96], figures[4096];
static struct tw_store *store;
static struct tw_figure_dirs dirs;

static void write_text(const char *name, const char *text)
{
    char place[160];
    snprintf(place, sizeof place, "%s/%s", folder, name);
    FILE *file = fopen(place, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void put(enum tw_table table, const int64_t *values)
{
    struct tw_error err = {0};
    TW_OK_OR_FAIL(tw_store_put(store, table, values, &err), err);
}

static void put_tokens(int64_t run)
{
    static const char *const tokens[] = {"\"", "\\", "#", "_", "a\tb",
                                         "<0xE2>", " {x}^@", "'"};
    struct tw_error err = {0};
    int64_t tokenizer;
    bool is_new;
    TW_OK_OR_FAIL(tw_store_tokenizer(store, run, "hash", &tokenizer, &is_new,
                                     &err), err);
    for (int64_t i = 0; i < 8; i++) {
        const char *text = tokens[i];
        TW_OK_OR_FAIL(tw_store_put_piece(store, tokenizer, i, text, text,
                                         strlen(text), false, &err), err);
        put(TW_TABLE_TOKEN, (int64_t[]){run, 0, i, 100, 50, 100 * (i + 1), 50,
                                        50 * i, 0, 9});
    }
}

static int64_t make_run(const char *name, const char *status)
{
    struct tw_error err = {0};
    int64_t run;
    TW_OK_OR_FAIL(tw_store_run_create(store, name, "profile", &run, &err),
                  err);
    TW_OK_OR_FAIL(tw_store_set_text(store, run, "status", status, &err), err);
    TW_OK_OR_FAIL(tw_store_set_text(store, run, "active", "hidden", &err),
                  err);
    TW_OK_OR_FAIL(tw_store_put_definition(store, run, 0, "hidden", &err), err);
    TW_OK_OR_FAIL(tw_store_set_int(store, run, "layers", 1, &err), err);
    TW_OK_OR_FAIL(tw_store_set_int(store, run, "tokens", 800, &err), err);
    TW_OK_OR_FAIL(tw_store_set_int(store, run, "sequences", 400, &err), err);
    put(TW_TABLE_LAYER, (int64_t[]){run, 0, 0, 64, 800, 3600, 0, 30, 0});
    return run;
}

static void put_all(int64_t run)
{
    put_tokens(run);
    for (int64_t i = 0; i < 4; i++) {
        put(TW_TABLE_POSITION, (int64_t[]){run, 0, i, 200, 900, 0, 9, 900});
        put(TW_TABLE_NEURON,
            (int64_t[]){run, 0, 0, 0, i, 800, i * i, TW_NULL, TW_NULL,
                        TW_NULL, TW_NULL, TW_NULL, TW_NULL, TW_NULL, TW_NULL});
        put(TW_TABLE_RATE, (int64_t[]){run, 0, 0, i - 1, 1});
        put(TW_TABLE_DEAD_CURVE, (int64_t[]){run, 0, 0, 1 << i, 64 >> i});
        put(TW_TABLE_TILE, (int64_t[]){run, 0, 64, i, 100 >> i});
        put(TW_TABLE_TILE, (int64_t[]){run, 0, 128, 2 * i, 50 >> i});
    }
}

static void no_warning_of_gnuplot(void *arg, enum tw_log_level level,
                                  const char *text)
{
    (void)arg;
    (void)level;
    ck_assert_msg(strncmp(text, "gnuplot", 7) != 0, "%s", text);
}

static void setup(void)
{
    struct tw_error err = {0};
    const char *top = getenv("top_srcdir");
    strcpy(folder, "/tmp/tw_figureXXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.sqlite", folder);
    snprintf(figures, sizeof figures, "%s/figures", top ? top : ".");
    TW_OK_OR_FAIL(tw_store_open(path, TW_STORE_WRITE, &store, &err), err);
    put_all(make_run("old", "complete"));
    tw_log_sink(no_warning_of_gnuplot, NULL);
    TW_OK_OR_FAIL(tw_figure_dirs_init(&dirs, figures, &err), err);
}

static void teardown(void)
{
    struct dirent *entry;
    tw_figure_dirs_fini(&dirs);
    tw_store_close(store);
    DIR *all = opendir(folder);
    while ((entry = readdir(all)) != NULL) {
        char *place = tw_path_join(folder, entry->d_name);
        unlink(place);
        tw_free(place);
    }
    closedir(all);
    ck_assert_int_eq(rmdir(folder), 0);
}

static inline struct tw_figure *load(const char *name)
{
    struct tw_error err = {0};
    struct tw_figure *figure = NULL;
    TW_OK_OR_FAIL(tw_figure_load(&dirs, name, &figure, &err), err);
    return figure;
}

static inline bool has_gnuplot(void)
{
    return system("gnuplot --version >/dev/null 2>&1") == 0;
}

/* more: further arguments, up to NULL. */
static inline enum tw_status draw_with(const char *name, const char *file,
                                const char *const *more, struct tw_error *err)
{
    char out[128];
    snprintf(out, sizeof out, "%s/%s", folder, file);
    const char *argv[24] = {"figure", name, "--db", path,
                            "--figures", figures, "-o", out};
    int argc = 8;
    while (*more)
        argv[argc++] = *more++;
    return tw_command_figure.run(argc, (char **)(uintptr_t)argv, err);
}

static inline bool has_file(const char *name)
{
    char place[160];
    snprintf(place, sizeof place, "%s/%s", folder, name);
    return access(place, F_OK) == 0;
}

static inline char *text_of(const char *name)
{
    struct tw_error err = {0};
    char place[160], *text;
    size_t size;
    snprintf(place, sizeof place, "%s/%s", folder, name);
    TW_OK_OR_FAIL(tw_file_read(place, 1 << 20, &text, &size, &err), err);
    return text;
}

static inline int times(const char *text, const char *word)
{
    int count = 0;
    while ((text = strstr(text, word)) != NULL) {
        text += strlen(word);
        count++;
    }
    return count;
}

/* How often an svg shows a name; its groups' titles are not shown. */
static inline int shown(const char *svg, const char *name)
{
    char text[64], title[64];
    snprintf(text, sizeof text, ">%s<", name);
    snprintf(title, sizeof title, "<title>%s<", name);
    return times(svg, text) - times(svg, title);
}

#endif
