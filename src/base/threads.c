/* A pool of threads over numbered pieces; one mutex, two conditions.
 *
 * Regions follow each other within microseconds, and to wake a sleeping thread
 * takes longer than many of them (milliseconds on virtual machines whose other
 * core went idle): whoever waits looks for SPIN_NS first, giving the core away
 * to others at each look, and only then sleeps. */
#include <config.h>

#include "base/threads.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

struct worker {
    struct tw_threads *pool;
    int number;
    pthread_t thread;
    _Atomic int cpu; /* where it ran last, -1: unknown */
};

struct tw_threads {
    int count, started;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    _Atomic uint64_t generation; /* counts runs; workers wait for the next */
    _Atomic int busy;            /* workers still in this run */
    _Atomic bool is_ending;
    tw_piece_fn *fn;
    void *arg;
    int64_t pieces;
    _Atomic int64_t next;
    struct worker worker[];
};

#define SPIN_NS 200000

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Waits a little for a next run (or the end), then gives up. */
static void look_for_work(struct tw_threads *pool, uint64_t seen)
{
    int64_t end = now_ns() + SPIN_NS;
    while (atomic_load(&pool->generation) == seen &&
           !atomic_load(&pool->is_ending) && now_ns() < end)
        sched_yield();
}

/* Waits a little for the other workers of this run, then gives up. */
static void look_for_end(struct tw_threads *pool)
{
    int64_t end = now_ns() + SPIN_NS;
    while (atomic_load(&pool->busy) > 0 && now_ns() < end)
        sched_yield();
}

/* A scheduler may leave two of us on one core and another idle for long: it
 * wakes a thread where it last ran. A worker that finds one with a lower number
 * on its core steps off it once; it is bound to nothing afterwards, for other
 * processes have cores too. */
static void step_aside(struct tw_threads *pool, int number)
{
    cpu_set_t all, others;
    int cpu = sched_getcpu();
    bool is_shared = false;
    if (number > 0 && sched_getaffinity(0, sizeof all, &all) == 0 &&
        CPU_COUNT(&all) >= pool->count) {
        others = all;
        for (int i = 0; i < number; i++) {
            int taken = atomic_load(&pool->worker[i].cpu);
            is_shared |= taken == cpu;
            if (taken >= 0 && taken < CPU_SETSIZE)
                CPU_CLR(taken, &others);
        }
        if (is_shared && CPU_COUNT(&others) > 0 &&
            sched_setaffinity(0, sizeof others, &others) == 0) {
            cpu = sched_getcpu();
            sched_setaffinity(0, sizeof all, &all);
        }
    }
    atomic_store(&pool->worker[number].cpu, cpu);
}

static void take_pieces(struct tw_threads *pool, int number)
{
    for (;;) {
        int64_t piece = atomic_fetch_add(&pool->next, 1);
        if (piece >= pool->pieces)
            return;
        pool->fn(pool->arg, number, piece);
    }
}

static void *worker_main(void *arg)
{
    struct worker *self = arg;
    struct tw_threads *pool = self->pool;
    uint64_t seen = 0;
    for (;;) {
        look_for_work(pool, seen);
        pthread_mutex_lock(&pool->mutex);
        while (pool->generation == seen && !pool->is_ending)
            pthread_cond_wait(&pool->work, &pool->mutex);
        if (pool->is_ending)
            break;
        seen = pool->generation;
        pthread_mutex_unlock(&pool->mutex);
        step_aside(pool, self->number);
        take_pieces(pool, self->number);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

enum tw_status tw_threads_create(int count, struct tw_threads **out,
                                 struct tw_error *err)
{
    assert(count >= 1);
    struct tw_threads *pool =
        tw_calloc(1, sizeof *pool + (size_t)count * sizeof pool->worker[0]);
    if (!pool)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for threads");
    pool->count = count;
    pool->worker[0].cpu = -1;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (int i = 1; i < count; i++) {
        pool->worker[i] = (struct worker){.pool = pool, .number = i, .cpu = -1};
        int failed = pthread_create(&pool->worker[i].thread, NULL, worker_main,
                                    &pool->worker[i]);
        if (failed) {
            tw_threads_destroy(pool);
            return tw_error_errno(err, failed, "cannot start thread %d", i);
        }
        pool->started++;
    }
    *out = pool;
    return TW_OK;
}

void tw_threads_run(struct tw_threads *pool, tw_piece_fn *fn, void *arg,
                    int64_t pieces)
{
    if (pool->started == 0 || pieces <= 1) {
        for (int64_t piece = 0; piece < pieces; piece++)
            fn(arg, 0, piece);
        return;
    }
    step_aside(pool, 0);
    pthread_mutex_lock(&pool->mutex);
    pool->fn = fn;
    pool->arg = arg;
    pool->pieces = pieces;
    atomic_store(&pool->next, 0);
    pool->busy = pool->started;
    pool->generation++;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    take_pieces(pool, 0);
    look_for_end(pool);
    pthread_mutex_lock(&pool->mutex);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

int tw_threads_count(const struct tw_threads *pool)
{
    return pool->count;
}

void tw_threads_destroy(struct tw_threads *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 1; i <= pool->started; i++)
        pthread_join(pool->worker[i].thread, NULL);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->mutex);
    tw_free(pool);
}

/* cgroup v2 "cpu.max": quota and period in microseconds, or "max". */
static int cgroup_cores(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!file)
        return 0;
    long quota = 0, period = 0;
    int fields = fscanf(file, "%ld %ld", &quota, &period);
    fclose(file);
    if (fields != 2 || quota <= 0 || period <= 0)
        return 0;
    return (int)((quota + period - 1) / period);
}

int tw_threads_available(void)
{
    cpu_set_t set;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores = CPU_COUNT(&set);
    int quota = cgroup_cores();
    if (quota > 0 && quota < cores)
        cores = quota;
    return cores < 1 ? 1 : (int)cores;
}
