/* Claims about run/ranks: who a process is, by each launcher's variables; its
 * share of the machine; and base/move, which never replaces a file. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/move.h"
#include "base/threads.h"
#include "run/ranks.h"
#include "tw_check.h"
#include "tw_files.h"

static const char *const variables[] = {"OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_LOCALID",
                                        "SLURM_NODEID",
                                        "SLURM_STEP_TASKS_PER_NODE",
                                        "TW_RANK",
                                        "TW_RANKS",
                                        "TW_LOCAL_RANK",
                                        "TW_LOCAL_RANKS",
                                        "CUDA_VISIBLE_DEVICES"};

static void clear(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
}

/* "A=1 B=2" into the environment. */
static void set(const char *text)
{
    char copy[400];
    clear();
    snprintf(copy, sizeof copy, "%s", text);
    for (char *at = strtok(copy, " "); at; at = strtok(NULL, " ")) {
        char *equals = strchr(at, '=');
        *equals = '\0';
        ck_assert_int_eq(setenv(at, equals + 1, 1), 0);
    }
}

#define MPI  "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 "
#define SRUN "SLURM_PROCID=6 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=7 "
static const struct {
    const char *environment;
    int rank, ranks, local_rank, local_ranks;
    bool is_mpi;
    int device;
} rows[] = {
    {"", 0, 1, 0, 1, false, 0},
    {MPI "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4", 5, 8, 1,
     4, true, 1},
    {MPI SRUN, 5, 8, 0, 1, true, 0},
    {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", 0, 1, 0, 1, false, 0},
    {SRUN "SLURM_LOCALID=2 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=2(x2),3", 6,
     7, 2, 3, false, 2},
    {SRUN "SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=2(x2),3", 6,
     7, 1, 2, false, 1},
    {SRUN "SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE=nonsense", 6, 7, 1, 2,
     false, 1},
    {SRUN "TW_RANK=1 TW_RANKS=2", 6, 7, 0, 1, false, 0},
    {SRUN "TW_RANKS=1", 0, 1, 0, 1, false, 0},
    {"SLURM_PROCID=0 SLURM_NTASKS=4", 0, 1, 0, 1, false, 0},
    {"TW_RANK=3 TW_RANKS=4 TW_LOCAL_RANK=3 TW_LOCAL_RANKS=4", 3, 4, 3, 4, false,
     3},
    {"TW_RANK=3 TW_RANKS=4 TW_LOCAL_RANK=3 CUDA_VISIBLE_DEVICES=0", 3, 4, 3, 4,
     false, 0},
    {"TW_RANK=3 TW_RANKS=4 TW_LOCAL_RANK=3 CUDA_VISIBLE_DEVICES=4,7", 3, 4, 3,
     4, false, 1},
};

START_TEST(who_a_process_is)
{
    struct tw_ranks r;
    struct tw_error err = {0};
    set(rows[_i].environment);
    TW_OK_OR_FAIL(tw_ranks_find(&r, &err), err);
    ck_assert_int_eq(r.rank, rows[_i].rank);
    ck_assert_int_eq(r.ranks, rows[_i].ranks);
    ck_assert_int_eq(r.local_rank, rows[_i].local_rank);
    ck_assert_int_eq(r.local_ranks, rows[_i].local_ranks);
    ck_assert_int_eq(r.is_mpi, rows[_i].is_mpi);
    ck_assert_int_eq(tw_ranks_device(&r), rows[_i].device);
    clear();
}
END_TEST

static const struct {
    const char *environment, *words;
} refused[] = {
    {"TW_RANK=4 TW_RANKS=4", "$TW_RANK is '4'"},
    {"TW_RANK=-1 TW_RANKS=4", "$TW_RANK is '-1'"},
    {"TW_RANK=1x TW_RANKS=4", "$TW_RANK is '1x'"},
    {"TW_RANK=0 TW_RANKS=70000", "$TW_RANKS is '70000'"},
    {"TW_RANKS=4", "$TW_RANKS is set, but not $TW_RANK"},
    {"OMPI_COMM_WORLD_SIZE=2", "not $OMPI_COMM_WORLD_RANK"},
    {SRUN "SLURM_NODEID=", "$SLURM_NODEID is ''"},
};

START_TEST(nonsense_is_named)
{
    struct tw_ranks r;
    struct tw_error err = {0};
    set(refused[_i].environment);
    TW_FAILS_WITH(tw_ranks_find(&r, &err), TW_ERR_USAGE, refused[_i].words,
                  err);
    clear();
}
END_TEST

START_TEST(threads_are_shared_out)
{
    int cores = tw_threads_available();
    struct tw_ranks r = {.ranks = 4, .local_ranks = 1};
    ck_assert_int_eq(tw_ranks_threads(&r), cores);
    r.local_ranks = 2;
    ck_assert_int_le(tw_ranks_threads(&r), cores);
    ck_assert_int_ge(2 * tw_ranks_threads(&r), cores - 1);
    r.local_ranks = 100000;
    ck_assert_int_eq(tw_ranks_threads(&r), 1);
}
END_TEST

START_TEST(a_move_replaces_nothing)
{
    struct tw_error err = {0};
    char *folder = tw_strdup(tw_folder_make());
    ck_assert_ptr_nonnull(folder);
    char *from = tw_strdup(tw_in(folder, "from"));
    ck_assert_ptr_nonnull(from);
    char *to = tw_strdup(tw_in(folder, "to"));
    ck_assert_ptr_nonnull(to);
    tw_write_text(folder, "from", "new");
    tw_write_text(folder, "to", "old");
    TW_FAILS_WITH(tw_file_move_new(from, to, &err), TW_ERR_EXISTS,
                  "is there already", err);
    ck_assert_int_eq(access(from, F_OK), 0);
    unlink(to);
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(tw_file_move_new(from, to, &err), err);
    ck_assert_int_ne(access(from, F_OK), 0);
    ck_assert_int_eq(access(to, F_OK), 0);
    TW_FAILS_WITH(tw_file_move_new(from, to, &err), TW_ERR_NOT_FOUND, "to",
                  err);
    tw_folder_remove(folder);
    tw_free(folder);
    tw_free(from);
    tw_free(to);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ranks");
    TCase *core = tcase_create("core");
    tcase_add_loop_test(core, who_a_process_is, 0, sizeof rows / sizeof *rows);
    tcase_add_loop_test(core, nonsense_is_named, 0,
                        sizeof refused / sizeof *refused);
    tcase_add_test(core, threads_are_shared_out);
    tcase_add_test(core, a_move_replaces_nothing);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
