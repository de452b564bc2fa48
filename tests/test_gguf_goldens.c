/* Claim: GGUF files that llama.cpp's own converter wrote compute what the
 * Hugging Face checkpoints compute that they were made of. The weights are
 * those of tests/data/goldens, put where scripts/make_gguf_goldens.py found
 * them to be. */
#include <config.h>

#include <dirent.h>
#include <stdio.h>

#include "golden_make.h"
#include "golden_run.h"
#include "kernels/ops_ref.h"
#include "load/safetensors.h"
#include "tw_check.h"
#include "tw_files.h"

static struct dirent **found;

static int is_case(const struct dirent *entry)
{
    return strstr(entry->d_name, ".rows") != NULL;
}

static const char *data(const char *name)
{
    static char path[4][4096];
    static int next;
    const char *top = getenv("top_srcdir");
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/tests/data/%s", top ? top : ".",
             name);
    return path[next];
}

/* The values of an HF tensor as floats (free). */
static float *widened(const struct tw_tensors *set, const char *name,
                      const struct tw_tensor **tensor)
{
    *tensor = tw_tensors_find(set, name);
    ck_assert_msg(*tensor != NULL, "no tensor %s", name);
    float *values = calloc((size_t)(*tensor)->elements + 1, sizeof *values);
    tw_widen(values, (*tensor)->data, (*tensor)->dtype,
             (size_t)(*tensor)->elements);
    return values;
}

/* One line's tensor, written as it says. */
static void put(const struct tw_tensors *set, const char *name, const char *how,
                char *rest, float *out)
{
    const struct tw_tensor *t;
    if (strcmp(how, "values") == 0) {
        for (char *at = strtok(rest, " \n"); at; at = strtok(NULL, " \n"))
            *out++ = strtof(at, NULL);
        return;
    }
    float *values = widened(set, name, &t);
    int64_t rows = t->shape[0], cols = t->elements / rows;
    char *at = rest;
    for (int64_t i = 0; i < t->elements; i++) {
        int64_t from = i;
        if (strcmp(how, "turned") == 0) /* stored [cols][rows] */
            from = i % rows * cols + i / rows;
        else if (strcmp(how, "rows") == 0 && i % cols == 0)
            rows = strtol(at, &at, 10);
        if (strcmp(how, "rows") == 0)
            from = rows * cols + i % cols;
        out[i] = values[from] + (strcmp(how, "plus") == 0 ? 1.0f : 0.0f);
    }
    free(values);
}

/* Puts the file together again; its path. */
static const char *make(const char *folder, const char *name)
{
    char line[8192], file[400];
    struct tw_tensors set;
    struct tw_error err = {0};
    TW_OK_OR_FAIL(tw_tensors_open(folder, &set, &err), err);
    snprintf(file, sizeof file, "gguf/%s.rows", name);
    FILE *rows = fopen(data(file), "r");
    ck_assert(rows && fgets(line, sizeof line, rows));
    size_t size = (size_t)atol(line);
    uint8_t *bytes = calloc(1, size);
    snprintf(file, sizeof file, "gguf/%s.head", name);
    FILE *head = fopen(data(file), "rb");
    ck_assert(head && fread(bytes, 1, size, head) > 0);
    while (fgets(line, sizeof line, rows)) {
        long offset;
        char hf[200], how[20];
        int used = 0;
        ck_assert_int_eq(
            sscanf(line, "%ld %*s %199s %19s %n", &offset, hf, how, &used), 3);
        put(&set, hf, how, line + used, (float *)(void *)(bytes + offset));
    }
    fclose(rows);
    fclose(head);
    tw_tensors_close(&set);
    tw_write(folder, "x.gguf", bytes, size);
    free(bytes);
    return tw_in(folder, "x.gguf");
}

START_TEST(converted_model_is_met)
{
    char name[200], from[300];
    struct tw_error err = {0};
    struct golden golden;
    size_t at = 0;
    const char *folder = tw_folder_make();
    snprintf(name, sizeof name, "%.*s",
             (int)(strlen(found[_i]->d_name) - strlen(".rows")),
             found[_i]->d_name);
    snprintf(from, sizeof from, "goldens/%s", name);
    golden_make(data(from), folder);
    const char *path = make(folder, name);
    enum tw_status status = golden_open(path, data(from), &golden, &err);
    tw_folder_remove(folder);
    ck_assert_msg(status == TW_OK, "%s: %s", name, err.text);
    ck_assert_ptr_null(tw_model_unused(golden.model, &at));
    ck_assert(!golden.model->is_activation_assumed);
    golden_check(&golden, &tw_ops_ref);
    golden_check(&golden, &tw_ops_cpu);
    golden_close(&golden);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf_goldens");
    TCase *core = tcase_create("core");
    int cases = scandir(data("gguf"), &found, is_case, alphasort);
    if (cases <= 0) {
        fprintf(stderr, "no cases in %s\n", data("gguf"));
        return EXIT_FAILURE;
    }
    tcase_set_timeout(core, 60);
    tcase_add_loop_test(core, converted_model_is_met, 0, cases);
    suite_add_tcase(suite, core);
    int result = tw_run_suite(suite);
    for (int i = 0; i < cases; i++)
        free(found[i]);
    free(found);
    return result;
}
