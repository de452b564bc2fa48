/* Claim: the families and the forward pass compute what Hugging Face does, on
 * the reference and the cpu row of the operations table and the goldens' stored
 * answers in TW_SHARED.
 *
 * Goldens in 16 bits were computed by a model that had been cast as a whole,
 * so their rotary frequencies were rounded too; a model that is loaded keeps
 * them in float32, as ours does. For those rows alone the test rounds the
 * frequencies; without it losses differ by up to 0.003. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "golden_run.h"
#include "kernels/ops_ref.h"
#include "tw_check.h"
#include "tw_files.h"

/* bits: of the type that the rotary frequencies were rounded to, 0: none. */
enum { BF16_BITS = 8, F16_BITS = 11 };
static const struct {
    const char *name;
    int bits;
} goldens[] = {
    {"falcon_relu", 0},
    {"gemma2", F16_BITS},
    {"gpt2_gelu_new", 0},
    {"gptneox_parallel", BF16_BITS},
    {"llama_relu_tied", BF16_BITS},
    {"llama_silu", 0},
    {"llama_sparse_plain", BF16_BITS},
    {"nemotron_relu2", BF16_BITS},
    {"opt_relu", 0},
    {"phi", F16_BITS},
    {"qwen2_silu", F16_BITS},
    {"qwen2_sparse_gated", BF16_BITS},
};

/* To nearest, ties to even; 2^-24 is the smallest half. */
static void round_rope(struct tw_model *model, int bits)
{
    for (int64_t i = 0; i < model->rope.dims / 2; i++) {
        int exponent;
        frexpf(model->inv_freq[i], &exponent);
        exponent -= bits;
        if (bits == F16_BITS && exponent < -24)
            exponent = -24;
        model->inv_freq[i] =
            ldexpf(rintf(ldexpf(model->inv_freq[i], -exponent)), exponent);
    }
}

START_TEST(goldens_are_met)
{
    const struct tw_ops *ops = _i % 2 ? &tw_ops_cpu : &tw_ops_ref;
    const char *root = getenv("TW_SHARED");
    char place[4096];
    struct golden golden;
    struct tw_error err = {0};
    snprintf(place, sizeof place, "%s/goldens/%s", root ? root : "",
             goldens[_i / 2].name);
    if (access(place, R_OK) != 0) {
        fprintf(stderr, "skipped: no goldens/%s in TW_SHARED\n",
                goldens[_i / 2].name);
        return;
    }
    TW_OK_OR_FAIL(golden_open(place, place, &golden, &err), err);
    if (goldens[_i / 2].bits)
        round_rope(golden.model, goldens[_i / 2].bits);
    golden_check(&golden, ops);
    golden_close(&golden);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("oracle");
    TCase *core = tcase_create("core");
    tcase_set_timeout(core, 120);
    tcase_add_loop_test(core, goldens_are_met, 0,
                        2 * sizeof goldens / sizeof *goldens);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
