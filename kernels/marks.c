/* Marks of a backend that computes on the host. */
#include <config.h>

#include "kernels/marks.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

enum tw_status twp_marks_put(struct twp_marks *marks, int index,
                             struct tw_error *err)
{
    assert(index >= 0);
    size_t had = marks->capacity;
    void *array = marks->ns;
    if (tw_grow(&array, &marks->capacity, (size_t)index + 1, sizeof *marks->ns))
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for marks");
    marks->ns = array;
    if (marks->capacity > had)
        memset(marks->ns + had, 0, (marks->capacity - had) * sizeof *marks->ns);
    marks->ns[index] = now_ns();
    return TW_OK;
}

static bool is_put(const struct twp_marks *marks, int index)
{
    return index >= 0 && (size_t)index < marks->capacity &&
           marks->ns[index] != 0;
}

enum tw_status twp_marks_ns(const struct twp_marks *marks, int from, int to,
                            double *ns, struct tw_error *err)
{
    if (!is_put(marks, from) || !is_put(marks, to))
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "time from mark %d to mark %d: one was never put",
                            from, to);
    *ns = (double)(marks->ns[to] - marks->ns[from]);
    return TW_OK;
}

void twp_marks_fini(struct twp_marks *marks)
{
    tw_free(marks->ns);
    *marks = (struct twp_marks){0};
}
