/* Which rank this process is, and its share of the machine. */
#include <config.h>

#include "run/ranks.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/threads.h"

enum { MAX_RANKS = 65536 };

/* The first whose `ranks` is above 1 counts. SLURM_STEP_NUM_TASKS is set by
 * srun alone, not in a batch script; there each node has its own number of
 * tasks, listed. */
static const struct source {
    const char *name, *rank, *ranks, *local_rank, *local_ranks;
} sources[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL},
    {"TW_RANKS", "TW_RANK", "TW_RANKS", "TW_LOCAL_RANK", "TW_LOCAL_RANKS"},
};
enum { MPIRUN, SRUN, BY_HAND, SOURCES };

/* *value: a whole number in [low, high], or `fallback` where unset. */
static enum tw_status read_number(const char *name, int low, int high,
                                  int fallback, int *value,
                                  struct tw_error *err)
{
    const char *text = getenv(name);
    *value = fallback;
    if (!text)
        return TW_OK;
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || end == text || *end || number < low || number > high)
        return tw_error_set(err, TW_ERR_USAGE,
                            "$%s is '%.40s': a whole number from %d to %d is "
                            "wanted",
                            name, text, low, high);
    *value = (int)number;
    return TW_OK;
}

/* "4(x2),3" with node 2 is 3. 0: not said, or not like that. */
static int tasks_on_node(const char *list, long node)
{
    while (list && *list) {
        char *end;
        long tasks = strtol(list, &end, 10), nodes = 1;
        if (end == list || tasks < 1 || tasks > MAX_RANKS)
            return 0;
        if (strncmp(end, "(x", 2) == 0) {
            nodes = strtol(end + 2, &end, 10);
            end += *end == ')';
        }
        if (node < nodes)
            return (int)tasks;
        node -= nodes;
        list = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

static enum tw_status read_local(const struct source *s, struct tw_ranks *r,
                                 struct tw_error *err)
{
    int node = 0;
    enum tw_status status =
        read_number(s->local_rank, 0, MAX_RANKS - 1, 0, &r->local_rank, err);
    if (status == TW_OK && s->local_ranks)
        status =
            read_number(s->local_ranks, 1, MAX_RANKS, 1, &r->local_ranks, err);
    else if (status == TW_OK)
        status = read_number("SLURM_NODEID", 0, MAX_RANKS - 1, 0, &node, err);
    if (status == TW_OK && !s->local_ranks)
        r->local_ranks =
            tasks_on_node(getenv("SLURM_STEP_TASKS_PER_NODE"), node);
    if (r->local_ranks <= r->local_rank)
        r->local_ranks = r->local_rank + 1;
    return status;
}

enum tw_status tw_ranks_find(struct tw_ranks *ranks, struct tw_error *err)
{
    const struct tw_ranks alone = {.ranks = 1, .local_ranks = 1, .source = ""};
    const char *by_hand = getenv(sources[BY_HAND].ranks);
    *ranks = alone;
    if (by_hand && strcmp(by_hand, "1") == 0)
        return TW_OK;
    for (int i = 0; i < SOURCES; i++) {
        const struct source *s = &sources[i];
        struct tw_ranks r = alone;
        enum tw_status status =
            read_number(s->ranks, 1, MAX_RANKS, 1, &r.ranks, err);
        if (status == TW_OK && r.ranks > 1)
            status = read_number(s->rank, 0, r.ranks - 1, -1, &r.rank, err);
        if (status == TW_OK && r.ranks > 1 && r.rank < 0)
            status = tw_error_set(err, TW_ERR_USAGE, "$%s is set, but not $%s",
                                  s->ranks, s->rank);
        if (status == TW_OK && r.ranks > 1)
            status = read_local(s, &r, err);
        if (status != TW_OK)
            return status;
        if (r.ranks > 1) {
            r.source = s->name;
            r.is_mpi = i == MPIRUN;
            *ranks = r;
            return TW_OK;
        }
    }
    return TW_OK;
}

/* A launcher may bind a rank to some cores, its own or a group's. */
int tw_ranks_threads(const struct tw_ranks *ranks)
{
    cpu_set_t set;
    int available = tw_threads_available();
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    bool is_bound =
        sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) < cores;
    int share = (is_bound ? cores : available) / ranks->local_ranks;
    int threads = share < available ? share : available;
    return threads < 1 ? 1 : threads;
}

int tw_ranks_device(const struct tw_ranks *ranks)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int devices = visible && *visible ? 1 : 0;
    for (; devices > 0 && *visible; visible++)
        devices += *visible == ',';
    return devices > 0 ? ranks->local_rank % devices : ranks->local_rank;
}
