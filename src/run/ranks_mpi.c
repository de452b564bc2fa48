/* The wire by MPI, built as a module of its own so that the program starts
 * without MPI. One rule: nothing here waits but start and stop; MPI's own waits
 * would keep a core busy that others count on. */
#include <config.h>

#include <mpi.h>

#include "run/ranks_wire.h"

enum { TAG = 1 };

static struct tw_note out; /* on its way while `request` is */
static MPI_Request request = MPI_REQUEST_NULL;

static bool start(int *rank, int *ranks)
{
    int given;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) !=
            MPI_SUCCESS ||
        given < MPI_THREAD_FUNNELED)
        return false;
    return MPI_Comm_rank(MPI_COMM_WORLD, rank) == MPI_SUCCESS &&
           MPI_Comm_size(MPI_COMM_WORLD, ranks) == MPI_SUCCESS;
}

static bool is_posted(void)
{
    int is_done = 0;
    return MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           is_done;
}

static bool post(int to, const struct tw_note *note)
{
    if (!is_posted())
        return false;
    out = *note;
    return MPI_Isend(&out, sizeof out, MPI_BYTE, to, TAG, MPI_COMM_WORLD,
                     &request) == MPI_SUCCESS;
}

static bool take(struct tw_note *note)
{
    int is_there = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &is_there,
                   MPI_STATUS_IGNORE) != MPI_SUCCESS ||
        !is_there)
        return false;
    return MPI_Recv(note, sizeof *note, MPI_BYTE, MPI_ANY_SOURCE, TAG,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

static void stop(void)
{
    MPI_Finalize();
}

extern const struct tw_wire tw_wire;
__attribute__((visibility("default"))) const struct tw_wire tw_wire = {
    .version = PACKAGE_VERSION,
    .start = start,
    .post = post,
    .is_posted = is_posted,
    .take = take,
    .stop = stop,
};
