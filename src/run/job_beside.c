/* Checkpoints beside the batches that follow, where the backend works on its
 * own: a thread commits a copy of the counts, so that the device has its next
 * batch in time. The store is the thread's while it runs; one at a time.
 * Where something else than counts waits for a commit (a ledger, examples),
 * the caller commits itself. */
#include <config.h>

#include "run/job.h"

#include "base/log.h"

static bool can_go_beside(const struct tw_job *s)
{
    return tw_runner_flights(s->runner) > 1 && !s->ledger && !s->examples &&
           tw_store_is_threadsafe();
}

static void *commit(void *arg)
{
    struct tw_job *s = arg;
    struct tw_beside *b = &s->beside;
    b->status = tw_job_commit(s, &b->state, false, false, &b->error);
    b->end = tw_job_clock();
    __atomic_store_n(&b->is_done, true, __ATOMIC_RELEASE);
    return NULL;
}

bool tw_job_beside_start(struct tw_job *s)
{
    struct tw_beside *b = &s->beside;
    struct tw_error unimportant = {0};
    double begin = tw_job_clock();
    if (!can_go_beside(s) ||
        tw_profile_copy(s->profile, &b->copy, &unimportant) != TW_OK)
        return false;
    b->state = (struct tw_job_state){.profile = b->copy,
                                     .next_document = s->next_document,
                                     .next_start = s->next_start};
    b->error = (struct tw_error){0};
    b->begin = begin;
    b->is_done = false;
    b->is_on = pthread_create(&b->thread, NULL, commit, s) == 0;
    s->report->times.checkpoint += tw_job_clock() - begin;
    return b->is_on;
}

bool tw_job_beside_runs(const struct tw_job *s)
{
    return s->beside.is_on &&
           !__atomic_load_n(&s->beside.is_done, __ATOMIC_ACQUIRE);
}

enum tw_status tw_job_beside_end(struct tw_job *s, struct tw_error *err)
{
    struct tw_beside *b = &s->beside;
    double begin = tw_job_clock();
    if (!b->is_on)
        return TW_OK;
    pthread_join(b->thread, NULL);
    b->is_on = false;
    s->last_checkpoint = b->end;
    s->checkpoint_cost = b->end - b->begin;
    s->report->times.checkpoint += tw_job_clock() - begin;
    s->report->times.checkpoints++;
    if (b->status == TW_ERR_BUSY) {
        tw_log(TW_LOG_WARNING, "%s: this checkpoint is left out",
               b->error.text);
        return TW_OK;
    }
    return b->status == TW_OK
               ? TW_OK
               : tw_error_set(err, b->status, "%s", b->error.text);
}
