/* Claim: every family computes what Hugging Face transformers does, on the
 * reference and the cpu row of the operations table, for every form of it that
 * tests/data/goldens holds; and every tensor of a checkpoint is used, or known
 * to be one that nobody needs. scripts/make_goldens.py made the cases. */
#include <config.h>

#include <dirent.h>
#include <stdio.h>

#include "golden_make.h"
#include "golden_run.h"
#include "kernels/ops_ref.h"
#include "tw_check.h"
#include "tw_files.h"

static struct dirent **found;
static int is_case(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static const char *goldens(void)
{
    static char path[4096];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/data/goldens", top ? top : ".");
    return path;
}

START_TEST(family_is_met)
{
    char from[4400];
    struct tw_error err = {0};
    struct golden golden;
    size_t at = 0;
    const char *folder = tw_folder_make();
    snprintf(from, sizeof from, "%s/%s", goldens(), found[_i]->d_name);
    golden_make(from, folder);
    enum tw_status status = golden_open(folder, from, &golden, &err);
    tw_folder_remove(folder);
    ck_assert_msg(status == TW_OK, "%s: %s", found[_i]->d_name, err.text);
    ck_assert_ptr_eq(tw_model_unused(golden.model, &at), NULL);
    golden_check(&golden, &tw_ops_ref);
    golden_check(&golden, &tw_ops_cpu);
    golden_close(&golden);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("families");
    TCase *core = tcase_create("core");
    int cases = scandir(goldens(), &found, is_case, alphasort);
    if (cases <= 0) {
        fprintf(stderr, "no cases in %s\n", goldens());
        return EXIT_FAILURE;
    }
    tcase_set_timeout(core, 60);
    tcase_add_loop_test(core, family_is_met, 0, cases);
    suite_add_tcase(suite, core);
    int result = tw_run_suite(suite);
    for (int i = 0; i < cases; i++)
        free(found[i]);
    free(found);
    return result;
}
