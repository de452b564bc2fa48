/* Where figures are found, and what they are called. */
#include <config.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "cmd/figure.h"

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static void add(struct tw_figure_dirs *dirs, const char *path)
{
    char *copy = is_folder(path) ? tw_strdup(path) : NULL;
    if (copy)
        dirs->path[dirs->count++] = copy;
}

/* The build tree's figures, its source's, those of a tree that was moved. */
static void add_beside_program(struct tw_figure_dirs *dirs)
{
    static const char *const places[] = {
        "figures", "../figures", "../share/" PACKAGE "/figures"};
    char program[4096];
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    if (size <= 0)
        return;
    program[size] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash)
        return;
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *path = tw_path_join(program, places[i]);
        char *theme = path ? tw_path_join(path, "theme.gp") : NULL;
        if (theme && access(theme, R_OK) == 0)
            add(dirs, path);
        tw_free(theme);
        tw_free(path);
    }
}

enum tw_status tw_figure_dirs_init(struct tw_figure_dirs *dirs,
                                   const char *given, struct tw_error *err)
{
    *dirs = (struct tw_figure_dirs){0};
    const char *variable = getenv("TWELLSCOPE_FIGURES");
    if (given && !is_folder(given))
        return tw_error_set(err, TW_ERR_NOT_FOUND, "%s: no such folder", given);
    if (given)
        add(dirs, given);
    if (variable && *variable)
        add(dirs, variable);
    add_beside_program(dirs);
    add(dirs, TW_FIGURES_DIR);
    if (dirs->count == 0)
        return tw_error_set(err, TW_ERR_NOT_FOUND,
                            "figures not found in " TW_FIGURES_DIR
                            ": give their folder with --figures");
    return TW_OK;
}

void tw_figure_dirs_fini(struct tw_figure_dirs *dirs)
{
    for (int i = 0; i < dirs->count; i++)
        tw_free(dirs->path[i]);
    *dirs = (struct tw_figure_dirs){0};
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
    char **name;
    size_t count, capacity;
};

static int add_name(struct names *names, const char *file)
{
    size_t length = strlen(file);
    if (length <= 4 || strcmp(file + length - 4, ".sql") != 0)
        return 0;
    for (size_t i = 0; i < names->count; i++)
        if (strlen(names->name[i]) == length - 4 &&
            strncmp(names->name[i], file, length - 4) == 0)
            return 0;
    void *array = names->name;
    if (tw_grow(&array, &names->capacity, names->count + 1, sizeof(char *)))
        return -1;
    names->name = array;
    if (!(names->name[names->count] = tw_strndup(file, length - 4)))
        return -1;
    names->count++;
    return 0;
}

static int add_folder(struct names *names, const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    int bad = 0;
    while (folder && !bad && (entry = readdir(folder)) != NULL)
        bad = add_name(names, entry->d_name);
    if (folder)
        closedir(folder);
    return bad;
}

void tw_figure_names_free(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tw_free(names[i]);
    tw_free(names);
}

enum tw_status tw_figure_names(const struct tw_figure_dirs *dirs,
                               char ***out, size_t *count, struct tw_error *err)
{
    struct names names = {0};
    int bad = 0;
    for (int i = 0; i < dirs->count && !bad; i++)
        bad = add_folder(&names, dirs->path[i]);
    if (bad) {
        tw_figure_names_free(names.name, names.count);
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    if (names.count)
        qsort(names.name, names.count, sizeof *names.name, compare);
    *out = names.name;
    *count = names.count;
    return TW_OK;
}
